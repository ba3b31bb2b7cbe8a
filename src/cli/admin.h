/* admin: calls to a server's own pages under /_/. */
#pragma once
#include <jansson.h>

#include "cli/session.h"

/* ERR_OK for 2xx; else the server's sentence, with the code that gives the right exit code. */
enum err admin_call(struct session *s, const struct s3_request *r, struct arena *a,
                    struct span *answer) MUST_CHECK;
/* An answer that has a list under this name. The caller ends *doc by json_decref(); it is NULL where there is none, and that
 * is said. */
enum err admin_list(struct session *s, struct span answer, const char *name,
                    json_t **doc) MUST_CHECK;
