#include "object/quota.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/numbered.h"

/* Of a bucket with a quota: there are few. */
struct on_its_way {
    struct numbered_entry head;
    _Atomic uint64_t bytes, objects;
};

struct numbered *
quotas_new(void)
{
    return numbered_new(256, sizeof(struct on_its_way));
}

void
quotas_free(struct numbered **qp)
{
    struct on_its_way *w = NULL;

    while (*qp != NULL && (w = numbered_next(*qp, w)) != NULL) {
        assert(atomic_load(&w->bytes) == 0);
        assert(atomic_load(&w->objects) == 0);
    }
    numbered_free(qp);
}

/* ---- what the bucket holds ---- */

struct held {
    uint64_t objects, bytes; /* older versions included; of parts of uploads, too */
    uint64_t older_bytes, open_bytes;
    uint64_t coming_objects, coming_bytes; /* claimed by others */
};

/* Reads usage in an order that misses nothing: what changes its kind is counted as the new kind before it is
 * removed from the old one (usage.c). So parts are read before the objects they become, and objects on both sides
 * of the older versions. */
static struct held
quota_usage(struct object_service *s, const struct map_bucket *b)
{
    struct disks *ds = s->options.disks;
    struct held h = {0};
    uint64_t older, parts, objects, bytes;

    disks_bucket_usage(ds, b->id, USAGE_OPEN, b->copies, &parts, &h.open_bytes);
    disks_bucket_usage(ds, b->id, USAGE_LIVE, b->copies, &objects, &bytes);
    disks_bucket_usage(ds, b->id, USAGE_OLDER, b->copies, &older, &h.older_bytes);
    disks_bucket_usage(ds, b->id, USAGE_LIVE, b->copies, &h.objects, &h.bytes);
    h.objects = MAX(h.objects, objects) + older;
    h.bytes = MAX(h.bytes, bytes) + h.older_bytes + h.open_bytes;
    return h;
}

/* What the key, or the part's number, holds now: the write replaces it. */
struct replaced {
    uint64_t bytes;
    bool object;
    bool any;
    struct content_id content;
};

static struct replaced
replaced_part(struct object_service *s, const struct disks_key *k,
              const struct quota_ask *ask)
{
    struct arena *a = arena_new(KIB(1), KIB(64));
    struct replaced r = {0};
    struct errbuf eb = {{0}};
    struct store_part *p;
    uint32_t count;
    bool more;

    assert(ask->upload != NULL);
    if (ask->part > 0 &&
        disks_part_list(s->options.disks, k, ask->upload, ask->part - 1, 1, a, &p, &count,
                        &more, &eb) == ERR_OK &&
        count > 0 && p->number == ask->part)
        r = (struct replaced){.bytes = p->size, .any = true};
    arena_free(&a);
    return r;
}

static struct replaced
replaced_by(struct object_service *s, const struct map_bucket *b,
            const struct quota_ask *ask)
{
    struct disks_key k = object_disk_key(b, ask->key);
    struct errbuf eb = {{0}};
    struct entry entry;

    if (ask->upload != NULL)
        return replaced_part(s, &k, ask);
    if (b->versioning == MAP_VERSIONED ||
        disks_lookup(s->options.disks, &k, &entry, &eb) != ERR_OK)
        return (struct replaced){
            0}; /* it stays as an older version; an entry that cannot be read counts as kept */
    if (b->versioning == MAP_SUSPENDED && !entry_is_null_version(&entry))
        return (struct replaced){0};
    return (struct replaced){
        .bytes = entry.size, .object = true, .any = true, .content = entry.content};
}

/* ---- claims ---- */

static uint64_t
size_of(const struct quota_ask *ask)
{
    return ask->size == STORE_SIZE_UNKNOWN ? 0 : ask->size;
}

static struct quota_claim
claim_for(struct on_its_way *of, const struct quota_ask *ask, const struct replaced *r)
{
    uint64_t size = size_of(ask);

    assert(of != NULL);
    assert(ask->count <= 1);
    return (struct quota_claim){.of = of,
                                .bytes = size > r->bytes ? size - r->bytes : 0,
                                .objects =
                                    ask->count - (ask->count > 0 && r->object ? 1u : 0u),
                                .leans_bytes = r->bytes,
                                .leans = r->any,
                                .leans_on_object = r->object,
                                .content = r->content};
}

static bool
objects_are_over(const struct map_bucket *b, const struct quota_ask *ask,
                 const struct replaced *r, const struct held *h)
{
    uint64_t there = h->objects - (r->object && h->objects > 0 ? 1u : 0u);

    return b->quota_objects > 0 && ask->count > 0 &&
           there + h->coming_objects + ask->count > b->quota_objects;
}

static bool
bytes_are_over(const struct map_bucket *b, const struct quota_ask *ask,
               const struct replaced *r, const struct held *h)
{
    uint64_t all = h->bytes - MIN(h->bytes, r->bytes) + h->coming_bytes;

    return b->quota_bytes > 0 && !ask->counted &&
           (all > b->quota_bytes || size_of(ask) > b->quota_bytes - all);
}

