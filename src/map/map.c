#include "map/map.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "map/codec.h"
#include "rt/loop.h"
#include "rt/sync.h"

#define BUCKET_PREFIX "bucket/"
#define NEXT_ID_KEY   "next-bucket-id"
#define LIST_BYTES    MIB(64)

struct map {
    uint64_t serial;
    uint32_t count;
    const struct map_bucket *buckets[]; /* one reference each, in byte order of names */
};

struct map_service {
    struct meta *meta;
    _Atomic(struct map *) now;
    struct rt_sem change; /* on loop 0 only: one change at a time */
};

/* ---- buckets ---- */

const struct map_bucket *
map_bucket_ref(const struct map_bucket *b)
{
    __atomic_fetch_add(&((struct map_bucket *)(uintptr_t)b)->refs, 1, __ATOMIC_RELAXED);
    return b;
}

void
map_bucket_drop(const struct map_bucket **bp)
{
    struct map_bucket *b = (struct map_bucket *)(uintptr_t)*bp;

    *bp = NULL;
    if (b == NULL || __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    free(b->name);
    free(b->immutable_name);
    free(b->backend.endpoint);
    free(b->backend.region);
    free(b->backend.bucket);
    free(b->backend.credentials);
    free(b->cors);
    free(b->tags);
    for (unsigned i = 0; i < b->pin_count; i++)
        free(b->pins[i]);
    free(b->pins);
    free(b);
}

/* ---- snapshots ---- */

static void
map_free(void *arg)
{
    struct map *m = arg;

    for (uint32_t i = 0; i < m->count; i++)
        map_bucket_drop(&m->buckets[i]);
    free(m);
}

const struct map *
map_now(const struct map_service *s)
{
    return atomic_load_explicit(&s->now, memory_order_acquire);
}

uint64_t
map_serial(const struct map *m)
{
    return m->serial;
}

uint32_t
map_bucket_count(const struct map *m)
{
    return m->count;
}

const struct map_bucket *
map_bucket_at(const struct map *m, uint32_t index)
{
    assert(index < m->count);
    return m->buckets[index];
}

const struct map_bucket *
map_bucket_find(const struct map *m, struct span name)
{
    uint32_t low = 0, high = m->count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c = span_cmp(span_of(m->buckets[mid]->name), name);

        if (c == 0)
            return m->buckets[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* Reads every bucket record and publishes a new snapshot. On loop 0, in `change`. May switch. */
static enum err
reload(struct map_service *s, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), LIST_BYTES);
    struct meta_pair *pairs = NULL;
    struct map *m = NULL, *old;
    uint32_t count = 0;
    uint64_t revision;
    enum err rc =
        meta_list(s->meta, SPAN(BUCKET_PREFIX), a, &pairs, &count, &revision, eb);

    if (rc == ERR_OK) {
        m = xcalloc(1, sizeof *m + count * sizeof m->buckets[0]);
        for (; m->count < count && rc == ERR_OK; m->count += rc == ERR_OK) {
            struct map_bucket *b = NULL;

            rc = map_bucket_decode(pairs[m->count].value, &b, eb);
            m->buckets[m->count] = b;
        }
    }
    arena_free(&a);
    if (rc != ERR_OK) {
        if (m != NULL)
            map_free(m);
        return rc;
    }
    old = atomic_load_explicit(&s->now, memory_order_relaxed); /* `change` is held */
    m->serial = old != NULL ? old->serial + 1 : 1;
    atomic_store_explicit(&s->now, m, memory_order_release);
    if (old != NULL)
        rt_retire(map_free, old);
    return ERR_OK;
}

enum err
map_start(struct meta *meta, struct map_service **out, struct errbuf *eb)
{
    struct map_service *s = xcalloc(1, sizeof *s);
    enum err rc;

    assert(rt_loop_index() == 0);
    s->meta = meta;
    rt_sem_init(&s->change, 1);
    rc = reload(s, eb);
    if (rc != ERR_OK) {
        map_stop(&s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

void
map_stop(struct map_service **sp)
{
    struct map_service *s = *sp;
    struct map *m;

    *sp = NULL;
    if (s == NULL)
        return;
    m = atomic_load(&s->now);
    if (m != NULL)
        map_free(m);
    free(s);
}

/* ---- changes: run on loop 0, one at a time ---- */

struct change {
    struct map_service *s;
    struct span name;
    const struct map_backend *backend; /* create: NULL for native */
    int64_t now_ms;
    bool remove;
    uint64_t id; /* remove: the one that was seen empty; edit: the one that is meant */
    map_bucket_edit *edit; /* settings: what changes them */
    void *arg;
    const struct map_bucket *made; /* create, settings: one reference */
    enum err rc;
    struct errbuf eb;
};

static char *
dup_or_null(const char *s)
{
    return s != NULL ? xstrdup(s) : NULL;
}

static struct map_bucket *
bucket_new(const struct change *c, uint64_t id)
{
    struct map_bucket *b = xcalloc(1, sizeof *b);

    *b = (struct map_bucket){
        .refs = 1,
        .id = id,
        .name = xmemdup0(c->name.at, c->name.len),
        .immutable_name = xmemdup0(c->name.at, c->name.len),
        .created_ms = c->now_ms,
        .cached = c->backend != NULL,
    };
    if (c->backend != NULL)
        b->backend = (struct map_backend){
            .endpoint = dup_or_null(c->backend->endpoint),
            .region = dup_or_null(c->backend->region),
            .bucket = dup_or_null(c->backend->bucket),
            .credentials = dup_or_null(c->backend->credentials),
            .path_style = c->backend->path_style,
            .plain_http = c->backend->plain_http,
            .requester_pays = c->backend->requester_pays,
            .network = c->backend->network,
        };
    return b;
}

/* The next bucket id and the revision of the key that holds it. */
static enum err
next_id(struct map_service *s, struct arena *a, uint64_t *id, uint64_t *revision,
        struct errbuf *eb)
{
    struct meta_pair pair;
    struct cursor c;
    enum err rc = meta_get(s->meta, SPAN(NEXT_ID_KEY), a, &pair, eb);

    if (rc == ERR_NOT_FOUND) {
        *id = 1;
        *revision = 0;
        return ERR_OK;
    }
    if (rc != ERR_OK)
        return rc;
    c = cursor_of(pair.value.at, pair.value.len);
    *id = take_be(&c, 8);
    *revision = pair.revision;
    return c.bad || *id == 0
               ? err_set(eb, ERR_CORRUPT, "the counter of bucket ids is damaged")
               : ERR_OK;
}

static enum err
create_on_loop0(struct change *c, struct arena *a)
{
    struct map_bucket *b = NULL;
    struct meta_change changes[2];
    struct buf record, counter;
    uint64_t id, revision;
    enum err rc;

    if (map_bucket_find(map_now(c->s), c->name) != NULL)
        return err_set(&c->eb, ERR_EXISTS, "bucket \"%.*s\" exists", SPAN_ARG(c->name));
    if (map_bucket_count(map_now(c->s)) >= MAP_BUCKETS_MAX)
        return err_set(&c->eb, ERR_TOO_LARGE, "there are %u buckets, the limit",
                       MAP_BUCKETS_MAX);
    rc = next_id(c->s, a, &id, &revision, &c->eb);
    if (rc != ERR_OK)
        return rc;
    b = bucket_new(c, id);
    buf_init(&record, META_VALUE_MAX);
    buf_init(&counter, 8);
    map_bucket_encode(b, &record);
    buf_be(&counter, id + 1, 8);
    changes[0] = (struct meta_change){
        .key = span_of(arena_printf(a, BUCKET_PREFIX "%.*s", SPAN_ARG(c->name))),
        .value = buf_span(&record)};
    changes[1] = (struct meta_change){
        .key = SPAN(NEXT_ID_KEY), .value = buf_span(&counter), .if_revision = revision};
    rc = record.full ? err_set(&c->eb, ERR_TOO_LARGE,
                               "the bucket's settings are over %u bytes", META_VALUE_MAX)
                     : meta_apply(c->s->meta, changes, 2, NULL, &c->eb);
    if (rc == ERR_PRECONDITION)
        rc = err_set(&c->eb, ERR_EXISTS, "bucket \"%.*s\" exists", SPAN_ARG(c->name));
    if (rc == ERR_OK)
        rc = reload(c->s, &c->eb);
    if (rc == ERR_OK) {
        c->made = b;
        b = NULL;
    }
    buf_fini(&record);
    buf_fini(&counter);
    map_bucket_drop((const struct map_bucket **)&b);
    return rc;
}

static enum err
remove_on_loop0(struct change *c, struct arena *a)
{
    struct meta_change change = {
        .key = span_of(arena_printf(a, BUCKET_PREFIX "%.*s", SPAN_ARG(c->name))),
        .remove = true,
        .if_revision = META_ANY,
    };
    const struct map_bucket *b = map_bucket_find(map_now(c->s), c->name);
    enum err rc;

    if (b == NULL || b->id != c->id)
        return err_set(&c->eb, ERR_NO_BUCKET, "no bucket \"%.*s\"", SPAN_ARG(c->name));
    rc = meta_apply(c->s->meta, &change, 1, NULL, &c->eb);
    return rc == ERR_OK ? reload(c->s, &c->eb) : rc;
}

/* Through its record, so that the two can never differ. */
enum err
map_bucket_copy(const struct map_bucket *b, struct map_bucket **out, struct errbuf *eb)
{
    struct buf record;
    enum err rc;

    buf_init(&record, META_VALUE_MAX);
    map_bucket_encode(b, &record);
    rc = map_bucket_decode(buf_span(&record), out, eb);
    buf_fini(&record);
    return rc;
}

static enum err
edit_on_loop0(struct change *c, struct arena *a)
{
    const struct map_bucket *now = map_bucket_find(map_now(c->s), c->name);
    struct map_bucket *b = NULL;
    struct buf record;
    enum err rc;

    if (now == NULL || now->id != c->id)
        return err_set(&c->eb, ERR_NO_BUCKET, "no bucket \"%.*s\"", SPAN_ARG(c->name));
    rc = map_bucket_copy(now, &b, &c->eb);
    if (rc == ERR_OK)
        rc = c->edit(b, c->arg, &c->eb);
    buf_init(&record, META_VALUE_MAX);
    if (rc == ERR_OK) {
        struct meta_change change = {
            .key = span_of(arena_printf(a, BUCKET_PREFIX "%.*s", SPAN_ARG(c->name))),
            .if_revision = META_ANY, /* only this loop writes them, one at a time */
        };

        map_bucket_encode(b, &record);
        change.value = buf_span(&record);
        rc = record.full
                 ? err_set(&c->eb, ERR_TOO_LARGE,
                           "the bucket's settings are over %u bytes", META_VALUE_MAX)
                 : meta_apply(c->s->meta, &change, 1, NULL, &c->eb);
    }
    if (rc == ERR_OK)
        rc = reload(c->s, &c->eb);
    if (rc == ERR_OK) {
        c->made = b;
        b = NULL;
    }
    buf_fini(&record);
    map_bucket_drop((const struct map_bucket **)&b);
    return rc;
}

static void
change_on_loop0(void *arg)
{
    struct change *c = arg;
    struct arena *a;

    c->rc = rt_sem_acquire(&c->s->change, DEADLINE_NEVER);
    if (c->rc != ERR_OK) {
        err_set(&c->eb, c->rc, "changing the buckets was given up");
        return;
    }
    a = arena_new(KIB(4), LIST_BYTES);
    c->rc = c->remove         ? remove_on_loop0(c, a)
            : c->edit != NULL ? edit_on_loop0(c, a)
                              : create_on_loop0(c, a);
    arena_free(&a);
    rt_sem_release(&c->s->change);
}

static enum err
map_change_run(struct change *c, struct errbuf *eb)
{
    enum err rc = rt_call(0, change_on_loop0, c);

    if (rc != ERR_OK)
        return err_set(eb, rc, "the server is busy: no stack for the change of a bucket");
    if (c->rc != ERR_OK && eb != NULL)
        *eb = c->eb;
    return c->rc;
}

enum err
map_bucket_create(struct map_service *s, struct span name,
                  const struct map_backend *backend, int64_t now_ms,
                  const struct map_bucket **out, struct errbuf *eb)
{
    struct change c = {.s = s, .name = name, .backend = backend, .now_ms = now_ms};
    enum err rc;

    *out = NULL;
    if (name.len == 0 || name.len > MAP_BUCKET_NAME_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a bucket name of %zu bytes, 1 to %u are possible", name.len,
                       MAP_BUCKET_NAME_MAX);
    rc = map_change_run(&c, eb);
    *out = c.made;
    return rc;
}

enum err
map_bucket_remove(struct map_service *s, struct span name, uint64_t id, struct errbuf *eb)
{
    struct change c = {.s = s, .name = name, .remove = true, .id = id};

    return map_change_run(&c, eb);
}

enum err
map_bucket_change(struct map_service *s, struct span name, uint64_t id,
                  map_bucket_edit *change, void *arg, const struct map_bucket **out,
                  struct errbuf *eb)
{
    struct change c = {.s = s, .name = name, .id = id, .edit = change, .arg = arg};
    enum err rc = map_change_run(&c, eb);

    *out = c.made;
    return rc;
}
