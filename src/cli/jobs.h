/* jobs: what the verbs about jobs share. */
#pragma once
#include <jansson.h>

#include "cli/session.h"

/* One line of progress on stderr while it runs, then a line about how it ended on stdout (or all of it as JSON). The exit
 * code is the job's: 1 when some of it did not work, 5 when it failed, 7 when it was cancelled. Ctrl-C leaves the job running and
 * says so. `first` is a job as the server told it; borrowed. */
enum exit_code jobs_watch(struct session *s, const json_t *first);
/* The same of the job that has this id. */
enum exit_code jobs_wait(struct session *s, const char *id);
/* A job as the server told it; json_decref() it. ERR_BACKEND: the answer is none. */
enum err jobs_parse(struct session *s, struct span answer, json_t **out) MUST_CHECK;
