/* batch: many objects and members in order; see batch.h. */
#include "shard/batch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rt/sync.h"

#define SLOT_ARENA_BYTES (256u << 10) /* of one open item: names and metadata */

enum slot_state { SLOT_FREE, SLOT_OPENING, SLOT_READY };

/* An item in the ring: slot `index % BATCH_AHEAD_ITEMS`.
 *
 * A reader that reads ahead has a fiber group of the fiber that reads: only that fiber may go on with it and close it. A worker
 * whose item has more than its first pieces therefore stays *tied* to the slot, and reads and closes when the batch's reader says so.
 */
struct slot {
    enum slot_state state;
    bool tied;                  /* a worker stays with it */
    bool want_more, want_close; /* what the worker is to do */
    enum err more;              /* the result of want_more */
    bool
        found; /* the object or member is there: ERR_NOT_FOUND means that it was replaced */
    uint32_t index;
    struct arena *arena;         /* owned; made for the first item of this slot */
    struct object_info info;     /* its texts lie in `arena` */
    struct object_get *get;      /* owned; of an object */
    struct shard_reader *member; /* owned; of a member */
    struct span pieces[BATCH_PIECES_MAX];
    unsigned count; /* of `pieces`, not handed out yet */
    uint64_t left;  /* bytes that were not handed out */
    uint64_t held;  /* counted in batch->held */
    struct batch_got got;
    struct errbuf eb;
};

struct batch {
    struct object_service *objects;
    struct shard_service *shards;
    const struct batch_item *items; /* borrowed */
    uint32_t count;
    uint32_t taken;    /* items whose opening has begun */
    uint32_t current;  /* the next item of batch_next() */
    uint32_t released; /* slots before it are free */
    uint64_t held;     /* bytes of first pieces in the ring */
    struct rt_group workers;
    struct rt_cond room; /* for workers: a slot or bytes were given back */
    struct rt_cond
        opened; /* for the reader: a slot is ready, or a tied worker has done its task */
    struct rt_cond tasks; /* for tied workers */
    bool ending;
    struct slot slots[BATCH_AHEAD_ITEMS];
};

static _Atomic unsigned running;

static void
batch_check(const struct batch *b)
{
    assert(b->released <= b->current);
    assert(b->current <= b->taken);
    assert(b->taken <= b->count);
    assert(b->taken - b->released <= BATCH_AHEAD_ITEMS);
}

static struct slot *
slot_of(struct batch *b, uint32_t index)
{
    return &b->slots[index % BATCH_AHEAD_ITEMS];
}

/* ---- opening an item ---- */

static void
slot_close(struct batch *b, struct slot *s)
{
    object_get_end(&s->get);
    shard_member_close(&s->member);
    assert(b->held >= s->held);
    b->held -= s->held;
    s->held = 0;
    s->count = 0;
    s->left = 0;
}

/* The range of the item in `whole` bytes. */
static enum err
slot_choose_range(const struct batch_item *it, struct slot *s, uint64_t whole)
{
    uint64_t len = it->len;

    s->got.whole = whole;
    if (it->first > whole || (len != BATCH_TO_END && len > whole - it->first))
        return err_set(&s->eb, ERR_RANGE,
                       "the range from %" PRIu64 " does not lie in %" PRIu64 " bytes",
                       it->first, whole);
    if (len == BATCH_TO_END)
        len = whole - it->first;
    s->got.size = s->left = len;
    return ERR_OK;
}

static enum err
slot_open_object(struct batch *b, const struct batch_item *it, struct slot *s)
{
    enum err rc;

    rc = object_get_begin(b->objects, it->bucket, it->key, s->arena, &s->info, &s->get,
                          &s->eb);
    s->found = rc == ERR_OK;
    if (rc == ERR_OK)
        rc = slot_choose_range(it, s, s->info.size);
    if (rc == ERR_OK)
        rc = object_get_range(s->get, it->first, s->left, &s->eb);
    s->got.mtime_ms = rc == ERR_OK ? s->info.mtime_ms : 0;
    return rc;
}

static enum err
slot_open_member(struct batch *b, const struct batch_item *it, struct slot *s)
{
    struct shard_ask ask = {.bucket = it->bucket, .key = it->key, .format = it->format};
    enum err rc = shard_member_open(b->shards, &ask, it->member, &s->member, &s->eb);

    s->found = rc == ERR_OK;
    if (rc == ERR_OK)
        rc = slot_choose_range(it, s, shard_member_size(s->member));
    if (rc == ERR_OK)
        rc = shard_member_range(s->member, it->first, s->left, &s->eb);
    if (rc == ERR_OK)
        s->got.mtime_ms = shard_member_archive(s->member)->mtime_ms;
    return rc;
}

