/* flow: a work queue: one fiber finds items, others process them, with a limit that adapts to the server.
 *
 * A verb gives two functions: one that finds (flow_add() for each thing; it waits while too many are not yet begun, so memory is
 * bounded), one that does a thing. Failures are reported and counted, and the others continue, unless nothing could succeed any more:
 * no server, no bucket, no right, no space. Requests are made inside flow_try(): it waits for its turn, repeats what is worth it,
 * and halves the number of requests at once when the server says that it is too much.
 *
 * Fibers of one loop.
 */
#pragma once
#include "base/pace.h"
#include "cli/lanes.h"
#include "cli/put_headers.h"
#include "cli/session.h"
#include "rt/sync.h"

/* One thing. One block of memory: the texts lie behind it. */
struct item {
    const char *from_bucket, *from; /* a local path has no bucket (NULL) */
    const char *to_bucket, *to;     /* `to` may be NULL: nothing is made */
    size_t to_root;                 /* bytes of a local `to` that the user typed */
    const char *etag;               /* of `from`, where known; else NULL */
    uint64_t size;                  /* where known */
    int64_t mtime_ms;
    unsigned kind; /* the verb's own */
    void *own;     /* the verb's own, taken: freed by flow's drop() */
    bool known;    /* size, mtime and ETag come from a listing */
};

/* Limits the concurrent requests. */
struct gate {
    unsigned limit, most, used, credit;
    struct rt_cond turn;
    uint64_t halved_ns;
};

#define FLOW_QUEUE 2048
struct flow;
typedef enum err flow_find(struct flow *f, void *arg, struct errbuf *eb);
/* ERR_NOT_MODIFIED: nothing to do. */
typedef enum err flow_do(struct flow *f, const struct item *it, void *arg,
                         struct errbuf *eb);
struct flow {
    /* Set by the caller. */
    struct session *s;
    const char *did; /* "copied" */
    flow_find *find;
    flow_do *act;
    void *arg;
    unsigned parallel;       /* 0: 64 */
    bool silent;             /* no line for each thing done */
    bool dry;                /* act() changes nothing: told as "would ..." */
    void (*drop)(void *own); /* of items; NULL: they own nothing */
    enum { FLOW_TAGS_TOO, FLOW_TAGS_NONE } tags; /* of copies that pass through here */
    const struct put_headers *put_headers; /* of what goes up; NULL: none were given */
    struct pace *pace; /* --bwlimit; owned by the verb; NULL: no limit */
    const char *again; /* what Ctrl-C advises; NULL: the same command again */

    /* Anybody may read. */
    struct gate gate;
    struct progress progress;
    struct lanes lanes; /* of what goes up */
    uint64_t found, done, failed, skipped, unchanged;
    bool restart; /* --restart */

    /* flow.c's own. */
    struct item *queue[FLOW_QUEUE];
    unsigned head, count, idle, workers;
    struct rt_group group; /* of the workers */
    bool found_all, over;
    struct rt_cond more, room;
    enum err rc; /* of the first that failed, and its sentence */
    struct errbuf first;
    uint64_t began_ns;
};

/* Runs it, tells what became of it, and returns the exit code. A finder's ERR_BAD_REQUEST is a usage error. */
enum exit_code flow_run(struct flow *f);
/* Takes nothing: copies. ERR_CANCELLED when the flow is over. May switch. */
enum err flow_add(struct flow *f, const struct item *it, struct errbuf *eb) MUST_CHECK;
/* Told as a failure; the flow goes on. */
void flow_fail(struct flow *f, const char *what, enum err rc, const struct errbuf *eb);
void flow_notice(struct flow *f, const char *what, const char *why);

/* Counts bytes that went up or down, and waits for --bwlimit. May switch. */
void flow_bytes(struct flow *f, uint64_t bytes);
/* Of a verb that has the flag --bwlimit: ERR_BAD_REQUEST for a rate that is none. */
enum err flow_limit_rate(struct flow *f, struct errbuf *eb) MUST_CHECK;
#define RATE_FLAG                                                                        \
    {                                                                                    \
        "bwlimit", 0, "RATE", "at most so many bytes a second: 10MiB", false             \
    }

typedef enum err flow_attempt(void *arg, struct s3_failure *f, struct errbuf *eb);
enum err flow_try(struct flow *f, flow_attempt *attempt, void *arg,
                  struct errbuf *eb) MUST_CHECK;
