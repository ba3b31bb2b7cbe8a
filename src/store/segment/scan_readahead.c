#include "store/segment/scan_readahead.h"

#include <stdlib.h>

#include "rt/file.h"
#include "rt/loop.h"
#include "rt/sync.h"
#include "store/index/entry.h"
#include "store/index/run.h"
#include "store/record/format.h"
#include "store/record/keys.h"
#include "store/record/log_record.h"
#include "store/segment/scan.h"
#include "store/store_entry.h"

#define FEEDERS                                                                          \
    2u /* one feeder waits for the disk or for replay while the other's log is parsed */
#define CHUNKS        3u /* per feeder: parsed or in use; each holds a window of 8 MiB */
#define CHUNK_RECORDS (6 * BATCH_RECORDS)
#define NO_LOG        UINT32_MAX
#define CODED_ROOM    ((size_t)CHUNK_RECORDS * (ENTRY_CODED_MAX + 128))
/* The most a feeder holds: a window per chunk, the one being scanned, and the read-ahead pieces. */
#define FEEDER_BYTES ((CHUNKS + 1 + SCAN_READAHEAD) * (uint64_t)IOBUF_MAX)

/* Whole batches of one log, in order. */
struct scan_chunk {
    struct list link;
    uint32_t log;               /* index in `logs` */
    struct iobuf *window;       /* owned; spans of records point into it */
    uint32_t count, next;       /* next: the first record not returned yet */
    struct log_record *records; /* owned; CHUNK_RECORDS */
    struct entry *entries;      /* owned; entries of the puts and commits among them */
    unsigned char *coded;       /* owned; keys, each with its encoded entry; CODED_ROOM */
    size_t coded_len;
    bool ends; /* the log ends after these records; `why` has the reason */
    uint64_t end;
    struct errbuf why;
};

/* Reads one whole log after the other; its chunks are in log order. */
struct feeder {
    struct scan_readahead *of;
    bool runs;
    uint32_t log; /* current log; NO_LOG: none */
    struct scan_chunk chunks[CHUNKS];
    struct list ready, spare;
    struct scan_spare windows; /* owned */
};

struct scan_readahead {
    struct scan_readahead_wal *logs; /* owned */
    uint32_t count, next;            /* next: the first log that no feeder has taken */
    enum store_class class;
    uint64_t far;
    struct rt_group batch;
    struct feeder feeders[FEEDERS];
    struct rt_cond changed; /* a chunk is ready or spare, or a feeder continues */
};

/* ---- filling ---- */

struct parse {
    struct wal_scan *scan;
    enum store_class class;
    struct scan_chunk *into;
    enum scanned got;
};

/* Stores each key next to its entry. Applying the record then does not touch the window, which
 * spans 2 KiB per record and is not in the replaying CPU's cache. */
static void
code_entry(struct scan_chunk *b, struct log_record *m)
{
    char *at = (char *)b->coded + b->coded_len;
    struct entry_key where = {TABLE_OBJECTS, m->bucket, {at, m->key.len}};
    size_t len;

    if (b->coded_len + m->key.len + ENTRY_CODED_MAX > CODED_ROOM)
        return; /* only if keys are long */
    memcpy(at, m->key.at, m->key.len);
    len = entry_encode(&where, m->entry, (unsigned char *)at + m->key.len);
    m->key = where.key;
    m->key_hash = run_key_hash(m->bucket, m->key);
    m->coded = (struct span){at + m->key.len, len};
    b->coded_len += m->key.len + len;
}

/* The records are in this thread's cache now. */
static void
make_entries(const struct parse *p, uint32_t from, uint32_t count)
{
    for (uint32_t i = from; i < from + count; i++) {
        struct log_record *m = &p->into->records[i];

        if ((m->kind == LOG_RECORD_PUT || m->kind == LOG_RECORD_COMMIT) &&
            record_entry(m, p->class, &p->into->entries[i], NULL) == ERR_OK)
            m->entry = &p->into->entries[i];
        if (m->entry != NULL)
            code_entry(p->into, m);
    }
}

static void
parse_work(void *arg)
{
    struct parse *p = arg;
    struct scan_chunk *b = p->into;

    p->got = SCAN_BATCH;
    while (p->got == SCAN_BATCH && b->count + BATCH_RECORDS <= CHUNK_RECORDS) {
        p->got = wal_scan_within(p->scan, &b->records[b->count]);
        if (p->got == SCAN_BATCH) {
            make_entries(p, b->count, p->scan->count);
            b->count += p->scan->count;
        }
    }
}

