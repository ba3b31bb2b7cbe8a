#include "store/scrub/scrub.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/health/health.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/record/format.h"
#include "store/segment/read.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_write.h"
#include "store/wal/flush.h"

#define STATE_FILE      "scrub"
#define PAGE            32u
#define RATE_DEFAULT    MIB(64)
#define INDEX_RATE      MIB(256)
#define RATE_LEAST      KIB(64) /* of a pass that is due, not asked for */
#define PASS_DEFAULT_MS (7 * 24 * 3600 * UINT64_C(1000))
#define FIRST_MS        (3600 * UINT64_C(1000)) /* after the first start of a disk */
#define RESUME_MS       (60 * UINT64_C(1000)) /* after a restart in the middle of a pass */
#define AGAIN_MS                                                                         \
    (10 * UINT64_C(1000)) /* after what was no finding: no buffer, no fiber */
#define SAVE_NS (30 * UINT64_C(1000000000))

struct scrub {
    struct store *disk;
    store_repair_fn *repair;
    void *repair_arg;
    struct rt_cond wake;
    struct rt_daemon daemon;
    _Atomic bool stop; /* a worker that verifies the index looks, too */
    bool wanted;       /* begin again now */
    struct scrub_state state;
    int64_t next_ms; /* wall clock */
    uint64_t due_ns; /* of the pace */
    uint64_t saved_ns;
    struct scrub_finding *findings; /* owned: room for STORE_FINDINGS_MAX, oldest first */
    uint32_t count;
};

static int64_t
wall_ms(void)
{
    return (int64_t)(rt_wall_ns() / 1000000u);
}

static uint64_t
pass_ms(const struct scrub *s)
{
    return s->disk->o.scrub_pass_ms != 0 ? s->disk->o.scrub_pass_ms : PASS_DEFAULT_MS;
}

static uint64_t
all_bytes(const struct store *d)
{
    return atomic_load(&d->segments->used_bytes[STORE_NATIVE]) +
           atomic_load(&d->segments->used_bytes[STORE_CACHED]);
}

/* Four fifths of the time of a pass, or the full rate. */
static uint64_t
rate_of(const struct scrub *s)
{
    uint64_t full = s->disk->o.scrub_rate != 0 ? s->disk->o.scrub_rate : RATE_DEFAULT;
    uint64_t slow = all_bytes(s->disk) / MAX(pass_ms(s) / 1250, UINT64_C(1));

    assert(pass_ms(s) > 0);
    return s->state.asked ? full : MIN(full, MAX(slow, (uint64_t)RATE_LEAST));
}

/* What holds between two switches. */
static void
scrub_check(const struct scrub *s)
{
    assert(s->disk->scrub == s);
    assert(s->findings != NULL);
    assert(s->count <= STORE_FINDINGS_MAX);
    assert(s->state.key_len <= STORE_KEY_MAX);
}

/* ---- the file ---- */

static void
load(struct scrub *s)
{
    char *text = NULL;
    size_t len = 0;
    struct errbuf eb = {0};
    enum err rc =
        rt_file_load(s->disk->state, STATE_FILE, SCRUB_STATE_MAX, &text, &len, &eb);

    if (rc == ERR_OK)
        rc = scrub_decode((struct span){text, len}, &s->state, s->findings,
                          STORE_FINDINGS_MAX, &s->count, &eb);
    free(text);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        LOG(LOG_WARN, "scrub.begins_anew", "where the scrub stood is not known",
            L_TEXT("disk", rt_dir_path(s->disk->root)), L_TEXT("why", eb.text));
}

