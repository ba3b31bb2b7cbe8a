/* write_through: changes of cached buckets. The write-ahead log has an in-doubt record before the backend is asked
 * (disk.md, rule 4): a crash between the backend's answer and ours must not bring an old version back. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/num.h"
#include "object/fetch.h"
#include "object/in_doubt.h"
#include "object/list_prefetch.h"
#include "object/put.h"
#include "object/revalidate.h"
#include "object/tier.h"
#include "rt/loop.h"
#include "rt/point.h"
#include "wire/etag.h"

/* ---- the lock: one write of a key at a time ---- */

struct write_lock {
    struct object_service *s;
    const struct map_bucket *bucket; /* borrowed */
    struct span key;
    unsigned owner;
    struct key_slot *slot; /* one reference, used on `owner` only */
    enum err rc;
    struct errbuf *eb;
};

/* Is a fetch being committed? It no longer looks at `obsolete`, and its commit must not follow the in-doubt record
 * of this write. */
static bool
is_being_kept(const struct key_slot *slot)
{
    const struct fetch *f = slot->fetch;

    return f != NULL && f->sealed &&
           (f->state == FETCH_STREAMING || f->state == FETCH_STARTING);
}

static void
begin_on_owner(void *arg)
{
    struct write_lock *t = arg;

    assert(rt_loop_index() == t->owner);
    assert(t->slot == NULL);
    t->rc = key_slot_get(t->s, t->bucket->id, t->key, &t->slot, t->eb);
    if (t->rc != ERR_OK)
        return;
    while (t->rc == ERR_OK && (t->slot->writing || is_being_kept(t->slot)))
        t->rc = rt_cond_wait(&t->slot->changed, DEADLINE_NEVER);
    if (t->rc != ERR_OK) {
        err_set(t->eb, t->rc, "the wait for another write of the same key was cancelled");
        key_slot_drop(&t->slot);
        return;
    }
    assert(!t->slot->writing);
    assert(t->slot->refs > 0);
    t->slot->writing = true;
    if (t->slot->fetch != NULL)
        t->slot->fetch->obsolete =
            true; /* its readers began before this write: they may finish */
}

enum err
write_lock_begin(struct object_service *s, const struct map_bucket *b, struct span key,
                 struct write_lock **out, struct errbuf *eb)
{
    struct write_lock *t = xcalloc(1, sizeof *t);
    enum err rc;

