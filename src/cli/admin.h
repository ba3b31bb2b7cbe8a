/* admin: calls to a server's admin API under /_/. */
#pragma once
#include <jansson.h>

#include "cli/session.h"

/* ERR_OK for 2xx; else the server's message, and the error code that maps to the exit code. */
enum err admin_call(struct session *s, const struct s3_request *r, struct arena *a,
                    struct span *answer) MUST_CHECK;
/* Parses a JSON answer that must have a list of this name. The caller releases *doc with json_decref(); without such a list
 * *doc is NULL and the error is reported. */
/* Prints a list for programs: -o json as it came, -o jsonl a line for each, -o name `before` and the member `name` of each. False: it is
 * for people. */
bool admin_print(const struct session *s, struct span answer, const char *list,
                 const char *before, const char *name);
enum err admin_list(struct session *s, struct span answer, const char *name,
                    json_t **doc) MUST_CHECK;