static void
save(struct scrub *s)
{
    struct errbuf eb = {0};
    struct buf out;

    assert(s->count <= STORE_FINDINGS_MAX);
    s->saved_ns = rt_now_ns();
    if (health_may_write(s->disk->health, NULL) != ERR_OK)
        return;
    buf_init(&out, SCRUB_STATE_MAX);
    scrub_encode(&s->state, s->findings, s->count, &out);
    if (rt_file_store(s->disk->state, STATE_FILE, out.at, out.len, 0600, &eb) != ERR_OK)
        LOG(LOG_WARN, "scrub.not_saved",
            "a restart begins this pass where it stood before",
            L_TEXT("disk", rt_dir_path(s->disk->root)), L_TEXT("error", eb.text));
    buf_fini(&out);
}

/* ---- pace ---- */

/* After so many bytes: waits as long as they take at the rate. */
static enum err
pace(void *arg, uint64_t bytes)
{
    struct scrub *s = arg;
    uint64_t now_ns = rt_now_ns(), second = 1000000000u;
    enum err rc = ERR_OK;

    assert(on_owner(s->disk));
    s->state.pass.bytes += bytes;
    metric_add(M_SCRUB_BYTES, 0, (int64_t)bytes);
    if (s->due_ns + second < now_ns)
        s->due_ns = now_ns - second; /* what it did not use is lost, but for a second */
    s->due_ns += bytes * 1000 / MAX(rate_of(s) / 1000, UINT64_C(1)) * 1000;
    while (rc == ERR_OK && s->due_ns > rt_now_ns() && !s->stop && !s->wanted) {
        rc = rt_cond_wait(&s->wake, (struct deadline){s->due_ns});
        if (rc == ERR_TIMEOUT)
            rc = ERR_OK;
    }
    if (s->stop || s->wanted || store_has_left(s->disk))
        return ERR_CANCELLED;
    return rc;
}

/* Of the index: not within a pass, and a reader may be waiting for it. */
static enum err
pace_index(void *arg, uint64_t bytes)
{
    struct scrub *s = arg;
    uint64_t until_ns = rt_now_ns() + bytes * 1000 / (INDEX_RATE / 1000000);
    enum err rc = ERR_OK;

    while (rc == ERR_OK && until_ns > rt_now_ns() && !s->stop && !s->wanted) {
        rc = rt_cond_wait(&s->wake, (struct deadline){until_ns});
        if (rc == ERR_TIMEOUT)
            rc = ERR_OK;
    }
    return s->stop || store_has_left(s->disk) ? ERR_CANCELLED : rc;
}

/* ---- findings ---- */

static void
keep_finding(struct scrub *s, const struct scrub_finding *f)
{
    uint32_t old = 0;

    assert(s->count <= STORE_FINDINGS_MAX);
    assert(f->key_len <= sizeof f->key);
    /* Only findings of the last two passes are kept. */
    while (old < s->count && s->findings[old].pass + 1 < f->pass)
        old++;
    if (old == 0 && s->count == STORE_FINDINGS_MAX)
        old = 1;
    memmove(s->findings, s->findings + old, (s->count - old) * sizeof *s->findings);
    s->count -= old;
    assert(s->count < STORE_FINDINGS_MAX);
    s->findings[s->count++] = *f;
}

static void
found(struct scrub *s, const struct store_key *k, const struct scrub_read *r,
      enum store_outcome outcome, const char *why)
{
    static const char *const outcomes[] = {"open", "repaired", "dropped"};
    struct scrub_finding f = {.pass = s->state.pass.number,
                              .found_ms = wall_ms(),
                              .bucket = k->bucket,
                              .part = r->part,
                              .block = r->block,
                              .outcome = outcome,
                              .key_len = MIN(k->key.len, sizeof f.key)};

