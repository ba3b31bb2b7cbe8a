/* multipart: uploads in parts. Native uploads live on the disk. For a cached bucket each call is forwarded, and
 * the first read fetches the object. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "object/in_doubt.h"
#include "object/list_prefetch.h"
#include "object/put.h"
#include "rt/point.h"
#include "rt/time.h"
#include "wire/etag.h"

#define PART_LEAST   MIB(5)
#define PARTS_A_TIME 1000
#define UPLOAD_TEXT  32 /* hex of the 16 bytes of a native upload id */

bool
native_id(struct span text, struct upload_id *out)
{
    return text.len == UPLOAD_TEXT &&
           hex_decode(text.at, text.len, out->id.bytes, sizeof out->id.bytes) ==
               (int)sizeof out->id.bytes;
}

static enum err
no_upload(struct errbuf *eb)
{
    return err_set(eb, ERR_NO_UPLOAD, "there is no such upload");
}

struct span
id_text(struct arena *a, const struct upload_id *id)
{
    char *text = arena_alloc(a, UPLOAD_TEXT + 1);

    hex_encode(id->id.bytes, sizeof id->id.bytes, text);
    return (struct span){text, UPLOAD_TEXT};
}

enum err
object_upload_begin(struct object_service *s, const struct map_bucket *b, struct span key,
                    const struct object_meta *meta, struct arena *a,
                    struct span *upload_id, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct object_meta whole = *meta;
    struct upload_id id;
    uint32_t count;
    enum err rc = object_must_be_here(s, b, key, eb);

    if (rc != ERR_OK)
        return rc;
    if (b->cached) {
        struct s3_header *headers = headers_of_meta(meta, a, &count);

        return cloud_upload_begin(s->options.cloud, b, key, headers, count, a, upload_id,
                                  eb);
    }
    whole.mtime_ms = (int64_t)(rt_wall_ns() / 1000000u);
    rc = disks_upload_begin(s->options.disks, &k, &whole, &id, eb);
    if (rc == ERR_OK)
        *upload_id = id_text(a, &id);
    return rc;
}

/* Chooses the checksum of a part as its upload requires: the client's; else the upload's own; else CRC64NVME. */
static enum err
part_checksum(struct object_service *s, const struct disks_key *k,
              const struct upload_id *id, struct object_put_options *o, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), KIB(256));
    struct object_meta meta;
    struct fault f = {0};
    enum err rc = disks_upload_meta(s->options.disks, k, id, a, &meta, eb);

    if (rc == ERR_OK && meta.checksum_algorithm == 0) {
        if (o->checksum_algorithm == 0)
            o->checksum_algorithm = CHECKSUM_CRC64NVME;
    } else if (rc == ERR_OK) {
        if (o->checksum_algorithm == 0 &&
            (o->sum_as_upload || meta.checksum_type == CHECKSUM_FULL_OBJECT))
            o->checksum_algorithm = meta.checksum_algorithm;
        rc = checksum_part_check((enum checksum_kind)meta.checksum_algorithm,
                                 (enum checksum_type)meta.checksum_type,
                                 (enum checksum_kind)o->checksum_algorithm, &f);
        if (rc != ERR_OK)
            err_set(eb, rc, "%s", f.message);
    }
    arena_free(&a);
    return rc;
}

static enum err
native_part_begin(struct object_service *s, const struct map_bucket *b, struct span key,
                  struct span upload_id, uint32_t number,
                  const struct object_put_options *o, struct object_put **out,
                  struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct object_put_options own = *o;
    struct upload_id id;
    enum err rc = native_id(upload_id, &id) ? ERR_OK : no_upload(eb);

    assert(!b->cached);
    if (rc == ERR_OK)
        rc = part_checksum(s, &k, &id, &own, eb);
    if (rc == ERR_OK)
        rc = put_new(s, b, key, &own, PUT_PART, out, eb);
    if (rc == ERR_OK)
        rc = quota_claim(s, b,
                         &(struct quota_ask){
                             .key = key, .size = o->size, .upload = &id, .part = number},
                         &(*out)->claim, eb);
    if (rc != ERR_OK)
        return rc;
    (*out)->upload = id;
    (*out)->part_number = number;
    return disks_part_begin(s->options.disks, &k, &id, number, o->size, &(*out)->writer,
                            eb);
}

