#include "store/wal/commit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/health/health.h"
#include "store/index/key_filter.h"
#include "store/index/run.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/record/header_template.h"
#include "store/record/log_record.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/flush.h"
#include "store/wal/precondition.h"
#include "store/wal/wal.h"

#define QUEUE_MAX 8192

struct committer {
    struct store *disk;
    enum store_class class;
    struct list queue; /* of struct commit */
    uint32_t queued;
    struct rt_cond wake;
    struct rt_daemon daemon;
    bool stop;

    /* The current batch. */
    struct changes *changes;
    struct header_templates *header_templates; /* owned */
    struct buf scratch;
    struct commit *records[BATCH_RECORDS]; /* in the batch, or answered with it */
    uint32_t count, written;
    struct iobuf *buf;
    uint32_t len;
    uint32_t relocated; /* bytes of it that compaction writes */
    bool sync;
    struct log_record last;   /* the last record written; still open */
    uint32_t last_at;         /* its header in buf */
    struct span last_payload; /* its payload, the caller's */
};

/* Asserts the invariants that hold between two records. */
static void
committer_check(const struct committer *k)
{
    assert(k->disk != NULL && k->class < STORE_CLASSES_);
    assert(k->queued <= QUEUE_MAX + BATCH_RECORDS);
    assert((k->queued == 0) == list_empty(&k->queue));
    assert(k->count <= BATCH_RECORDS);
    assert(k->written <= k->count);
    assert(k->len % 512 == 0);
    assert(k->relocated <= k->len);
    assert((k->written == 0) == (k->len == 0));
    assert(!k->sync || k->written > 0);
}

/* ---- submitting ---- */

static void
commit_answer(struct commit *c, enum err rc)
{
    c->rc = rc;
    rt_wake(&c->waiter); /* may free *c */
}

/* Prefetches the filter rows of the key. The look-up follows when the batch is built; by then
 * they are in cache. */
static void
commit_expect(struct commit *c)
{
    const struct key_filter *key_filter = c->disk->key_filter;

    c->key_hash = run_key_hash(c->key->bucket, c->key->key);
    if (key_filter != NULL)
        key_filter_prefetch(key_filter, c->key_hash);
}

static void
commit_enqueue(struct commit *c)
{
    struct committer *k = c->disk->committer[c->class];

    assert(c->key != NULL);
    assert(on_owner(c->disk));
    assert(list_empty(&c->in_queue));
    if (k == NULL || !k->daemon.running || k->stop) {
        (void)err_set(&c->eb, ERR_CLOSED, "the disk is closing");
        commit_answer(c, ERR_CLOSED);
        return;
    }
    if (k->queued >= QUEUE_MAX) {
        (void)err_set(&c->eb, ERR_BUSY, "%u changes wait for the disk, at most %u",
                      k->queued, QUEUE_MAX);
        commit_answer(c, ERR_BUSY);
        return;
    }
    commit_expect(c);
    list_push_back(&k->queue, &c->in_queue);
    k->queued++;
    rt_cond_signal(&k->wake);
}

static void
on_message(struct rt_msg *m)
{
    commit_enqueue(CONTAINER_OF(m, struct commit, msg));
}

static enum err
submit_once(struct store *d, enum store_class class, struct commit *c, struct errbuf *eb)
{
    c->rc = health_may_write(d->health, eb);
    if (c->rc != ERR_OK)
        return c->rc;
    c->disk = d;
    c->class = class;
    c->late = false;
    list_init(&c->in_queue);
    rt_waiter_init(&c->waiter);
    if (rt_loop_index() == d->o.owner_loop) {
        commit_enqueue(c);
    } else {
        c->msg = (struct rt_msg){.fn = on_message};
        rt_post(d->o.owner_loop, &c->msg);
    }
    rt_wait(&c->waiter);
    if (c->rc != ERR_OK && eb != NULL)
        *eb = c->eb;
    return c->rc;
}