    assert((unsigned)outcome < sizeof outcomes / sizeof *outcomes);
    assert(r->what != NULL);
    (void)snprintf(f.what, sizeof f.what, "%s", r->what);
    if (f.key_len > 0)
        memcpy(f.key, k->key.at, f.key_len);
    keep_finding(s, &f);
    s->state.pass.findings++;
    s->state.pass.repaired += outcome != FINDING_OPEN;
    metric_add(M_SCRUB_FINDINGS, outcome, 1);
    LOG(LOG_ERROR, "scrub.found", "what lies on the disk is not what was written",
        L_TEXT("disk", rt_dir_path(s->disk->root)), L_U64("bucket", k->bucket),
        L_SPAN("key", k->key), L_TEXT("what", r->what), L_U64("part", r->part),
        L_U64("block", r->block), L_TEXT("outcome", outcomes[outcome]),
        L_TEXT("why", why));
}

/* Is this version still what the index names? It may have been deleted, replaced or moved while it was read. */
static bool
still_there(struct store *d, const struct store_key *k, const struct entry *entry)
{
    struct entry now;

    return find_content(d->memtable, d->index, k->bucket, k->key, &entry->content, &now,
                        NULL) == ERR_OK &&
           now.place.segment == entry->place.segment &&
           now.place.offset == entry->place.offset;
}

/* A part of an upload in progress. */
struct part_of {
    const struct upload_id *upload;
    uint32_t number;
};

/* The same of a part: it may have been replaced or moved, and its upload may have ended. */
static bool
part_still_there(struct store *d, const struct store_key *k, const struct part_of *p,
                 const struct entry *entry)
{
    struct upload_entry upload;
    struct part_entry now;

    return find_upload(d->memtable, d->index, k->bucket, k->key, p->upload, &upload,
                       NULL) == ERR_OK &&
           find_part(d->memtable, d->index, p->upload, p->number, &now, NULL) == ERR_OK &&
           content_eq(&now.entry.content, &entry->content) &&
           now.entry.place.segment == entry->place.segment &&
           now.entry.place.offset == entry->place.offset;
}

static enum store_outcome
repair(struct scrub *s, const struct store_key *k, const struct entry *entry,
       struct errbuf *eb)
{
    struct store_condition same = {.if_content = true, .content = entry->content};
    bool existed;

    err_forget(eb);
    if ((entry->flags & ENTRY_CACHED) != 0)
        return store_delete(s->disk, k, STORE_CACHED, &same, &existed, eb) == ERR_OK
                   ? FINDING_DROPPED
                   : FINDING_OPEN;
    if (s->repair == NULL) {
        (void)err_set(eb, ERR_NOT_FOUND, "there is no other copy");
        return FINDING_OPEN;
    }
    return s->repair(s->repair_arg, k, entry, eb) == ERR_OK ? FINDING_REPAIRED
                                                            : FINDING_OPEN;
}

/* Reads one version, or a part of an upload. Anything but ERR_OK ends the pass for now. */
static enum err
scrub_entry(struct scrub *s, const struct store_key *k, const struct entry *entry,
            const struct part_of *part)
{
    struct scrub_read r = {.on_bytes = pace, .arg = s};
    struct errbuf eb = {0};
    enum err rc = scrub_read_entry(s->disk, k, entry, part == NULL, &r, &eb);

    if (part != NULL)
        s->state.pass.parts++;
    else
        s->state.pass.objects++;
    if (rc == ERR_OK)
        return rc;
    if (rc == ERR_CANCELLED || rc == ERR_BUSY || rc == ERR_TIMEOUT ||
        store_has_left(s->disk))
        return rc;
    if (part != NULL && part_still_there(s->disk, k, part, entry))
        found(s, k, &r, FINDING_OPEN, eb.text);
    if (part == NULL && still_there(s->disk, k, entry))
        found(s, k, &r, repair(s, k, entry, &eb), eb.text);
    return ERR_OK;
}

/* ---- a pass ---- */