static bool
is_over(const struct map_bucket *b, const struct quota_ask *ask, const struct replaced *r,
        const struct held *h)
{
    return objects_are_over(b, ask, r, h) || bytes_are_over(b, ask, r, h);
}

/* Replaces the claim `mine` by `more`, and returns what others had claimed before. The numbers wrap: a smaller
 * claim adds a negative number. */
static struct held
quota_announce(struct object_service *s, const struct map_bucket *b, struct on_its_way *w,
               const struct quota_claim *mine, const struct quota_claim *more)
{
    uint64_t bytes = atomic_fetch_add(&w->bytes, more->bytes - mine->bytes),
             objects = atomic_fetch_add(&w->objects, more->objects - mine->objects);
    struct held h = quota_usage(
        s, b); /* after the claim: what has been committed by then is in here */

    assert(mine->of == NULL || mine->of == w);
    h.coming_bytes = bytes - mine->bytes;
    h.coming_objects = objects - mine->objects;
    return h;
}

static enum err
quota_error(const struct map_bucket *b, const struct quota_ask *ask,
            const struct replaced *r, const struct held *h, struct errbuf *eb)
{
    assert(b->quota_bytes > 0 || b->quota_objects > 0);
    if (objects_are_over(b, ask, r, h))
        return err_set(eb, ERR_QUOTA,
                       "bucket \"%s\" holds %" PRIu64
                       " objects, older versions counted, and %" PRIu64
                       " are on their way; its quota is %" PRIu64
                       " (forebay bucket set --quota-objects)",
                       b->name, h->objects, h->coming_objects, b->quota_objects);
    return err_set(
        eb, ERR_QUOTA,
        "bucket \"%s\" holds %" PRIu64 " bytes, %" PRIu64
        " of them of older versions and %" PRIu64 " of uploads in progress, and %" PRIu64
        " are on their way; with %" PRIu64 " more it would be over its quota of %" PRIu64
        " (forebay bucket set --quota-bytes)",
        b->name, h->bytes, h->older_bytes, h->open_bytes, h->coming_bytes, size_of(ask),
        b->quota_bytes);
}

enum err
quota_claim(struct object_service *s, const struct map_bucket *b,
            const struct quota_ask *ask, struct quota_claim *claim, struct errbuf *eb)
{
    struct replaced r = {0};
    struct on_its_way *w;
    struct held h;

    if (b->quota_bytes == 0 && b->quota_objects == 0)
        return ERR_OK;
    w = numbered_make(s->quotas, b->id);
    assert(claim->of == NULL || claim->of == w);
    for (int i = 0; i < 2; i++) {
        struct quota_claim want;

        if (i == 1)
            r = replaced_by(s, b, ask);
        want = claim_for(w, ask, &r);
        /* A write that does not fit anyway is not claimed: it would only block writes that do. */
        h = quota_announce(s, b, w, claim, claim);
        if (is_over(b, ask, &r, &h))
            continue;
        h = quota_announce(s, b, w, claim, &want);
        if (!is_over(b, ask, &r, &h)) {
            *claim = want;
            return ERR_OK;
        }
        (void)quota_announce(s, b, w, &want, claim);
    }
    return quota_error(b, ask, &r, &h, eb);
}

enum err
quota_confirm(struct object_service *s, const struct map_bucket *b,
              const struct quota_ask *ask, struct quota_claim *claim, struct errbuf *eb)
{
    struct replaced now;

    assert(claim->leans || claim->leans_bytes == 0);
    assert(ask->size != STORE_SIZE_UNKNOWN);
    if (!claim->leans)
        return ERR_OK;
    now = replaced_by(s, b, ask);
    claim->content = now.content;
    return now.any && now.bytes >= claim->leans_bytes ? ERR_OK
                                                      : quota_claim(s, b, ask, claim, eb);
}

const struct store_condition *
quota_condition(const struct quota_claim *claim, const struct store_condition *c,
                struct store_condition *room)
{
    assert(!claim->leans_on_object || claim->leans);
    if (!claim->leans_on_object)
        return c;
    *room = c != NULL ? *c : (struct store_condition){0};
    room->if_content = true;
    room->content = claim->content;
    return room;
}

enum err
quota_explain(struct object_service *s, const struct map_bucket *b, struct span key,
              const struct quota_claim *claim, enum err rc, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct entry entry;

    if (!claim->leans_on_object || (rc != ERR_PRECONDITION && rc != ERR_NOT_FOUND) ||
        (disks_lookup(s->options.disks, &k, &entry, NULL) == ERR_OK &&
         memcmp(&entry.content, &claim->content, sizeof entry.content) == 0))
        return rc;
    return err_set(
        eb, ERR_BUSY,
        "bucket \"%s\" is at its quota, and the object whose place this one was to "
        "take has changed meanwhile",
        b->name);
}

void
quota_release(struct quota_claim *claim)
{
    if (claim->of != NULL) {
        assert(atomic_load(&claim->of->bytes) >= claim->bytes);
        assert(atomic_load(&claim->of->objects) >= claim->objects);
        atomic_fetch_sub(&claim->of->bytes, claim->bytes);
        atomic_fetch_sub(&claim->of->objects, claim->objects);
    }
    *claim = (struct quota_claim){0};
}
