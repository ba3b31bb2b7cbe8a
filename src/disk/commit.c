#include "disk/commit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "disk/carry.h"
#include "disk/change.h"
#include "disk/flush.h"
#include "disk/health.h"
#include "disk/judge.h"
#include "disk/known.h"
#include "disk/log.h"
#include "disk/space.h"
#include "disk/stencil.h"
#include "rt/point.h"

#define QUEUE_MAX 8192

struct committer {
    struct disk *disk;
    enum disk_class class;
    struct list queue; /* of struct commit */
    uint32_t queued;
    struct rt_cond wake;
    struct rt_daemon daemon;
    bool stop;

    /* Of the group at hand. */
    struct changes *changes;
    struct stencils *stencils; /* owned */
    struct buf scratch;
    struct commit *members[GROUP_MEMBERS]; /* in the group or answered with it */
    uint32_t count, written;
    struct iobuf *buf;
    uint32_t len;
    uint32_t carried; /* bytes of it that compaction writes */
    bool sync;
    struct member last;       /* the last one written, to be closed */
    uint32_t last_at;         /* its header in buf */
    struct span last_payload; /* its payload, the caller's */
};

/* ---- handing in ---- */

static void
answer(struct commit *c, enum err rc)
{
    c->rc = rc;
    rt_wake(&c->waiter); /* *c is gone from here on */
}

/* Whether the key is new is asked when its group is made: by then the answer is near. */
static void
expect(struct commit *c)
{
    const struct known *known = c->disk->home.known;

    c->key_hash = run_key_hash(c->key->bucket, c->key->key);
    if (known != NULL)
        known_prefetch(known, c->key_hash);
}

static void
enqueue(struct commit *c)
{
    struct committer *k = c->disk->committer[c->class];

    if (k == NULL || !k->daemon.running || k->stop) {
        (void)err_set(&c->eb, ERR_CLOSED, "the disk is closing");
        answer(c, ERR_CLOSED);
        return;
    }
    if (k->queued >= QUEUE_MAX) {
        (void)err_set(&c->eb, ERR_BUSY, "%u changes wait for the disk, at most %u",
                      k->queued, QUEUE_MAX);
        answer(c, ERR_BUSY);
        return;
    }
    expect(c);
    list_push_back(&k->queue, &c->in_queue);
    k->queued++;
    rt_cond_signal(&k->wake);
}

static void
on_message(struct rt_msg *m)
{
    enqueue(CONTAINER_OF(m, struct commit, msg));
}

enum err
commit_submit(struct disk *d, enum disk_class class, struct commit *c, struct errbuf *eb)
{
    c->rc = health_may_write(d->health, eb);
    if (c->rc != ERR_OK)
        return c->rc;
    c->disk = d;
    c->class = class;
    list_init(&c->in_queue);
    rt_waiter_init(&c->waiter);
    if (rt_loop_index() == d->o.home_loop) {
        enqueue(c);
    } else {
        c->msg = (struct rt_msg){.fn = on_message};
        rt_post(d->o.home_loop, &c->msg);
    }
    rt_wait(&c->waiter);
    if (c->rc != ERR_OK && eb != NULL)
        *eb = c->eb;
    return c->rc;
}

