/* replica_life: one life of two disks of a node in the simulator, with the little that a layer above them does to keep
 * every object on both: prepare on the copy, commit on the owner, decide on the copy; deletes with tombstones that end
 * when both are reached; copies that leave and come back. At the start of a life what the last one left open is resolved
 * by asking the owner; then both disks must hold the same, and the ledger must allow it. Half of the keys are owned by
 * the one disk, half by the other.
 */
#pragma once
#include "sim/ledger.h"
#include "sim/sim_main.h"

#include "base/log.h"
#include "base/metrics.h"
#include "rt/sim.h"

#define DISKS    2
#define WORKERS  3
#define BUCKET   7
#define BODY_TOP (700u << 10)

struct replica_life {
    struct ledger *ledger;
    bool lacking[LEDGER_KEYS]; /* the copy was being moved: it may be away */
    unsigned ops;              /* of each worker */
    bool check_only;
    bool disturbed; /* a wait fails somewhere: any request may */
    struct store *disk[DISKS];
    struct store_ids ids;
    uint64_t epoch, map_epoch;
    char *body; /* BODY_TOP bytes, one for each worker */
};

struct place {
    struct store *owner, *copy;
};

static struct place
place_of(struct replica_life *f, const struct ledger_key *k)
{
    unsigned i = (unsigned)(k - f->ledger->keys) / WORKERS % DISKS;

    return (struct place){f->disk[i], f->disk[1 - i]};
}

static struct store_key
key_of(const struct ledger_key *k)
{
    return (struct store_key){
        .bucket = BUCKET, .immutable_name = SPAN("bucket"), .key = span_of(k->name)};
}

