/* cold: readers of a fetch. A reader may live on another loop than the fetch: then each step is a call to the home loop,
 * which copies the next piece into the reader's own buffer. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "object/fetch.h"
#include "rt/loop.h"

struct cold_get {
    struct fetch *fetch; /* one reference, touched on `home` only */
    unsigned home;
    bool keep;
    bool under_way; /* the reader has had its first bytes */
    struct cloud_get *
        relay; /* owned, used on `home` only: the answer of a fetch that cannot be kept, read in order */
};

struct join {
    struct object_service *s;
    const struct map_bucket *bucket;
    struct span key;
    struct arena *arena; /* the reader's, who waits meanwhile */
    struct object_info *info;
    struct cold_get *get;
    bool brought;
    bool bypass, local;
    struct row row;
    enum err rc;
    struct errbuf *eb;
};

/* Another write or fetch is in the way of nothing here: a write is waited for, a fetch is joined. */
static enum err
find_fetch(struct join *j, struct key_slot *slot, struct fetch **out)
{
    enum err rc;

    while (slot->writing) {
        rc = rt_cond_wait(&slot->changed, DEADLINE_NEVER);
        if (rc != ERR_OK)
            return err_set(j->eb, rc, "waiting for a write of the same key was given up");
    }
    if (slot->fetch != NULL && slot->fetch->state != FETCH_FAILED &&
        !slot->fetch->obsolete) {
        *out = fetch_ref(slot->fetch);
        /* Proved, it is all here: who comes now waits for our disk, not for the backend. */
        j->info->source = slot->fetch->proved ? OBJECT_LOCAL : OBJECT_JOINED;
        return ERR_OK;
    }
    return fetch_start(j->s, j->bucket, slot, j->brought, out, j->eb);
}

static enum err
wait_for_head(struct join *j, struct fetch *f)
{
    /* An empty object has no last byte to hold back: its reader waits until it is kept. */
    while (f->state == FETCH_STARTING ||
           (f->state == FETCH_STREAMING && f->info.size == 0)) {
        enum err rc = rt_cond_wait(&f->moved, DEADLINE_NEVER);

        if (rc != ERR_OK)
            return err_set(j->eb, rc, "waiting for the backend was given up");
    }
    if (f->state != FETCH_FAILED)
        return ERR_OK;
    *j->eb = f->eb;
    return f->rc;
}

static void
join_on_home(void *arg)
{
    struct join *j = arg;
    struct key_slot *slot = NULL;
    struct fetch *f = NULL;
    enum object_source source;

    j->info->source = OBJECT_COLD;
    j->rc = key_slot_get(j->s, j->bucket, j->key, &slot, j->eb);
    if (j->rc == ERR_OK)
        j->rc = find_fetch(j, slot, &f);
    key_slot_drop(&slot);
    if (j->rc != ERR_OK)
        return;
    source = j->info->source;
    f->readers++;
    j->rc = wait_for_head(j, f);
    if (f->state == FETCH_BYPASS) {
        j->get->relay = f->spare;
        f->spare = NULL;
        j->bypass = j->get->relay == NULL;
        source = OBJECT_BYPASS;
    }
    if (j->rc == ERR_OK && !j->bypass) {
        info_copy(j->arena, &f->info, j->info);
        j->info->source = source;
        j->get->fetch = f;
        return;
    }
    fetch_reader_left(f);
    fetch_drop(&f);
}

enum err
cold_join(struct object_service *s, const struct map_bucket *b, struct span key,
          bool brought, struct arena *a, struct object_info *info, struct cold_get **out,
          bool *bypass, struct errbuf *eb)
{
    struct cold_get *g = arena_alloc(a, sizeof *g);
    struct join j = {.s = s,
                     .bucket = b,
                     .key = key,
                     .brought = brought,
                     .arena = a,
                     .info = info,
                     .get = g,
                     .eb = eb};
    enum err rc;

    *out = NULL;
    memset(info, 0, sizeof *info);
    g->home = key_home(b, key);
    rc = key_on_home(g->home, join_on_home, &j);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber is free for the fetch");
    *bypass = j.bypass;
    if (j.rc == ERR_OK && !j.bypass)
        *out = g;
    return j.rc;
}

struct ask {
    struct cold_get *get;
    uint64_t landed;
    struct arena *arena;
    struct span etag;
};

static void
ask_on_home(void *arg)
{
    struct ask *q = arg;

    q->landed = fetch_visible(q->get->fetch);
    if (q->arena != NULL)
        q->etag = arena_span(q->arena, q->get->fetch->etag);
    if (q->get->keep)
        q->get->fetch->keep = true;
}

