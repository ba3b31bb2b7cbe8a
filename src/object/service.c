#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "object/hasher.h"
#include "object/list_prefetch.h"
#include "object/quota.h"
#include "object/readahead.h"
#include "object/revalidate.h"
#include "object/tier.h"
#include "object/upload_expiry.h"
#include "rt/fiber.h"
#include "rt/loop.h"

static void reopen_closing(struct object_service *s);

enum err
object_start(const struct object_options *o, struct object_service **out,
             struct errbuf *eb)
{
    struct object_service *s = xcalloc(1, sizeof *s);
    enum err rc;

    s->options = *o;
    s->hashing = xcalloc(rt_loop_count(), sizeof *s->hashing);
    for (unsigned i = 0; i < rt_loop_count(); i++)
        hashing_init(&s->hashing[i]);
    if (s->options.cache_high == 0 || s->options.cache_high > 100)
        s->options.cache_high = 97;
    if (s->options.cache_low == 0 || s->options.cache_low > s->options.cache_high)
        s->options.cache_low = s->options.cache_high - MIN(2u, s->options.cache_high - 1);
    if (s->options.chunk_bytes == 0)
        s->options.chunk_bytes = MIB(16);
    if (s->options.large_bytes == 0)
        s->options.large_bytes = MIB(64);
    s->revalidate = revalidate_new(s->options.nodes != NULL);
    s->readahead = readahead_new(s->options.readahead);
    s->list_prefetch = list_prefetch_new();
    s->quotas = quotas_new();
    upload_expiry_start(s);
    rc = key_tables_start(s);
    if (rc == ERR_OK)
        rc = tier_start(s, eb);
    if (rc != ERR_OK) {
        object_stop(&s);
        return err_set(eb, rc, "starting the object service");
    }
    reopen_closing(s);
    *out = s;
    return ERR_OK;
}

void
object_watch(struct object_service *s, object_on_change *on_change, void *arg)
{
    s->on_change = on_change;
    s->on_change_arg = arg;
}

void
object_stop(struct object_service **sp)
{
    struct object_service *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    if (s->keys != NULL)
        object_end_fetches(s);
    readahead_free(&s->readahead);
    list_prefetch_free(&s->list_prefetch);
    key_tables_stop(s);
    tier_stop(s);
    upload_expiry_stop(s);
    revalidate_free(&s->revalidate);
    quotas_free(&s->quotas);
    free(s->hashing);
    free(s);
}

enum err
object_busy(struct errbuf *eb, const char *doing)
{
    return err_set(eb, ERR_BUSY,
                   "the object was changed more than %u times while it was %s",
                   RT_RETRIES, doing);
}

struct disks_key
object_disk_key(const struct map_bucket *b, struct span key)
{
    return (struct disks_key){
        .at = {.bucket = b->id, .immutable_name = span_of(b->immutable_name), .key = key},
        .copies = b->cached ? 1 : b->copies,
        .min_copies = b->min_copies};
}

enum err
object_must_be_here(const struct object_service *s, const struct map_bucket *b,
                    struct span key, struct errbuf *eb)
{
    struct nodes_route to;
    enum err rc;

    if (s->options.nodes == NULL)
        return ERR_OK;
    rc = nodes_route(s->options.nodes, b, key, &to, eb);
    if (rc != ERR_OK || to.here)
        return rc;
    return err_set(eb, ERR_NOT_IMPLEMENTED,
                   "node %u holds the key \"%.*s\", and this request can't reach keys of "
                   "other nodes yet",
                   to.number, (int)MIN(key.len, 100u), key.at);
}

static enum err
must_be_empty(struct object_service *s, const struct map_bucket *b, struct errbuf *eb)
{
    bool empty = false;
    enum err rc = disks_bucket_empty(s->options.disks, b->id, b->copies, &empty, eb);

    return rc == ERR_OK && !empty
               ? err_set(eb, ERR_NOT_EMPTY, "The bucket you tried to delete is not empty")
               : rc;
}

/* The uploads of a closed bucket cannot be completed any more. They are removed with it, as AWS does. */
static enum err
abort_all_uploads(struct object_service *s, const struct map_bucket *b, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct store_upload *found;
    uint32_t count = 0;
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        arena_reset(a);
        rc = disks_upload_list(s->options.disks, b->id, b->copies, SPAN(""), NULL, 64, a,
                               &found, &count, &more, eb);
        for (uint32_t i = 0; i < count && rc == ERR_OK; i++) {
            struct disks_key k = object_disk_key(b, found[i].key);

            rc = disks_upload_abort(s->options.disks, &k, &found[i].id, eb);
            if (rc == ERR_NO_UPLOAD)
                rc = ERR_OK;
        }
        assert(count > 0 || !more);
    }
    arena_free(&a);
    return rc;
}

/* The map says it to all nodes, durably; the disks then wait for the writes in flight. */
static enum err
close_and_check(struct object_service *s, const struct map_bucket *b, struct errbuf *eb)
{
    enum err rc = disks_bucket_close(s->options.disks, b->id, eb);

    if (rc != ERR_OK)
        return rc;
    rc = map_bucket_set_closing(s->options.map, b, true, eb);
    if (rc == ERR_OK)
        rc = must_be_empty(s, b, eb);
    if (rc == ERR_OK)
        rc = abort_all_uploads(s, b, eb);
    if (rc != ERR_OK)
        object_bucket_reopen(s, b);
    return rc;
}

enum err
object_bucket_close(struct object_service *s, const struct map_bucket *b,
                    struct errbuf *eb)
{
    enum err rc;

    if (b->cached)
        return ERR_OK;
    rc = must_be_empty(s, b,
                       eb); /* most buckets are not, and continue to accept objects */
    return rc == ERR_OK ? close_and_check(s, b, eb) : rc;
}

void
object_bucket_reopen(struct object_service *s, const struct map_bucket *b)
{
    struct errbuf eb = {{0}};
    struct rt_shield shield;
    enum err rc;

    if (b->cached)
        return;
    rt_shield_begin(&shield);
    rc = map_bucket_set_closing(s->options.map, b, false, &eb);
    rt_shield_end(&shield);
    if (rc != ERR_OK && rc != ERR_NO_BUCKET)
        LOG(LOG_WARN, "bucket.reopen", eb.text, L_TEXT("bucket", b->name));
    disks_bucket_reopen(s->options.disks, b->id);
}

enum err
object_bucket_close_here(struct object_service *s, const struct map_bucket *b,
                         struct errbuf *eb)
{
    enum err rc = disks_bucket_close(s->options.disks, b->id, eb);

    assert(!b->cached);
    if (rc != ERR_OK)
        return rc;
    rc = must_be_empty(s, b, eb);
    if (rc == ERR_OK)
        rc = abort_all_uploads(s, b, eb);
    if (rc != ERR_OK)
        object_bucket_reopen_here(s, b);
    return rc;
}

void
object_bucket_reopen_here(struct object_service *s, const struct map_bucket *b)
{
    disks_bucket_reopen(s->options.disks, b->id);
}

/* A crash in the middle of a removal leaves a bucket closing. It was not removed: it opens again. */
static void
reopen_closing(struct object_service *s)
{
    const struct map_bucket *b;
    uint32_t i = 0;

    do {
        const struct map *m = map_now(s->options.map);

        for (b = NULL; i < map_bucket_count(m) && b == NULL; i++)
            if (map_bucket_at(m, i)->closing)
                b = map_bucket_ref(map_bucket_at(m, i));
        if (b != NULL)
            object_bucket_reopen(s, b);
        map_bucket_drop(&b);
    } while (i < map_bucket_count(map_now(s->options.map)));
}