static enum err
scrub_page(struct scrub *s, uint64_t bucket, struct arena *a, bool *more)
{
    struct store *d = s->disk;
    struct span after = {s->state.key, s->state.key_len};
    struct store_version *page;
    uint32_t count;
    struct errbuf eb = {0};
    enum err rc = list_versions(d->memtable, d->index, bucket, after, after.len == 0,
                                after.len == 0 ? NULL : &s->state.version, PAGE, a, &page,
                                &count, more, &eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        struct store_key k = {.bucket = bucket, .key = page[i].key};
        const struct entry *entry = &page[i].entry;

        if (entry->place.segment != 0 && (entry->flags & ENTRY_TOMBSTONE) == 0)
            rc = scrub_entry(s, &k, entry, NULL);
        if (rc != ERR_OK)
            break;
        s->state.bucket = bucket;
        s->state.key_len = k.key.len;
        memcpy(s->state.key, k.key.at, k.key.len);
        s->state.version = entry_born(entry);
        if (rt_now_ns() - s->saved_ns > SAVE_NS)
            save(s);
    }
    if (rc ==
        ERR_CORRUPT) { /* the index names it; what stands behind it in this bucket waits for the rebuild */
        struct store_key k = {.bucket = bucket, .key = after};

        found(s, &k, &(struct scrub_read){.what = "an index entry behind this key"},
              FINDING_OPEN, eb.text);
        *more = false;
        rc = ERR_OK;
    }
    return rc;
}

/* Parts of uploads in progress. */
struct scrub_parts {
    struct scrub *scrub;
    struct store_key key; /* of the upload at hand */
    const struct upload_id *upload;
};

static enum err
scrub_part(void *arg, const struct list_part *p, struct errbuf *eb)
{
    const struct scrub_parts *c = arg;

    (void)eb;
    POINT(SCRUB_PART);
    return scrub_entry(c->scrub, &c->key, &p->part.entry,
                       &(struct part_of){c->upload, p->number});
}

static enum err
scrub_upload(void *arg, const struct store_upload *u, struct errbuf *eb)
{
    struct scrub_parts *c = arg;
    struct store *d = c->scrub->disk;
    enum err rc;

    c->key.key = u->key;
    c->upload = &u->id;
    rc = list_each_part(d->memtable, d->index, &u->id, PAGE, scrub_part, arg, eb);
    return rc == ERR_CORRUPT ? ERR_OK : rc;
}

static enum err
scrub_uploads(struct scrub *s, uint64_t bucket)
{
    struct scrub_parts c = {.scrub = s, .key.bucket = bucket};
    enum err rc = list_each_upload(s->disk->memtable, s->disk->index, bucket, LIST_ALL,
                                   PAGE, scrub_upload, &c, NULL);

    return rc == ERR_CORRUPT ? ERR_OK : rc;
}

static enum err
scrub_bucket(struct scrub *s, uint64_t bucket)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    bool more = true;
    enum err rc = ERR_OK;

    assert(on_owner(s->disk));
    if (bucket != s->state.bucket)
        s->state.key_len = 0;
    s->state.bucket = bucket;
    while (rc == ERR_OK && more) {
        arena_reset(a);
        rc = scrub_page(s, bucket, a, &more);
    }
    if (rc == ERR_OK)
        rc = scrub_uploads(s, bucket);
    arena_free(&a);
    return rc;
}

static void
begin_pass(struct scrub *s)
{
    struct scrub_state *st = &s->state;

    assert(!s->state.running || s->state.asked);
    if (st->pass.number > 0)
        st->last = st->pass;
    st->pass = (struct scrub_pass){.number = st->pass.number + 1,
                                   .began_ms = (uint64_t)wall_ms()};
    st->bucket = 0;
    st->key_len = 0;
    st->running = true;
    s->due_ns = rt_now_ns();
    save(s);
}

static void
end_pass(struct scrub *s)
{
    struct scrub_pass *p = &s->state.pass;

    assert(s->state.running);
    assert(p->repaired <= p->findings);
    p->ended_ms = (uint64_t)wall_ms();
    s->state.running = s->state.asked = false;
    s->next_ms = (int64_t)p->began_ms + (int64_t)pass_ms(s);
    save(s);
    LOG(LOG_INFO, "scrub.pass", "everything that lives on this disk was read",
        L_TEXT("disk", rt_dir_path(s->disk->root)), L_U64("pass", p->number),
        L_U64("objects", p->objects), L_U64("bytes", p->bytes),
        L_U64("findings", p->findings), L_U64("repaired", p->repaired));
}

