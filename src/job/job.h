/* job: long work that outlives the request that started it: a registry with identity, progress, errors, cancelling and a
 * history, all of which survive a restart. Each kind of work is a file of its own (prefetch.c) and an entry of the
 * table of kinds in job.c.
 *
 *     WAITING --> RUNNING <-> IDLE         idle: it has nothing to do at present, and frees its running place
 *        |           |-----------> DONE        all of it was done
 *        |           |-----------> IN_PART     all of it was tried; `failed` counts what did not work, `errors` says why
 *        |           |-----------> FAILED      it could not continue: `reason` says why
 *        '-----------'-----------> CANCELLED   on request
 *
 * IN_PART, FAILED and CANCELLED jobs may be resumed: they return to WAITING, IN_PART ones at their beginning. A job belongs to one node, its *runner*, which took
 * it in an *epoch*; only the runner writes its record (fencing). When the runner stops or crashes before a job has
 * ended, its next start continues the job from the last stored position, at most SAVE_SECONDS of work earlier. So the
 * steps of every kind must be repeatable.
 *
 * Records are in `meta` (docs/formats.md). All work is on loop 0; calls come from fibers of any loop and may switch.
 */
#pragma once
#include <jansson.h>

#include "object/object.h"

struct job_service;

struct job_options {
    struct rt_dir *spill; /* for temporary files; NULL: jobs that need them are refused */
    uint64_t reshard_memory, reshard_spill; /* bytes */
    struct meta *meta;
    struct map_service *map;
    struct object_service *object;
    struct disks *disks;
    uint16_t node;           /* this one: the runner of its jobs */
    uint64_t epoch;          /* of this start */
    unsigned running_max;    /* others wait their turn; 0: 4 */
    struct cloud *cloud;     /* of downloads */
    const char *promote_dir; /* files of this folder may become objects; NULL: none */
    bool download_private;   /* downloads may come from addresses that are not public */
    /* One of several nodes: jobs of other runners are left to them. */
    bool one_of_many;
    /* May a job over objects begin here? Its error is the answer. On loop 0; must not switch. NULL: yes. */
    enum err (*may_begin)(void *arg, struct errbuf *eb);
    void *arg; /* of may_begin */
};
/* Loads the records and continues jobs that had not ended. */
enum err job_start(const struct job_options *o, struct job_service **out,
                   struct errbuf *eb) MUST_CHECK;
/* Tells running jobs to stop: their failures from now on do not count, and job_stop() waits for them. Calls still
 * work. NULL is fine. */
void job_halt(struct job_service *s);
/* No call may follow. NULL is fine. */
void job_stop(struct job_service **sp);

#define JOB_ID_TEXT      13         /* 12 of [a-z2-7], NUL */
#define JOB_LIST_MAX     (8u << 20) /* bytes of names of one job */
#define JOB_UNENDED_MAX  100        /* waiting and running */
#define JOB_HISTORY_MAX  500 /* ended jobs that are kept; the oldest are removed first */
#define JOB_ERRORS_MAX   10  /* kept of each */
#define JOB_ERROR_TEXT   320
#define JOB_POSITION_MAX 1100

enum job_state {
    JOB_WAITING,
    JOB_RUNNING,
    JOB_IDLE,
    JOB_DONE,
    JOB_IN_PART,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_STATES_
};
const char *job_state_name(enum job_state s);
static inline bool
job_is_ended(enum job_state s)
{
    return s >= JOB_DONE;
}

/* A request for a job. */
struct job_request {
    struct span kind;   /* "prefetch" */
    struct span user;   /* who made the request */
    const json_t *args; /* of the kind; docs/tier.md */
    struct span list;   /* names, a line each; empty: none */
};
/* On ERR_OK `id` is its name, and its record is on stable storage. ERR_BAD_REQUEST: wrong kind or arguments;
 * ERR_TOO_LARGE, ERR_BUSY: a limit above. */
enum err job_begin(struct job_service *s, const struct job_request *ask,
                   char id[JOB_ID_TEXT], struct errbuf *eb) MUST_CHECK;
/* Cancels a job; an ended one stays as it is. ERR_NOT_FOUND; ERR_BAD_REQUEST: its kind only reports on the disks
 * (disk_jobs.c). */
enum err job_cancel(struct job_service *s, struct span id, struct errbuf *eb) MUST_CHECK;
/* Continues a FAILED or CANCELLED job where it was; repeats an IN_PART one. ERR_NOT_FOUND; ERR_BAD_REQUEST: it is in another state. */
enum err job_resume(struct job_service *s, struct span id, struct errbuf *eb) MUST_CHECK;
/* Removes the record of an ended job. ERR_NOT_FOUND; ERR_BUSY: it has not ended. */
enum err job_forget(struct job_service *s, struct span id, struct errbuf *eb) MUST_CHECK;

/* Progress. */
struct job_counts {
    uint64_t total;   /* things in all; 0: not known yet */
    uint64_t objects; /* done, of those... */
    uint64_t present; /* ...that needed no work */
    uint64_t failed;
    uint64_t bytes; /* moved */
};
struct job_status { /* all in the arena */
    char id[JOB_ID_TEXT];
    const char *kind, *user;
    const char *what;            /* a line for people */
    const char *bucket, *prefix; /* its target; prefix "": all keys; NULL: none */
    const char *to,
        *note; /* the bucket that it writes to, a text of its user; NULL: none */
    enum job_state state;
    uint16_t runner;                      /* node; 0: none yet */
    uint64_t epoch;                       /* in which the runner took it */
    int64_t asked_ms, begun_ms, ended_ms; /* since 1970; 0: not yet */
    uint64_t busy_ms;                     /* running time, over all starts */
    struct job_counts counts;
    uint64_t rate;      /* bytes a second, of the last seconds; 0 when not running */
    int64_t left_ms;    /* -1: unknown */
    const char *reason; /* of FAILED; NULL */
    const char
        *position; /* how far it is, in the kind's own form; NULL: it has not begun */
    const char *errors[JOB_ERRORS_MAX];
    uint32_t error_count;
};
/* Waits until the job has ended, at most until `by`. ERR_NOT_FOUND. */
enum err job_status(struct job_service *s, struct span id, struct deadline by,
                    struct arena *a, struct job_status *out,
                    struct errbuf *eb) MUST_CHECK;
/* All jobs, the newest first. */
enum err job_list(struct job_service *s, struct arena *a, struct job_status **out,
                  uint32_t *count, struct errbuf *eb) MUST_CHECK;
/* The number of waiting jobs, and of running and idle ones. Any thread. */
void job_unended(const struct job_service *s, unsigned *waiting, unsigned *running);