    *out = NULL;
    *t = (struct write_lock){
        .s = s, .bucket = b, .key = key, .owner = key_owner_loop(b, key), .eb = eb};
    rc = key_run_on_owner(t->owner, begin_on_owner, t);
    if (rc != ERR_OK)
        err_set(eb, rc, "no fiber is free for the write");
    else
        rc = t->rc;
    if (rc != ERR_OK) {
        free(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

struct end_msg {
    struct rt_msg msg;
    struct key_slot *slot;
};

static void
on_end(struct rt_msg *msg)
{
    struct end_msg *m = CONTAINER_OF(msg, struct end_msg, msg);

    assert(m->slot->writing);
    assert(m->slot->refs > 0);
    m->slot->writing = false;
    rt_cond_broadcast(&m->slot->changed);
    key_slot_drop(&m->slot);
    free(m);
}

void
write_lock_end(struct write_lock **tp)
{
    struct write_lock *t = *tp;
    struct end_msg *m;

    *tp = NULL;
    if (t == NULL)
        return;
    m = xcalloc(1, sizeof *m);
    assert(t->slot != NULL);
    m->slot = t->slot;
    m->msg.fn = on_end;
    rt_post(t->owner, &m->msg); /* cannot fail and does not wait, on any loop */
    free(t);
}

/* ---- requests to the backend ---- */

struct s3_header *
headers_of_meta(const struct object_meta *m, struct arena *a, uint32_t *count)
{
    const struct {
        const char *name;
        struct span value;
    } fixed[] = {
        {"content-type", m->content_type},
        {"cache-control", m->cache_control},
        {"content-disposition", m->content_disposition},
        {"content-encoding", m->content_encoding},
        {"content-language", m->content_language},
        {"expires", m->expires},
        {"x-amz-storage-class", m->storage_class},
        {"x-amz-tagging", m->tags},
    };
    struct s3_header *h = arena_alloc(a, (ARRAY_LEN(fixed) + m->user_count) * sizeof *h);
    uint32_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (fixed[i].value.len > 0)
            h[n++] = (struct s3_header){span_of(fixed[i].name), fixed[i].value};
    for (uint32_t i = 0; i < m->user_count; i++)
        h[n++] = (struct s3_header){
            span_of(arena_printf(a, "x-amz-meta-%.*s", SPAN_ARG(m->user[i].name))),
            m->user[i].value};
    *count = n;
    return h;
}

static enum err
read_back(void *arg, uint64_t offset, void *buf, size_t len, size_t *n, struct errbuf *eb)
{
    struct object_put *p = arg;

    assert(p->summed);
    *n = 0;
    if (offset >= p->sums.size)
        return ERR_OK;
    return disks_write_peek(p->writer, offset, buf, len, n, eb);
}

#define CONDITIONS_MAX 4

/* The backend checks the conditions: only it knows the current version. Writes at most CONDITIONS_MAX headers. */
static uint32_t
put_conditions(const struct object_condition *c, struct arena *a, struct s3_header *h)
{
    char date[NUM_DATE_TEXT];
    uint32_t n = 0;

    if (c->if_match.len > 0)
        h[n++] = (struct s3_header){SPAN("if-match"), c->if_match};
    if (c->if_none_match.len > 0)
        h[n++] = (struct s3_header){SPAN("if-none-match"), c->if_none_match};
    if (c->disk.if_size)
        h[n++] = (struct s3_header){
            SPAN("x-amz-if-match-size"),
            span_of(arena_printf(a, "%llu", (unsigned long long)c->disk.size))};
    if (c->disk.if_mtime) {
        date_http(c->disk.mtime_s, date);
        h[n++] = (struct s3_header){SPAN("x-amz-if-match-last-modified-time"),
                                    span_of(arena_strdup(a, span_of(date)))};
    }
    return n;
}

static void
add_conditions(const struct object_condition *c, struct arena *a, struct s3_put *put)
{
    struct s3_header *h;

    if (c == NULL)
        return;
    h = arena_alloc(a, (put->header_count + CONDITIONS_MAX) * sizeof *h);
    if (put->header_count > 0)
        memcpy(h, put->headers, put->header_count * sizeof *h);
    put->headers = h;
    put->header_count += put_conditions(c, a, h + put->header_count);
}

struct s3_header *
headers_of_condition(const struct object_condition *c, struct arena *a, uint32_t *count)
{
    struct s3_header *h;

    *count = 0;
    if (c == NULL)
        return NULL;
    h = arena_alloc(a, CONDITIONS_MAX * sizeof *h);
    *count = put_conditions(c, a, h);
    assert(*count <= CONDITIONS_MAX);
    return h;
}

/* The condition failed after an earlier try without an answer: that try may have succeeded. The MD5 of the current
 * version tells. */
static bool
was_ours(struct object_put *p, struct arena *a, struct span *etag)
{
    struct s3_object_info there;
    struct errbuf eb = {{0}};
    unsigned char md5[16];
    unsigned parts;

    if (cloud_head(p->s->options.cloud, p->bucket, p->key, a, &there, &eb) != ERR_OK ||
        !etag_parse(there.etag, md5, &parts) || parts != 0 ||
        memcmp(md5, p->sums.md5, sizeof md5) != 0)
        return false;
    *etag = there.etag;
    return true;
}

static enum err
send_to_backend(struct object_put *p, const struct object_meta *meta, struct arena *a,
                struct span *etag, bool *unknown, struct errbuf *eb)
{
    char md5[BASE64_LEN(16) + 1];
    struct s3_put put = {.bucket = span_of(p->bucket->backend.bucket),
                         .key = p->key,
                         .size = p->sums.size,
                         .md5_base64 = md5};

    assert(p->summed);
    assert(p->bucket->cached);
    base64_encode(p->sums.md5, 16, md5);
    if (p->kind == PUT_PART_WRITE_THROUGH) {
        put.upload_id = span_of(p->upload_text);
        put.part_number = p->part_number;
    } else {
        put.headers = headers_of_meta(meta, a, &put.header_count);
        add_conditions(p->options.condition, a, &put);
    }
    return cloud_put(p->s->options.cloud, p->bucket, &put, read_back, p, a, etag, unknown,
                     eb);
}

enum err
put_write_through(struct object_put *p, const struct object_meta *meta, struct arena *a,
                  struct object_info *out, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(p->bucket, p->key);
    struct object_meta kept = *meta;
    struct span etag = {"", 0};
    struct in_doubt in_doubt;
    struct entry entry;
    bool unknown = false, chunks;
    uint64_t begun = revalidate_begin(p->s);
    unsigned parts = 0;
    enum err rc = write_lock_begin(p->s, p->bucket, p->key, &p->write_lock, eb);

    chunks = rc == ERR_OK && chunks_are_of(p->s, p->bucket, p->key);
    if (rc == ERR_OK)
        rc = in_doubt_begin(p->s, &k, &in_doubt, eb);
    if (rc != ERR_OK)
        return rc;
    POINT(WRITE_THROUGH_IN_DOUBT);
    assert(p->write_lock != NULL);
    assert(p->kind == PUT_WRITE_THROUGH);
    rc = send_to_backend(p, meta, a, &etag, &unknown, eb);
    list_prefetch_invalidate(p->s);
    POINT(WRITE_THROUGH_SENT);
    if (rc == ERR_PRECONDITION && unknown && was_ours(p, a, &etag))
        rc = ERR_OK;
    if (rc != ERR_OK) {
        if (!unknown)
            in_doubt_refused(p->s, &in_doubt);
        return rc;
    }
    if (etag.len > 0 && !etag_parse(etag, kept.md5, &parts))
        kept.etag_text = etag;
    kept.parts = parts;
    kept.mtime_ms = in_doubt_mtime(
        meta->mtime_ms, kept.etag_text.len == 0 && parts == 0 &&
                            memcmp(kept.md5, p->sums.md5, sizeof kept.md5) == 0);
    kept.tags = (struct span){NULL, 0}; /* the remote's: they may change there */
    meta_copy(a, &kept, &kept);
    /* Otherwise another node may have written the key since. */
    rc = begun == revalidate_begin(p->s)
             ? disks_commit(&p->writer, &kept, NULL, &entry, eb)
             : err_set(eb, ERR_BUSY, "the nodes of the cluster changed during the write");
    POINT(WRITE_THROUGH_KEPT);
    if (rc == ERR_OK && chunks)
        tier_sweep(p->s);
    if (rc == ERR_OK) {
        info_from_meta(&entry, &kept, out);
        return ERR_OK;
    }
    /* The backend has the object, which is what a 2xx promises. The in-doubt record stays, so the next read
     * fetches. */
    LOG(LOG_WARN, "write_through.keep", eb->text, L_SPAN("key", k.at.key));
    entry = (struct entry){.size = p->sums.size, .mtime_ms = kept.mtime_ms};
    info_from_meta(&entry, &kept, out);
    return ERR_OK;
}

enum err
put_part_write_through(struct object_put *p, const struct object_meta *meta,
                       struct arena *a, struct object_info *out, struct errbuf *eb)
{
    struct span etag = {"", 0};
    bool unknown = false;
    enum err rc = send_to_backend(p, meta, a, &etag, &unknown, eb);

    assert(p->kind == PUT_PART_WRITE_THROUGH);
    if (rc != ERR_OK)
        return rc;
    meta_copy(a, meta, &out->meta);
    out->size = p->sums.size;
    out->mtime_ms = meta->mtime_ms;
    etag_of(meta->md5, 0, etag, out->etag);
    return ERR_OK;
}

enum err
write_through_drop_local(struct object_service *s, const struct map_bucket *b,
                         struct span key, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    bool existed, chunks = chunks_are_of(s, b, key);
    enum err rc = disks_delete(s->options.disks, &k, STORE_CACHED, NULL, &existed, eb);

    assert(b->cached);
    POINT(WRITE_THROUGH_KEPT);
    if (rc == ERR_OK && chunks)
        tier_sweep(s);
    if (rc == ERR_OK && !existed)
        in_doubt_clear(s, &k);
    return rc;
}

enum err
delete_write_through(struct object_service *s, const struct map_bucket *b,
                     struct span key, const struct object_condition *c, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct arena *a = arena_new(KIB(1), KIB(64));
    struct write_lock *t = NULL;
    struct in_doubt in_doubt;
    bool unknown = false;
    uint32_t count;
    struct s3_header *headers = headers_of_condition(c, a, &count);
    enum err rc = write_lock_begin(s, b, key, &t, eb);

    assert(b->cached);
    if (rc == ERR_OK)
        rc = in_doubt_begin(s, &k, &in_doubt, eb);
    if (rc == ERR_OK) {
        POINT(WRITE_THROUGH_IN_DOUBT);
        rc = cloud_delete(s->options.cloud, b, key, headers, count, &unknown, eb);
        list_prefetch_invalidate(s);
        POINT(WRITE_THROUGH_SENT);
        if (rc == ERR_OK)
            rc = write_through_drop_local(s, b, key, eb);
        else if (!unknown)
            in_doubt_refused(s, &in_doubt);
    }
    write_lock_end(&t);
    arena_free(&a);
    return rc;
}
