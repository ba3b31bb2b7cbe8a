/* internal: one job, and what a kind of work may ask of it. Loop 0 only. */
#pragma once
#include <stdatomic.h>

#include "base/list.h"
#include "job/job.h"
#include "rt/sync.h"

struct job;

/* A kind of work. */
struct job_kind {
    const char *name;
    bool takes_list;
    bool
        watches; /* others do the work: it takes no place among those that run, and cannot be cancelled */
    /* Is the request one? And a line for people into `what`. */
    enum err (*check)(struct job_service *s, const json_t *args, struct span list,
                      struct buf *what, struct errbuf *eb);
    /* All of it, from job->position on. ERR_OK: done. ERR_CANCELLED: told to stop. */
    enum err (*run)(struct job *j, struct errbuf *eb);
};
const struct job_kind *job_kind_find(struct span name); /* kinds.c; NULL */
extern const struct job_kind job_prefetch, job_evict, job_copies, job_drain, job_fill;

struct job {
    struct list node; /* in service->jobs, in the order they were asked for */
    struct job_service *s;
    char id[JOB_ID_TEXT];
    const struct job_kind *kind;
    char *user, *what; /* owned */
    json_t *args;      /* owned */
    enum job_state state;
    int64_t asked_ms, begun_ms, ended_ms;
    uint64_t busy_ms;
    struct job_counts counts;
    char *position; /* owned; where to go on; NULL: at the begin. The kind's own */
    char *reason;   /* owned; NULL */
    char *errors[JOB_ERRORS_MAX];
    uint32_t error_count;
    uint32_t list_pieces;

    /* while it runs */
    struct fiber *fiber;
    bool cancelled, changed;
    bool saving;
    uint64_t ran_from_ns, rate, rate_bytes, rate_ns;
    struct rt_cond ended;
    unsigned watchers; /* fibers that wait for `ended`: it is not freed */
};

struct job_service {
    struct job_options options;
    struct list jobs;
    unsigned ended_count;
    unsigned at_work; /* running ones that take a place */
    _Atomic unsigned waiting, running;
    struct rt_group group;
    struct fiber *scheduler; /* the fiber that owns the group */
    struct rt_cond wake;     /* something may begin, or the service stops */
    struct rt_cond gone;     /* the scheduler has ended */
    bool stopping, scheduler_ended;
};

/* ---- for kinds ---- */
void job_add_error(struct job *j, struct span name, const struct errbuf *eb);
/* Where to go on, once everything before it is done. */
void job_set_position(struct job *j, struct span position);
/* The names that came with it, whole. */
enum err job_read_list(struct job *j, struct buf *out, struct errbuf *eb) MUST_CHECK;

/* ---- run.c ---- */
void job_scheduler_run(void *service); /* the fiber */
/* Removes one that has ended, and frees it. */
enum err job_forget_ended(struct job *j, struct errbuf *eb) MUST_CHECK;
int64_t job_wall_ms(void);

/* ---- record.c: how a job lies in meta ---- */
enum err job_save(struct job *j, struct errbuf *eb) MUST_CHECK;
enum err job_save_list(struct job *j, struct span list, struct errbuf *eb) MUST_CHECK;
enum err job_erase(struct job *j, struct errbuf *eb) MUST_CHECK;
/* Of a record; NULL: not of this program. */
struct job *job_of_record(struct span text);
/* Jobs of all records of meta. */
enum err job_load_all(struct job_service *s, struct errbuf *eb) MUST_CHECK;
void job_free(struct job **jp);
