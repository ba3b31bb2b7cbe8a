#include "object/upload_expiry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/loop.h"
#include "rt/time.h"

#define LOOK_LEAST_MS ((uint64_t)1000u)
#define LOOK_MOST_MS  ((uint64_t)600000u)
#define PAGE          64u

struct upload_expiry {
    struct rt_daemon daemon; /* runs during a look */
    uint64_t last_ms;        /* when the last look began */
    bool stop;
};

/* One page of a bucket's uploads, behind `after`. */
struct expiry_place {
    char key[STORE_KEY_MAX];
    size_t len;
    struct upload_id id;
};

static bool
abort_one(struct object_service *s, const struct map_bucket *b,
          const struct store_upload *u)
{
    struct disks_key k = object_disk_key(b, u->key);
    struct errbuf eb = {{0}};
    enum err rc = disks_upload_abort(s->options.disks, &k, &u->id, &eb);

    if (rc != ERR_OK &&
        rc != ERR_NO_UPLOAD) /* NO_UPLOAD: its client ended it meanwhile */
        LOG(LOG_WARN, "upload.expiry", eb.text, L_TEXT("bucket", b->name),
            L_SPAN("key", u->key));
    return rc == ERR_OK;
}

/* True: there are more uploads behind *at. */
static bool
expire_page(struct object_service *s, const struct map_bucket *b, int64_t before_ms,
            struct expiry_place *at, struct arena *a, uint64_t *aborted)
{
    struct store_upload *found = NULL;
    struct errbuf eb = {{0}};
    uint32_t count = 0;
    bool more = false;
    enum err rc;

    assert(at->len <= STORE_KEY_MAX);
    arena_reset(a);
    rc = disks_upload_list(s->options.disks, b->id, b->copies,
                           (struct span){at->key, at->len}, at->len > 0 ? &at->id : NULL,
                           PAGE, a, &found, &count, &more, &eb);
    if (rc != ERR_OK) {
        LOG(LOG_WARN, "upload.expiry", eb.text, L_TEXT("bucket", b->name),
            L_TEXT("code", err_name(rc)));
        return false;
    }
    if (count == 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (found[i].begun_ms < before_ms)
            *aborted += abort_one(s, b, &found[i]);
    at->len = found[count - 1].key.len;
    memcpy(at->key, found[count - 1].key.at, at->len);
    at->id = found[count - 1].id;
    return more;
}

static void
expire_bucket(struct object_service *s, const struct map_bucket *b)
{
    struct upload_expiry *x = s->upload_expiry;
    struct expiry_place at = {.len = 0};
    struct arena *a = arena_new(KIB(16), MIB(1));
    int64_t now_ms = (int64_t)(rt_wall_ns() / 1000000u);
    uint64_t aborted = 0;

    assert(b->upload_ttl_ms > 0);
    assert(!b->cached);
    while (!x->stop &&
           expire_page(s, b, now_ms - (int64_t)b->upload_ttl_ms, &at, a, &aborted))
        rt_yield();
    arena_free(&a);
    if (aborted > 0)
        LOG(LOG_INFO, "upload.expired",
            "uploads that were not completed in time are aborted",
            L_TEXT("bucket", b->name), L_U64("uploads", aborted),
            L_U64("upload_ttl_ms", b->upload_ttl_ms));
}

/* The next bucket behind `after`, by unique name, that wants it; one reference, or NULL. */
static const struct map_bucket *
expiry_next_bucket(struct object_service *s, struct span after)
{
    const struct map *m = map_now(s->options.map);

    for (uint32_t i = 0; i < map_bucket_count(m); i++) {
        const struct map_bucket *b = map_bucket_at(m, i);

        if (b->upload_ttl_ms > 0 && !b->cached && span_cmp(span_of(b->uname), after) > 0)
            return map_bucket_ref(b);
    }
    return NULL;
}

/* Time between two looks, by the bucket that wants it most often; UINT64_MAX: none wants it. */
static uint64_t
expiry_interval_ms(struct object_service *s)
{
    const struct map *m = map_now(s->options.map);
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < map_bucket_count(m); i++) {
        uint64_t ttl = map_bucket_at(m, i)->upload_ttl_ms;

        if (ttl > 0)
            least = MIN(least, MIN(MAX(ttl / 10, LOOK_LEAST_MS), LOOK_MOST_MS));
    }
    return least;
}

static void
expire_all(struct object_service *s)
{
    const struct map_bucket *b = expiry_next_bucket(s, SPAN("")), *next;

    while (b != NULL) {
        if (!s->upload_expiry->stop)
            expire_bucket(s, b);
        next = s->upload_expiry->stop ? NULL : expiry_next_bucket(s, span_of(b->uname));
        map_bucket_drop(&b);
        b = next;
    }
}

static void
expiry_run(void *arg)
{
    struct object_service *s = arg;

    rt_doing("expiry of uploads");
    expire_all(s);
    rt_daemon_over(&s->upload_expiry->daemon);
}

void
upload_expiry_look(struct object_service *s)
{
    struct upload_expiry *x = s->upload_expiry;
    uint64_t now_ms = rt_now_ns() / 1000000u, every_ms = expiry_interval_ms(s);

    assert(rt_loop_index() == 0);
    if (every_ms == UINT64_MAX || now_ms - x->last_ms < every_ms || x->daemon.running)
        return;
    x->last_ms = now_ms;
    if (rt_daemon_start(&x->daemon, expiry_run, s) != ERR_OK)
        LOG0(LOG_WARN, "upload.expiry",
             "no fiber to abort old uploads; the next look tries again");
}

void
upload_expiry_start(struct object_service *s)
{
    assert(s->upload_expiry == NULL);
    assert(rt_loop_index() == 0);
    s->upload_expiry = xcalloc(1, sizeof *s->upload_expiry);
}

void
upload_expiry_stop(struct object_service *s)
{
    struct upload_expiry *x = s->upload_expiry;

    if (x == NULL)
        return;
    x->stop = true;
    rt_daemon_join(&x->daemon);
    s->upload_expiry = NULL;
    free(x);
}
