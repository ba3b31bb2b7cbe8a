/* disk_life: one life of a disk in the simulator: opened, held against the ledger, worked on by three fibers, closed.
 * Several programs cut its power or disturb its waits (sim_store*.c).
 */
#pragma once
#include "open_parts.h"
#include "sim/ledger.h"
#include "sim/sim_main.h"

#include "base/log.h"
#include "base/metrics.h"
#include "rt/sim.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "store/store_read.h"
#include "store/store_space.h"
#include "store/store_upload.h"
#include "store/store_write.h"

#define WORKERS  3
#define PATH     "/disk/a"
#define BUCKET   7
#define BODY_TOP (700u << 10)

struct life {
    struct ledger *ledger;
    unsigned ops; /* of each worker */
    bool check_only;
    bool disturbed; /* a wait fails somewhere: any request may */
    bool may_lose;  /* cached, after a cut */
    bool no_uploads;
    enum store_class class;
    struct store *disk;
    uint64_t epoch;
    uint64_t segment_bytes; /* 0: 2 MiB */
    unsigned compacts;      /* one request in so many is a compaction; 0: none */
    bool
        bodies; /* most of what is put lies in body segments, which are compacted at any excuse */
    bool
        condemns; /* the index is reported damaged in the middle, and the next start is to rebuild it */
    bool evicts; /* and one in eight an eviction: any object may be gone, for good */
    bool
        in_doubt; /* cached: keys are in doubt before they are written, as a write-through has them */
    char *body; /* BODY_TOP bytes, one for each worker */
};

static struct store_key
key_of(const struct ledger_key *k)
{
    return (struct store_key){
        .bucket = BUCKET, .immutable_name = SPAN("bucket"), .key = span_of(k->name)};
}

static uint64_t
random_size(const struct life *f)
{
    uint64_t r = sim_random() % 20;

    if (f->bodies && r >= 8)
        return (256u << 10) + 1 + sim_random() % 60000;
    if (r == 0)
        return 0;
    if (r < 12)
        return sim_random() % 9000;
    if (r < 16)
        return sim_random() % 120000;
    if (r < 18)
        return (256u << 10) - 2 + sim_random() % 4;
    return sim_random() % BODY_TOP;
}

/* Straight into the writer's buffer, as a PUT is received: some of it goes to the disk before the rest is there. */
static enum err
write_in_place(struct store_writer *w, const char *data, uint64_t len, struct errbuf *eb)
{
    while (len > 0) {
        void *to;
        size_t n = store_write_room(w, &to);
        enum err rc = ERR_OK;

        if (to == NULL) /* it tells why */
            return store_write(w, data, len, eb);
        n = n < len ? n : (size_t)len;
        memcpy(to, data, n);
        if (n > 0)
            store_write_filled(w, n);
        else
            rc = store_write_flush(w, eb);
        if (rc != ERR_OK)
            return rc;
        rt_yield();
        data += n;
        len -= n;
    }
    return ERR_OK;
}

static enum err
write_body(struct store_writer *w, char *body, const struct ledger_key *k, uint64_t write,
           uint64_t offset, uint64_t size, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    ledger_body(body, size, k, write, offset);
    for (uint64_t at = 0; rc == ERR_OK && at < size;) {
        uint64_t n = 1 + sim_random() % 200000;

        n = n < size - at ? n : size - at;
        rc = write % 2 == 0 ? write_in_place(w, body + at, n, eb)
                            : store_write(w, body + at, n, eb);
        at += n;
    }
    return rc;
}

/* ---- operations ---- */