/* The part lies here until the backend has it, and is then deleted. */
static enum err
write_through_part_begin(struct object_service *s, const struct map_bucket *b,
                         struct span key, struct span upload_id, uint32_t number,
                         const struct object_put_options *o, struct object_put **out,
                         struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    enum err rc = put_new(s, b, key, o, PUT_PART_WRITE_THROUGH, out, eb);

    assert(b->cached);
    if (rc != ERR_OK)
        return rc;
    (*out)->upload_text = xmemdup0(upload_id.at, upload_id.len);
    (*out)->part_number = number;
    return disks_write_begin(s->options.disks, &k, STORE_CACHED, o->size, &(*out)->writer,
                             eb);
}

enum err
object_part_begin(struct object_service *s, const struct map_bucket *b, struct span key,
                  struct span upload_id, uint32_t number,
                  const struct object_put_options *o, struct object_put **out,
                  struct errbuf *eb)
{
    enum err rc;

    *out = NULL;
    rc = b->cached ? write_through_part_begin(s, b, key, upload_id, number, o, out, eb)
                   : native_part_begin(s, b, key, upload_id, number, o, out, eb);
    if (rc != ERR_OK)
        object_put_abort(out);
    return rc;
}

static enum err
parts_of_remote(struct object_service *s, const struct map_bucket *b, struct span key,
                struct span upload_id, uint32_t after, uint32_t max, struct arena *a,
                struct object_part **out, uint32_t *count, bool *more, struct errbuf *eb)
{
    const uint8_t none[16] = {0};
    struct s3_part_page page;
    enum err rc =
        cloud_part_list(s->options.cloud, b, key, upload_id, after, max, a, &page, eb);

    if (rc != ERR_OK)
        return rc;
    *out = arena_alloc(a, (page.count + 1) * sizeof **out);
    for (uint32_t i = 0; i < page.count && *count < max; i++) {
        struct object_part *p = &(*out)[(*count)++];

        *p = (struct object_part){.number = page.parts[i].number,
                                  .size = page.parts[i].size,
                                  .mtime_ms = page.parts[i].mtime_ms};
        etag_of(none, 0, page.parts[i].etag, p->etag);
    }
    *more = page.truncated;
    return ERR_OK;
}

