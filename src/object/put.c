/* put: objects and parts being written. Bytes go to the disk as they arrive, checksums are computed beside, and
 * the commit makes the object visible. For a cached bucket the whole body is here and verified before the backend
 * is asked. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "object/hasher.h"
#include "object/put.h"
#include "rt/time.h"
#include "wire/etag.h"

#define HASH_SLICE   (64u << 10)
#define ROOM_SLICE   (256u << 10) /* received, and hashed, between two switches */
#define PATIENT_MOST (4u << 20)   /* larger bodies do not wait to fill the lanes */

enum err
put_new(struct object_service *s, const struct map_bucket *b, struct span key,
        const struct object_put_options *o, enum put_kind kind, struct object_put **out,
        struct errbuf *eb)
{
    struct object_put *p;

    if (b->closing)
        return err_set(eb, ERR_BUSY, "bucket \"%s\" is being deleted", b->name);
    p = xcalloc(1, sizeof *p + key.len);
    p->s = s;
    p->bucket = map_bucket_ref(b);
    memcpy(p->key_text, key.at, key.len);
    p->key = (struct span){p->key_text, key.len};
    p->kind = kind;
    p->options = *o;
    md5_init(&p->md5);
    checksum_init(&p->sum, (enum checksum_kind)o->checksum_algorithm);
    *out = p;
    return ERR_OK;
}

void
object_put_abort(struct object_put **pp)
{
    struct object_put *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    hash_stream_end(&p->lag); /* the lagging bytes are in the writer's buffer */
    disks_write_abort(&p->writer);
    quota_release(&p->claim);
    write_lock_end(&p->write_lock);
    if (!p->summed)
        checksum_fini(&p->sum);
    map_bucket_drop(&p->bucket);
    free(p->upload_text);
    free(p);
}

/* The bucket's number of copies may have changed since the request looked it up. The rebalancer does not wait for
 * a writer that begins after that change: so look it up again once the writer is counted. */
static enum err
put_begin_writer(struct object_put *p, uint64_t size, struct errbuf *eb)
{
    struct object_service *s = p->s;
    struct disks_key k = object_disk_key(p->bucket, p->key);

    assert(p->writer == NULL);
    for (unsigned i = 0; i < 3; i++) {
        const struct map_bucket *now;
        enum err rc = disks_write_begin(s->options.disks, &k,
                                        p->bucket->cached ? STORE_CACHED : STORE_NATIVE,
                                        size, &p->writer, eb);

        if (rc != ERR_OK)
            return rc;
        now = map_bucket_find(map_now(s->options.map), span_of(p->bucket->uname));
        if (now == NULL || now->id != p->bucket->id || p->bucket->cached ||
            (now->copies == k.copies && now->min_copies == k.min_copies))
            return ERR_OK;
        disks_write_abort(&p->writer);
        k.copies = now->copies;
        k.min_copies = now->min_copies;
    }
    return err_set(eb, ERR_BUSY, "the bucket's number of copies changes all the time");
}

enum err
object_put_begin(struct object_service *s, const struct map_bucket *b, struct span key,
                 const struct object_put_options *o, struct object_put **out,
                 struct errbuf *eb)
{
    enum err rc = object_must_be_here(s, b, key, eb);

    *out = NULL;
    if (rc == ERR_OK)
        rc = put_new(s, b, key, o, b->cached ? PUT_WRITE_THROUGH : PUT_NATIVE, out, eb);
    if (rc == ERR_OK)
        rc = quota_claim(s, b,
                         &(struct quota_ask){.key = key, .size = o->size, .count = 1},
                         &(*out)->claim, eb);
    if (rc == ERR_OK)
        rc = put_begin_writer(*out, o->size, eb);
    if (rc != ERR_OK)
        object_put_abort(out);
    return rc;
}

/* What holds between two calls of a writer. */
static void
object_put_check(const struct object_put *p)
{
    assert(p->writer != NULL);
    assert(p->options.size == STORE_SIZE_UNKNOWN || p->sums.size <= p->options.size);
    assert(!p->summed || p->hashed);
    assert(!p->summed || !p->lags);
    assert(p->write_lock == NULL || p->kind == PUT_WRITE_THROUGH);
    assert((p->upload_text != NULL) == (p->kind == PUT_PART_WRITE_THROUGH));
    assert((p->part_number > 0) ==
           (p->kind == PUT_PART || p->kind == PUT_PART_WRITE_THROUGH));
}

/* The end of the body is hashed along with its last bytes, if it is known. */
static void
add_md5(struct object_put *p, const void *data, size_t len)
{
    if (p->hashed)
        return; /* more bytes than announced: the disk rejects them */
    p->hashed = p->sums.size + len == p->options.size;
    hasher_add(p->s, &p->md5, data, len, p->hashed ? p->sums.md5 : NULL);
}