uint64_t
cold_landed(struct cold_get *g)
{
    struct ask q = {.get = g};

    return key_on_home(g->home, ask_on_home, &q) == ERR_OK ? q.landed : 0;
}

struct span
cold_etag(struct cold_get *g, struct arena *a)
{
    struct ask q = {.get = g, .arena = a, .etag = {"", 0}};

    /* Out of fibers there: without an ETag the range is asked for unconditionally. */
    return key_on_home(g->home, ask_on_home, &q) == ERR_OK ? q.etag
                                                           : (struct span){"", 0};
}

bool
cold_is_relay(const struct cold_get *g)
{
    return g->relay != NULL;
}

void
cold_keep(struct cold_get *g)
{
    g->keep = true;
    (void)cold_landed(g);
}

struct read {
    struct cold_get *get;
    uint64_t offset;
    void *buf;
    size_t len, n;
    bool patience_over;
    bool local;
    struct row row;
    enum err rc;
    struct errbuf *eb;
};

static void
read_on_home(void *arg)
{
    struct read *r = arg;
    struct fetch *f = r->get->fetch;

    if (r->get->relay != NULL) {
        r->rc = cloud_get_read(r->get->relay, r->buf, r->len, &r->n, r->eb);
        if (r->rc == ERR_OK && r->n == 0)
            r->rc = err_set(r->eb, ERR_BACKEND, "the backend's answer ended early");
        return;
    }
    while (f->state == FETCH_STREAMING && (f->sealed || fetch_visible(f) <= r->offset)) {
        r->rc = rt_cond_wait(&f->moved, DEADLINE_NEVER);
        if (r->rc != ERR_OK) {
            err_set(r->eb, r->rc, "waiting for the backend was given up");
            return;
        }
    }
    if (f->state == FETCH_KEPT) {
        r->local = true;
        r->row = f->row;
        return;
    }
    if (f->state != FETCH_STREAMING) {
        *r->eb = f->eb;
        r->rc = f->rc != ERR_NOT_FOUND ? f->rc : ERR_BACKEND;
        return;
    }
    if (f->early != NULL) {
        r->n = MIN(r->len, fetch_visible(f) - r->offset);
        memcpy(r->buf, f->early + r->offset, r->n);
        return;
    }
    f->peeking++;
    r->rc = disks_write_peek(f->writer, r->offset, r->buf,
                             MIN(r->len, fetch_visible(f) - r->offset), &r->n, r->eb);
    f->peeking--;
    rt_cond_broadcast(&f->moved);
    if (r->rc == ERR_OK && r->n == 0)
        r->rc =
            err_set(r->eb, ERR_INTERNAL, "bytes that have landed cannot be read back");
}

enum err
cold_read(struct cold_get *g, uint64_t offset, void *buf, size_t len, size_t *n,
          bool *local, struct row *row, struct errbuf *eb)
{
    struct read r = {.get = g, .offset = offset, .buf = buf, .len = len, .eb = eb};
    enum err rc = key_on_home(g->home, read_on_home, &r);

    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber is free for the fetch");
    g->under_way = true;
    *n = r.n;
    *local = r.local;
    if (r.local)
        *row = r.row;
    return r.rc;
}

static void
leave_on_home(void *arg)
{
    struct cold_get *g = arg;

    cloud_get_end(&g->relay);
    fetch_reader_left(g->fetch);
    fetch_drop(&g->fetch);
}

/* A message rather than a call: leaving cannot fail and must not wait. */
struct leave_msg {
    struct rt_msg msg;
    struct cold_get get;
};

static void
on_leave(struct rt_msg *msg)
{
    struct leave_msg *m = CONTAINER_OF(msg, struct leave_msg, msg);

    leave_on_home(&m->get);
    free(m);
}

void
cold_leave(struct cold_get **gp)
{
    struct cold_get *g = *gp;
    struct leave_msg *m;

    *gp = NULL;
    if (g == NULL || g->fetch == NULL)
        return;
    if (rt_loop_index() == g->home) {
        leave_on_home(g);
        return;
    }
    /* Ending an answer of the backend is a fiber's business; readers of it are few. */
    if (g->relay != NULL && key_on_home(g->home, leave_on_home, g) == ERR_OK)
        return;
    m = xcalloc(1, sizeof *m);
    m->get = *g;
    m->msg.fn = on_leave;
    g->fetch = NULL;
    rt_post(g->home, &m->msg);
}