static bool
same_content(const struct content_id *a, const struct content_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool
same_version(const struct version *a, const struct version *b)
{
    return a->epoch == b->epoch && a->counter == b->counter;
}

static uint64_t
random_size(void)
{
    uint64_t r = sim_random() % 16;

    if (r == 0)
        return 0;
    if (r < 10)
        return sim_random() % 9000;
    if (r < 13)
        return (256u << 10) - 2 + sim_random() % 4;
    return sim_random() % BODY_TOP;
}

/* ---- writing ---- */

/* The body to both disks under one content id; *content is the owner's. */
static enum err
write_both(struct store_writer *const w[DISKS], char *body, const struct ledger_key *k,
           uint64_t write, uint64_t offset, uint64_t size, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    ledger_body(body, size, k, write, offset);
    for (uint64_t at = 0; rc == ERR_OK && at < size;) {
        uint64_t n = 1 + sim_random() % 300000;

        n = n < size - at ? n : size - at;
        for (unsigned i = 0; rc == ERR_OK && i < DISKS; i++)
            rc = store_write(w[i], body + at, n, eb);
        at += n;
    }
    return rc;
}

/* Commit on the owner, then on the copy. Neither a refusal nor an unknown outcome leaves it in doubt for
 * longer than to the next start. */
static enum err
commit_both(const struct place *p, const struct store_key *key, struct store_writer **own,
            const struct object_meta *meta, const struct store_condition *c,
            const struct content_id *content)
{
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc = store_commit(own, meta, c, &entry, &eb), gave_up;

    if (rc == ERR_OK)
        return store_commit_prepared(p->copy, key, content, &entry.version, &eb);
    if (rc == ERR_PRECONDITION) {
        gave_up = store_abort_prepared(p->copy, key, content, &eb);
        if (gave_up != ERR_OK)
            CHECK(gave_up != ERR_PRECONDITION && gave_up != ERR_NOT_FOUND);
    }
    return rc;
}

static enum err
do_put(struct replica_life *f, struct ledger_key *k, char *body)
{
    struct place p = place_of(f, k);
    struct ledger_state s = {.write = ++f->ledger->writes, .size = random_size()};
    struct store_key key = key_of(k);
    struct object_meta meta = {.mtime_ms = (int64_t)s.write};
    struct store_condition only_new = {.if_absent = true};
    bool conditional = sim_random() % 4 == 0,
         absent = k->known.write == 0 && k->maybe_count == 0;
    struct store_writer *w[DISKS] = {NULL, NULL};
    struct content_id content;
    struct errbuf eb = {0};
    enum err rc = store_write_begin(p.owner, &key, STORE_NATIVE, s.size, &w[0], &eb);

    ledger_sent(k, s);
    if (rc == ERR_OK) {
        content = *store_writer_content(w[0]);
        rc = store_write_begin_as(p.copy, &key, s.size, &content, &w[1], &eb);
    }
    if (rc == ERR_OK)
        rc = write_both(w, body, k, s.write, 0, s.size, &eb);
    if (rc == ERR_OK)
        rc = store_prepare(&w[1], &meta, NULL, &eb);
    if (rc == ERR_OK) {
        rc =
            commit_both(&p, &key, &w[0], &meta, conditional ? &only_new : NULL, &content);
        if (conditional && k->maybe_count == 1)
            CHECK(rc != (absent ? ERR_PRECONDITION : ERR_OK));
    }
    for (unsigned i = 0; i < DISKS; i++)
        store_write_abort(&w[i]);
    ledger_answered(f->ledger, k, rc, true);
    return rc == ERR_PRECONDITION ? ERR_OK : rc;
}

static enum err
put_part(const struct place *p, const struct store_key *key, const struct upload_id *u,
         const struct ledger_key *k, uint32_t number, uint64_t write, uint64_t offset,
         uint64_t size, char *body)
{
    struct object_meta meta = {.mtime_ms = (int64_t)write};
    struct store_writer *w[DISKS] = {NULL, NULL};
    struct errbuf eb = {0};
    enum err rc = store_part_begin(p->owner, key, u, number, size, &w[0], &eb);

    if (rc == ERR_OK)
        rc = store_part_begin_as(p->copy, key, u, number, size,
                                 store_writer_content(w[0]), &w[1], &eb);
    if (rc == ERR_OK)
        rc = write_both(w, body, k, write, offset, size, &eb);
    for (unsigned i = 0; rc == ERR_OK && i < DISKS; i++)
        rc = store_part_commit(&w[i], &meta, &eb);
    for (unsigned i = 0; i < DISKS; i++)
        store_write_abort(&w[i]);
    return rc;
}

static enum err
complete(struct replica_life *f, const struct place *p, const struct store_key *key,
         const struct upload_id *u, struct ledger_key *k)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct content_id content = store_mint_id(p->owner);
    struct store_part *parts = NULL;
    struct errbuf eb = {0};
    struct entry entry;
    uint32_t count;
    bool more;
    enum err rc =
        store_part_list(p->owner, key, u, 0, 1000, a, &parts, &count, &more, &eb);
    struct object_meta meta = {.mtime_ms = (int64_t)k->maybe[k->maybe_count - 1].write,
                               .parts = count};

    if (rc == ERR_OK)
        rc = store_upload_prepare(p->copy, key, u, parts, count, &content, &meta, NULL,
                                  &eb);
    if (rc == ERR_OK)
        rc = store_upload_complete_as(p->owner, key, u, parts, count, &content, &meta,
                                      NULL, &entry, &eb);
    if (rc == ERR_OK)
        rc = store_commit_prepared(p->copy, key, &content, &entry.version, &eb);
    ledger_answered(f->ledger, k, rc, true);
    arena_free(&a);
    return rc;
}

static enum err
do_upload(struct replica_life *f, struct ledger_key *k, char *body)
{
    struct place p = place_of(f, k);
    struct ledger_state s = {.write = ++f->ledger->writes};
    struct store_key key = key_of(k);
    struct object_meta meta = {.mtime_ms = (int64_t)s.write};
    struct upload_id u;
    struct errbuf eb = {0};
    uint32_t parts = 1 + (uint32_t)(sim_random() % 3);
    enum err rc = store_upload_begin(p.owner, &key, STORE_NATIVE, &meta, &u, &eb);

    if (rc == ERR_OK)
        rc = store_upload_begin_as(p.copy, &key, &meta, &u, &eb);
    for (uint32_t i = 1; rc == ERR_OK && i <= parts; i++) {
        uint64_t size = random_size();

        rc = put_part(&p, &key, &u, k, i, s.write, s.size, size, body);
        s.size += size;
    }
    if (rc != ERR_OK)
        return rc;
    ledger_sent(k, s);
    return complete(f, &p, &key, &u, k);
}