/* The next pieces of an open item into s->pieces. */
static enum err
slot_refill(struct slot *s)
{
    uint64_t bytes = 0;
    enum err rc;

    assert(s->left > 0 && s->count == 0);
    rc = s->get != NULL ? object_get_next(s->get, DEADLINE_NEVER, &s->pieces[0], &s->eb)
                        : shard_member_next(s->member, &s->pieces[0], &s->eb);
    if (rc != ERR_OK)
        return rc;
    if (s->pieces[0].len == 0)
        return err_set(&s->eb, ERR_INCOMPLETE, "%" PRIu64 " bytes are missing", s->left);
    s->count = 1 + (s->get != NULL
                        ? object_get_more(s->get, s->pieces + 1, OBJECT_READ_MORE)
                        : shard_member_more(s->member, s->pieces + 1, OBJECT_READ_MORE));
    for (unsigned i = 0; i < s->count; i++)
        bytes += s->pieces[i].len;
    assert(bytes <= s->left);
    return ERR_OK;
}

/* Opens the item and reads its first pieces; what it finds stands in the slot. */
static void
slot_open(struct batch *b, struct slot *s)
{
    const struct batch_item *it = &b->items[s->index];
    struct rt_retries retries;
    enum err rc;

    assert(s->state == SLOT_OPENING);
    assert(s->get == NULL && s->member == NULL && s->held == 0);
    if (s->arena == NULL)
        s->arena = arena_new(2048, SLOT_ARENA_BYTES);
    rt_retries_begin(&retries);
    do { /* replaced between the lookup and the first read */
        slot_close(b, s);
        arena_reset(s->arena);
        s->got = (struct batch_got){.index = s->index};
        s->eb.text[0] = '\0';
        s->found = false;
        rc = it->member.at != NULL ? slot_open_member(b, it, s)
                                   : slot_open_object(b, it, s);
        if (rc == ERR_OK && s->left > 0)
            rc = slot_refill(s);
        if (rc != ERR_NOT_FOUND || !s->found)
            break;
    } while (rt_retry());
    rt_retries_end(&retries);
    if (rc == ERR_NOT_FOUND && s->found)
        rc = err_set(&s->eb, ERR_UNAVAILABLE,
                     "it was replaced again and again while it was read");
    s->got.status = rc;
    s->got.why = s->eb.text;
    if (rc != ERR_OK)
        slot_close(b, s);
    for (unsigned i = 0; i < s->count; i++)
        s->held += s->pieces[i].len;
    b->held += s->held;
    s->state = SLOT_READY;
}

/* Takes the next item that was not begun. */
static struct slot *
batch_open_next(struct batch *b)
{
    struct slot *s = slot_of(b, b->taken);

    assert(b->taken < b->count && s->state == SLOT_FREE);
    s->state = SLOT_OPENING;
    s->index = b->taken++;
    slot_open(b, s);
    return s;
}

/* Can another fiber close it? Its reader was read to the end of what it was opened for. */
static bool
slot_is_whole(const struct batch *b, const struct slot *s)
{
    uint64_t bytes = 0;

    if (s->get == NULL && s->member == NULL)
        return true;
    for (unsigned i = 0; i < s->count; i++)
        bytes += s->pieces[i].len;
    return bytes == s->left && (s->get != NULL || shard_member_is_plain(s->member)) &&
           !b->ending;
}

/* The worker's part of a tied slot, until it is closed. */
static void
slot_serve(struct batch *b, struct slot *s)
{
    assert(s->tied);
    while (!s->want_close) {
        if (s->want_more) {
            s->more = slot_refill(s);
            s->want_more = false;
            rt_cond_broadcast(&b->opened);
        } else if (rt_cond_wait(&b->tasks, DEADLINE_NEVER) != ERR_OK) {
            break;
        }
    }
    slot_close(b, s);
    s->tied = s->want_close = false;
    rt_cond_broadcast(&b->opened);
}

/* For the batch's reader: whatever the slot is, its reader is closed. */
static void
slot_let_close(struct batch *b, struct slot *s)
{
    struct rt_shield shield;

    if (!s->tied) {
        slot_close(b, s);
        return;
    }
    s->want_close = true;
    rt_cond_broadcast(&b->tasks);
    rt_shield_begin(&shield);
    while (s->tied)
        if (rt_cond_wait(&b->opened, DEADLINE_NEVER) != ERR_OK)
            break;
    rt_shield_end(&shield);
    assert(!s->tied);
}

static enum err
slot_let_refill(struct batch *b, struct slot *s)
{
    if (!s->tied)
        return slot_refill(s);
    s->want_more = true;
    rt_cond_broadcast(&b->tasks);
    while (s->tied && s->want_more) {
        enum err rc = rt_cond_wait(&b->opened, DEADLINE_NEVER);

        if (rc != ERR_OK)
            return rc;
    }
    return s->tied ? s->more : ERR_CANCELLED;
}

static bool
batch_has_room(const struct batch *b)
{
    return b->taken - b->released < BATCH_AHEAD_ITEMS &&
           (b->held < BATCH_AHEAD_BYTES || b->taken == b->current);
}

