#include "disk/scan_ahead.h"

#include <stdlib.h>

#include "disk/run.h"
#include "rt/loop.h"
#include "rt/sync.h"

#define FEEDERS                                                                          \
    2u /* while one waits for the disk, or for its turn, the other has its log parsed */
#define BATCHES       3u /* of each: parsed, or being asked for; each holds a window of 8 MiB */
#define BATCH_MEMBERS (6 * GROUP_MEMBERS)
#define NO_LOG        UINT32_MAX
#define CODED_ROOM    ((size_t)BATCH_MEMBERS * (ROW_CODED_MAX + 128))
/* What a feeder holds at most: a window for each batch, the one it scans, what is read ahead. */
#define FEEDER_BYTES ((BATCHES + 1 + SCAN_AHEAD) * (uint64_t)IOBUF_MAX)

/* Whole groups of one log, in order. */
struct batch_of {
    struct list link;
    uint32_t log;           /* which one, in the order of `logs` */
    struct iobuf *window;   /* owned: where the spans of members lie */
    uint32_t count, next;   /* next: the first member not given out */
    struct member *members; /* owned; BATCH_MEMBERS */
    struct row *rows;       /* owned; what puts and commits of these make */
    unsigned char *coded;   /* owned; keys, each with its row as bytes; CODED_ROOM */
    size_t coded_len;
    bool ends; /* behind these the log ends, for what `why` says */
    uint64_t end;
    struct errbuf why;
};

/* Takes one log after the other, each whole: its batches are in the order of logs. */
struct feeder {
    struct scan_ahead *of;
    bool runs;
    uint32_t log; /* at hand; NO_LOG: none */
    struct batch_of batches[BATCHES];
    struct list ready, spare;
    struct scan_spare windows; /* owned */
};

struct scan_ahead {
    struct scan_ahead_log *logs; /* owned */
    uint32_t count, next;        /* next: the first log that nobody has taken */
    enum disk_class class;
    uint64_t far;
    struct rt_group group;
    struct feeder feeders[FEEDERS];
    struct rt_cond changed; /* a batch is ready, or spare, or a feeder goes on */
};

/* ---- filling ---- */

struct parse {
    struct log_scan *scan;
    enum disk_class class;
    struct batch_of *into;
    enum scanned got;
};

/* Key and row stand beside each other: whoever applies the record need not look into the window, 2 KiB a record and in no
 * cache of his. */
static void
code_row(struct batch_of *b, struct member *m)
{
    char *at = (char *)b->coded + b->coded_len;
    struct row_home home = {TABLE_OBJECTS, m->bucket, {at, m->key.len}};
    size_t len;

    if (b->coded_len + m->key.len + ROW_CODED_MAX > CODED_ROOM)
        return; /* only where keys are long */
    memcpy(at, m->key.at, m->key.len);
    len = row_encode(&home, m->row, (unsigned char *)at + m->key.len);
    m->key = home.key;
    m->key_hash = run_key_hash(m->bucket, m->key);
    m->coded = (struct span){at + m->key.len, len};
    b->coded_len += m->key.len + len;
}