static struct scan_chunk *
wait_for_spare(struct feeder *f)
{
    while (list_empty(&f->spare)) {
        if (rt_cond_wait(&f->of->changed, DEADLINE_NEVER) != ERR_OK)
            return NULL;
    }
    return LIST_ENTRY(list_pop_front(&f->spare), struct scan_chunk, link);
}

static void
readahead_give_back(struct feeder *f, struct scan_chunk *b)
{
    scan_spare_keep(f->runs ? &f->windows : NULL, &b->window);
    b->count = b->next = 0;
    b->coded_len = 0;
    b->ends = false;
    list_push_back(&f->spare, &b->link);
    rt_cond_broadcast(&f->of->changed);
}

static void
give_out(struct feeder *f, struct scan_chunk *b)
{
    b->log = f->log;
    list_push_back(&f->ready, &b->link);
    rt_cond_broadcast(&f->of->changed);
}

/* Notes that the log ends here and has no later batch. */
static void
readahead_note_end(struct scan_readahead *a, struct wal_scan *scan, struct scan_chunk *b)
{
    struct wal_scan_next_batch behind;

    b->end = scan->offset;
    b->why = (struct errbuf){0};
    b->ends = wal_scan_next(scan, &b->why) == SCAN_END && b->end == scan->offset &&
              (a->far == 0 || !wal_scan_find_next(scan, a->far, &behind));
}

/* Reads one log as far as it continues. False: out of memory, threads or time. */
static bool
feed_log(struct feeder *f)
{
    struct scan_readahead *a = f->of;
    const struct scan_readahead_wal *log = &a->logs[f->log];
    struct parse p = {.class = a->class, .got = SCAN_MORE};
    struct wal_scan scan;
    bool good = true;

    wal_scan_begin(&scan, &log->source, log->offset, log->batch, 0);
    scan.spare = &f->windows;
    scan.wide = SCAN_READAHEAD;
    p.scan = &scan;
    while (good && (p.got == SCAN_MORE || p.got == SCAN_BATCH)) {
        bool filled = p.got == SCAN_MORE;

        p.into = wait_for_spare(f);
        if (p.into == NULL) {
            good = false;
            break;
        }
        good = (!filled || wal_scan_fill(&scan, NULL) == ERR_OK) &&
               rt_blocking(parse_work, &p, DEADLINE_NEVER) == ERR_OK;
        if (good)
            p.into->window = iobuf_ref(scan.window);
        if (good && p.got == SCAN_END)
            readahead_note_end(a, &scan, p.into); /* may move the scan's window */
        if (good && (p.into->count > 0 || p.into->ends)) {
            give_out(f, p.into);
            continue;
        }
        readahead_give_back(f, p.into);
        if (filled)
            break; /* a full window without a batch in it */
    }
    wal_scan_end(&scan);
    return good;
}

static void
readahead_feed(void *arg)
{
    struct feeder *f = arg;
    struct scan_readahead *a = f->of;
    bool good = true;

    rt_doing("reading logs ahead");
    while (good && a->next < a->count) {
        f->log = a->next++;
        rt_cond_broadcast(&a->changed); /* the previous log is complete */
        good = feed_log(f);
    }
    f->log = NO_LOG;
    f->runs = false;
    scan_spare_free(&f->windows); /* a scan without feeders may need them */
    rt_cond_broadcast(&a->changed);
}

/* ---- taking ---- */

/* If memory is short, one feeder is enough. */
static void
begin_feeder(struct scan_readahead *a, struct feeder *f)
{
    f->of = a;
    f->log = NO_LOG;
    list_init(&f->ready);
    list_init(&f->spare);
    if (f != &a->feeders[0] && iobuf_left() < FEEDERS * FEEDER_BYTES)
        return;
    for (uint32_t i = 0; i < CHUNKS; i++) {
        f->chunks[i].records = xmalloc(CHUNK_RECORDS * sizeof(struct log_record));
        f->chunks[i].entries = xmalloc(CHUNK_RECORDS * sizeof(struct entry));
        f->chunks[i].coded = xmalloc(CODED_ROOM);
        list_push_back(&f->spare, &f->chunks[i].link);
    }
    f->runs = true;
    if (rt_group_start(&a->batch, readahead_feed, f) != ERR_OK)
        f->runs = false;
}