enum err
commit_submit(struct store *d, enum store_class class, struct commit *c,
              struct errbuf *eb)
{
    const struct object_meta *meta = c->meta;
    struct object_meta suspended = {.mtime_ms = (int64_t)(rt_wall_ns() / 1000000)};
    enum err rc;

    assert(class < STORE_CLASSES_);
    assert(c->kind != 0);
    rc = submit_once(d, class, c, eb);
    if (!c->late)
        return rc;
    if (meta != NULL)
        suspended = *meta;
    suspended.versioning = STORE_SUSPENDED;
    c->meta = &suspended;
    if (eb != NULL)
        *eb = (struct errbuf){0};
    rc = submit_once(d, class, c, eb);
    c->meta = meta;
    return rc;
}

void
commit_start(struct store *d, enum store_class class, struct commit *c)
{
    assert(on_owner(d));
    assert(c->kind != 0);
    c->disk = d;
    c->class = class;
    list_init(&c->in_queue);
    rt_waiter_init(&c->waiter);
    commit_enqueue(c);
}

enum err
commit_wait(struct commit *c, struct errbuf *eb)
{
    rt_wait(&c->waiter);
    if (c->rc != ERR_OK && eb != NULL)
        *eb = c->eb;
    return c->rc;
}

/* ---- writing ---- */

static struct log_record
commit_record_of(struct committer *k, struct commit *c)
{
    const struct commit_kind *kind = commit_kind_of(c->kind);
    struct store *d = k->disk;
    struct wal *log = &d->wals->of[k->class];
    struct log_record m = {.kind = c->kind,
                           .segment = log->now->id,
                           .generation = log->now->generation,
                           .offset = log->now->owner.used + k->len,
                           .payload = c->payload.len,
                           .epoch = d->epoch,
                           .batch = log->next_batch,
                           .after_unsynced = k->class == STORE_NATIVE &&
                                             log->synced_batch + 1 < log->next_batch,
                           .unsynced = k->class == STORE_CACHED && k->written == 0
                                           ? log->synced_batch + 1
                                           : 0,
                           .bucket = c->key->bucket,
                           .immutable_name = c->key->immutable_name,
                           .key = c->key->key,
                           .content = c->content,
                           .size = c->size,
                           .place = c->place,
                           .block_sums = c->block_sums,
                           .upload = c->upload,
                           .part = kind->arm == ARM_UPLOAD ? c->of.upload.part : 0,
                           .born = c->born,
                           .copy = kind->arm == ARM_UPLOAD && c->of.upload.copy,
                           .layout = c->layout,
                           .meta = c->meta};

    assert(c->class == k->class);
    assert(log->now != NULL);
    assert(c->payload.len <= STORE_INLINE_MAX || c->kind != LOG_RECORD_PUT);
    if (c->kind == LOG_RECORD_BUCKET)
        m.payload_sum = hash_crc32c(0, c->payload.at, c->payload.len);
    if (kind->is_unnamed)
        m.immutable_name = (struct span){NULL, 0};
    m.version = c->version;
    if (c->kind == LOG_RECORD_RELOCATED)
        m.old_place = c->old_place;
    if (!kind->needs_no_version && !commit_has_version(c) && c->relocation == NULL)
        m.version = version_mint(d);
    if (c->kind == LOG_RECORD_PREPARE) {
        m.coordinator = c->of.upload.coordinator;
        if (m.coordinator.node == 0)
            m.coordinator = (struct coordinator){d->o.node, m.version.epoch};
    }
    return m;
}

/* Appends the payload behind a header of `head` bytes that is at `at` in the buffer. */
static void
place_payload(struct committer *k, uint32_t at, uint32_t head, struct span payload)
{
    char *to = k->buf->at + at + head;

    assert(at + head + payload.len <= k->buf->room);
    if (payload.len > 0)
        memcpy(to, payload.at, payload.len);
    memset(to + payload.len, 0, align_up(payload.len, 512) - payload.len);
    k->len = at + head + (uint32_t)align_up(payload.len, 512);
}

