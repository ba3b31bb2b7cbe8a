/* jobs: what operations that start jobs use of jobs.c. */
#pragma once
#include "api/ais/ais.h"
#include "api/ais/template.h"

/* Answers with the id of a job that is done already: what has no work here. */
enum err ais_job_done(struct request *q, const char *kind, struct span provider,
                      struct span bucket);

/* ---- multi.c ---- */
/* The bucket that a job writes to, and the right to. `make`: a native one that is not there is created. On ERR_OK *out is one
 * reference. */
enum err ais_bucket_to_write(struct request *q, const struct ais_bucket *to, bool make,
                             const struct map_bucket **out) MUST_CHECK;
/* A name of a list, a line of its own, with nothing that braces would expand. */
enum err ais_put_name(struct request *q, struct span name, struct buf *out) MUST_CHECK;

/* ---- download.c ---- */
#define AIS_DOWNLOAD_PREFIX "dnl-"
/* The id of the job of a download, or of any other one. */
struct span ais_download_job(const char *id);

/* ---- dsort_show.c ---- */
#define AIS_DSORT_PREFIX "srt-"
/* The id of the job of a dsort, or of any other one; a part of `id`. */
const char *ais_dsort_job(const char *id);