/* ---- deleting, moving ---- */

static enum err
end_tombstone(const struct place *p, const struct store_key *key, const struct version *v)
{
    struct errbuf eb = {0};
    enum err rc = store_tombstone_drop(p->copy, key, v, &eb);

    return rc == ERR_OK ? store_tombstone_drop(p->owner, key, v, &eb) : rc;
}

static enum err
do_delete(struct replica_life *f, struct ledger_key *k)
{
    struct place p = place_of(f, k);
    struct store_key key = key_of(k);
    struct store_delete_options o = {.keep_tombstone = true, .now_ms = 1};
    struct store_deleted gone, copy;
    struct errbuf eb = {0};
    enum err rc;

    ledger_sent(k, (struct ledger_state){0});
    rc = store_delete_with(p.owner, &key, &o, &gone, &eb);
    if (rc == ERR_OK && k->maybe_count == 1)
        CHECK(gone.existed == (k->known.write != 0));
    if (rc == ERR_OK && gone.version.counter != 0) {
        o.version = &gone.version;
        rc = store_delete_with(p.copy, &key, &o, &copy, &eb);
    }
    ledger_answered(f->ledger, k, rc, true);
    if (rc == ERR_OK && gone.version.counter != 0 && sim_random() % 3 != 0)
        rc = end_tombstone(&p, &key, &gone.version);
    return rc;
}

/* The owner's object written once more to the copy's disk. */
static enum err
recopy(const struct place *p, const struct store_key *key, const struct entry *entry)
{
    struct object_meta meta = {.mtime_ms = entry->mtime_ms, .parts = entry->parts};
    struct store_writer *w = NULL;
    struct store_reader *r = NULL;
    struct errbuf eb = {0};
    struct span piece = {"", 1};
    enum err rc = store_read_begin(p->owner, key, entry, 0, entry->size, &r, &eb);

    if (rc == ERR_OK)
        rc = store_write_begin_as(p->copy, key, entry->size, &entry->content, &w, &eb);
    while (rc == ERR_OK && piece.len > 0) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc == ERR_OK && piece.len > 0)
            rc = store_write(w, piece.at, piece.len, &eb);
    }
    store_read_end(&r);
    if (rc == ERR_OK)
        rc = store_commit_replica(&w, &meta, entry, &eb);
    store_write_abort(&w);
    return rc;
}

/* The copy leaves its disk and comes back; or is rewritten in place of itself, as a repair does. */
static enum err
do_move(struct replica_life *f, struct ledger_key *k)
{
    struct place p = place_of(f, k);
    struct store_key key = key_of(k);
    bool *lacking = &f->lacking[k - f->ledger->keys];
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc = store_lookup(p.owner, &key, &entry, &eb);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    if (sim_random() % 2 == 0) {
        *lacking = true;
        rc = store_drop_replica(p.copy, &key, &entry.version, &eb);
    }
    if (rc == ERR_OK)
        rc = recopy(&p, &key, &entry);
    if (rc == ERR_OK)
        *lacking = false;
    return rc;
}

/* ---- what a start does ---- */

static enum err
resolve_prepared(struct replica_life *f, struct store *copy, struct store *owner)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_prepared *page = NULL;
    struct errbuf eb = {0};
    uint32_t count = 0;
    bool more;
    enum err rc = store_prepared(copy, NULL, 1000, a, &page, &count, &more, &eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        struct store_key key = {.bucket = page[i].bucket,
                                .immutable_name = SPAN("bucket"),
                                .key = page[i].key};
        struct entry entry;

        rc = store_lookup(owner, &key, &entry, &eb);
        if (rc == ERR_OK && same_content(&entry.content, &page[i].content))
            rc = store_commit_prepared(copy, &key, &page[i].content, &entry.version, &eb);
        else if (rc == ERR_OK || rc == ERR_NOT_FOUND)
            rc = store_abort_prepared(copy, &key, &page[i].content, &eb);
        if (!f->disturbed && !rt_cancelled())
            CHECK(rc == ERR_OK || rc == ERR_IO || rc == ERR_CANCELLED);
    }
    arena_free(&a);
    return rc;
}

