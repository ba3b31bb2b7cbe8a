/* fetch_join: readers of a fetch (single-flight). A reader may run on another loop than the fetch: each step is
 * then a call to the owner loop, which copies the next piece into the reader's buffer. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "object/fetch.h"
#include "rt/loop.h"

struct fetch_reader {
    struct fetch *fetch; /* one reference, used on `owner` only */
    unsigned owner;
    bool keep;
    bool under_way;            /* the reader has had its first bytes */
    uint64_t hold_from;        /* bytes from here on wait until the fetch is proved */
    enum object_source source; /* as it was at the join */
    struct cloud_get *
        relay; /* owned, used on `owner` only: the answer of a fetch that cannot be kept, read in order */
};

struct join {
    struct object_service *s;
    const struct map_bucket *bucket;
    struct span key;
    struct arena *arena; /* of the reader, which waits meanwhile */
    struct object_info *info;
    struct fetch_reader *get;
    const struct fetch_chunk *chunk; /* NULL: the whole object */
    struct pace *prefetch;           /* borrowed; NULL: an ordinary read */
    enum fetch_join_result how;
    enum err rc;
    struct errbuf *eb;
};

/* Waits for a write of the key; joins a fetch, or starts one. */
static enum err
find_fetch(struct join *j, struct key_slot *slot, struct fetch **out)
{
    enum err rc;

    assert(*out == NULL);
    while (slot->writing) {
        rc = rt_cond_wait(&slot->changed, DEADLINE_NEVER);
        if (rc != ERR_OK)
            return err_set(j->eb, rc,
                           "the wait for a write of the same key was cancelled");
    }
    if (slot->fetch != NULL && slot->fetch->state != FETCH_FAILED &&
        !slot->fetch->obsolete && !fetch_is_overtaken(slot->fetch)) {
        *out = fetch_ref(slot->fetch);
        /* Proved means that all bytes are here: this reader waits for the disk, not for the backend. */
        j->get->source = slot->fetch->proved ? OBJECT_LOCAL : OBJECT_JOINED;
        return ERR_OK;
    }
    return fetch_start(j->s, j->bucket, slot, j->chunk, j->prefetch, out, j->eb);
}

static enum err
wait_for_head(struct fetch *f, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(f->refs > 0);
    assert(f->readers > 0);
    f->heads++;
    rt_run_woken(); /* it may have just begun: its request goes out first */
    /* An empty object has no last byte to hold back: its reader waits until it is proved. */
    while (rc == ERR_OK &&
           (f->state == FETCH_STARTING ||
            (f->state == FETCH_STREAMING && f->info.size == 0 && !f->proved)))
        rc = rt_cond_wait(&f->moved, DEADLINE_NEVER);
    assert(f->heads > 0);
    f->heads--;
    if (rc != ERR_OK && f->heads == 0)
        cloud_get_end(&f->spare); /* no reader is left to take it over */
    if (rc != ERR_OK)
        return err_set(eb, rc, "the wait for the backend was cancelled");
    if (f->state != FETCH_FAILED)
        return ERR_OK;
    *eb = f->eb;
    return f->rc;
}

/* Joins or starts the fetch, and counts the reader. */
static void
join_fetch(struct join *j)
{
    struct key_slot *slot = NULL;
    uint64_t space = j->chunk != NULL ? chunk_space(j->bucket->id) : j->bucket->id;
    struct fetch *f = NULL;

    assert(j->get->fetch == NULL);
    j->get->source = OBJECT_FETCHED;
    j->rc = key_slot_get(j->s, space, j->key, &slot, j->eb);
    if (j->rc == ERR_OK)
        j->rc = find_fetch(j, slot, &f);
    key_slot_drop(&slot);
    if (j->rc != ERR_OK)
        return;
    assert(f->refs > 0);
    assert(f->readers < f->refs);
    f->readers++;
    f->urgent = f->urgent || j->prefetch == NULL;
    j->get->fetch = f;
}

static void
leave_fetch(struct fetch_reader *g)
{
    assert(g->fetch != NULL);
    assert(g->fetch->readers > 0);
    fetch_reader_left(g->fetch);
    fetch_drop(&g->fetch);
}

/* When the object cannot be kept, the first reader takes over the open answer. */
static enum fetch_join_result
take_relay(struct fetch_reader *g)
{
    struct fetch *f = g->fetch;

    assert(f->state != FETCH_FAILED);
    assert(f->state != FETCH_STARTING);
    if (g->relay != NULL) /* this reader has it already */
        return FETCH_JOIN_READ;
    if (f->state == FETCH_LOCAL)
        return FETCH_JOIN_LOCAL;
    if (f->state != FETCH_BYPASS)
        return FETCH_JOIN_READ;
    g->source = OBJECT_BYPASS;
    g->relay = f->spare;
    f->spare = NULL;
    return g->relay != NULL ? FETCH_JOIN_READ : FETCH_JOIN_BYPASS;
}

