/* admin: pages under /_/ that have a file of their own. Each answers, or returns with the request's fault set. */
#pragma once
#include "api/internal.h"

void admin_answer_json(struct request *q, int status, struct span text);

/* buckets.c */
enum err admin_bucket_list(struct request *q);
/* Body: {"name", "endpoint", "region", "bucket", "path_style", "credentials": {"access_key", "secret_key",
 * "session_token"} | "anonymous" | absent: the server's own}. 200 with the bucket, 409 when the name is taken. */
enum err admin_bucket_attach(struct request *q);
/* stat.c: what the node holds, as JSON. */
enum err admin_stat(struct request *q);