static void
batch_worker(void *arg)
{
    struct batch *b = arg;

    rt_doing("batch");
    while (!b->ending && b->taken < b->count) {
        if (batch_has_room(b)) {
            struct slot *s = batch_open_next(b);

            s->tied = !slot_is_whole(b, s);
            rt_cond_broadcast(&b->opened);
            if (s->tied)
                slot_serve(b, s);
        } else if (rt_cond_wait(&b->room, DEADLINE_NEVER) != ERR_OK) {
            break;
        }
    }
}

/* ---- the reader ---- */

enum err
batch_begin(struct object_service *objects, struct shard_service *shards,
            const struct batch_item *items, uint32_t count, struct batch **out,
            struct errbuf *eb)
{
    struct batch *b;

    *out = NULL;
    if (atomic_fetch_add(&running, 1) >= BATCH_RUNNING_MAX) {
        atomic_fetch_sub(&running, 1);
        return err_set(eb, ERR_BUSY, "%u batches are running, the limit",
                       BATCH_RUNNING_MAX);
    }
    b = xcalloc(1, sizeof *b);
    b->objects = objects;
    b->shards = shards;
    b->items = items;
    b->count = count;
    rt_cond_init(&b->room);
    rt_cond_init(&b->opened);
    rt_cond_init(&b->tasks);
    rt_group_begin(&b->workers);
    /* Fewer workers are slower; without one the reader opens its items itself. */
    for (uint32_t i = 0; i < MIN(BATCH_WORKERS, count); i++)
        if (rt_group_start(&b->workers, batch_worker, b) != ERR_OK)
            break;
    *out = b;
    return ERR_OK;
}

/* Waits until the item is open; opens it where no worker has begun. */
static enum err
batch_await(struct batch *b, struct slot *s)
{
    for (;;) {
        enum err rc;

        if (b->taken == b->current)
            batch_open_next(b);
        if (s->state == SLOT_READY)
            return ERR_OK;
        rc = rt_cond_wait(&b->opened, DEADLINE_NEVER);
        if (rc != ERR_OK)
            return rc;
    }
}

enum err
batch_next(struct batch *b, struct batch_got *got, bool *end, struct errbuf *eb)
{
    struct slot *s;
    enum err rc;

    *end = b->current == b->count;
    if (*end)
        return ERR_OK;
    batch_check(b);
    assert(b->current - b->released <
           BATCH_AHEAD_ITEMS); /* else batch_is_ready() said no */
    s = slot_of(b, b->current);
    rc = batch_await(b, s);
    if (rc != ERR_OK)
        return err_set(eb, rc, "the batch was cancelled");
    assert(s->index == b->current);
    if (s->got.status ==
        ERR_BUSY) { /* for want of buffers, which others have given back */
        batch_release(b);
        s->state = SLOT_OPENING;
        slot_open(b, s);
    }
    *got = s->got;
    b->current++;
    return ERR_OK;
}

bool
batch_is_ready(const struct batch *b)
{
    const struct slot *s = &b->slots[b->current % BATCH_AHEAD_ITEMS];

    return b->current < b->count && b->taken > b->current && s->state == SLOT_READY &&
           s->index == b->current && s->got.status != ERR_BUSY;
}

enum err
batch_read(struct batch *b, struct span pieces[BATCH_PIECES_MAX], unsigned *count,
           struct errbuf *eb)
{
    struct slot *s = slot_of(b, b->current - 1);
    enum err rc = ERR_OK;

    assert(b->current > b->released);
    assert(s->state == SLOT_READY && s->got.status == ERR_OK);
    *count = 0;
    if (s->left == 0)
        return ERR_OK;
    if (s->count == 0)
        rc = slot_let_refill(b, s);
    if (rc != ERR_OK)
        return err_set(eb, rc == ERR_NOT_FOUND ? ERR_IO : rc, "%s", s->eb.text);
    *count = s->count;
    for (unsigned i = 0; i < s->count; i++) {
        pieces[i] = s->pieces[i];
        s->left -= pieces[i].len;
    }
    s->count = 0;
    return ERR_OK;
}

void
batch_release(struct batch *b)
{
    /* The current item keeps its reader until it was read to its end. */
    while (b->released < b->current) {
        struct slot *s = slot_of(b, b->released);

        if (b->released + 1 == b->current && s->left > 0)
            break;
        assert(s->state == SLOT_READY);
        slot_let_close(b, s);
        s->state = SLOT_FREE;
        b->released++;
    }
    rt_cond_broadcast(&b->room);
}

void
batch_end(struct batch **bp)
{
    struct batch *b = *bp;

    *bp = NULL;
    if (b == NULL)
        return;
    b->ending = true;
    rt_group_cancel(&b->workers);
    rt_group_join(&b->workers);
    assert(b->workers.alive == 0);
    for (unsigned i = 0; i < BATCH_AHEAD_ITEMS; i++) {
        assert(b->slots[i].state != SLOT_OPENING && !b->slots[i].tied);
        slot_close(b, &b->slots[i]);
        arena_free(&b->slots[i].arena);
    }
    assert(b->held == 0);
    free(b);
    assert(atomic_load(&running) > 0);
    atomic_fetch_sub(&running, 1);
}