/* What it hides, or remembers of old, no pass over what its entries name would show. From then on it is not believed when it says
 * that a key is not there, and the next start rebuilds it. */
static enum err
scrub_index(struct scrub *s)
{
    struct store_key none = {.key = SPAN("")};
    struct errbuf eb = {0};
    enum err rc = scrub_read_index(s->disk, &s->stop, pace_index, s, &eb);

    if (rc != ERR_CORRUPT)
        return rc;
    found(s, &none, &(struct scrub_read){.what = "the index"}, FINDING_OPEN, eb.text);
    return ERR_OK;
}

/* Behind a start that has not read all of the index: nothing is given back before this is over. */
static enum err
prove_index(struct scrub *s)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && index_trust(s->disk->index) == STORE_INDEX_UNPROVEN &&
           !s->stop && !store_has_left(s->disk)) {
        rc = scrub_index(s);
        if (rc == ERR_OK || rc == ERR_CANCELLED)
            break;
        rc = rt_cond_wait(&s->wake, deadline_in_ms(AGAIN_MS));
        if (rc == ERR_TIMEOUT)
            rc = ERR_OK;
    }
    return rc;
}

/* ERR_OK: it is over. */
static enum err
run_pass(struct scrub *s)
{
    uint64_t bucket = s->state.bucket;
    /* Buckets are known by the index: what came before this pass has to be in it. One that takes nothing more is read
     * as far as it goes. */
    enum err rc = flush_wait(s->disk, NULL);

    if (rc != ERR_CANCELLED && bucket == 0 && s->state.key_len == 0)
        rc = scrub_index(s);
    if (rc == ERR_CANCELLED || rc == ERR_BUSY)
        return rc;
    rc = index_bucket(s->disk->index, bucket, &bucket, NULL);

    while (rc == ERR_OK) {
        rc = scrub_bucket(s, bucket);
        if (rc == ERR_OK && bucket++ == UINT64_MAX)
            break;
        if (rc == ERR_OK)
            rc = index_bucket(s->disk->index, bucket, &bucket, NULL);
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* ---- the fiber ---- */

/* Until the next pass, or a word. */
static enum err
wait_for_pass(struct scrub *s)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && !s->stop && !s->wanted) {
        int64_t left_ms = s->next_ms - wall_ms();

        if (left_ms <= 0)
            break;
        /* The wall clock may be set: it is looked at again now and then. */
        rc = rt_cond_wait(&s->wake, deadline_in_ms(MIN((uint64_t)left_ms, FIRST_MS)));
        if (rc == ERR_TIMEOUT)
            rc = ERR_OK;
    }
    return rc;
}

static void
schedule(struct scrub *s)
{
    if (s->state.running)
        s->next_ms = wall_ms() + (int64_t)MIN(RESUME_MS, pass_ms(s));
    else if (s->state.pass.number == 0)
        s->next_ms = wall_ms() + (int64_t)MIN(FIRST_MS, pass_ms(s));
    else
        s->next_ms = (int64_t)s->state.pass.began_ms + (int64_t)pass_ms(s);
}