static enum err
do_put(struct life *f, struct ledger_key *k, char *body)
{
    struct ledger_state s = {.write = ++f->ledger->writes, .size = random_size(f)};
    struct store_key key = key_of(k);
    struct object_meta meta = {.mtime_ms = (int64_t)s.write, .content_type = {NULL, 0}};
    struct store_condition only_new = {.if_absent = true};
    bool conditional = sim_random() % 4 == 0,
         absent = k->known.write == 0 && k->maybe_count == 0;
    bool known_length = f->bodies || sim_random() % 3 != 0;
    struct store_writer *w;
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc;

    if (sim_random() % 3 == 0)
        meta.content_type = SPAN("text/x-simulated");
    ledger_sent(k, s);
    rc = store_write_begin(f->disk, &key, f->class,
                           known_length ? s.size : STORE_SIZE_UNKNOWN, &w, &eb);
    if (rc == ERR_OK)
        rc = write_body(w, body, k, s.write, 0, s.size, &eb);
    if (rc == ERR_OK && sim_random() % 10 == 0) {
        store_write_abort(&w); /* the client went away */
        k->maybe_count--;
        return ERR_OK;
    }
    if (rc == ERR_OK) {
        rc = store_commit(&w, &meta, conditional ? &only_new : NULL, &entry, &eb);
        if (conditional && k->maybe_count == 1 && !f->evicts && !f->in_doubt)
            CHECK(rc != (absent ? ERR_PRECONDITION : ERR_OK));
    } else {
        store_write_abort(&w);
    }
    ledger_answered(f->ledger, k, rc, true);
    return rc == ERR_PRECONDITION ? ERR_OK : rc;
}

/* The remote refuses half of what is sent to it: then what is here stands, unless it was in doubt before. */
static enum err
do_in_doubt(struct life *f, struct ledger_key *k, char *body)
{
    struct store_key key = key_of(k);
    struct errbuf eb = {0};
    struct entry entry = {0};
    enum err rc = store_lookup(f->disk, &key, &entry, &eb);

    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        rc = store_in_doubt_begin(f->disk, &key, &eb);
    if (rc == ERR_OK)
        rc = sim_random() % 2 == 0 && (entry.flags & ENTRY_IN_DOUBT) == 0
                 ? store_in_doubt_clear(f->disk, &key, &eb)
                 : do_put(f, k, body);
    return rc;
}

static enum err
do_delete(struct life *f, struct ledger_key *k)
{
    struct store_key key = key_of(k);
    struct errbuf eb = {0};
    bool existed;
    enum err rc;

    ledger_sent(k, (struct ledger_state){0});
    rc = store_delete(f->disk, &key, f->class, NULL, &existed, &eb);
    if (rc == ERR_OK && k->maybe_count == 1 && !f->in_doubt && (!f->evicts || existed))
        CHECK(existed == (k->known.write != 0));
    ledger_answered(f->ledger, k, rc, true);
    return rc;
}

static enum err
put_part(struct life *f, const struct store_key *key, const struct upload_id *u,
         const struct ledger_key *k, uint32_t number, uint64_t write, uint64_t offset,
         uint64_t size, char *body)
{
    struct object_meta meta = {.mtime_ms = (int64_t)write};
    struct store_writer *w;
    struct errbuf eb = {0};
    enum err rc = store_part_begin(f->disk, key, u, number, size, &w, &eb);

    if (rc == ERR_OK)
        rc = write_body(w, body, k, write, offset, size, &eb);
    if (rc != ERR_OK) {
        store_write_abort(&w);
        return rc;
    }
    return store_part_commit(&w, &meta, &eb);
}

static enum err
complete(struct life *f, const struct store_key *key, const struct upload_id *u,
         struct ledger_key *k, uint32_t parts)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_part *listed = NULL;
    struct object_meta meta = {.mtime_ms = (int64_t)k->maybe[k->maybe_count - 1].write,
                               .parts = parts};
    struct errbuf eb = {0};
    struct entry entry, again;
    uint32_t count;
    bool more;
    enum err rc =
        store_part_list(f->disk, key, u, 0, 1000, a, &listed, &count, &more, &eb);

    if (rc == ERR_OK) {
        CHECK_U64(count, parts);
        rc = store_upload_complete(f->disk, key, u, listed, count, &meta, NULL, &entry,
                                   &eb);
    }
    ledger_answered(f->ledger, k, rc, true);
    if (rc == ERR_OK) { /* a repeat answers the same */
        rc = store_upload_complete(f->disk, key, u, listed, count, &meta, NULL, &again,
                                   &eb);
        if (rc == ERR_OK)
            CHECK(memcmp(&entry.content, &again.content, sizeof entry.content) == 0);
    }
    arena_free(&a);
    return rc;
}