/* Copies the header from scratch and appends the payload. */
static void
commit_place_record(struct committer *k, uint32_t at, struct span payload)
{
    memcpy(k->buf->at + at, k->scratch.at, k->scratch.len);
    place_payload(k, at, (uint32_t)k->scratch.len, payload);
}

/* Encodes the record and parses it again, so the memtable gets exactly what recovery will read. */
static enum err
commit_encode_record(struct committer *k, const struct commit *c, struct log_record *m,
                     struct log_record *again, struct entry *entry, struct errbuf *eb)
{
    size_t need;
    enum err rc = ERR_OK;

    buf_clear(&k->scratch);
    log_record_encode(m, 0, &k->scratch);
    if (k->scratch.full ||
        log_record_parse_placed(buf_span(&k->scratch), again, &need, eb) != LOG_RECORD_OK)
        return err_set(eb, ERR_INTERNAL, "a record of kind \"%s\" does not read back",
                       log_record_kind_name(c->kind));
    memcpy(k->buf->at + k->len, k->scratch.at, k->scratch.len);
    if (m->kind != LOG_RECORD_PUT)
        return rc;
    rc = record_entry(again, k->class, entry, eb);
    if (rc != ERR_OK)
        return rc;
    again->entry = entry;
    m->record = again->record;
    header_templates_keep(k->header_templates, m, buf_span(&k->scratch), entry);
    return rc;
}

/* What the record changes is listed apart from it (commit_close_native()). */
static void
commit_list_change(struct committer *k, const struct commit *c,
                   const struct log_record *m)
{
    char entry[SUSPECT_ENTRY_BYTES];
    uint64_t hash;
    uint32_t bucket;

    if (k->class != STORE_NATIVE || !suspect_of(m, c->key_hash, &hash, &bucket))
        return;
    suspect_put(entry, hash, bucket);
    buf_put(&k->disk->wals->digest, entry, sizeof entry);
    assert(!k->disk->wals->digest.full);
}

static enum err
commit_write_record(struct committer *k, struct commit *c)
{
    struct log_record m = commit_record_of(k, c), read, *again = &m;
    struct entry entry;
    enum err rc = ERR_OK;

    assert(k->written < BATCH_RECORDS);
    assert(c->rc == ERR_OK);
    if (header_templates_fill(k->header_templates, k->class, &m, k->buf->at + k->len,
                              &entry)) {
        m.entry = &entry;
    } else {
        again = &read;
        rc = commit_encode_record(k, c, &m, again, &entry, &c->eb);
    }
    if (rc != ERR_OK)
        return rc;
    again->body = c->payload;
    again->key = c->key->key; /* the caller's key outlives the batch, scratch does not */
    c->committed = m.version;
    rc = changes_apply(k->changes, again, &c->entry, &c->eb);
    if (rc != ERR_OK)
        return rc;
    m.entry = NULL;
    k->last = m;
    k->last_at = k->len;
    k->last_payload = c->payload;
    place_payload(k, k->len, m.head_len, c->payload);
    commit_list_change(k, c, &m);
    if (c->relocation != NULL)
        k->relocated += k->len - k->last_at;
    k->written++;
    point_pass(commit_kind_of(c->kind)->point);
    return ERR_OK;
}

/* Marks the last record as the end of the batch, and pads its header so that the batch ends at a
 * multiple of 4 KiB. */
static void
commit_close_batch(struct committer *k)
{
    uint64_t end;

    assert(k->written > 0);
    assert(k->last_at < k->len);
    assert(!k->last.last);
    k->last.last = true;
    buf_clear(&k->scratch);
    log_record_encode(&k->last, 0, &k->scratch); /* the flag may have made it longer */
    end = k->last_at + k->scratch.len + align_up(k->last_payload.len, 512);
    if (end % STORE_ALIGN != 0) {
        uint32_t len = (uint32_t)(k->scratch.len + align_up(end, STORE_ALIGN) - end);

        buf_clear(&k->scratch);
        log_record_encode(&k->last, len, &k->scratch);
    }
    commit_place_record(k, k->last_at, k->last_payload);
    assert(k->len % STORE_ALIGN == 0);
}