static void
run(void *arg)
{
    struct scrub *s = arg;
    enum err rc = ERR_OK;

    rt_doing("scrub");
    rt_io_background(true);
    rc = prove_index(s);
    while (rc != ERR_CANCELLED && !s->stop && !store_has_left(s->disk)) {
        rc = wait_for_pass(s);
        if (rc == ERR_CANCELLED || s->stop)
            break;
        if (s->wanted || !s->state.running) {
            s->state.asked = s->wanted;
            s->wanted = false;
            begin_pass(s);
        }
        scrub_check(s);
        rc = run_pass(s);
        scrub_check(s);
        if (rc == ERR_OK)
            end_pass(s);
        else if (!s->wanted)
            s->next_ms = wall_ms() + (int64_t)AGAIN_MS;
        if (rc == ERR_CANCELLED && (s->wanted || s->stop))
            rc = ERR_OK; /* pace() ended for that reason */
    }
    rt_daemon_over(&s->daemon);
}

enum err
scrub_start(struct store *d, struct errbuf *eb)
{
    struct scrub *s = xcalloc(1, sizeof *s);
    enum err rc;

    assert(on_owner(d));
    assert(d->scrub == NULL);
    s->disk = d;
    s->findings = xcalloc(STORE_FINDINGS_MAX, sizeof *s->findings);
    rt_cond_init(&s->wake);
    d->scrub = s;
    load(s);
    schedule(s);
    rc = rt_daemon_start(&s->daemon, run, s);
    return rc == ERR_OK ? rc : err_set(eb, rc, "no fiber for the scrub");
}

void
scrub_stop(struct store *d)
{
    struct scrub *s = d->scrub;

    if (s == NULL)
        return;
    s->stop = true;
    rt_cond_broadcast(&s->wake);
    rt_daemon_join(&s->daemon);
    if (s->state.running)
        save(s);
}

void
scrub_free(struct scrub **sp)
{
    struct scrub *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    free(s->findings);
    free(s);
}

/* ---- for the rooms above ---- */

struct ask {
    struct store *disk;
    struct arena *arena;
    struct scrub_status *out;
    enum err rc;
};

static void
status_on_owner(void *arg)
{
    struct ask *q = arg;
    const struct scrub *s = q->disk->scrub;
    struct scrub_finding *copy = arena_try(q->arena, MAX(s->count, 1u) * sizeof *copy);

    assert(s != NULL);
    *q->out = (struct scrub_status){.running = s->state.running || s->wanted,
                                    .asked = s->state.asked,
                                    .total_bytes = all_bytes(q->disk),
                                    .rate = rate_of(s),
                                    .next_ms = s->next_ms,
                                    .pass = s->state.pass,
                                    .last = s->state.last,
                                    .findings = copy,
                                    .count = s->count};
    q->rc = copy != NULL ? ERR_OK : ERR_BUSY;
    for (uint32_t i = 0; copy != NULL && i < s->count; i++)
        copy[i] = s->findings[s->count - 1 - i];
}

enum err
store_scrub_status(struct store *d, struct arena *a, struct scrub_status *out,
                   struct errbuf *eb)
{
    struct ask q = {.disk = d, .arena = a, .out = out, .rc = ERR_OK};
    enum err rc = on_owner_loop(d, status_on_owner, &q);

    rc = rc == ERR_OK ? q.rc : rc;
    return rc == ERR_OK ? rc : err_set(eb, rc, "no memory for what the scrub found");
}

static void
start_on_owner(void *arg)
{
    struct ask *q = arg;
    struct scrub *s = q->disk->scrub;

    q->rc = s->daemon.running ? ERR_OK : ERR_CLOSED;
    s->wanted = true;
    rt_cond_broadcast(&s->wake);
}

enum err
store_scrub_start(struct store *d, struct errbuf *eb)
{
    struct ask q = {.disk = d, .rc = health_may_read(d->health, eb)};
    enum err rc = q.rc == ERR_OK ? on_owner_loop(d, start_on_owner, &q) : q.rc;

    if (rc != ERR_OK)
        return rc;
    return q.rc == ERR_OK ? ERR_OK
                          : err_set(eb, q.rc, "the scrub of this disk has ended");
}

void
store_on_damage(struct store *d, store_repair_fn *fn, void *arg)
{
    d->scrub->repair_arg = arg;
    d->scrub->repair = fn;
}