enum err
object_part_list(struct object_service *s, const struct map_bucket *b, struct span key,
                 struct span upload_id, uint32_t after, uint32_t max, struct arena *a,
                 struct object_part **out, uint32_t *count, bool *more, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct store_part *parts = NULL;
    struct upload_id id;
    enum err rc;

    *count = 0;
    *more = false;
    if (b->cached)
        return parts_of_remote(s, b, key, upload_id, after, max, a, out, count, more, eb);
    rc = native_id(upload_id, &id) ? ERR_OK : no_upload(eb);
    if (rc == ERR_OK)
        rc = disks_part_list(s->options.disks, &k, &id, after, max, a, &parts, count,
                             more, eb);
    if (rc != ERR_OK)
        return rc;
    *out = arena_try(a, *count * sizeof **out);
    if (*out == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u parts", *count);
    for (uint32_t i = 0; i < *count; i++) {
        (*out)[i] =
            (struct object_part){.number = parts[i].number,
                                 .size = parts[i].size,
                                 .mtime_ms = parts[i].mtime_ms,
                                 .checksum_algorithm = parts[i].checksum_algorithm,
                                 .checksum = parts[i].checksum};
        etag_of(parts[i].md5, 0, (struct span){NULL, 0}, (*out)[i].etag);
    }
    return ERR_OK;
}

/* ---- Complete ---- */

struct complete {
    struct object_service *s;
    const struct map_bucket *bucket;
    struct disks_key key;
    struct upload_id id;
    const struct object_complete *what;
    struct arena *arena;
    struct store_part *named; /* those of the list, in its order */
    bool composite;           /* every part must be named with its checksum */
    struct object_bad_part *bad;
    struct errbuf *eb;
};

static enum err
bad_part(struct complete *c, enum object_complete_why why, uint32_t number,
         const char *says)
{
    c->bad->why = why;
    c->bad->number = number;
    return err_set(c->eb, ERR_BAD_REQUEST, "part %u %s", number, says);
}

/* Does the stored part match the list? */
static bool
part_matches(const struct object_complete_part *want, const struct store_part *have)
{
    unsigned char md5[16];
    unsigned parts = 0;

    if (want->number != have->number)
        return false;
    if (want->etag.len > 0 && (!etag_parse(etag_unquote(want->etag), md5, &parts) ||
                               parts != 0 || memcmp(md5, have->md5, sizeof md5) != 0))
        return false;
    return want->checksum_algorithm == 0 ||
           (want->checksum_algorithm == have->checksum_algorithm &&
            memcmp(want->checksum, have->checksum.at, have->checksum.len) == 0);
}

/* Walks the stored parts and the list side by side: both ascend. */
static enum err
match_parts(struct complete *c)
{
    const struct object_complete *w = c->what;
    struct store_part *page = NULL;
    uint32_t count = 0, at = 0, i = 0, after = 0;
    bool more = true;

    assert(c->named != NULL);
    while (i < w->count) {
        while (at < count && page[at].number < w->parts[i].number)
            at++;
        if (at == count && more) {
            enum err rc =
                disks_part_list(c->s->options.disks, &c->key, &c->id, after, PARTS_A_TIME,
                                c->arena, &page, &count, &more, c->eb);

            if (rc != ERR_OK)
                return rc;
            at = 0;
            after = count > 0 ? page[count - 1].number : after;
            if (count > 0)
                continue;
        }
        if (at == count || !part_matches(&w->parts[i], &page[at]))
            return bad_part(c, COMPLETE_BAD_PART, w->parts[i].number,
                            "was not uploaded, or its ETag or checksum differs");
        if (c->composite && w->parts[i].checksum_algorithm == 0)
            return bad_part(c, COMPLETE_NO_CHECKSUM, w->parts[i].number,
                            "is named without its checksum");
        if (i + 1 < w->count && page[at].size < PART_LEAST && !w->any_part_size) {
            c->bad->size = page[at].size;
            return bad_part(c, COMPLETE_TOO_SMALL, w->parts[i].number, "is under 5 MiB");
        }
        assert(at < count);
        assert(i < w->count);
        c->named[i++] = page[at];
    }
    return ERR_OK;
}

/* Combines the checksums of the parts into the object's. An upload without an algorithm takes that of its parts,
 * where it can be combined: CRC64NVME, unless the client chose another CRC. */
static void
combine_checksums(struct complete *c, struct object_meta *meta)
{
    enum checksum_kind kind = (enum checksum_kind)meta->checksum_algorithm;
    struct checksum_composite composite;
    struct checksum_value sum = {0}, part = {0};
    bool known;
    size_t len;
    char *bytes;

    assert(c->named != NULL);
    assert(c->what->count > 0);
    if (kind == CHECKSUM_NONE) {
        kind = (enum checksum_kind)c->named[0].checksum_algorithm;
        if (!checksum_combines(kind))
            kind = CHECKSUM_NONE;
        meta->checksum_algorithm = (uint8_t)kind;
        meta->checksum_type = CHECKSUM_FULL_OBJECT;
    }
    sum.kind = part.kind = kind;
    len = checksum_len(kind);
    known = kind != CHECKSUM_NONE;
    checksum_composite_init(&composite, kind);
    for (uint32_t i = 0; i < c->what->count && known; i++) {
        known = c->named[i].checksum_algorithm == kind && c->named[i].checksum.len == len;
        if (!known)
            break;
        memcpy(part.bytes, c->named[i].checksum.at, len);
        if (meta->checksum_type == CHECKSUM_COMPOSITE)
            checksum_composite_add(&composite, &part);
        else if (i == 0)
            sum = part;
        else
            known = checksum_combine(&sum, &part, c->named[i].size);
    }
    checksum_composite_end(&composite, &part);
    if (meta->checksum_type == CHECKSUM_COMPOSITE)
        sum = part;
    if (!known) {
        meta->checksum_algorithm = 0;
        meta->checksum_type = 0;
        meta->checksum = (struct span){NULL, 0};
        return;
    }
    assert(len > 0);
    bytes = arena_alloc(c->arena, len + 1);
    memcpy(bytes, sum.bytes, len);
    meta->checksum = (struct span){bytes, len};
}

static uint64_t
size_of_parts(const struct complete *c)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < c->what->count; i++)
        size += c->named[i].size;
    return size;
}

static enum err
check_size(struct complete *c)
{
    uint64_t size = size_of_parts(c);

    if (c->what->want_size != OBJECT_ANY_SIZE && c->what->want_size != size) {
        c->bad->why = COMPLETE_WRONG_SIZE;
        return err_set(c->eb, ERR_BAD_REQUEST,
                       "the parts have %llu bytes, %llu were announced",
                       (unsigned long long)size, (unsigned long long)c->what->want_size);
    }
    return ERR_OK;
}

