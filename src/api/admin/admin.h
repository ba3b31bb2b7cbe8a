/* admin: pages under /_/ that have a file of their own. Each answers, or returns with the request's fault set. */
#pragma once
#include <jansson.h>

#include "api/internal.h"
#include "wire/json.h"

void admin_answer_json(struct request *q, int status, struct span text);
/* A page of JSON: admin_page_begin(), what is to stand in page.j, admin_page_answer(). */
struct admin_page {
    struct buf text;
    struct json j;
};
void admin_page_begin(struct admin_page *p, size_t most);
/* Ends the page, whatever the result; what does not fit into `most` bytes is a fault. */
enum err admin_page_answer(struct request *q, struct admin_page *p, int status);
/* As text; 0: null. */
void admin_put_time(struct json *j, const char *key, int64_t ms);

/* buckets.c */
enum err admin_bucket_list(struct request *q);
/* Body: {"name", "endpoint", "region", "bucket", "path_style", "credentials": {"access_key", "secret_key",
 * "session_token"} | "anonymous" | absent: the server's own}. 200 with the bucket, 409 when the name is taken. */
enum err admin_bucket_attach(struct request *q);
/* scrub.c: what the scrubs of this node's disks do and found; POST begins a pass on each. */
enum err admin_scrub_status(struct request *q);
enum err admin_scrub_start(struct request *q);
/* disks.c: the disks of this node, shown and changed. */
enum err admin_disk_list(struct request *q);
enum err admin_disk_add(struct request *q);
enum err admin_disk_change(struct request *q);
/* cluster.c: the nodes of the cluster, shown and changed. */
enum err admin_cluster_show(struct request *q);
enum err admin_cluster_change(struct request *q);
/* jobs.c: long work. */
enum err admin_job_list(struct request *q);
enum err admin_job_begin(struct request *q);
enum err admin_job_show(struct request *q);
enum err admin_job_change(struct request *q);
enum err admin_job_forget(struct request *q);
/* What the disks have begun to move, told as a job of a kind of job/disk_jobs.c; takes `args`. "" where none could be begun (too many
 * wait): the work goes on all the same. */
void admin_job_report(struct request *q, const char *kind, json_t *args,
                      char id[JOB_ID_TEXT]);
/* trace.c: recent requests, while `forebay trace` watches. */
enum err admin_trace(struct request *q);
/* stat.c: what the node holds, as JSON. */
enum err admin_stat(struct request *q);
/* bucket_set.c: PATCH of one bucket. Body: {"anonymous_read": true|false, "copies": N}; each may be absent. 200 with the
 * bucket as it is now. */
enum err admin_bucket_set(struct request *q);
/* Changes settings of q->bucket, as PATCH /_/buckets/NAME does. `job`: that of new copies, or "". May switch. */
enum err admin_bucket_change(struct request *q, json_t *doc, char job[JOB_ID_TEXT],
                             struct errbuf *eb) MUST_CHECK;
enum err admin_bucket_evict(struct request *q);
/* here.c: what is kept of a bucket, an object or a page of keys; the bucket's rights decide. */
enum err admin_bucket_here(struct request *q);
/* buckets.c: the object that stands for a bucket in our answers. */
void admin_put_bucket(struct json *j, const struct map_bucket *b);
/* The same, and the job that brings its objects where they should be; "": none. */
void admin_put_bucket_and_job(struct json *j, const struct map_bucket *b,
                              const char *job);
/* The bucket that the path "/_/buckets/NAME" names, as q->bucket, and the JSON object in the body: json_decref() it. */
enum err admin_read_bucket(struct request *q, size_t limit, json_t **doc) MUST_CHECK;
/* *out is the member `name` of the document, and stays as it is where that has none. InvalidArgument: it is not true or false. */
enum err admin_flag_of(struct request *q, const json_t *doc, const char *name,
                       bool *out) MUST_CHECK;
/* Is "dry_run" true? Takes it out: only what it would come to is asked for. */
enum err admin_is_dry(struct request *q, json_t *doc, bool *dry) MUST_CHECK;
/* A JSON object in the body, read as every signed body is. *doc: json_decref() it. */
enum err admin_read_object(struct request *q, size_t limit, json_t **doc) MUST_CHECK;

/* users.c: docs/admin.md, section "users". */
enum err admin_user_list(struct request *q);
enum err admin_user_add(struct request *q);
enum err admin_user_change(struct request *q);
enum err admin_user_remove(struct request *q);
/* backup.c: a tar of all that lives here only, streamed; backup_keys.c: the keys, sealed under the passphrase that is the body. */
enum err admin_backup(struct request *q);
enum err admin_backup_keys(struct request *q);
enum err admin_secrets_rotate(struct request *q);