static void
join_on_owner(void *arg)
{
    struct join *j = arg;
    struct fetch *f;

    assert(rt_loop_index() == j->get->owner);
    join_fetch(j);
    if (j->rc != ERR_OK)
        return;
    f = j->get->fetch;
    j->rc = wait_for_head(f, j->eb);
    if (j->rc == ERR_OK)
        j->how = take_relay(j->get);
    if (j->rc == ERR_OK && j->how == FETCH_JOIN_READ) {
        info_copy(j->arena, &f->info, j->info);
        j->info->source = j->get->source;
        return;
    }
    leave_fetch(j->get);
}

enum err
fetch_join(struct object_service *s, const struct map_bucket *b, struct span key,
           struct pace *prefetch, struct arena *a, struct object_info *info,
           struct fetch_reader **out, enum fetch_join_result *how, struct errbuf *eb)
{
    struct fetch_reader *g = xcalloc(1, sizeof *g);
    struct join j = {.s = s,
                     .bucket = b,
                     .key = key,
                     .prefetch = prefetch,
                     .arena = a,
                     .info = info,
                     .get = g,
                     .eb = eb};
    enum err rc;

    *out = NULL;
    memset(info, 0, sizeof *info);
    g->hold_from = UINT64_MAX;
    g->owner = key_owner_loop(b, key);
    rc = key_run_on_owner(g->owner, join_on_owner, &j);
    if (rc != ERR_OK)
        j.rc = err_set(eb, rc, "no fiber is free for the fetch");
    *how = j.how;
    if (j.rc == ERR_OK && j.how == FETCH_JOIN_READ)
        *out = g;
    else
        free(g);
    return j.rc;
}

/* ---- chunks ---- */

static void
enter_on_owner(void *arg)
{
    join_fetch(arg);
}

enum err
fetch_join_chunk_begin(struct object_service *s, const struct map_bucket *b,
                       const struct fetch_chunk *chunk, struct pace *prefetch,
                       struct fetch_reader **out, struct errbuf *eb)
{
    struct fetch_reader *g = xcalloc(1, sizeof *g);
    char name[STORE_KEY_MAX];
    struct join j = {
        .s = s, .bucket = b, .chunk = chunk, .prefetch = prefetch, .get = g, .eb = eb};
    enum err rc;

    assert(chunk->of.chunk_bytes > 0);
    assert(chunk->number < chunk_count(&chunk->of));
    *out = NULL;
    g->hold_from = UINT64_MAX;
    j.key = (struct span){name, chunk_name(&chunk->of, chunk->key, chunk->number, name)};
    g->owner = key_owner_loop(b, chunk->key);
    rc = key_run_on_owner(g->owner, enter_on_owner, &j);
    if (rc != ERR_OK)
        j.rc = err_set(eb, rc, "no fiber is free for the fetch");
    if (j.rc == ERR_OK)
        *out = g;
    else
        free(g);
    return j.rc;
}

struct await {
    struct fetch_reader *get;
    enum fetch_join_result how;
    enum err rc;
    struct errbuf *eb;
};

static void
await_on_owner(void *arg)
{
    struct await *w = arg;

    assert(rt_loop_index() == w->get->owner);
    assert(w->get->fetch != NULL);
    w->rc = wait_for_head(w->get->fetch, w->eb);
    if (w->rc == ERR_OK)
        w->how = take_relay(w->get);
}

enum err
fetch_join_chunk_await(struct fetch_reader *g, enum object_source *source,
                       enum fetch_join_result *how, struct errbuf *eb)
{
    struct await w = {.get = g, .eb = eb};
    enum err rc = key_run_on_owner(g->owner, await_on_owner, &w);

    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber is free for the fetch");
    *how = w.how;
    *source = g->source;
    return w.rc;
}

struct ask {
    struct fetch_reader *get;
    uint64_t landed;
    bool proved;
    struct arena *arena;
    struct span etag;
};

static void
query_on_owner(void *arg)
{
    struct ask *q = arg;

    assert(rt_loop_index() == q->get->owner);
    q->landed = fetch_visible(q->get->fetch);
    q->proved = q->get->fetch->proved || q->get->fetch->state == FETCH_KEPT;
    if (q->arena != NULL)
        q->etag = arena_span(q->arena, q->get->fetch->etag);
    if (q->get->keep)
        q->get->fetch->keep = true;
}

uint64_t
fetch_reader_landed(struct fetch_reader *g, bool *proved)
{
    struct ask q = {.get = g};
    bool asked = key_run_on_owner(g->owner, query_on_owner, &q) == ERR_OK;

    *proved = asked && q.proved;
    return asked ? q.landed : 0;
}

void
fetch_reader_hold(struct fetch_reader *g, uint64_t offset)
{
    assert(g->relay == NULL);
    g->hold_from = offset;
}

/* The number of bytes that this reader may see now. */
static uint64_t
reader_visible(const struct fetch_reader *g, const struct fetch *f)
{
    uint64_t visible = fetch_visible(f);

    return f->proved || f->state == FETCH_KEPT ? visible : MIN(visible, g->hold_from);
}

