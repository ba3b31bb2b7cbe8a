#include "disk/scan_ahead.h"

#include <stdlib.h>

#include "rt/loop.h"
#include "rt/sync.h"

#define BATCHES       3u /* parsed, or being asked for: each holds a window of 8 MiB */
#define BATCH_MEMBERS (4 * GROUP_MEMBERS)

/* Whole groups of one log, in order. */
struct batch_of {
    struct list link;
    uint32_t log;           /* which one, in the order of `logs` */
    struct iobuf *window;   /* owned: where the spans of members lie */
    uint32_t count, next;   /* next: the first member not given out */
    struct member *members; /* owned; BATCH_MEMBERS */
    struct row *rows;       /* owned; what puts and commits of these make */
    bool ends;              /* behind these the log ends, for what `why` says */
    uint64_t end;
    struct errbuf why;
};

struct scan_ahead {
    struct scan_ahead_log *logs; /* owned */
    uint32_t count;
    enum disk_class class;
    uint64_t far;
    struct scan_spare windows; /* owned */
    struct rt_group group;
    struct batch_of batches[BATCHES];
    struct list ready, spare;
    struct rt_cond changed; /* a batch is ready, or spare, or it is over */
    bool over;
};

/* ---- filling ---- */

struct parse {
    struct log_scan *scan;
    enum disk_class class;
    struct batch_of *into;
    enum scanned got;
};

/* Their records are in this thread's cache now. */
static void
make_rows(const struct parse *p, uint32_t from, uint32_t count)
{
    for (uint32_t i = from; i < from + count; i++) {
        struct member *m = &p->into->members[i];

        if ((m->kind == MEMBER_PUT || m->kind == MEMBER_COMMIT) &&
            member_row(m, p->class, &p->into->rows[i], NULL) == ERR_OK)
            m->row = &p->into->rows[i];
    }
}

static void
parse_work(void *arg)
{
    struct parse *p = arg;
    struct batch_of *b = p->into;

    p->got = SCAN_GROUP;
    while (p->got == SCAN_GROUP && b->count + GROUP_MEMBERS <= BATCH_MEMBERS) {
        p->got = log_scan_within(p->scan, &b->members[b->count]);
        if (p->got == SCAN_GROUP) {
            make_rows(p, b->count, p->scan->count);
            b->count += p->scan->count;
        }
    }
}

static struct batch_of *
wait_for_spare(struct scan_ahead *a)
{
    while (list_empty(&a->spare)) {
        if (rt_cond_wait(&a->changed, DEADLINE_NEVER) != ERR_OK)
            return NULL;
    }
    return LIST_ENTRY(list_pop_front(&a->spare), struct batch_of, link);
}

static void
give_back(struct scan_ahead *a, struct batch_of *b)
{
    scan_spare_keep(a->over ? NULL : &a->windows, &b->window);
    b->count = b->next = 0;
    b->ends = false;
    list_push_back(&a->spare, &b->link);
    rt_cond_broadcast(&a->changed);
}

static void
give_out(struct scan_ahead *a, struct batch_of *b, uint32_t log)
{
    b->log = log;
    list_push_back(&a->ready, &b->link);
    rt_cond_broadcast(&a->changed);
}

/* Where the log ends, and nothing of it stands behind. */
static void
note_end(struct scan_ahead *a, struct log_scan *scan, struct batch_of *b)
{
    struct log_behind behind;

    b->end = scan->offset;
    b->why = (struct errbuf){0};
    b->ends = log_scan_next(scan, &b->why) == SCAN_END && b->end == scan->offset &&
              (a->far == 0 || !log_scan_behind(scan, a->far, &behind));
}

/* One log up to where it does not go on. False: out of memory, threads or time. */
static bool
feed_log(struct scan_ahead *a, uint32_t at)
{
    const struct scan_ahead_log *log = &a->logs[at];
    struct parse p = {.class = a->class, .got = SCAN_MORE};
    struct log_scan scan;
    bool good = true;

    log_scan_begin(&scan, &log->source, log->offset, log->group, 0);
    scan.spare = &a->windows;
    scan.wide = SCAN_AHEAD;
    p.scan = &scan;
    while (good && (p.got == SCAN_MORE || p.got == SCAN_GROUP)) {
        bool filled = p.got == SCAN_MORE;

        p.into = wait_for_spare(a);
        if (p.into == NULL) {
            good = false;
            break;
        }
        good = (!filled || log_scan_fill(&scan, NULL) == ERR_OK) &&
               rt_blocking(parse_work, &p, DEADLINE_NEVER) == ERR_OK;
        if (good)
            p.into->window = iobuf_ref(scan.window);
        if (good && p.got == SCAN_END)
            note_end(a, &scan, p.into); /* may move the scan's window */
        if (good && (p.into->count > 0 || p.into->ends)) {
            give_out(a, p.into, at);
            continue;
        }
        give_back(a, p.into);
        if (filled)
            break; /* a whole window, and no group in it */
    }
    log_scan_end(&scan);
    return good;
}