/* The last record of a native batch lists the keys that the batch and the one before it change, under a sum of its
 * own: damage elsewhere in them says which keys it concerns. */
static void
commit_close_native(struct committer *k)
{
    struct store *d = k->disk;
    struct wal *log = &d->wals->of[k->class];
    struct log_record m = {.kind = LOG_RECORD_KEYS,
                           .last = true,
                           .segment = log->now->id,
                           .generation = log->now->generation,
                           .offset = log->now->owner.used + k->len,
                           .epoch = d->epoch,
                           .batch = log->next_batch,
                           .after_unsynced = k->last.after_unsynced,
                           .version = version_latest(d),
                           .keys = buf_span(&d->wals->digest),
                           .keys_before = buf_span(&d->wals->digest_before)};
    uint32_t at = k->len;
    uint64_t end;

    assert(k->class == STORE_NATIVE);
    assert(!k->last.last);
    buf_clear(&k->scratch);
    log_record_encode(&m, 0, &k->scratch);
    end = at + k->scratch.len;
    if (end % STORE_ALIGN != 0) {
        uint32_t len = (uint32_t)(k->scratch.len + align_up(end, STORE_ALIGN) - end);

        buf_clear(&k->scratch);
        log_record_encode(&m, len, &k->scratch);
    }
    assert(!k->scratch.full);
    commit_place_record(k, at, (struct span){"", 0});
    assert(k->len % STORE_ALIGN == 0);
}

/* Bytes of the record that closes a batch, but for the list of its own changes. */
static uint64_t
room_for_close(const struct committer *k)
{
    return k->class == STORE_NATIVE
               ? STORE_ALIGN + 2048 + k->disk->wals->digest_before.len
               : STORE_ALIGN; /* padding of the last record */
}

/* ---- one batch ---- */

/* Upper bound of the bytes of a record, padding included. */
static uint64_t
room_for(const struct commit *c)
{
    size_t meta = c->meta != NULL ? meta_len(c->meta) : 0;

    return 4096 + 2 * (c->key->key.len + c->key->immutable_name.len) + meta +
           c->block_sums.len + align_up(c->payload.len, 512);
}

/* Takes changes from the queue until the batch is full. Returns the buffer size it needs. */
static uint64_t
commit_gather(struct committer *k)
{
    uint64_t bytes = room_for_close(k);
    uint32_t most = k->class == STORE_NATIVE ? BATCH_RECORDS - 1 : BATCH_RECORDS;

    k->count = k->written = 0;
    k->len = k->relocated = 0;
    k->sync = false;
    if (k->class == STORE_NATIVE)
        buf_clear(&k->disk->wals->digest);
    while (k->count < most && !list_empty(&k->queue)) {
        struct commit *c = LIST_ENTRY(k->queue.next, struct commit, in_queue);
        uint64_t more = room_for(c) + SUSPECT_ENTRY_BYTES;

        if (k->count > 0 && bytes + more > BATCH_MAX)
            break;
        list_remove(&c->in_queue);
        k->queued--;
        bytes += more;
        k->records[k->count++] = c;
    }
    return align_up(bytes, STORE_ALIGN);
}

/* Returns a deferred change and all after it to the queue, in order. */
static void
put_back(struct committer *k, uint32_t from)
{
    assert(from <= k->count);
    assert(from > 0);
    for (uint32_t i = k->count; i-- > from;) {
        list_push_front(&k->queue, &k->records[i]->in_queue);
        k->queued++;
    }
    k->count = from;
}

/* ---- the lease ---- */

static bool
lease_is_over(const struct store *d)
{
    return d->o.may_order != NULL && !d->o.may_order(d->o.may_order_arg);
}

