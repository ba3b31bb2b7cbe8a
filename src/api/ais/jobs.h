/* jobs: what operations that start jobs use of jobs.c. */
#pragma once
#include "api/ais/ais.h"

/* Answers with the id of a job that is done already: what has no work here. */
enum err ais_job_done(struct request *q, const char *kind, struct span provider,
                      struct span bucket);