static enum err
resolve_tombstones(struct replica_life *f)
{
    struct errbuf eb = {0};
    enum err rc = ERR_OK;

    for (unsigned i = 0; rc == ERR_OK && i < LEDGER_KEYS; i++) {
        struct ledger_key *k = &f->ledger->keys[i];
        struct place p = place_of(f, k);
        struct store_key key = key_of(k);
        struct store_deleted gone;
        struct entry entry;

        rc = store_lookup_any(p.owner, &key, &entry, &eb);
        if (rc == ERR_OK && (entry.flags & ENTRY_TOMBSTONE) != 0) {
            struct store_delete_options o = {
                .version = &entry.version, .keep_tombstone = true, .now_ms = 1};

            rc = store_delete_with(p.copy, &key, &o, &gone, &eb);
            if (rc == ERR_OK)
                rc = end_tombstone(&p, &key, &entry.version);
        }
        if (rc == ERR_NOT_FOUND)
            rc = ERR_OK;
    }
    return rc;
}

/* ---- checking ---- */

static void
check_body(struct replica_life *f, struct store *d, struct ledger_key *k,
           const struct store_key *key, const struct entry *entry)
{
    struct store_reader *r;
    struct errbuf eb = {0};
    struct span piece;
    uint64_t at = 0;
    enum err rc = store_read_begin(d, key, entry, 0, entry->size, &r, &eb);

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

/* The copy holds what the owner holds. */
static enum err
check_copy(struct replica_life *f, struct ledger_key *k, const struct place *p,
           const struct store_key *key, enum err owns, const struct entry *own)
{
    bool *lacking = &f->lacking[k - f->ledger->keys];
    struct entry entry = {0};
    struct errbuf eb = {0};
    enum err rc = store_lookup(p->copy, key, &entry, &eb);

    if ((rc != ERR_OK && rc != ERR_NOT_FOUND) || rt_cancelled())
        return rc == ERR_OK || rc == ERR_NOT_FOUND ? ERR_CANCELLED : rc;
    CHECK((entry.flags & ENTRY_PREPARED) == 0);
    if (rc == ERR_NOT_FOUND && owns == ERR_OK && *lacking) {
        rc = recopy(p, key, own);
        *lacking = rc != ERR_OK;
        return rc;
    }
    CHECK(rc == owns);
    if (rc == ERR_OK && owns == ERR_OK) {
        *lacking = false;
        CHECK(same_version(&entry.version, &own->version));
        CHECK(same_content(&entry.content, &own->content));
        CHECK(entry.size == own->size && entry.mtime_ms == own->mtime_ms);
        check_body(f, p->copy, k, key, &entry);
    }
    return ERR_OK;
}

/* False: the power went while looking. */
static bool
check_key(struct replica_life *f, struct ledger_key *k)
{
    struct place p = place_of(f, k);
    struct store_key key = key_of(k);
    struct entry entry = {0};
    struct errbuf eb = {0};
    struct ledger_state s = {0};
    enum err rc = store_lookup(p.owner, &key, &entry, &eb);

    if (rc == ERR_CANCELLED || rt_cancelled())
        return false;
    if (f->disturbed && rc != ERR_OK && rc != ERR_NOT_FOUND)
        return false;
    CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND);
    if (rc == ERR_OK) {
        s = (struct ledger_state){.write = (uint64_t)entry.mtime_ms, .size = entry.size};
        check_body(f, p.owner, k, &key, &entry);
    }
    if (!ledger_allows(k, s)) {
        fprintf(stderr,
                "key %s: write %" PRIu64 " of %" PRIu64 " bytes; known %" PRIu64
                " of %" PRIu64 ", %u maybe\n",
                k->name, s.write, s.size, k->known.write, k->known.size, k->maybe_count);
        CHECK(ledger_allows(k, s));
    }
    if (check_copy(f, k, &p, &key, rc, &entry) != ERR_OK)
        return false;
    k->known = s; /* what is seen now stays */
    k->maybe_count = 0;
    return true;
}