/* Checksums are computed in slices, so that no turn of the loop is long. */
enum err
object_put_write(struct object_put *p, const void *data, size_t len, struct errbuf *eb)
{
    const char *at = data;

    assert(!p->lags);
    assert(!p->summed);
    while (len > 0) {
        size_t n = MIN(len, HASH_SLICE);
        enum err rc;

        add_md5(p, at, n);
        checksum_add(&p->sum, at, n);
        rc = disks_write(p->writer, at, n, eb);
        if (rc != ERR_OK)
            return rc;
        p->sums.size += n;
        at += n;
        len -= n;
        if (n == HASH_SLICE)
            rt_yield();
    }
    return ERR_OK;
}

/* Large bodies fill each other's lanes; waiting would only delay receiving them. */
static bool
is_patient(const struct object_put *p)
{
    return p->options.size <= PATIENT_MOST;
}

enum err
object_put_room(struct object_put *p, void **at, size_t *len, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    object_put_check(p);
    assert(p->options.size != STORE_SIZE_UNKNOWN);
    assert(p->sums.size < p->options.size);
    *len = disks_write_room(p->writer, at);
    if (*at != NULL && *len == 0) {
        rc = disks_write_flush(p->writer, eb);
        if (p->lags) /* after the write: others have queued theirs meanwhile */
            hash_stream_drain(p->s, &p->lag, is_patient(p));
        if (rc == ERR_OK)
            *len = disks_write_room(p->writer, at);
    }
    p->room = *at;
    *len = MIN(*len, (size_t)ROOM_SLICE);
    if (rc == ERR_OK && *at != NULL && !p->lags && p->sums.size == 0 &&
        p->options.size > HASH_SLICE) {
        hash_stream_begin(p->s, &p->lag);
        p->lags = true;
    }
    return rc;
}

void
object_put_filled(struct object_put *p, size_t len)
{
    assert(p->room != NULL);
    assert(len <= p->options.size - p->sums.size);
    disks_write_filled(p->writer, len);
    checksum_add(&p->sum, p->room, len);
    if (p->lags)
        hash_stream_add(p->s, &p->lag, p->room, len);
    else
        add_md5(p, p->room, len);
    p->sums.size += len;
    if (len >= HASH_SLICE)
        rt_yield();
}

enum err
object_put_zero_copy(struct object_put *p, struct span body, struct errbuf *eb)
{
    object_put_check(p);
    assert(p->sums.size == 0);
    assert(body.len == p->options.size);
    if ((p->kind != PUT_NATIVE && p->kind != PUT_PART) || body.len > HASH_SLICE ||
        !disks_write_lend(p->writer, body))
        return object_put_write(p, body.at, body.len, eb);
    checksum_add(&p->sum, body.at, body.len);
    add_md5(p, body.at, body.len);
    p->sums.size = body.len;
    return ERR_OK;
}

/* The digest of the lagging bytes. The last bytes go to the disk first: others queue theirs meanwhile. */
static enum err
drain_hash(struct object_put *p, struct errbuf *eb)
{
    enum err rc = disks_write_flush(p->writer, eb);

    assert(p->lags);
    hash_stream_drain(p->s, &p->lag, is_patient(p));
    p->md5 =
        p->lag
            .md5; /* the stream stays in the list: several concurrent puts are never hashed alone */
    p->lags = false;
    return rc;
}

enum err
object_copy_body(struct object_get *from, uint64_t first, uint64_t len,
                 struct object_put *to, struct errbuf *eb)
{
    struct span piece;
    enum err rc = object_get_range(from, first, len, eb);

