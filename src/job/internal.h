/* internal: a job, and what kinds of work use of it. Loop 0 only. */
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
        watches; /* `disks` does the work: it takes no running place, and cannot be cancelled */
    /* Checks a request. Writes a line for people into `what`. */
    enum err (*check)(struct job_service *s, const json_t *args, struct span list,
                      struct buf *what, struct errbuf *eb);
    /* Does the work, from job->position on. ERR_OK: done. ERR_CANCELLED: told to stop. */
    enum err (*run)(struct job *j, struct errbuf *eb);
    /* Removes what it keeps beside its record. NULL: nothing. May switch. */
    void (*forget)(struct job *j);
};
const struct job_kind *job_kind_find(struct span name); /* NULL: there is none */
extern const struct job_kind job_prefetch, job_evict, job_copies, job_drain, job_fill;
extern const struct job_kind job_copy_bucket, job_copy_objects, job_delete_objects,
    job_archive, job_download, job_promote;
extern const struct job_kind job_reshard;

struct job {
    struct list node; /* in service->jobs, by the time of the request */
    struct job_service *s;
    char id[JOB_ID_TEXT];
    const struct job_kind *kind;
    char *user, *what;    /* owned */
    json_t *args;         /* owned */
    enum job_state state; /* changed by job_move() only */
    uint16_t runner;      /* the node that runs it; 0: none yet */
    uint64_t epoch;       /* in which the runner took it */
    uint64_t revision;    /* of its record in meta; 0: not stored yet */
    int64_t asked_ms, begun_ms, ended_ms;
    uint64_t busy_ms;
    struct job_counts counts;
    char *
        position; /* owned; where to continue, in the kind's own form; NULL: at the start */
    char *reason; /* owned; NULL */
    char *errors[JOB_ERRORS_MAX];
    uint32_t error_count;
    uint32_t list_pieces;

    /* while it runs */
    struct fiber *fiber;
    bool cancelled, changed;
    bool fenced; /* another runner has taken it: this one stops and writes nothing */
    bool saving;
    uint64_t ran_from_ns, rate, rate_bytes, rate_ns;
    struct rt_cond ended;
    unsigned watchers; /* fibers that wait for `ended`: it must not be freed */
};

struct job_service {
    struct job_options options;
    struct list jobs;
    unsigned ended_count;
    unsigned at_work;                  /* running jobs that take a place */
    _Atomic unsigned waiting, running; /* idle ones run, too */
    struct rt_group group;
    struct fiber *scheduler; /* the fiber that owns the group */
    struct rt_cond wake;     /* a job may start, or the service stops */
    struct rt_cond gone;     /* the scheduler has ended */
    bool stopping, scheduler_ended;
};

/* ---- for kinds ---- */
void job_add_error(struct job *j, struct span name, const struct errbuf *eb);
/* Sets where to continue; everything before it must be done. */
void job_set_position(struct job *j, struct span position);
/* Stores the record now. A failure is logged; it is stored again later. May switch. */
void job_checkpoint(struct job *j);
/* All names that came with the job. */
enum err job_read_list(struct job *j, struct buf *out, struct errbuf *eb) MUST_CHECK;

/* Idle: it has nothing to do at present. The kind calls it again with false before it continues. */
void job_set_idle(struct job *j, bool idle);

/* ---- job.c ---- */
struct job *job_new(void);
/* The only change of a state; keeps the service's counters. */
void job_move(struct job *j, enum job_state to);
/* Asserts what holds between the fields of a job, in every state. */
void job_check(const struct job *j);

/* ---- scheduler.c ---- */
void job_scheduler_run(void *service); /* the fiber */
/* Removes and frees an ended job. */
enum err job_forget_ended(struct job *j, struct errbuf *eb) MUST_CHECK;
int64_t job_wall_ms(void);

/* ---- record.c: a job's record in meta ---- */
/* ERR_PRECONDITION: another runner has taken the job, which is fenced from now on. */
enum err job_save(struct job *j, struct errbuf *eb) MUST_CHECK;
enum err job_save_list(struct job *j, struct span list, struct errbuf *eb) MUST_CHECK;
enum err job_erase(struct job *j, struct errbuf *eb) MUST_CHECK;
/* Decodes a record; NULL: it is not of this program. */
struct job *job_of_record(struct span text);
/* Loads the jobs of all records in meta. */
enum err job_load_all(struct job_service *s, struct errbuf *eb) MUST_CHECK;
void job_free(struct job **jp);