/* ---- one life ---- */

struct worker {
    struct replica_life *life;
    unsigned index;
};

static void
work(void *arg)
{
    struct worker *w = arg;
    struct replica_life *f = w->life;
    char *body = f->body + (size_t)w->index * BODY_TOP;
    enum err rc = ERR_OK;

    for (unsigned i = 0; rc == ERR_OK && i < f->ops; i++) {
        struct ledger_key *k =
            &f->ledger
                 ->keys[w->index + WORKERS * (sim_random() % (LEDGER_KEYS / WORKERS))];
        uint64_t what = sim_random() % 14;

        if (k->maybe_count == LEDGER_MAYBE)
            continue;
        if (what < 6)
            rc = do_put(f, k, body);
        else if (what < 8)
            rc = do_delete(f, k);
        else if (what < 9)
            rc = do_upload(f, k, body);
        else if (what < 11)
            rc = do_move(f, k);
        else if (!check_key(f, k))
            rc = ERR_CANCELLED;
    }
}

static enum err
open_both(struct replica_life *f, struct errbuf *eb)
{
    static const char *const paths[DISKS] = {"/disk/a", "/disk/b"};
    struct store_options o = {.node = 1,
                              .segment_bytes = 2u << 20,
                              .memtable_bytes = 1u << 20,
                              .index_map_bytes = 16u << 20,
                              .index_interval_ms = 1 + sim_random() % 40,
                              .ids = &f->ids};
    enum err rc = ERR_OK;

    memset(o.cluster_id, 0x5a, sizeof o.cluster_id);
    atomic_store(&f->ids.counter, 0);
    for (unsigned i = 0; i < DISKS; i++) {
        struct store_identity found;

        if (store_identify(paths[i], &found, eb) != ERR_OK)
            continue;
        f->epoch = MAX(f->epoch, found.epoch + 1);
        f->map_epoch = MAX(f->map_epoch, found.map_epoch);
    }
    o.epoch = f->epoch;
    f->map_epoch += 1 + sim_random() % 3; /* of its own, not the count of starts */
    atomic_store(&f->ids.map_epoch, f->map_epoch);
    for (unsigned i = 0; rc == ERR_OK && i < DISKS; i++)
        rc = store_open(paths[i], &o, &f->disk[i], eb);
    return rc;
}

static void
live(void *arg)
{
    struct replica_life *f = arg;
    struct worker workers[WORKERS];
    struct rt_group g;
    struct errbuf eb = {0};
    bool good = true;
    enum err rc;

    f->disk[0] = f->disk[1] = NULL;
    rc = open_both(f, &eb);
    if (rc != ERR_OK && !rt_cancelled() && !f->disturbed)
        CHECK_STR(eb.text, "open disks");
    for (unsigned i = 0; rc == ERR_OK && i < DISKS; i++)
        rc = resolve_prepared(f, f->disk[i], f->disk[1 - i]);
    if (rc == ERR_OK)
        rc = resolve_tombstones(f);
    for (unsigned i = 0; rc == ERR_OK && good && i < LEDGER_KEYS; i++)
        good = check_key(f, &f->ledger->keys[i]);
    rt_group_begin(&g);
    for (unsigned i = 0; rc == ERR_OK && good && !f->check_only && i < WORKERS; i++) {
        workers[i] = (struct worker){f, i};
        CHECK(rt_group_start(&g, work, &workers[i]) == ERR_OK || rt_cancelled());
    }
    rt_group_join(&g);
    if (f->check_only)
        CHECK(rc == ERR_OK && good);
    for (unsigned i = 0; i < DISKS; i++)
        store_close(&f->disk[i]);
    if (!f->disturbed) /* what a cut leaves behind is no damage */
        CHECK_U64(metric_read(M_CHECKSUM_FAILURES, 0), 0);
}