static enum err
do_upload(struct life *f, struct ledger_key *k, char *body)
{
    struct ledger_state s = {.write = ++f->ledger->writes};
    struct store_key key = key_of(k);
    struct object_meta meta = {.mtime_ms = (int64_t)s.write};
    struct upload_id u;
    struct errbuf eb = {0};
    uint32_t parts = 1 + (uint32_t)(sim_random() % 3);
    enum err rc = store_upload_begin(f->disk, &key, f->class, &meta, &u, &eb);

    for (uint32_t i = 1; rc == ERR_OK && i <= parts; i++) {
        uint64_t size = random_size(f);

        rc = put_part(f, &key, &u, k, i, s.write, s.size, size, body);
        s.size += size;
    }
    if (rc != ERR_OK)
        return rc;
    if (sim_random() % 4 == 0)
        return store_upload_abort(f->disk, &key, &u, &eb);
    if (sim_random() % 8 == 0)
        return ERR_OK; /* stays in progress */
    ledger_sent(k, s);
    return complete(f, &key, &u, k, parts);
}

/* ---- checking ---- */

static void
check_body(struct life *f, struct ledger_key *k, const struct store_key *key,
           const struct entry *entry)
{
    struct store_reader *r;
    struct errbuf eb = {0};
    struct span piece;
    uint64_t at = 0;
    enum err rc = store_read_begin(f->disk, key, entry, 0, entry->size, &r, &eb);

    while (rc == ERR_OK) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        CHECK(ledger_body_is(piece.at, piece.len, k, (uint64_t)entry->mtime_ms, at));
        at += piece.len;
    }
    store_read_end(&r);
    if (rc == ERR_OK)
        CHECK_U64(at, entry->size);
    else if ((rc != ERR_CANCELLED && rc != ERR_IO && !rt_cancelled() && !f->disturbed) ||
             rc == ERR_CORRUPT)
        CHECK_STR(eb.text, "a readable body");
}

/* False: the power went while looking. */
static bool
check_key(struct life *f, struct ledger_key *k)
{
    struct store_key key = key_of(k);
    struct entry entry = {0};
    struct errbuf eb = {0};
    struct ledger_state s = {0};
    enum err rc = store_lookup(f->disk, &key, &entry, &eb);

    if (rc == ERR_CANCELLED || rt_cancelled())
        return false;
    if (f->disturbed && rc != ERR_OK && rc != ERR_NOT_FOUND)
        return false;
    CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND);
    if (rc == ERR_OK && (entry.flags & ENTRY_IN_DOUBT) != 0) /* it is not served */
        return true;
    if (rc == ERR_OK) {
        s = (struct ledger_state){.write = (uint64_t)entry.mtime_ms, .size = entry.size};
        check_body(f, k, &key, &entry);
    }
    if (!ledger_allows(k, s) && !((f->may_lose || f->evicts) && s.write == 0)) {
        fprintf(stderr,
                "key %s: write %" PRIu64 " of %" PRIu64 " bytes; known %" PRIu64
                " of %" PRIu64 ", %u maybe\n",
                k->name, s.write, s.size, k->known.write, k->known.size, k->maybe_count);
        CHECK(ledger_allows(k, s));
    }
    k->known = s; /* what is seen now stays */
    k->maybe_count = 0;
    return true;
}

static void
check_listing(struct life *f)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_entry *entries;
    struct errbuf eb = {0};
    uint32_t count, living = 0;
    bool more;
    enum err rc = store_list(f->disk, BUCKET, SPAN(""), false, 1000, a, &entries, &count,
                             &more, &eb);

    if (rc == ERR_OK) {
        for (unsigned i = 0; i < LEDGER_KEYS; i++)
            living += f->ledger->keys[i].known.write != 0;
        CHECK(f->in_doubt || (f->evicts ? count <= living : count == living));
        for (uint32_t i = 0; i < count; i++) {
            bool found = (entries[i].entry.flags & ENTRY_IN_DOUBT) != 0;

            for (unsigned j = 0; j < LEDGER_KEYS; j++) {
                struct ledger_key *k = &f->ledger->keys[j];

                found |= span_is(entries[i].key, k->name) &&
                         k->known.write == (uint64_t)entries[i].entry.mtime_ms;
            }
            CHECK(found);
        }
    }
    arena_free(&a);
}

/* ---- one life ---- */

struct worker {
    struct life *life;
    unsigned index;
};

