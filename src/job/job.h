/* job: long work that outlives the request that asked for it: a registry with identity, progress, errors, cancelling and a
 * history, all of which outlive the process. Each kind of work is a file of its own (prefetch.c) and a row in kinds.c.
 *
 *     WAITING --> RUNNING --> DONE        all of it was tried; `failed` says how much of it did not work
 *        |           |------> FAILED      it could not go on: `reason` says why
 *        '-----------'------> CANCELLED   somebody asked for it
 *
 * A job that is not ended when the node stops, or is killed, begins again at the next start where it was: from the last
 * position that was stored, at most SAVE_SECONDS of work before. So every kind's steps can be repeated.
 *
 * Records lie in `meta` (docs/formats.md). Everything happens on loop 0; calls come from fibers of any loop and may switch.
 */
#pragma once
#include <jansson.h>

#include "object/object.h"

struct job_service;

struct job_options {
    struct meta *meta;
    struct map_service *map;
    struct object_service *object;
    struct disks *disks;
    unsigned running_max; /* others wait their turn; 0: 4 */
};
/* Loads what is known and goes on with what was not ended. */
enum err job_start(const struct job_options *o, struct job_service **out,
                   struct errbuf *eb) MUST_CHECK;
/* Tells what runs to stop where it is: what fails from now on is no failure of the job, and job_stop() waits for its end.
 * Calls are still answered. NULL is fine. */
void job_halt(struct job_service *s);
/* Nobody calls any more. NULL is fine. */
void job_stop(struct job_service **sp);

#define JOB_ID_TEXT      13         /* 12 of [a-z2-7], NUL */
#define JOB_KIND_TEXT    24         /* of a kind's name, NUL */
#define JOB_LIST_MAX     (8u << 20) /* bytes of names of one job */
#define JOB_ARGS_MAX     (32u << 10)
#define JOB_UNENDED_MAX  100 /* waiting and running */
#define JOB_HISTORY_MAX  500 /* ended ones that are kept, the oldest go first */
#define JOB_ERRORS_MAX   10  /* kept of each */
#define JOB_ERROR_TEXT   320
#define JOB_POSITION_MAX 1100

enum job_state { JOB_WAITING, JOB_RUNNING, JOB_DONE, JOB_FAILED, JOB_CANCELLED };
const char *job_state_name(enum job_state s);
static inline bool
job_is_ended(enum job_state s)
{
    return s >= JOB_DONE;
}

/* What is asked for. */
struct job_request {
    struct span kind;   /* "prefetch" */
    struct span user;   /* who asks */
    const json_t *args; /* of the kind; docs/tier.md */
    struct span list;   /* names, a line each; empty: none */
};
/* On ERR_OK `id` names it and it is on stable storage. ERR_BAD_REQUEST: the kind or its arguments; ERR_TOO_LARGE, ERR_BUSY:
 * a limit above. */
enum err job_begin(struct job_service *s, const struct job_request *ask,
                   char id[JOB_ID_TEXT], struct errbuf *eb) MUST_CHECK;
/* Asks it to end; an ended one is left as it is. ERR_NOT_FOUND; ERR_BAD_REQUEST: of a kind that only tells what the disks do
 * (moving.c). */
enum err job_cancel(struct job_service *s, struct span id, struct errbuf *eb) MUST_CHECK;
/* Goes on with one that FAILED or was CANCELLED, from where it was. ERR_NOT_FOUND; ERR_BAD_REQUEST: it is not one of
 * those. */
enum err job_resume(struct job_service *s, struct span id, struct errbuf *eb) MUST_CHECK;
/* Forgets one that has ended. ERR_NOT_FOUND; ERR_BUSY: it has not. */
enum err job_forget(struct job_service *s, struct span id, struct errbuf *eb) MUST_CHECK;

/* How far it is. */
struct job_counts {
    uint64_t total;   /* things in all; 0: not known yet */
    uint64_t objects; /* done, of those... */
    uint64_t present; /* ...that there was nothing to do for */
    uint64_t failed;
    uint64_t bytes; /* moved */
};
struct job_status { /* all in the arena */
    char id[JOB_ID_TEXT];
    const char *kind, *user;
    const char *what; /* a line for people */
    const char *bucket,
        *prefix; /* that it works on; prefix "": any key of it; NULL: none */
    enum job_state state;
    int64_t asked_ms, begun_ms, ended_ms; /* since 1970; 0: not yet */
    uint64_t busy_ms;                     /* of running, over all starts */
    struct job_counts counts;
    uint64_t rate;      /* bytes a second, of the last seconds; 0 when not running */
    int64_t left_ms;    /* -1: nobody can tell */
    const char *reason; /* of FAILED; NULL */
    const char *errors[JOB_ERRORS_MAX];
    uint32_t error_count;
};
/* Waits until it has ended, at most until `by`. ERR_NOT_FOUND. */
enum err job_status(struct job_service *s, struct span id, struct deadline by,
                    struct arena *a, struct job_status *out,
                    struct errbuf *eb) MUST_CHECK;
/* All, those asked for last first. */
enum err job_list(struct job_service *s, struct arena *a, struct job_status **out,
                  uint32_t *count, struct errbuf *eb) MUST_CHECK;
/* How many are waiting and running. Any thread. */
void job_unended(const struct job_service *s, unsigned *waiting, unsigned *running);