bool
fetch_reader_etag(struct fetch_reader *g, struct arena *a, struct span *out)
{
    struct ask q = {.get = g, .arena = a, .etag = {"", 0}};
    bool asked = key_run_on_owner(g->owner, query_on_owner, &q) == ERR_OK;

    *out = q.etag;
    return asked;
}

bool
fetch_reader_is_relay(const struct fetch_reader *g)
{
    return g->relay != NULL;
}

void
fetch_reader_keep(struct fetch_reader *g)
{
    bool proved;

    g->keep = true;
    (void)fetch_reader_landed(g, &proved);
}

struct read {
    struct fetch_reader *get;
    uint64_t offset;
    void *buf;
    size_t len, n;
    bool local;
    struct entry entry;
    enum err rc;
    struct errbuf *eb;
};

static void
read_on_owner(void *arg)
{
    struct read *r = arg;
    struct fetch *f = r->get->fetch;

    assert(rt_loop_index() == r->get->owner);
    assert(f != NULL);
    assert(r->len > 0);
    if (r->get->relay != NULL) {
        r->rc = cloud_get_read(r->get->relay, r->buf, r->len, &r->n, r->eb);
        if (r->rc == ERR_OK && r->n == 0)
            r->rc = err_set(r->eb, ERR_BACKEND, "the backend's answer ended early");
        return;
    }
    while (f->state == FETCH_STREAMING &&
           (f->sealed || reader_visible(r->get, f) <= r->offset)) {
        r->rc = rt_cond_wait(&f->moved, DEADLINE_NEVER);
        if (r->rc != ERR_OK) {
            err_set(r->eb, r->rc, "the wait for the backend was cancelled");
            return;
        }
    }
    if (f->state == FETCH_KEPT) {
        r->local = true;
        r->entry = f->entry;
        return;
    }
    if (f->state != FETCH_STREAMING) {
        *r->eb = f->eb;
        r->rc = f->rc != ERR_NOT_FOUND ? f->rc : ERR_BACKEND;
        return;
    }
    if (r->buf == NULL) {
        r->n = MIN(r->len, reader_visible(r->get, f) - r->offset);
        return;
    }
    if (f->first_piece != NULL) {
        r->n = MIN(r->len, reader_visible(r->get, f) - r->offset);
        memcpy(r->buf, f->first_piece + r->offset, r->n);
        return;
    }
    assert(f->writer != NULL);
    assert(r->offset < reader_visible(r->get, f));
    f->peeking++;
    r->rc = disks_write_peek(f->writer, r->offset, r->buf,
                             MIN(r->len, reader_visible(r->get, f) - r->offset), &r->n,
                             r->eb);
    f->peeking--;
    rt_cond_broadcast(&f->moved);
    if (r->rc == ERR_OK && r->n == 0)
        r->rc =
            err_set(r->eb, ERR_INTERNAL, "bytes that have landed cannot be read back");
    assert(r->n <= r->len);
}

enum err
fetch_reader_read(struct fetch_reader *g, uint64_t offset, void *buf, size_t len,
                  size_t *n, bool *local, struct entry *entry, struct errbuf *eb)
{
    struct read r = {.get = g, .offset = offset, .buf = buf, .len = len, .eb = eb};
    enum err rc = key_run_on_owner(g->owner, read_on_owner, &r);

    assert(offset < UINT64_MAX);
    assert(len > 0);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber is free for the fetch");
    g->under_way = true;
    *n = r.n;
    *local = r.local;
    if (r.local)
        *entry = r.entry;
    return r.rc;
}

static void
leave_on_owner(void *arg)
{
    struct fetch_reader *g = arg;

    assert(rt_loop_index() == g->owner);
    assert(g->fetch != NULL);
    cloud_get_end(&g->relay);
    leave_fetch(g);
}

/* A message, not a call: leaving cannot fail and must not wait. */
struct leave_msg {
    struct rt_msg msg;
    struct fetch_reader *get; /* owned */
};

static void
on_leave(struct rt_msg *msg)
{
    struct leave_msg *m = CONTAINER_OF(msg, struct leave_msg, msg);

    leave_on_owner(m->get);
    free(m->get);
    free(m);
}

void
fetch_reader_leave(struct fetch_reader **gp)
{
    struct fetch_reader *g = *gp;
    struct leave_msg *m;

    *gp = NULL;
    if (g == NULL)
        return;
    if (rt_loop_index() == g->owner) {
        leave_on_owner(g);
        free(g);
        return;
    }
    /* Closing a backend answer needs a fiber; such readers are few. */
    if (g->relay != NULL && key_run_on_owner(g->owner, leave_on_owner, g) == ERR_OK) {
        free(g);
        return;
    }
    m = xcalloc(1, sizeof *m);
    m->get = g;
    m->msg.fn = on_leave;
    rt_post(g->owner, &m->msg);
}