static void
end_feeder(struct feeder *f)
{
    for (uint32_t i = 0; i < CHUNKS; i++) {
        iobuf_drop(&f->chunks[i].window);
        free(f->chunks[i].records);
        free(f->chunks[i].entries);
        free(f->chunks[i].coded);
    }
    scan_spare_free(&f->windows);
}

struct scan_readahead *
scan_readahead_begin(struct scan_readahead_wal *logs, uint32_t count,
                     enum store_class class, uint64_t far)
{
    struct scan_readahead *a = xcalloc(1, sizeof *a);

    a->logs = logs;
    a->count = count;
    a->class = class;
    a->far = far;
    rt_cond_init(&a->changed);
    rt_group_begin(&a->batch);
    for (uint32_t i = 0; i < FEEDERS; i++)
        begin_feeder(a, &a->feeders[i]);
    return a;
}

void
scan_readahead_end(struct scan_readahead **ap)
{
    struct scan_readahead *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    rt_group_cancel(&a->batch);
    rt_group_join(&a->batch);
    for (uint32_t i = 0; i < FEEDERS; i++)
        end_feeder(&a->feeders[i]);
    free(a->logs);
    free(a);
}

static uint32_t
readahead_place_of(const struct scan_readahead *a, uint32_t segment)
{
    uint32_t i = 0;

    while (i < a->count && a->logs[i].source.segment != segment)
        i++;
    return i;
}

/* Returns the feeder's chunk of the log, or NULL. Recycles its chunks of earlier logs, which are
 * no longer needed. */
static struct scan_chunk *
readahead_front_of(struct feeder *f, uint32_t log)
{
    while (!list_empty(&f->ready)) {
        struct scan_chunk *b = LIST_ENTRY(f->ready.next, struct scan_chunk, link);

        if (b->log > log)
            return NULL;
        if (b->log == log && (b->next < b->count || b->ends))
            return b;
        list_remove(&b->link);
        readahead_give_back(f, b);
    }
    return NULL;
}

/* Returns the chunk with the next batch of this log, or NULL: the log ends, or no feeder reads
 * it. */
static struct scan_chunk *
scan_chunk_for(struct scan_readahead *a, uint32_t log)
{
    for (;;) {
        bool comes = false, taken = a->next > log;

        for (uint32_t i = 0; i < FEEDERS; i++) {
            struct feeder *f = &a->feeders[i];
            struct scan_chunk *b = readahead_front_of(f, log);

            if (b != NULL)
                return b;
            comes |= f->runs && (f->log == log || !taken);
        }
        if (!comes || rt_cond_wait(&a->changed, DEADLINE_NEVER) != ERR_OK)
            return NULL;
    }
}

/* True if this is the batch that the caller wants. */
static bool
readahead_fits(const struct log_record *m, const struct wal_scan *s)
{
    return m->offset == s->offset && (s->batch == 0 || m->batch == s->batch) &&
           m->epoch >= s->epoch;
}

enum scanned
scan_readahead_take(struct scan_readahead *a, struct wal_scan *s, struct errbuf *eb)
{
    uint32_t log = a != NULL ? readahead_place_of(a, s->source.segment) : 0;
    struct scan_chunk *b = a != NULL && log < a->count ? scan_chunk_for(a, log) : NULL;
    struct log_record *m;
    uint32_t n = 0;

    if (b == NULL)
        return SCAN_MORE;
    if (b->next == b->count) { /* the log ends here */
        b->ends = false;
        if (b->end != s->offset)
            return SCAN_MORE;
        *eb = b->why;
        return SCAN_END;
    }
    m = &b->records[b->next];
    if (!readahead_fits(m, s)) {
        b->next = b->count; /* later batches of this log cannot match either */
        b->ends = false;
        return SCAN_MORE;
    }
    while (!m[n++].last)
        ;
    b->next += n;
    s->records = m;
    s->count = n;
    s->offset = log_record_end(&m[n - 1]);
    s->batch = m->batch + 1;
    s->epoch = m->epoch;
    return SCAN_BATCH;
}
