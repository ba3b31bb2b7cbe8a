#include "object/in_doubt.h"

#include <assert.h>

#include "base/log.h"
#include "base/mem.h"
#include "object/fetch.h"
#include "object/revalidate.h"
#include "rt/point.h"

#define ASKED_LEAST                                                                      \
    (64u << 10) /* a smaller object arrives as quickly as the answer to a HEAD */

/* ---- a write ---- */

enum err
in_doubt_begin(struct object_service *s, const struct disks_key *k, struct in_doubt *d,
               struct errbuf *eb)
{
    struct entry entry = {0};
    enum err rc = disks_lookup(s->options.disks, k, &entry, eb);

    assert(k->at.key.len > 0);
    *d = (struct in_doubt){.key = *k};
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    d->was_in_doubt = (entry.flags & ENTRY_IN_DOUBT) != 0;
    return disks_in_doubt_begin(s->options.disks, k, eb);
}

/* If this fails the record stays, which costs one revalidation. */
void
in_doubt_clear(struct object_service *s, const struct disks_key *k)
{
    struct errbuf eb = {{0}};

    if (disks_in_doubt_clear(s->options.disks, k, &eb) != ERR_OK)
        LOG(LOG_WARN, "write_through.in_doubt", eb.text, L_SPAN("key", k->at.key));
}

void
in_doubt_refused(struct object_service *s, const struct in_doubt *d)
{
    assert(d->key.at.key.len > 0);
    if (!d->was_in_doubt)
        in_doubt_clear(s, &d->key);
}

/* ---- the read behind it ---- */

static bool
has_pairs(const struct object_meta *m, const struct object_meta *of)
{
    for (uint32_t i = 0; i < of->user_count; i++) {
        uint32_t at = 0;

        while (at < m->user_count && (!span_eq(m->user[at].name, of->user[i].name) ||
                                      !span_eq(m->user[at].value, of->user[i].value)))
            at++;
        if (at == m->user_count)
            return false;
    }
    return true;
}

/* A remote may reorder user metadata. */
static bool
same_pairs(const struct object_meta *a, const struct object_meta *b)
{
    return a->user_count == b->user_count && has_pairs(a, b) && has_pairs(b, a);
}

static bool
same_meta(const struct object_meta *a, const struct object_meta *b)
{
    return span_eq(a->content_type, b->content_type) &&
           span_eq(a->cache_control, b->cache_control) &&
           span_eq(a->content_disposition, b->content_disposition) &&
           span_eq(a->content_encoding, b->content_encoding) &&
           span_eq(a->content_language, b->content_language) &&
           span_eq(a->expires, b->expires) &&
           span_eq(a->storage_class, b->storage_class) &&
           span_eq(a->backend_version, b->backend_version) && same_pairs(a, b);
}

/* An ETag made of time and length does not tell two writes in one second apart. Chunks are requested by ETag in
 * any case. */
static bool
etag_tells(const struct entry *entry, const struct object_meta *kept)
{
    return kept->etag_text.len == 0 || kept->backend_version.len > 0 ||
           (entry->flags & ENTRY_CHUNKS) != 0;
}

/* A remote's time has whole seconds. The time of a version written through this node has not (in_doubt_mtime()),
 * which means that its ETag is the MD5 of the bytes: the same bytes with the same metadata are what the remote
 * has, whichever write sent them. */
static bool
same_time(const struct object_info *kept, const struct s3_object_info *from)
{
    if (kept->mtime_ms % 1000 != 0)
        return kept->meta.etag_text.len == 0 && kept->meta.parts == 0;
    return from->mtime_ms > 0 && from->mtime_ms == kept->mtime_ms;
}

int64_t
in_doubt_mtime(int64_t now_ms, bool by_md5)
{
    assert(now_ms > 0);
    return by_md5 ? now_ms + (now_ms % 1000 == 0) : now_ms - now_ms % 1000;
}

/* Does the remote have exactly this version? No, if it refuses HEAD or says too little. */
static enum err
remote_has_version(struct fetch *f, bool *same)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct disks_key k = object_disk_key(f->bucket, f->key);
    struct s3_object_info from;
    struct object_info kept;
    struct object_meta meta;
    struct errbuf eb = {{0}};
    bool refused = false;
    enum err rc = ERR_OK;

    assert(f->chunk == NULL);
    *same = false;
    if (info_from_entry(f->s, &k, &f->entry, a, &kept, &eb) == ERR_OK)
        rc = cloud_head_or_refused(f->s->options.cloud, f->bucket, f->key, a, &from,
                                   &refused, &f->eb);
    else
        refused = true;
    if (rc == ERR_OK && !refused)
        *same = meta_from_backend(&from, a, &meta, &eb) == ERR_OK && from.etag.len > 0 &&
                !from.stale && span_is(from.etag, kept.etag) && from.size == kept.size &&
                etag_tells(&f->entry, &kept.meta) && same_time(&kept, &from) &&
                same_meta(&meta, &kept.meta);
    arena_free(&a);
    return rc;
}

/* No write of the key was in flight when this fetch began. A write that begins while the remote is asked makes the
 * fetch obsolete and keeps its own record: the fetch continues and is not kept. A later write waits until this
 * resolution is logged or has failed (is_being_kept()). */
enum err
in_doubt_resolve(struct fetch *f, bool *over)
{
    struct disks_key k = object_disk_key(f->bucket, f->key);
    uint32_t in_doubt_count = disks_in_doubt_count(f->s->options.disks, &k, &f->entry);
    struct rt_shield shield;
    struct errbuf eb = {{0}};
    bool same;
    enum err rc;

    assert(f->chunk == NULL);
    assert((f->entry.flags & ENTRY_IN_DOUBT) != 0);
    assert(f->state == FETCH_STARTING);
    assert(!f->sealed);
    *over = false;
    if (f->obsolete ||
        ((f->entry.flags & ENTRY_CHUNKS) == 0 && f->entry.size < ASKED_LEAST))
        return ERR_OK;
    rc = remote_has_version(f, &same);
    /* A HEAD has no body, so it does not tell a missing object from a missing bucket. The GET does. */
    if (rc == ERR_NOT_FOUND) {
        same = false;
        rc = ERR_OK;
    }
    POINT(IN_DOUBT_ASKED);
    if (rc != ERR_OK || f->obsolete || fetch_is_overtaken(f) || !same)
        return rc;
    f->keep = true; /* do not start again when the reader leaves */
    f->sealed = true;
    rt_shield_begin(&shield);
    rc = disks_in_doubt_resolve(f->s->options.disks, &k, &f->entry, in_doubt_count, &eb);
    rt_shield_end(&shield);
    f->sealed = false;
    rt_cond_broadcast(&f->slot->changed);
    *over = rc == ERR_OK;
    if (*over)
        revalidate_mark(f->s, f->bucket, f->key, &f->entry, f->begun);
    return ERR_OK;
}