void
commit_start(struct disk *d, enum disk_class class, struct commit *c)
{
    c->disk = d;
    c->class = class;
    list_init(&c->in_queue);
    rt_waiter_init(&c->waiter);
    enqueue(c);
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

/* Records without a body of an object: nothing of them is named in tar. */
static bool
has_no_name(enum member_kind kind)
{
    return kind == MEMBER_BUCKET || kind == MEMBER_DELETE || kind == MEMBER_DOUBT ||
           kind == MEMBER_DOUBT_CLEAR || kind == MEMBER_TOMBSTONE ||
           kind == MEMBER_TOMBSTONE_END || kind == MEMBER_DECIDE ||
           kind == MEMBER_ABORT || kind == MEMBER_OBSOLETE ||
           kind == MEMBER_VERSION_DELETE;
}

static struct member
member_of(struct committer *k, struct commit *c)
{
    struct disk *d = k->disk;
    struct log *log = &d->home.log[k->class];
    struct member m = {.kind = c->kind,
                       .segment = log->now->id,
                       .generation = log->now->generation,
                       .offset = log->now->home.used + k->len,
                       .payload = c->payload.len,
                       .epoch = d->epoch,
                       .group = log->next_group,
                       .after_unsynced = k->class == DISK_NATIVE &&
                                         log->synced_group + 1 < log->next_group,
                       .unsynced = k->class == DISK_CACHED && k->written == 0
                                       ? log->synced_group + 1
                                       : 0,
                       .bucket = c->key->bucket,
                       .birth_name = c->key->birth_name,
                       .key = c->key->key,
                       .content = c->content,
                       .size = c->size,
                       .place = c->place,
                       .block_sums = c->block_sums,
                       .upload = c->upload,
                       .part = c->part,
                       .born = c->born,
                       .copy = c->copy,
                       .layout = c->layout,
                       .meta = c->meta};

    if (c->kind == MEMBER_BUCKET)
        m.payload_sum = hash_crc32c(0, c->payload.at, c->payload.len);
    if (has_no_name(c->kind))
        m.birth_name = (struct span){NULL, 0};
    m.version = c->version;
    if (c->carried != NULL && c->kind == MEMBER_MOVED)
        m.old_place = carry_old_place(c->carried);
    if (c->kind != MEMBER_UPLOAD_BEGIN && c->kind != MEMBER_PART &&
        c->kind != MEMBER_UPLOAD_ABORT && c->kind != MEMBER_ABORT &&
        !commit_has_version(c) && c->carried == NULL)
        m.version = (struct version){d->epoch, next_id(d)};
    return m;
}

/* The payload behind a header of `head` bytes, which stands at `at` in the buffer. */
static void
place_payload(struct committer *k, uint32_t at, uint32_t head, struct span payload)
{
    char *to = k->buf->at + at + head;

    if (payload.len > 0)
        memcpy(to, payload.at, payload.len);
    memset(to + payload.len, 0, align_up(payload.len, 512) - payload.len);
    k->len = at + head + (uint32_t)align_up(payload.len, 512);
}

/* Header from scratch and payload behind it. */
static void
place_member(struct committer *k, uint32_t at, struct span payload)
{
    memcpy(k->buf->at + at, k->scratch.at, k->scratch.len);
    place_payload(k, at, (uint32_t)k->scratch.len, payload);
}

static enum point
point_of(enum member_kind kind)
{
    switch ((unsigned)kind) {
    case MEMBER_PUT:
        return POINT_RECORD_PUT;
    case MEMBER_COMMIT:
        return POINT_RECORD_COMMIT;
    case MEMBER_DELETE:
    case MEMBER_TOMBSTONE:
        return POINT_RECORD_DELETE;
    case MEMBER_UPLOAD_BEGIN:
        return POINT_RECORD_UPLOAD_BEGIN;
    case MEMBER_PART:
        return POINT_RECORD_PART;
    case MEMBER_UPLOAD_COMPLETE:
        return POINT_RECORD_UPLOAD_COMPLETE;
    case MEMBER_UPLOAD_ABORT:
        return POINT_RECORD_UPLOAD_ABORT;
    case MEMBER_BUCKET:
        return POINT_RECORD_BUCKET;
    case MEMBER_DOUBT:
        return POINT_RECORD_DOUBT;
    case MEMBER_PREPARE:
        return POINT_RECORD_PREPARE;
    case MEMBER_DECIDE:
        return POINT_RECORD_DECIDE;
    default:
        return POINT_RECORD_OTHER;
    }
}

/* What was written is read back before anything believes it: the same bytes recovery will see. */
static enum err
encode_member(struct committer *k, const struct commit *c, struct member *m,
              struct member *again, struct row *row, struct errbuf *eb)
{
    size_t need;
    enum err rc = ERR_OK;

    buf_clear(&k->scratch);
    member_encode(m, 0, &k->scratch);
    if (k->scratch.full ||
        member_parse_placed(buf_span(&k->scratch), again, &need, eb) != MEMBER_GOOD)
        return err_set(eb, ERR_INTERNAL, "a record of kind \"%s\" does not read back",
                       member_kind_name(c->kind));
    memcpy(k->buf->at + k->len, k->scratch.at, k->scratch.len);
    if (m->kind != MEMBER_PUT)
        return rc;
    rc = member_row(again, k->class, row, eb);
    if (rc != ERR_OK)
        return rc;
    again->row = row;
    m->record = again->record;
    stencils_keep(k->stencils, m, buf_span(&k->scratch), row);
    return rc;
}

static enum err
write_member(struct committer *k, struct commit *c)
{
    struct member m = member_of(k, c), read, *again = &m;
    struct row row;
    enum err rc = ERR_OK;

    if (stencils_fill(k->stencils, k->class, &m, k->buf->at + k->len, &row)) {
        m.row = &row;
    } else {
        again = &read;
        rc = encode_member(k, c, &m, again, &row, &c->eb);
    }
    if (rc != ERR_OK)
        return rc;
    again->body = c->payload;
    again->key = c->key->key; /* the caller's outlives the group, scratch does not */
    c->decided = m.version;
    rc = changes_apply(k->changes, again, &c->row, &c->eb);
    if (rc != ERR_OK)
        return rc;
    m.row = NULL;
    k->last = m;
    k->last_at = k->len;
    k->last_payload = c->payload;
    place_payload(k, k->len, m.head_len, c->payload);
    if (c->carried != NULL)
        k->carried += k->len - k->last_at;
    k->written++;
    point_pass(point_of(c->kind));
    return ERR_OK;
}

/* Fills the last header up, so that the group ends at a multiple of 4 KiB, and marks it. */
static void
close_group(struct committer *k)
{
    uint64_t end;

    k->last.last = true;
    buf_clear(&k->scratch);
    member_encode(&k->last, 0, &k->scratch); /* the flag may have made it longer */
    end = k->last_at + k->scratch.len + align_up(k->last_payload.len, 512);
    if (end % DISK_ALIGN != 0) {
        uint32_t len = (uint32_t)(k->scratch.len + align_up(end, DISK_ALIGN) - end);

        buf_clear(&k->scratch);
        member_encode(&k->last, len, &k->scratch);
    }
    place_member(k, k->last_at, k->last_payload);
    assert(k->len % DISK_ALIGN == 0);
}

/* ---- one group ---- */

/* More than the member will take, filling included. */
static uint64_t
room_for(const struct commit *c)
{
    size_t meta = c->meta != NULL ? meta_len(c->meta) : 0;

    return 4096 + 2 * (c->key->key.len + c->key->birth_name.len) + meta +
           c->block_sums.len + align_up(c->payload.len, 512);
}

/* Takes as much from the queue as one group holds. */
static uint64_t
gather(struct committer *k)
{
    uint64_t bytes = DISK_ALIGN; /* the filling of the last */

    k->count = k->written = 0;
    k->len = k->carried = 0;
    k->sync = false;
    while (k->count < GROUP_MEMBERS && !list_empty(&k->queue)) {
        struct commit *c = LIST_ENTRY(k->queue.next, struct commit, in_queue);
        uint64_t more = room_for(c);

        if (k->count > 0 && bytes + more > GROUP_MAX)
            break;
        list_remove(&c->in_queue);
        k->queued--;
        bytes += more;
        k->members[k->count++] = c;
    }
    return align_up(bytes, DISK_ALIGN);
}

/* What comes after a deferred one waits with it: order of the queue is kept. */
static void
put_back(struct committer *k, uint32_t from)
{
    for (uint32_t i = k->count; i-- > from;) {
        list_push_front(&k->queue, &k->members[i]->in_queue);
        k->queued++;
    }
    k->count = from;
}

static void
fill_group(struct committer *k)
{
    for (uint32_t i = 0; i < k->count; i++) {
        struct commit *c = k->members[i];
        bool sync = false;
        enum verdict v;

        c->rc = ERR_OK;
        v = judge_change(k->changes, c, k->written, &sync);
        if (v == DEFERRED) {
            assert(i > 0);
            put_back(k, i);
            return;
        }
        if (v == WRITE) {
            c->rc = write_member(k, c);
            k->sync |= sync && c->rc == ERR_OK;
        }
    }
}

static void
answer_all(struct committer *k, enum err rc, const struct errbuf *eb, bool unknown)
{
    for (uint32_t i = 0; i < k->count; i++) {
        struct commit *c = k->members[i];

        if (rc != ERR_OK) {
            c->unknown = unknown && c->rc == ERR_OK;
            c->eb = *eb;
            answer(c, rc);
        } else {
            answer(c, c->rc);
        }
    }
    k->count = 0;
}

/* Beyond the limit where that is reached: those that wait for the group hold the other buffers. */
static enum err
group_buffer(uint32_t bytes, struct iobuf **out)
{
    enum err rc = iobuf_get_pinned(bytes, out);

    return rc == ERR_BUSY ? iobuf_get_beyond(bytes, out) : rc;
}

static void
commit_group(struct committer *k)
{
    struct disk *d = k->disk;
    struct errbuf eb = {0};
    uint64_t bytes = gather(k);
    enum err rc = log_room(d, k->class, bytes, &eb);

    if (rc == ERR_OK)
        rc = group_buffer((uint32_t)bytes + DISK_ALIGN, &k->buf);
    if (rc != ERR_OK) {
        if (rc == ERR_BUSY)
            (void)err_set(&eb, rc, "no buffer for a commit group of %" PRIu64 " bytes",
                          bytes);
        answer_all(k, rc, &eb, false);
        return;
    }
    fill_group(k);
    if (k->written > 0) {
        close_group(k);
        rc = log_append(d, k->class, k->buf, k->len, k->sync, &eb);
        if (rc == ERR_OK) {
            metric_add(M_DISK_COMMITS, 0, k->written);
            space_appended(d->space, SPACE_COMPACTION, k->carried);
            space_appended(d->space, SPACE_USER, k->len - k->carried);
            changes_publish(k->changes);
            POINT(COMMIT_VISIBLE);
        }
    }
    changes_forget(
        k->changes); /* nothing of a group that failed, or of a record that did */
    iobuf_drop(&k->buf);
    answer_all(k, rc, &eb, true);
    POINT(COMMIT_ANSWERED);
}

/* The tail has its limit: commits wait for the index rather than grow it. */
static enum err
wait_for_index(struct committer *k)
{
    struct errbuf eb = {0};
    enum err rc = ERR_OK;

    while (rc == ERR_OK && flush_is_behind(k->disk))
        rc = flush_wait(k->disk, &eb);
    if (rc == ERR_NO_SPACE) {
        (void)gather(k);
        answer_all(k, rc, &eb, false);
        return ERR_OK;
    }
    if (rc != ERR_OK && rc != ERR_CANCELLED) {
        (void)gather(k);
        (void)err_set(
            &eb, ERR_BUSY,
            "the index of this disk takes nothing; it is rebuilt at the next start");
        answer_all(k, ERR_BUSY, &eb, false);
        return ERR_OK;
    }
    return rc;
}

/* Bodies that shared a sync hand in their records one behind the other, in one turn of the loop. The committer goes first where it is
 * ready: the first of them would have a group of its own, and all others wait for that one's sync. */
static void
wait_for_bodies(const struct committer *k)
{
    const struct commit *c = LIST_ENTRY(k->queue.next, struct commit, in_queue);

    if (c->place.segment != 0 && rt_crowded())
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
            commit_group(k);
        rt_shield_end(&shield);
    }
    while (!list_empty(&k->queue)) {
        struct commit *c = LIST_ENTRY(list_pop_front(&k->queue), struct commit, in_queue);

        (void)err_set(&c->eb, ERR_CLOSED, "the disk is closing");
        answer(c, ERR_CLOSED);
    }
    rt_daemon_over(&k->daemon);
}

enum err
committer_start(struct disk *d, enum disk_class class, struct errbuf *eb)
{
    struct committer *k = xcalloc(1, sizeof *k);
    enum err rc;

    k->disk = d;
    k->class = class;
    list_init(&k->queue);
    rt_cond_init(&k->wake);
    buf_init(&k->scratch, HEAD_MAX);
    k->changes = changes_new(d, class);
    k->stencils = stencils_new();
    d->committer[class] = k;
    rc = rt_daemon_start(&k->daemon, committer_run, k);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber for the committer");
    return ERR_OK;
}

void
committer_stop(struct disk *d, enum disk_class class)
{
    struct committer *k = d->committer[class];

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
    stencils_free(&k->stencils);
    buf_fini(&k->scratch);
    free(k);
}