/* Their records are in this thread's cache now. */
static void
make_rows(const struct parse *p, uint32_t from, uint32_t count)
{
    for (uint32_t i = from; i < from + count; i++) {
        struct member *m = &p->into->members[i];

        if ((m->kind == MEMBER_PUT || m->kind == MEMBER_COMMIT) &&
            member_row(m, p->class, &p->into->rows[i], NULL) == ERR_OK)
            m->row = &p->into->rows[i];
        if (m->row != NULL)
            code_row(p->into, m);
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
wait_for_spare(struct feeder *f)
{
    while (list_empty(&f->spare)) {
        if (rt_cond_wait(&f->of->changed, DEADLINE_NEVER) != ERR_OK)
            return NULL;
    }
    return LIST_ENTRY(list_pop_front(&f->spare), struct batch_of, link);
}

static void
give_back(struct feeder *f, struct batch_of *b)
{
    scan_spare_keep(f->runs ? &f->windows : NULL, &b->window);
    b->count = b->next = 0;
    b->coded_len = 0;
    b->ends = false;
    list_push_back(&f->spare, &b->link);
    rt_cond_broadcast(&f->of->changed);
}

static void
give_out(struct feeder *f, struct batch_of *b)
{
    b->log = f->log;
    list_push_back(&f->ready, &b->link);
    rt_cond_broadcast(&f->of->changed);
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
feed_log(struct feeder *f)
{
    struct scan_ahead *a = f->of;
    const struct scan_ahead_log *log = &a->logs[f->log];
    struct parse p = {.class = a->class, .got = SCAN_MORE};
    struct log_scan scan;
    bool good = true;

    log_scan_begin(&scan, &log->source, log->offset, log->group, 0);
    scan.spare = &f->windows;
    scan.wide = SCAN_AHEAD;
    p.scan = &scan;
    while (good && (p.got == SCAN_MORE || p.got == SCAN_GROUP)) {
        bool filled = p.got == SCAN_MORE;

        p.into = wait_for_spare(f);
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
            give_out(f, p.into);
            continue;
        }
        give_back(f, p.into);
        if (filled)
            break; /* a whole window, and no group in it */
    }
    log_scan_end(&scan);
    return good;
}

static void
feed(void *arg)
{
    struct feeder *f = arg;
    struct scan_ahead *a = f->of;
    bool good = true;

    rt_doing("reading logs ahead");
    while (good && a->next < a->count) {
        f->log = a->next++;
        rt_cond_broadcast(&a->changed); /* no more comes of the log before */
        good = feed_log(f);
    }
    f->log = NO_LOG;
    f->runs = false;
    scan_spare_free(&f->windows); /* whoever scans for himself may need them */
    rt_cond_broadcast(&a->changed);
}

/* ---- asking ---- */

/* Where memory is short one of them is enough. */
static void
begin_feeder(struct scan_ahead *a, struct feeder *f)
{
    f->of = a;
    f->log = NO_LOG;
    list_init(&f->ready);
    list_init(&f->spare);
    if (f != &a->feeders[0] && iobuf_left() < FEEDERS * FEEDER_BYTES)
        return;
    for (uint32_t i = 0; i < BATCHES; i++) {
        f->batches[i].members = xmalloc(BATCH_MEMBERS * sizeof(struct member));
        f->batches[i].rows = xmalloc(BATCH_MEMBERS * sizeof(struct row));
        f->batches[i].coded = xmalloc(CODED_ROOM);
        list_push_back(&f->spare, &f->batches[i].link);
    }
    f->runs = true;
    if (rt_group_start(&a->group, feed, f) != ERR_OK)
        f->runs = false;
}

static void
end_feeder(struct feeder *f)
{
    for (uint32_t i = 0; i < BATCHES; i++) {
        iobuf_drop(&f->batches[i].window);
        free(f->batches[i].members);
        free(f->batches[i].rows);
        free(f->batches[i].coded);
    }
    scan_spare_free(&f->windows);
}

struct scan_ahead *
scan_ahead_begin(struct scan_ahead_log *logs, uint32_t count, enum disk_class class,
                 uint64_t far)
{
    struct scan_ahead *a = xcalloc(1, sizeof *a);

    a->logs = logs;
    a->count = count;
    a->class = class;
    a->far = far;
    rt_cond_init(&a->changed);
    rt_group_begin(&a->group);
    for (uint32_t i = 0; i < FEEDERS; i++)
        begin_feeder(a, &a->feeders[i]);
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
    for (uint32_t i = 0; i < FEEDERS; i++)
        end_feeder(&a->feeders[i]);
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

/* What this feeder has of the log, or NULL. What it has of logs before it is not asked for any more. */
static struct batch_of *
front_of(struct feeder *f, uint32_t log)
{
    while (!list_empty(&f->ready)) {
        struct batch_of *b = LIST_ENTRY(f->ready.next, struct batch_of, link);

        if (b->log > log)
            return NULL;
        if (b->log == log && (b->next < b->count || b->ends))
            return b;
        list_remove(&b->link);
        give_back(f, b);
    }
    return NULL;
}

/* The batch from which the next group of this log comes, or NULL: the log goes no further, or nobody reads it. */
static struct batch_of *
batch_for(struct scan_ahead *a, uint32_t log)
{
    for (;;) {
        bool comes = false, taken = a->next > log;

        for (uint32_t i = 0; i < FEEDERS; i++) {
            struct feeder *f = &a->feeders[i];
            struct batch_of *b = front_of(f, log);

            if (b != NULL)
                return b;
            comes |= f->runs && (f->log == log || !taken);
        }
        if (!comes || rt_cond_wait(&a->changed, DEADLINE_NEVER) != ERR_OK)
            return NULL;
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