/* The client's checksum of the whole object must match the upload and the parts. */
static enum err
check_type(struct complete *c, const struct object_meta *meta)
{
    if (c->what->want_type == 0 || meta->checksum_algorithm == 0 ||
        c->what->want_type == meta->checksum_type)
        return ERR_OK;
    c->bad->why = COMPLETE_WRONG_TYPE;
    return err_set(c->eb, ERR_BAD_REQUEST,
                   "The upload was created using the %s checksum mode. The complete "
                   "request must use the same checksum mode.",
                   checksum_type_name((enum checksum_type)meta->checksum_type));
}

static enum err
check_sum(struct complete *c, const struct object_meta *meta)
{
    if (c->what->want_algorithm == 0 ||
        (c->what->want_algorithm == meta->checksum_algorithm &&
         memcmp(c->what->want_checksum, meta->checksum.at, meta->checksum.len) == 0))
        return ERR_OK;
    c->bad->why = COMPLETE_BAD_DIGEST;
    return err_set(c->eb, ERR_BAD_DIGEST, "the checksum of the object differs");
}

/* The upload is gone. An earlier call with these parts completed it: the same answer. Other parts: there is no such upload. */
static enum err
complete_again(struct complete *c, struct object_info *out)
{
    struct etag_multipart whole;
    unsigned char md5[16];
    char text[ETAG_TEXT_MAX];
    unsigned parts;
    struct entry entry;
    bool known = true;
    enum err rc = disks_upload_complete(c->s->options.disks, &c->key, &c->id, NULL, 0,
                                        NULL, NULL, &entry, c->eb);

    if (rc == ERR_OK)
        rc = info_from_entry(c->s, &c->key, &entry, c->arena, out, c->eb);
    if (rc != ERR_OK)
        return rc;
    etag_multipart_init(&whole);
    for (uint32_t i = 0; i < c->what->count && known; i++) {
        known = etag_parse(etag_unquote(c->what->parts[i].etag), md5, &parts);
        if (known)
            etag_multipart_add(&whole, md5);
    }
    etag_multipart_end(&whole, md5, text);
    return known && strcmp(text, out->etag) == 0
               ? ERR_OK
               : err_set(c->eb, ERR_NO_UPLOAD,
                         "the upload was completed before, with other parts");
}

static enum err
complete_native(struct complete *c, struct object_info *out)
{
    struct etag_multipart etag;
    char text[ETAG_TEXT_MAX];
    struct object_meta meta = {0};
    struct quota_claim claim = {0};
    struct store_condition held;
    struct entry entry;
    enum err rc =
        disks_upload_meta(c->s->options.disks, &c->key, &c->id, c->arena, &meta, c->eb);

    assert(c->what->count > 0);
    assert(!c->bucket->cached);
    if (rc == ERR_NO_UPLOAD)
        return complete_again(c, out);
    c->named = arena_alloc(c->arena, c->what->count * sizeof *c->named);
    c->composite =
        meta.checksum_algorithm != 0 && meta.checksum_type == CHECKSUM_COMPOSITE;
    if (rc == ERR_OK)
        rc = check_type(c, &meta);
    if (rc == ERR_OK)
        rc = match_parts(c);
    if (rc == ERR_OK)
        rc = check_size(c);
    if (rc == ERR_OK)
        rc = quota_claim(
            c->s, c->bucket,
            &(struct quota_ask){.key = c->key.at.key, .count = 1, .counted = true},
            &claim, c->eb);
    if (rc != ERR_OK)
        return rc;
    etag_multipart_init(&etag);
    for (uint32_t i = 0; i < c->what->count; i++)
        etag_multipart_add(&etag, c->named[i].md5);
    etag_multipart_end(&etag, meta.md5, text);
    meta.parts = c->what->count;
    meta.mtime_ms = (int64_t)(rt_wall_ns() / 1000000u);
    meta.versioning = (uint8_t)versioning_of(c->bucket);
    meta.overwrites = c->what->overwrites;
    combine_checksums(c, &meta);
    rc = check_sum(c, &meta);
    if (rc == ERR_OK)
        rc = disks_upload_complete(
            c->s->options.disks, &c->key, &c->id, c->named, c->what->count, &meta,
            quota_condition(&claim,
                            c->what->condition != NULL ? &c->what->condition->disk : NULL,
                            &held),
            &entry, c->eb);
    rc = quota_explain(c->s, c->bucket, c->key.at.key, &claim, rc, c->eb);
    quota_release(&claim);
    if (rc == ERR_OK)
        info_from_meta(&entry, &meta, out);
    return rc;
}