    assert(to->writer != NULL);
    while (rc == ERR_OK) {
        rc = object_get_next(from, DEADLINE_NEVER, &piece, eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        rc = object_put_write(to, piece.at, piece.len, eb);
    }
    return rc;
}

enum err
object_put_sums(struct object_put *p, struct object_sums *out, struct errbuf *eb)
{
    struct checksum_value v;

    if (p->options.size != STORE_SIZE_UNKNOWN && p->sums.size != p->options.size)
        return err_set(eb, ERR_INCOMPLETE, "the body has %llu bytes, %llu were announced",
                       (unsigned long long)p->sums.size,
                       (unsigned long long)p->options.size);
    if (!p->summed) {
        enum err rc = p->lags ? drain_hash(p, eb) : ERR_OK;

        if (rc != ERR_OK)
            return rc;
        if (!p->hashed)
            hasher_add(p->s, &p->md5, NULL, 0, p->sums.md5);
        p->hashed = true;
        checksum_end(&p->sum, &v);
        p->sums.checksum_len = checksum_len(v.kind);
        memcpy(p->sums.checksum, v.bytes, p->sums.checksum_len);
        p->summed = true;
    }
    *out = p->sums;
    return ERR_OK;
}

enum store_versioning
versioning_of(const struct map_bucket *b)
{
    return b->versioning == MAP_VERSIONED   ? STORE_VERSIONED
           : b->versioning == MAP_SUSPENDED ? STORE_SUSPENDED
                                            : STORE_UNVERSIONED;
}

/* Adds to the metadata what only this node knows. */
static void
complete_meta(const struct object_put *p, const struct object_meta *given,
              struct object_meta *out)
{
    assert(p->kind <= PUT_PART_WRITE_THROUGH);
    *out = *given;
    out->mtime_ms = (int64_t)(rt_wall_ns() / 1000000u);
    memcpy(out->md5, p->sums.md5, sizeof out->md5);
    out->parts = 0;
    out->versioning =
        (uint8_t)(p->kind == PUT_NATIVE ? versioning_of(p->bucket) : STORE_UNVERSIONED);
    out->checksum_algorithm = p->options.checksum_algorithm;
    out->checksum_type = p->options.checksum_algorithm != 0 ? CHECKSUM_FULL_OBJECT : 0;
    out->checksum = (struct span){(const char *)p->sums.checksum, p->sums.checksum_len};
}

/* The final size is known now. Claims again, or confirms the claim. */
static enum err
claim_again(struct object_put *p, const struct quota_ask *ask, struct errbuf *eb)
{
    return p->options.size == STORE_SIZE_UNKNOWN
               ? quota_claim(p->s, p->bucket, ask, &p->claim, eb)
               : quota_confirm(p->s, p->bucket, ask, &p->claim, eb);
}

static enum err
commit_native(struct object_put *p, const struct object_meta *meta, struct arena *a,
              struct object_info *out, struct errbuf *eb)
{
    struct object_meta kept;
    struct entry entry;
    const struct object_condition *c = p->options.condition;
    struct store_condition held;
    enum err rc = claim_again(
        p, &(struct quota_ask){.key = p->key, .size = p->sums.size, .count = 1}, eb);

    assert(p->kind == PUT_NATIVE);
    assert(p->summed);
    assert(p->hashed);
    if (rc != ERR_OK)
        return rc;
    rc = disks_commit(&p->writer, meta,
                      quota_condition(&p->claim, c != NULL ? &c->disk : NULL, &held),
                      &entry, eb);
    if (rc != ERR_OK)
        return quota_explain(p->s, p->bucket, p->key, &p->claim, rc, eb);
    meta_copy(a, meta, &kept);
    info_from_meta(&entry, &kept, out);
    return ERR_OK;
}

static enum err
commit_part(struct object_put *p, const struct object_meta *meta, struct arena *a,
            struct object_info *out, struct errbuf *eb)
{
    struct object_meta kept;
    enum err rc = claim_again(p,
                              &(struct quota_ask){.key = p->key,
                                                  .size = p->sums.size,
                                                  .upload = &p->upload,
                                                  .part = p->part_number},
                              eb);

    assert(p->kind == PUT_PART);
    assert(p->summed);
    assert(p->part_number > 0);
    if (rc == ERR_OK)
        rc = disks_part_commit(&p->writer, meta, eb);
    if (rc != ERR_OK)
        return rc;
    meta_copy(a, meta, &kept);
    out->meta = kept;
    out->size = p->sums.size;
    out->mtime_ms = meta->mtime_ms;
    etag_of(meta->md5, 0, (struct span){NULL, 0}, out->etag);
    return ERR_OK;
}

enum err
object_put_commit(struct object_put **pp, const struct object_meta *meta, struct arena *a,
                  struct object_info *out, struct errbuf *eb)
{
    struct object_put *p = *pp;
    struct object_meta whole;
    struct object_sums sums;
    enum err rc = object_put_sums(p, &sums, eb);

    memset(out, 0, sizeof *out);
    complete_meta(p, meta, &whole);
    if (rc == ERR_OK)
        switch (p->kind) {
        case PUT_NATIVE:
            rc = commit_native(p, &whole, a, out, eb);
            break;
        case PUT_PART:
            rc = commit_part(p, &whole, a, out, eb);
            break;
        case PUT_WRITE_THROUGH:
            rc = put_write_through(p, &whole, a, out, eb);
            break;
        case PUT_PART_WRITE_THROUGH:
            rc = put_part_write_through(p, &whole, a, out, eb);
            break;
        }
    if (rc == ERR_OK && (p->kind == PUT_NATIVE || p->kind == PUT_WRITE_THROUGH))
        object_changed(p->s, p->bucket, p->key);
    object_put_abort(pp);
    return rc;
}
