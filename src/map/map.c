#include "map/map.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "map/codec.h"
#include "meta/follow.h"
#include "rt/loop.h"
#include "rt/sync.h"

#define BUCKET_PREFIX "bucket/"
#define NEXT_ID_KEY   "next-bucket-id"
#define LIST_BYTES    MIB(64)
#define CHANGE_TRIES  8u /* of a change that another node overtakes */

struct map {
    uint64_t serial;
    uint32_t count;
    bool has_policies;
    const struct map_bucket *buckets[]; /* one reference each, in byte order of names */
};

struct map_service {
    struct meta *meta;
    struct meta_follower *follower; /* owned; publishes `now` */
    _Atomic(struct map *) now;
    struct rt_sem change; /* on loop 0 only: one change of this node at a time */
};

/* ---- buckets ---- */

const struct map_bucket *
map_bucket_ref(const struct map_bucket *b)
{
    struct map_bucket *counted = (struct map_bucket *)(uintptr_t)b;
    uint32_t before = __atomic_fetch_add(&counted->refs, 1, __ATOMIC_RELAXED);

    assert(before > 0);
    return b;
}

void
map_bucket_drop(const struct map_bucket **bp)
{
    struct map_bucket *b = (struct map_bucket *)(uintptr_t)*bp;

    *bp = NULL;
    if (b == NULL || __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    free(b->ns);
    free(b->name);
    free(b->uname);
    free(b->immutable_name);
    free(b->backend.endpoint);
    free(b->backend.region);
    free(b->backend.bucket);
    free(b->backend.credentials);
    free(b->cors);
    free(b->tags);
    free(b->owner);
    free(b->acl);
    free(b->policy);
    s3policy_free((struct s3policy **)&b->parsed_policy);
    for (unsigned i = 0; i < b->pin_count; i++)
        free(b->pins[i]);
    free(b->pins);
    for (unsigned i = 0; i < b->property_count; i++)
        free(b->properties[i]);
    free(b->properties);
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

bool
map_has_policies(const struct map *m)
{
    return m->has_policies;
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

const char *
map_bucket_property(const struct map_bucket *b, const char *name)
{
    size_t len = strlen(name);

    assert(strchr(name, '=') == NULL);
    for (unsigned i = 0; i < b->property_count; i++)
        if (strncmp(b->properties[i], name, len) == 0 && b->properties[i][len] == '=')
            return b->properties[i] + len + 1;
    return NULL;
}

const char *
map_provider_name(enum map_provider p)
{
    static const char *const names[MAP_PROVIDERS_] = {
        [MAP_AIS] = "ais",     [MAP_AWS] = "aws", [MAP_GCP] = "gcp",
        [MAP_AZURE] = "azure", [MAP_HTTP] = "ht", [MAP_OCI] = "oci"};

    assert(p < MAP_PROVIDERS_);
    return names[p];
}

const struct map_bucket *
map_bucket_find(const struct map *m, struct span uname)
{
    uint32_t low = 0, high = m->count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c = span_cmp(span_of(m->buckets[mid]->uname), uname);

        if (c == 0)
            return m->buckets[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* Decodes the records into `m`, in byte order of names. */
static enum err
map_fill(struct map *m, const struct meta_pair *pairs, uint32_t count, struct errbuf *eb)
{
    for (; m->count < count; m->count++) {
        struct map_bucket *b = NULL;
        enum err rc = map_bucket_decode(pairs[m->count].value, &b, eb);

        if (rc != ERR_OK)
            return rc;
        b->revision = pairs[m->count].revision;
        assert(b->revision > 0);
        assert(b->refs == 1);
        assert(b->uname != NULL);
        m->buckets[m->count] = b;
        m->has_policies = m->has_policies || b->parsed_policy != NULL;
    }
    return ERR_OK;
}

/* Reads every bucket record and publishes a new snapshot. The follower calls it. May switch. */
static enum err
map_refresh(void *arg, uint64_t *revision, struct errbuf *eb)
{
    struct map_service *s = arg;
    struct arena *a = arena_new(KIB(64), LIST_BYTES);
    struct meta_pair *pairs = NULL;
    struct map *m, *old;
    uint32_t count = 0;
    enum err rc =
        meta_list(s->meta, SPAN(BUCKET_PREFIX), a, &pairs, &count, revision, eb);

    assert(s != NULL);
    assert(rt_loop_index() == 0);
    m = xcalloc(1, sizeof *m + count * sizeof m->buckets[0]);
    if (rc == ERR_OK)
        rc = map_fill(m, pairs, count, eb);
    arena_free(&a);
    if (rc != ERR_OK) {
        map_free(m);
        return rc;
    }
    old = atomic_load_explicit(&s->now, memory_order_relaxed);
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
    *out = NULL;
    s->meta = meta;
    rt_sem_init(&s->change, 1);
    rc = meta_follow_start(meta, SPAN(BUCKET_PREFIX), map_refresh, s, &s->follower, eb);
    if (rc != ERR_OK) {
        map_stop(&s);
        return rc;
    }
    assert(s->follower != NULL);
    assert(map_now(s) != NULL);
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
    meta_follow_stop(&s->follower);
    m = atomic_load(&s->now);
    if (m != NULL)
        map_free(m);
    free(s);
}

/* ---- changes: run on loop 0, one at a time ---- */

struct change {
    struct map_service *s;
    struct span uname;
    const struct map_bucket_id *as;         /* create */
    const struct map_backend *backend;      /* create: NULL for native */
    const struct map_bucket_access *access; /* create: NULL: no user in particular */
    int64_t now_ms;
    bool remove;
    uint64_t id; /* remove: the one that was seen empty; edit: the one that is meant */
    const struct map_bucket_id *to; /* rename: the new identity */
    struct span to_uname;
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

static char *
map_dup_span(struct span s)
{
    return s.len > 0 ? xmemdup0(s.at, s.len) : NULL;
}

static struct map_bucket *
bucket_new(const struct change *c, uint64_t id)
{
    struct map_bucket *b = xcalloc(1, sizeof *b);

    assert(id > 0);
    assert(c->as->name.len > 0);
    *b = (struct map_bucket){
        .refs = 1,
        .id = id,
        .provider = c->as->provider,
        .ns = xmemdup0(c->as->ns.at, c->as->ns.len),
        .name = xmemdup0(c->as->name.at, c->as->name.len),
        .qualified = c->as->qualified,
        .uname = xmemdup0(c->uname.at, c->uname.len),
        .immutable_name = xmemdup0(c->uname.at, c->uname.len),
        .created_ms = c->now_ms,
        .cached = c->backend != NULL,
    };
    if (c->access != NULL) {
        b->owner = map_dup_span(c->access->owner);
        b->acl = map_dup_span(c->access->acl);
        b->ownership = c->access->ownership;
    }
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

/* The counter is read before the list: what is made behind it raises it. */
enum err
map_bucket_fence(struct meta *m, struct arena *a, struct meta_change *fence, bool *native,
                 struct errbuf *eb)
{
    struct map_service s = {.meta = m};
    struct arena *list = arena_new(KIB(64), LIST_BYTES);
    struct meta_pair *pairs = NULL;
    struct map_bucket *b;
    uint64_t id = 0, revision;
    uint32_t count = 0;
    char *bytes = arena_alloc(a, 8);
    enum err rc;

    *native = false;
    *fence = (struct meta_change){.key = SPAN(NEXT_ID_KEY), .value = {bytes, 8}};
    rc = next_id(&s, a, &id, &fence->if_revision, eb);
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (char)(id >> (56 - 8 * i));
    if (rc == ERR_OK)
        rc = meta_list(m, SPAN(BUCKET_PREFIX), list, &pairs, &count, &revision, eb);
    for (uint32_t i = 0; rc == ERR_OK && i < count && !*native; i++) {
        rc = map_bucket_decode(pairs[i].value, &b, eb);
        if (rc == ERR_OK) {
            *native = !b->cached;
            map_bucket_drop((const struct map_bucket **)&b);
        }
    }
    assert(rc != ERR_OK || id > 0);
    arena_free(&list);
    return rc;
}

/* Writes the bucket `b`, and whatever `also` says, in one step, and waits until this node's map shows it. On ERR_OK
 * c->made owns `b`. ERR_PRECONDITION: *failed is the index of the change that no longer fits. May switch. */
static enum err
store_bucket(struct change *c, struct map_bucket *b, const struct meta_change *also,
             struct arena *a, uint32_t *failed)
{
    struct meta_change changes[2];
    struct meta_txn t = {.changes = changes, .change_count = also != NULL ? 2 : 1};
    struct meta_result result = {0};
    struct buf record;
    enum err rc;

    buf_init(&record, META_VALUE_MAX);
    map_bucket_encode(b, &record);
    changes[0] = (struct meta_change){
        .key = span_of(arena_printf(a, BUCKET_PREFIX "%s", b->uname)),
        .value = buf_span(&record),
        .if_revision = b->revision};
    if (also != NULL)
        changes[1] = *also;
    rc = record.full ? err_set(&c->eb, ERR_TOO_LARGE,
                               "the bucket's settings are over %u bytes", META_VALUE_MAX)
                     : meta_apply_txn(c->s->meta, &t, a, &result, &c->eb);
    buf_fini(&record);
    *failed = result.failed;
    if (rc == ERR_OK)
        rc = meta_follow_wait(c->s->follower, result.revision, &c->eb);
    if (rc != ERR_OK)
        return rc;
    assert(result.revision > b->revision);
    b->revision = result.revision;
    c->made = b;
    return ERR_OK;
}

/* ERR_BUSY: another node has taken the id. */
static enum err
create_once(struct change *c, struct arena *a)
{
    struct map_bucket *b;
    struct meta_change counter = {.key = SPAN(NEXT_ID_KEY)};
    struct buf next;
    uint64_t id;
    uint32_t failed = 0;
    enum err rc;

    assert(c->id == 0);
    if (map_bucket_find(map_now(c->s), c->uname) != NULL)
        return err_set(&c->eb, ERR_EXISTS, "bucket \"%.*s\" exists", SPAN_ARG(c->uname));
    if (map_bucket_count(map_now(c->s)) >= MAP_BUCKETS_MAX)
        return err_set(&c->eb, ERR_TOO_LARGE, "there are %u buckets, the limit",
                       MAP_BUCKETS_MAX);
    rc = next_id(c->s, a, &id, &counter.if_revision, &c->eb);
    if (rc != ERR_OK)
        return rc;
    b = bucket_new(c, id);
    assert(b->revision == 0); /* the key must not exist */
    buf_init(&next, 8);
    buf_be(&next, id + 1, 8);
    counter.value = buf_span(&next);
    rc = store_bucket(c, b, &counter, a, &failed);
    buf_fini(&next);
    if (rc != ERR_OK)
        map_bucket_drop((const struct map_bucket **)&b);
    if (rc != ERR_PRECONDITION)
        return rc;
    return failed == 0
               ? err_set(&c->eb, ERR_EXISTS, "bucket \"%.*s\" exists", SPAN_ARG(c->uname))
               : err_set(&c->eb, ERR_BUSY, "buckets are made too fast");
}

static enum err
create_on_loop0(struct change *c, struct arena *a)
{
    enum err rc = ERR_BUSY;

    for (unsigned i = 0; i < CHANGE_TRIES && rc == ERR_BUSY; i++)
        rc = create_once(c, a);
    return rc;
}

/* The bucket that is meant, as the map shows it now. */
static enum err
find_meant(struct change *c, const struct map_bucket **out)
{
    const struct map_bucket *b = map_bucket_find(map_now(c->s), c->uname);

    if (b == NULL || b->id != c->id)
        return err_set(&c->eb, ERR_NO_BUCKET, "no bucket \"%.*s\"", SPAN_ARG(c->uname));
    assert(b->revision > 0);
    *out = b;
    return ERR_OK;
}

static enum err
remove_once(struct change *c, struct arena *a)
{
    struct meta_change change = {
        .key = span_of(arena_printf(a, BUCKET_PREFIX "%.*s", SPAN_ARG(c->uname))),
        .remove = true,
    };
    const struct map_bucket *b;
    uint64_t revision = 0;
    enum err rc = find_meant(c, &b);

    assert(c->remove);
    if (rc != ERR_OK)
        return rc;
    change.if_revision = b->revision;
    rc = meta_apply(c->s->meta, &change, 1, &revision, &c->eb);
    return rc == ERR_OK ? meta_follow_wait(c->s->follower, revision, &c->eb) : rc;
}

/* Through its record, so that the two can never differ. */
enum err
map_bucket_copy(const struct map_bucket *b, struct map_bucket **out, struct errbuf *eb)
{
    struct buf record;
    enum err rc;

    assert(b->refs > 0);
    buf_init(&record, META_VALUE_MAX);
    map_bucket_encode(b, &record);
    rc = map_bucket_decode(buf_span(&record), out, eb);
    if (rc == ERR_OK)
        (*out)->revision = b->revision;
    buf_fini(&record);
    return rc;
}

static enum err
edit_once(struct change *c, struct arena *a)
{
    const struct map_bucket *now;
    struct map_bucket *b = NULL;
    uint32_t failed;
    enum err rc = find_meant(c, &now);

    assert(c->edit != NULL);
    if (rc == ERR_OK)
        rc = map_bucket_copy(now, &b, &c->eb);
    if (rc == ERR_OK)
        rc = c->edit(b, c->arg, &c->eb);
    assert(rc != ERR_OK || b->id == c->id); /* an edit changes settings, not what it is */
    if (rc == ERR_OK)
        rc = store_bucket(c, b, NULL, a, &failed);
    if (rc != ERR_OK)
        map_bucket_drop((const struct map_bucket **)&b);
    return rc;
}

/* The new name. The id and the name that placement hashes stay: no object moves. */
static void
bucket_set_name(struct map_bucket *b, const struct change *c)
{
    free(b->ns);
    free(b->name);
    free(b->uname);
    b->ns = xmemdup0(c->to->ns.at, c->to->ns.len);
    b->name = xmemdup0(c->to->name.at, c->to->name.len);
    b->uname = xmemdup0(c->to_uname.at, c->to_uname.len);
    b->qualified = c->to->qualified;
    b->revision = 0; /* its new key must not exist */
}

/* The record moves to another key, in one step. A policy names the bucket, and would no longer be readable. */
static enum err
rename_once(struct change *c, struct arena *a)
{
    struct meta_change old = {
        .key = span_of(arena_printf(a, BUCKET_PREFIX "%.*s", SPAN_ARG(c->uname))),
        .remove = true,
    };
    const struct map_bucket *now;
    struct map_bucket *b = NULL;
    uint32_t failed = 0;
    enum err rc = find_meant(c, &now);

    if (rc != ERR_OK)
        return rc;
    if (now->parsed_policy != NULL)
        return err_set(&c->eb, ERR_BAD_REQUEST,
                       "bucket \"%.*s\" has a policy, which names it: remove it first",
                       SPAN_ARG(c->uname));
    if (now->closing)
        return err_set(&c->eb, ERR_NO_BUCKET, "bucket \"%.*s\" is being removed",
                       SPAN_ARG(c->uname));
    if (map_bucket_find(map_now(c->s), c->to_uname) != NULL)
        return err_set(&c->eb, ERR_EXISTS, "bucket \"%.*s\" exists",
                       SPAN_ARG(c->to_uname));
    old.if_revision = now->revision;
    rc = map_bucket_copy(now, &b, &c->eb);
    if (rc != ERR_OK)
        return rc;
    assert(b->provider == c->to->provider);
    bucket_set_name(b, c);
    rc = store_bucket(c, b, &old, a, &failed);
    if (rc != ERR_OK)
        map_bucket_drop((const struct map_bucket **)&b);
    if (rc == ERR_PRECONDITION && failed == 0)
        return err_set(&c->eb, ERR_EXISTS, "bucket \"%.*s\" exists",
                       SPAN_ARG(c->to_uname));
    return rc;
}

/* Another node has changed the bucket since this one read it: the map shows that soon, and the change is made on what it
 * shows then. */
static enum err
edit_or_remove_on_loop0(struct change *c, struct arena *a)
{
    enum err rc = ERR_PRECONDITION;

    for (unsigned i = 0; i < CHANGE_TRIES && rc == ERR_PRECONDITION; i++) {
        rc = c->remove       ? remove_once(c, a)
             : c->to != NULL ? rename_once(c, a)
                             : edit_once(c, a);
        if (rc == ERR_PRECONDITION &&
            meta_follow_refresh(c->s->follower, &c->eb) != ERR_OK)
            return ERR_BUSY;
    }
    return rc == ERR_PRECONDITION
               ? err_set(&c->eb, ERR_BUSY, "the bucket is changed elsewhere; try again")
               : rc;
}

static void
change_on_loop0(void *arg)
{
    struct change *c = arg;
    struct arena *a;

    c->rc = rt_sem_acquire(&c->s->change, DEADLINE_NEVER);
    if (c->rc != ERR_OK) {
        err_set(&c->eb, c->rc, "the change of the bucket was cancelled");
        return;
    }
    a = arena_new(KIB(4), LIST_BYTES);
    c->rc = c->as == NULL ? edit_or_remove_on_loop0(c, a) : create_on_loop0(c, a);
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

static bool
is_plain(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!(s.at[i] >= 'a' && s.at[i] <= 'z') && !(s.at[i] >= 'A' && s.at[i] <= 'Z') &&
            !(s.at[i] >= '0' && s.at[i] <= '9') && strchr("-_.", s.at[i]) == NULL)
            return false;
    return true;
}

static enum err
check_identity(const struct map_bucket_id *id, struct errbuf *eb)
{
    assert(id->provider < MAP_PROVIDERS_);
    assert(id->qualified || id->ns.len == 0);
    if (id->name.len == 0 || id->name.len > MAP_BUCKET_NAME_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a bucket name of %zu bytes, 1 to %u are possible", id->name.len,
                       MAP_BUCKET_NAME_MAX);
    if (id->ns.len > MAP_NAMESPACE_MAX ||
        (id->qualified && (!is_plain(id->ns) || !is_plain(id->name))))
        return err_set(eb, ERR_BAD_REQUEST,
                       "bucket \"%.*s\" in namespace \"%.*s\": letters, digits, '-', '_' "
                       "and '.' are possible, at most %u of them",
                       SPAN_ARG(id->name), (int)MIN(id->ns.len, 100u), id->ns.at,
                       MAP_NAMESPACE_MAX);
    return ERR_OK;
}

enum err
map_bucket_create_for(struct map_service *s, const struct map_bucket_id *id,
                      const struct map_bucket_access *access,
                      const struct map_backend *backend, int64_t now_ms,
                      const struct map_bucket **out, struct errbuf *eb)
{
    struct change c = {
        .s = s, .as = id, .backend = backend, .access = access, .now_ms = now_ms};
    char uname[MAP_UNAME_MAX + 1];
    enum err rc;

    *out = NULL;
    rc = check_identity(id, eb);
    if (rc != ERR_OK)
        return rc;
    c.uname = map_uname(id, uname);
    rc = map_change_run(&c, eb);
    *out = c.made;
    return rc;
}

enum err
map_bucket_create_as(struct map_service *s, const struct map_bucket_id *id,
                     const struct map_backend *backend, int64_t now_ms,
                     const struct map_bucket **out, struct errbuf *eb)
{
    return map_bucket_create_for(s, id, NULL, backend, now_ms, out, eb);
}

enum err
map_bucket_create(struct map_service *s, struct span name,
                  const struct map_backend *backend, int64_t now_ms,
                  const struct map_bucket **out, struct errbuf *eb)
{
    struct map_bucket_id id = {
        .provider = map_provider_of(backend), .ns = SPAN(""), .name = name};

    return map_bucket_create_for(s, &id, NULL, backend, now_ms, out, eb);
}

static enum err
edit_closing(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    const bool *closing = arg;

    (void)eb;
    b->closing = *closing;
    return ERR_OK;
}

enum err
map_bucket_set_closing(struct map_service *s, const struct map_bucket *b, bool closing,
                       struct errbuf *eb)
{
    const struct map_bucket *changed = NULL;
    enum err rc = map_bucket_change(s, span_of(b->uname), b->id, edit_closing, &closing,
                                    &changed, eb);

    assert(rc != ERR_OK || changed->closing == closing);
    map_bucket_drop(&changed);
    return rc;
}

enum err
map_bucket_remove(struct map_service *s, struct span uname, uint64_t id,
                  struct errbuf *eb)
{
    struct change c = {.s = s, .uname = uname, .remove = true, .id = id};

    return map_change_run(&c, eb);
}

enum err
map_bucket_change(struct map_service *s, struct span name, uint64_t id,
                  map_bucket_edit *change, void *arg, const struct map_bucket **out,
                  struct errbuf *eb)
{
    struct change c = {.s = s, .uname = name, .id = id, .edit = change, .arg = arg};
    enum err rc = map_change_run(&c, eb);

    *out = c.made;
    return rc;
}

enum err
map_bucket_rename(struct map_service *s, const struct map_bucket *b,
                  const struct map_bucket_id *to, const struct map_bucket **out,
                  struct errbuf *eb)
{
    struct change c = {.s = s, .uname = span_of(b->uname), .id = b->id, .to = to};
    char uname[MAP_UNAME_MAX + 1];
    enum err rc = check_identity(to, eb);

    assert(!b->cached);
    assert(to->provider == b->provider);
    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    c.to_uname = map_uname(to, uname);
    rc = map_change_run(&c, eb);
    *out = c.made;
    return rc;
}