static void
feed(void *arg)
{
    struct scan_ahead *a = arg;

    rt_doing("reading logs ahead");
    for (uint32_t i = 0; i < a->count && feed_log(a, i); i++)
        ;
    a->over = true;
    scan_spare_free(&a->windows); /* whoever scans for himself may need them */
    rt_cond_broadcast(&a->changed);
}

/* ---- asking ---- */

struct scan_ahead *
scan_ahead_begin(struct scan_ahead_log *logs, uint32_t count, enum disk_class class,
                 uint64_t far)
{
    struct scan_ahead *a = xcalloc(1, sizeof *a);

    a->logs = logs;
    a->count = count;
    a->class = class;
    a->far = far;
    list_init(&a->ready);
    list_init(&a->spare);
    rt_cond_init(&a->changed);
    for (uint32_t i = 0; i < BATCHES; i++) {
        a->batches[i].members = xmalloc(BATCH_MEMBERS * sizeof(struct member));
        a->batches[i].rows = xmalloc(BATCH_MEMBERS * sizeof(struct row));
        list_push_back(&a->spare, &a->batches[i].link);
    }
    rt_group_begin(&a->group);
    if (rt_group_start(&a->group, feed, a) != ERR_OK)
        a->over = true;
    return a;
}

void
scan_ahead_end(struct scan_ahead **ap)
{
    struct scan_ahead *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    rt_group_cancel(&a->group);
    rt_group_join(&a->group);
    for (uint32_t i = 0; i < BATCHES; i++) {
        iobuf_drop(&a->batches[i].window);
        free(a->batches[i].members);
        free(a->batches[i].rows);
    }
    scan_spare_free(&a->windows);
    free(a->logs);
    free(a);
}

static uint32_t
place_of(const struct scan_ahead *a, uint32_t segment)
{
    uint32_t i = 0;

    while (i < a->count && a->logs[i].source.segment != segment)
        i++;
    return i;
}

/* The batch from which the next group of this log comes, or NULL: the log goes no further. */
static struct batch_of *
batch_for(struct scan_ahead *a, uint32_t log)
{
    for (;;) {
        struct batch_of *b;

        while (list_empty(&a->ready)) {
            if (a->over || rt_cond_wait(&a->changed, DEADLINE_NEVER) != ERR_OK)
                return NULL;
        }
        b = LIST_ENTRY(a->ready.next, struct batch_of, link);
        if (b->log > log)
            return NULL;
        if (b->log == log && (b->next < b->count || b->ends))
            return b;
        list_remove(&b->link);
        give_back(a, b);
    }
}

/* Is this the group that was wanted? */
static bool
fits(const struct member *m, const struct log_scan *s)
{
    return m->offset == s->offset && (s->group == 0 || m->group == s->group) &&
           m->epoch >= s->epoch;
}

enum scanned
scan_ahead_take(struct scan_ahead *a, struct log_scan *s, struct errbuf *eb)
{
    uint32_t log = a != NULL ? place_of(a, s->source.segment) : 0;
    struct batch_of *b = a != NULL && log < a->count ? batch_for(a, log) : NULL;
    struct member *m;
    uint32_t n = 0;

    if (b == NULL)
        return SCAN_MORE;
    if (b->next == b->count) { /* so it ends here */
        b->ends = false;
        if (b->end != s->offset)
            return SCAN_MORE;
        *eb = b->why;
        return SCAN_END;
    }
    m = &b->members[b->next];
    if (!fits(m, s)) {
        b->next = b->count; /* what follows in this log does not fit either */
        b->ends = false;
        return SCAN_MORE;
    }
    while (!m[n++].last)
        ;
    b->next += n;
    s->members = m;
    s->count = n;
    s->offset = member_end(&m[n - 1]);
    s->group = m->group + 1;
    s->epoch = m->epoch;
    return SCAN_GROUP;
}