/* The condition failed after an earlier try without an answer: that try may have made the object. Then it has the
 * ETag of these parts. */
static bool
completed_before(struct object_service *s, const struct map_bucket *b, struct span key,
                 const struct object_complete *w, struct arena *a, struct span *etag)
{
    struct s3_object_info there;
    struct errbuf eb = {{0}};
    struct etag_multipart whole;
    unsigned char md5[16];
    char text[ETAG_TEXT_MAX];
    unsigned parts;
    bool known = true;

    etag_multipart_init(&whole);
    for (uint32_t i = 0; i < w->count; i++) {
        known = known && etag_parse(etag_unquote(w->parts[i].etag), md5, &parts);
        if (known)
            etag_multipart_add(&whole, md5);
    }
    etag_multipart_end(&whole, md5, text);
    if (!known || cloud_head(s->options.cloud, b, key, a, &there, &eb) != ERR_OK ||
        !span_is(there.etag, text))
        return false;
    *etag = there.etag;
    return true;
}

static enum err
complete_write_through(struct object_service *s, const struct map_bucket *b,
                       struct span key, struct span upload_id,
                       const struct object_complete *w, struct arena *a,
                       struct object_info *out, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct s3_part *parts = arena_alloc(a, w->count * sizeof *parts);
    struct s3_completion what = {
        .key = key, .upload_id = upload_id, .parts = parts, .count = w->count};
    struct write_lock *t = NULL;
    struct span etag = {"", 0};
    struct in_doubt in_doubt;
    bool unknown = false;
    enum err rc;

    assert(b->cached);
    for (uint32_t i = 0; i < w->count; i++)
        parts[i] = (struct s3_part){w->parts[i].number, w->parts[i].etag};
    what.headers = headers_of_condition(w->condition, a, &what.header_count);
    rc = write_lock_begin(s, b, key, &t, eb);
    if (rc == ERR_OK)
        rc = in_doubt_begin(s, &k, &in_doubt, eb);
    if (rc == ERR_OK) {
        POINT(WRITE_THROUGH_IN_DOUBT);
        rc = cloud_upload_complete(s->options.cloud, b, &what, a, &etag, &unknown, eb);
        list_prefetch_invalidate(s);
        POINT(WRITE_THROUGH_SENT);
        if (rc == ERR_PRECONDITION && unknown && completed_before(s, b, key, w, a, &etag))
            rc = ERR_OK;
        if (rc == ERR_OK)
            rc = write_through_drop_local(s, b, key, eb);
        else if (!unknown)
            in_doubt_refused(s, &in_doubt);
    }
    write_lock_end(&t);
    etag_of(out->meta.md5, 0, etag, out->etag);
    return rc;
}

enum err
object_upload_complete(struct object_service *s, const struct map_bucket *b,
                       struct span key, struct span upload_id,
                       const struct object_complete *what, struct arena *a,
                       struct object_info *out, struct object_bad_part *bad,
                       struct errbuf *eb)
{
    struct complete c = {.s = s,
                         .bucket = b,
                         .key = object_disk_key(b, key),
                         .what = what,
                         .arena = a,
                         .bad = bad,
                         .eb = eb};

    enum err rc;

    *bad = (struct object_bad_part){.why = COMPLETE_OTHER};
    memset(out, 0, sizeof *out);
    if (b->cached)
        rc = complete_write_through(s, b, key, upload_id, what, a, out, eb);
    else if (!native_id(upload_id, &c.id))
        rc = no_upload(eb);
    else
        rc = complete_native(&c, out);
    if (rc == ERR_OK)
        object_changed(s, b, key);
    return rc;
}

enum err
object_upload_abort(struct object_service *s, const struct map_bucket *b, struct span key,
                    struct span upload_id, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct upload_id id;

    if (b->cached)
        return cloud_upload_abort(s->options.cloud, b, key, upload_id, eb);
    if (!native_id(upload_id, &id))
        return no_upload(eb);
    return disks_upload_abort(s->options.disks, &k, &id, eb);
}

enum err
object_upload_meta(struct object_service *s, const struct map_bucket *b, struct span key,
                   struct span upload_id, struct arena *a, struct object_meta *out,
                   struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct upload_id id;

    *out = (struct object_meta){0};
    if (b->cached)
        return ERR_OK;
    if (!native_id(upload_id, &id))
        return no_upload(eb);
    return disks_upload_meta(s->options.disks, &k, &id, a, out, eb);
}