static void
work(void *arg)
{
    struct worker *w = arg;
    struct life *f = w->life;
    char *body = f->body + (size_t)w->index * BODY_TOP;
    enum err rc = ERR_OK;

    for (unsigned i = 0; rc == ERR_OK && i < f->ops; i++) {
        store_invariants(f->disk);
        if (f->compacts > 0 && sim_random() % f->compacts == 0) {
            struct errbuf eb = {0};

            rc = store_compact(f->disk, &eb);
            if (rc != ERR_OK && !rt_cancelled() && !f->disturbed)
                CHECK_STR(eb.text, "a disk that can be compacted");
            continue;
        }
        if (f->evicts && sim_random() % 8 == 0) {
            struct store_evict_options o = {.target = sim_random() % (2u << 20)};
            struct store_evicted out;

            rc = store_evict(f->disk, &o, &out, NULL);
            continue;
        }
        struct ledger_key *k =
            &f->ledger
                 ->keys[w->index + WORKERS * (sim_random() % (LEDGER_KEYS / WORKERS))];
        uint64_t what = sim_random() % 12;

        if (k->maybe_count == LEDGER_MAYBE)
            continue;
        if (f->in_doubt && sim_random() % 3 == 0)
            rc = do_in_doubt(f, k, body);
        else if (what < 6)
            rc = do_put(f, k, body);
        else if (what < 8)
            rc = do_delete(f, k);
        else if (what < 9 && !f->no_uploads)
            rc = do_upload(f, k, body);
        else if (!check_key(f, k))
            rc = ERR_CANCELLED;
    }
}

/* What quotas ask for, against the listings. */
static void
check_parts_held(struct life *f)
{
    struct errbuf eb = {{0}};

    if (check_open_parts(f->disk, BUCKET, &eb) != ERR_OK && !rt_cancelled() &&
        !f->disturbed && !f->condemns)
        CHECK_STR(eb.text, "a listing of parts");
}

static void
live(void *arg)
{
    struct life *f = arg;
    struct store_options o = {.node = 1,
                              .epoch = f->epoch,
                              .segment_bytes =
                                  f->segment_bytes > 0 ? f->segment_bytes : 2u << 20,
                              .memtable_bytes = 1u << 20,
                              .index_map_bytes = 16u << 20,
                              .index_interval_ms = 1 + sim_random() % 40,
                              .compact_bodies_percent = f->bodies ? 1 : 0,
                              .block_cache_bytes = sim_random() % 2 * (1u << 20)};
    struct worker workers[WORKERS];
    struct rt_group g;
    struct store_stat st;
    struct errbuf eb = {0};
    bool good = true;
    int64_t damages = metric_read(M_CHECKSUM_FAILURES, 0); /* of the seeds before */
    enum err rc;

    memset(o.cluster_id, 0x5a, sizeof o.cluster_id);
    rc = store_open(PATH, &o, &f->disk, &eb);
    if (rc != ERR_OK) {
        if (!rt_cancelled() && !f->disturbed)
            CHECK_STR(eb.text, "an open disk");
        return;
    }
    for (unsigned i = 0; good && i < LEDGER_KEYS; i++)
        good = check_key(f, &f->ledger->keys[i]);
    f->may_lose = false;
    if (good)
        check_listing(f);
    check_parts_held(f);
    if (f->condemns && !f->check_only)
        index_set_bad(f->disk->index);
    rt_group_begin(&g);
    for (unsigned i = 0; !f->check_only && i < WORKERS; i++) {
        workers[i] = (struct worker){f, i};
        CHECK(rt_group_start(&g, work, &workers[i]) == ERR_OK || rt_cancelled());
    }
    rt_group_join(&g);
    if (good && !f->check_only && !rt_cancelled())
        check_listing(f);
    store_stat(f->disk, &st); /* no proof calls a good index bad */
    CHECK(f->disturbed || (f->condemns && !f->check_only) || rt_cancelled() ||
          st.index != STORE_INDEX_DAMAGED);
    check_parts_held(f);
    store_close(&f->disk);
    if (!f->disturbed) /* what a cut leaves behind is no damage */
        CHECK(metric_read(M_CHECKSUM_FAILURES, 0) == damages);
}