/* A new state of a key, ordered by this node. What compaction, repair and eviction of cached objects write is not. */
static bool
commit_is_ordered(const struct commit *c)
{
    if (c->relocation != NULL || commit_has_version(c))
        return false;
    return c->kind == LOG_RECORD_PUT || c->kind == LOG_RECORD_COMMIT ||
           c->kind == LOG_RECORD_META || c->kind == LOG_RECORD_UPLOAD_COMPLETE ||
           c->kind == LOG_RECORD_PREPARE || c->kind == LOG_RECORD_VERSION_DELETE ||
           c->kind == LOG_RECORD_TOMBSTONE ||
           (c->kind == LOG_RECORD_DELETE && c->class == STORE_NATIVE);
}

static enum err
refuse_without_lease(struct commit *c, const char *outcome)
{
    return err_set(&c->eb, ERR_UNAVAILABLE,
                   "this node has no lease in its cluster: %s; try again", outcome);
}

/* The batch is durable, and the lease ended meanwhile: another node may order its keys already. */
static void
ordered_too_late(struct committer *k)
{
    for (uint32_t i = 0; i < k->count; i++) {
        struct commit *c = k->records[i];

        if (c->rc != ERR_OK || !commit_is_ordered(c))
            continue;
        c->rc = refuse_without_lease(c, "whether the change was made is unknown");
        c->unknown = true;
    }
}

static void
commit_fill_batch(struct committer *k)
{
    bool over = lease_is_over(k->disk);

    committer_check(k);
    assert(k->written == 0);
    for (uint32_t i = 0; i < k->count; i++) {
        struct commit *c = k->records[i];
        bool sync = false;
        enum verdict v;

        c->rc = ERR_OK;
        if (over && commit_is_ordered(c)) {
            c->rc = refuse_without_lease(c, "the change was not made");
            continue;
        }
        v = precondition_check(k->changes, c, k->written, &sync);
        if (v == VERDICT_DEFERRED) {
            assert(i > 0);
            put_back(k, i);
            return;
        }
        if (v == VERDICT_WRITE) {
            c->rc = commit_write_record(k, c);
            k->sync |= sync && c->rc == ERR_OK;
        }
    }
}

static void
answer_all(struct committer *k, enum err rc, const struct errbuf *eb, bool unknown)
{
    for (uint32_t i = 0; i < k->count; i++) {
        struct commit *c = k->records[i];

        if (rc != ERR_OK) {
            c->unknown = unknown && c->rc == ERR_OK;
            c->eb = *eb;
            commit_answer(c, rc);
        } else {
            commit_answer(c, c->rc);
        }
    }
    k->count = 0;
}

/* Gets a buffer, beyond the pool's limit if necessary: the fibers that wait for this batch may
 * hold all others. */
static enum err
commit_batch_buffer(uint32_t bytes, struct iobuf **out)
{
    enum err rc = iobuf_get_pinned(bytes, out);

    return rc == ERR_BUSY ? iobuf_get_beyond(bytes, out) : rc;
}

static void
commit_batch(struct committer *k)
{
    struct store *d = k->disk;
    struct errbuf eb = {0};
    uint64_t bytes = commit_gather(k);
    enum err rc = wal_reserve(d, k->class, bytes, &eb);

    if (rc == ERR_OK)
        rc = commit_batch_buffer((uint32_t)bytes + STORE_ALIGN, &k->buf);
    if (rc != ERR_OK) {
        if (rc == ERR_BUSY)
            (void)err_set(&eb, rc, "no buffer for a commit batch of %" PRIu64 " bytes",
                          bytes);
        answer_all(k, rc, &eb, false);
        return;
    }
    commit_fill_batch(k);
    committer_check(k);
    if (k->written > 0) {
        if (k->class == STORE_NATIVE)
            commit_close_native(k);
        else
            commit_close_batch(k);
        assert(k->len <= BATCH_MAX + STORE_ALIGN);
        rc = wal_append(d, k->class, k->buf, k->len, k->sync, &eb);
        if (rc == ERR_OK) {
            metric_add(M_DISK_COMMITS, 0, k->written);
            space_appended(d->space, SPACE_COMPACTION, k->relocated);
            space_appended(d->space, SPACE_USER, k->len - k->relocated);
            changes_publish(k->changes);
            POINT(COMMIT_VISIBLE);
            if (lease_is_over(d))
                ordered_too_late(k);
        }
    }
    changes_forget(
        k->changes); /* drops the effects of a failed batch, or of a failed record */
    iobuf_drop(&k->buf);
    answer_all(k, rc, &eb, true);
    POINT(COMMIT_ANSWERED);
}

/* Waits until the memtable is below its limit: commits must not grow it further. */
static enum err
wait_for_index(struct committer *k)
{
    struct errbuf eb = {0};
    enum err rc = ERR_OK;

    while (rc == ERR_OK && flush_is_behind(k->disk))
        rc = flush_wait(k->disk, &eb);
    if (rc == ERR_NO_SPACE) {
        (void)commit_gather(k);
        answer_all(k, rc, &eb, false);
        return ERR_OK;
    }
    if (rc != ERR_OK && rc != ERR_CANCELLED) {
        (void)commit_gather(k);
        (void)err_set(
            &eb, ERR_BUSY,
            "the index of this disk takes nothing; it is rebuilt at the next start");
        answer_all(k, ERR_BUSY, &eb, false);
        return ERR_OK;
    }
    return rc;
}

/* Lets the other ready fibers run first. Bodies that shared a sync submit their records in one
 * loop iteration. Without this yield the first would get a batch alone, and the others would
 * wait for its sync. */
static void
wait_for_bodies(const struct committer *k)
{
    const struct commit *c = LIST_ENTRY(k->queue.next, struct commit, in_queue);

    if (c->place.segment != 0 && rt_others_ready())
        rt_yield();
}

static void
committer_run(void *arg)
{
    struct committer *k = arg;
    enum err rc = ERR_OK;

    rt_doing("committer");
    rt_essential();
    while (rc == ERR_OK) {
        struct rt_shield shield;

        while (rc == ERR_OK && list_empty(&k->queue) && !k->stop)
            rc = rt_cond_wait(&k->wake, DEADLINE_NEVER);
        if (rc != ERR_OK || list_empty(&k->queue))
            break;
        rt_shield_begin(&shield);
        wait_for_bodies(k);
        rc = wait_for_index(k);
        if (rc == ERR_OK && !list_empty(&k->queue))
            commit_batch(k);
        rt_shield_end(&shield);
    }
    while (!list_empty(&k->queue)) {
        struct commit *c = LIST_ENTRY(list_pop_front(&k->queue), struct commit, in_queue);

        (void)err_set(&c->eb, ERR_CLOSED, "the disk is closing");
        commit_answer(c, ERR_CLOSED);
    }
    rt_daemon_over(&k->daemon);
}

enum err
committer_start(struct store *d, enum store_class class, struct errbuf *eb)
{
    struct committer *k = xcalloc(1, sizeof *k);
    enum err rc;

    assert(d->committer[class] == NULL);
    assert(on_owner(d));
    k->disk = d;
    k->class = class;
    list_init(&k->queue);
    rt_cond_init(&k->wake);
    buf_init(&k->scratch, HEAD_MAX);
    k->changes = changes_new(d, class);
    k->header_templates = header_templates_new();
    d->committer[class] = k;
    rc = rt_daemon_start(&k->daemon, committer_run, k);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber for the committer");
    return ERR_OK;
}

void
committer_stop(struct store *d, enum store_class class)
{
    struct committer *k = d->committer[class];

    assert(class < STORE_CLASSES_);
    if (k == NULL)
        return;
    k->stop = true;
    rt_cond_signal(&k->wake);
    rt_daemon_join(&k->daemon);
}

void
committer_free(struct committer **kp)
{
    struct committer *k = *kp;

    *kp = NULL;
    if (k == NULL)
        return;
    changes_free(&k->changes);
    header_templates_free(&k->header_templates);
    buf_fini(&k->scratch);
    free(k);
}
