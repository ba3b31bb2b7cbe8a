#include "store/record/log_record.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "store/record/format.h"
#include "store/store_entry.h"
#include "wire/tar.h"

#define PATH_ROOM   (255 + 1 + STORE_KEY_MAX + 1)
#define USUAL_VALUE 1024 /* of a record; it grows where that is too little */

const char *
log_record_kind_name(unsigned kind)
{
    switch (kind) {
#define X(number, id, name)                                                              \
    case number:                                                                         \
        return name;
        LOG_RECORD_KINDS(X)
#undef X
    default:
        return NULL;
    }
}

bool
log_record_is_at(const struct log_record *m, uint32_t segment, uint32_t generation,
                 uint64_t offset)
{
    return m->segment == segment && m->generation == generation && m->offset == offset;
}

/* ---- names ---- */

static bool
name_is_safe(const struct log_record *m)
{
    struct span b = m->immutable_name;

    return b.len > 0 && b.len <= 255 && b.at[0] != '.' &&
           memchr(b.at, '/', b.len) == NULL && tar_path_safe(b) && tar_path_safe(m->key);
}

static size_t
object_path(const struct log_record *m, const char *cid, char *out)
{
    if (!name_is_safe(m))
        return (size_t)snprintf(out, PATH_ROOM, ".forebay/id/%s", cid);
    memcpy(out, m->immutable_name.at, m->immutable_name.len);
    out[m->immutable_name.len] = '/';
    memcpy(out + m->immutable_name.len + 1, m->key.at, m->key.len);
    return m->immutable_name.len + 1 + m->key.len;
}

static size_t
part_path(const struct log_record *m, char *out)
{
    char id[33];

    hex_encode(m->upload.id.bytes, sizeof m->upload.id.bytes, id);
    return (size_t)snprintf(out, PATH_ROOM, ".forebay/part/%s/%05" PRIu32, id, m->part);
}

static size_t
member_path(const struct log_record *m, char *out)
{
    static const struct content_id none;
    char cid[33];

    hex_encode(m->content.bytes, sizeof m->content.bytes, cid);
    if (m->kind == LOG_RECORD_BODY)
        return m->part > 0 ? part_path(m, out) : object_path(m, cid, out);
    if (m->kind == LOG_RECORD_UPLOAD_COMPLETE || log_record_is_prepared_upload(m))
        return (size_t)snprintf(out, PATH_ROOM, ".forebay/manifest/%s", cid);
    if (m->kind == LOG_RECORD_PUT ||
        ((m->kind == LOG_RECORD_RELOCATED || m->kind == LOG_RECORD_PREPARE) &&
         m->place.segment == 0))
        return m->part > 0 ? part_path(m, out) : object_path(m, cid, out);
    if (m->kind == LOG_RECORD_PART && m->place.segment == 0)
        return part_path(m, out);
    if (m->kind == LOG_RECORD_SEGMENT_HEADER)
        return (size_t)snprintf(out, PATH_ROOM, ".forebay/segment/%06" PRIu32,
                                m->segment);
    if (m->kind == LOG_RECORD_DEAD && content_eq(&m->content, &none))
        return (size_t)snprintf(out, PATH_ROOM, ".forebay/dead/fill");
    if (m->kind == LOG_RECORD_OPEN || m->kind == LOG_RECORD_SUMS ||
        m->kind == LOG_RECORD_DEAD)
        return (size_t)snprintf(out, PATH_ROOM, ".forebay/%s/%s",
                                log_record_kind_name(m->kind), cid);
    return (size_t)snprintf(out, PATH_ROOM,
                            ".forebay/record/%06" PRIu32 "-%010" PRIx64 "-%s", m->segment,
                            m->offset, log_record_kind_name(m->kind));
}

/* ---- the record ---- */

static void
log_record_put_number(struct record_writer *w, uint8_t field, uint64_t value)
{
    if (value != 0)
        record_put_u64(w, field, value);
}

static void
log_record_put_bytes(struct record_writer *w, uint8_t field, const uint8_t *bytes,
                     size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != 0) {
            record_put_span(w, field, (struct span){(const char *)bytes, len});
            return;
        }
    }
}

static void
log_record_put_version(struct record_writer *w, uint8_t field, const struct version *v)
{
    char be[16];

    if (v->epoch == 0 && v->counter == 0)
        return;
    format_put_be(be, v->epoch, 8);
    format_put_be(be + 8, v->counter, 8);
    record_put_span(w, field, (struct span){be, sizeof be});
}

static void
put_place(struct record_writer *w, uint8_t field, const struct place *p)
{
    char be[24];

    if (p->segment == 0)
        return;
    format_put_be(be, p->segment, 4);
    format_put_be(be + 4, p->generation, 4);
    format_put_be(be + 8, p->offset, 8);
    format_put_be(be + 16, p->span, 8);
    record_put_span(w, field, (struct span){be, sizeof be});
}

static void
put_coordinator(struct record_writer *w, const struct coordinator *c)
{
    char be[COORDINATOR_BYTES];

    if (c->node == 0)
        return;
    assert(c->epoch > 0);
    format_put_be(be, c->node, 2);
    format_put_be(be + 2, c->epoch, 8);
    record_put_span(w, FIELD_COORDINATOR, (struct span){be, sizeof be});
}

static void
log_record_put_sum(struct record_writer *w, uint32_t sum)
{
    char be[4];

    format_put_be(be, sum, 4);
    record_put_span(w, FIELD_PAYLOAD_SUM, (struct span){be, sizeof be});
}

static void
put_object_fields(struct record_writer *w, const struct log_record *m)
{
    log_record_put_number(w, FIELD_BUCKET, m->bucket);
    if (m->immutable_name.len > 0)
        record_put_span(w, FIELD_IMMUTABLE_NAME, m->immutable_name);
    if (m->key.len > 0)
        record_put_span(w, FIELD_KEY, m->key);
    log_record_put_bytes(w, FIELD_CONTENT, m->content.bytes, sizeof m->content.bytes);
    log_record_put_version(w, FIELD_VERSION, &m->version);
    log_record_put_number(w, FIELD_SIZE, m->size);
    put_place(w, FIELD_PLACE, &m->place);
    log_record_put_number(w, FIELD_SPAN, m->span);
    if (m->block_sums.len > 0)
        record_put_span(w, FIELD_BLOCK_SUMS, m->block_sums);
    if (m->kind == LOG_RECORD_SUMS || m->kind == LOG_RECORD_BUCKET)
        log_record_put_sum(w, m->payload_sum);
    log_record_put_number(w, FIELD_LAYOUT, m->layout);
    log_record_put_bytes(w, FIELD_UPLOAD, m->upload.id.bytes, sizeof m->upload.id.bytes);
    log_record_put_number(w, FIELD_PART, m->part);
    if (m->meta_behind)
        record_put_span(w, FIELD_META_BEHIND, SPAN(""));
    put_place(w, FIELD_OLD_PLACE, &m->old_place);
    log_record_put_version(w, FIELD_BORN, &m->born);
    if (m->copy)
        record_put_span(w, FIELD_COPY, SPAN(""));
    put_coordinator(w, &m->coordinator);
}

static void
put_segment_fields(struct record_writer *w, const struct log_record *m)
{
    record_put_span(w, FIELD_CLUSTER,
                    (struct span){(const char *)m->cluster_id, sizeof m->cluster_id});
    record_put_span(w, FIELD_DISK,
                    (struct span){(const char *)m->disk_id, sizeof m->disk_id});
    log_record_put_number(w, FIELD_CLASS, m->class);
    log_record_put_number(w, FIELD_SEGMENT_KIND, m->segment_kind);
    log_record_put_number(w, FIELD_FIRST_BATCH, m->first_batch);
    log_record_put_number(w, FIELD_SEGMENT_BYTES, m->segment_bytes);
    log_record_put_number(w, FIELD_MTIME, (uint64_t)m->mtime_ms);
}

#define HEAD_LEN_BYTES 2 /* headers have 1 to 20 KiB */

static uint8_t
record_version(const struct log_record *m)
{
    if (m->coordinator.node != 0)
        return LOG_RECORD_VERSION_COORDINATED;
    if (m->meta != NULL && m->meta->whole_bytes != 0)
        return LOG_RECORD_VERSION_CHUNKS;
    if (m->meta == NULL || m->meta->versioning == STORE_UNVERSIONED)
        return LOG_RECORD_VERSION;
    return m->kind == LOG_RECORD_VERSION_DELETE ? LOG_RECORD_VERSION_ENDS_NULL
                                                : LOG_RECORD_VERSION_VERSIONED;
}

/* Everything but the record's sum. *header: where the bytes of HEADER stand, which is not known yet. */
static void
log_record_put_fields(const struct log_record *m, struct record_writer *w,
                      struct buf *out, size_t *header)
{
    record_begin(w, out, (uint8_t)m->kind, record_version(m));
    log_record_put_number(w, FIELD_SEGMENT, m->segment);
    log_record_put_number(w, FIELD_GENERATION, m->generation);
    log_record_put_number(w, FIELD_OFFSET, m->offset);
    record_put_span(w, FIELD_HEADER, (struct span){"\0\0", HEAD_LEN_BYTES});
    *header = out->len - HEAD_LEN_BYTES;
    log_record_put_number(w, FIELD_PAYLOAD, m->payload);
    log_record_put_number(w, FIELD_EPOCH, m->epoch);
    log_record_put_number(w, FIELD_BATCH, m->batch);
    log_record_put_number(w, FIELD_FLAGS,
                          (m->last ? 1u : 0u) | (m->after_unsynced ? 2u : 0u));
    log_record_put_number(w, FIELD_UNSYNCED, m->unsynced);
    put_object_fields(w, m);
    if (m->keys.len > 0)
        record_put_span(w, FIELD_KEYS, m->keys);
    if (m->keys_before.len > 0)
        record_put_span(w, FIELD_KEYS_BEFORE, m->keys_before);
    if (m->kind == LOG_RECORD_SEGMENT_HEADER)
        put_segment_fields(w, m);
    else if (m->meta != NULL)
        meta_put(w, m->meta);
}

/* The sum over the header, the four bytes at `at` as zeros. */
uint32_t
log_record_head_sum(const char *head, size_t len, size_t at)
{
    static const char zeros[LOG_RECORD_HEAD_SUM];
    uint32_t sum = hash_crc32c(0, head, at);

    sum = hash_crc32c(sum, zeros, sizeof zeros);
    return hash_crc32c(sum, head + at + LOG_RECORD_HEAD_SUM,
                       len - at - LOG_RECORD_HEAD_SUM);
}

void
log_record_encode(struct log_record *m, uint32_t head_len, struct buf *out)
{
    char path[PATH_ROOM];
    struct buf value;
    struct record_writer w;
    struct tar_member t = {.size = m->payload, .type = TAR_FILE, .mode = 0644};
    size_t start = out->len, at, header;

    assert(m->kind != 0);
    assert(head_len % 512 == 0);
    assert(m->key.len <= STORE_KEY_MAX);
    t.path = (struct span){path, member_path(m, path)};
    t.mtime_s = (m->meta != NULL ? m->meta->mtime_ms : m->mtime_ms) / 1000;
    if (t.mtime_s < 0)
        t.mtime_s = 0;
    buf_init(&value, HEAD_MAX);
    (void)buf_reserve(&value, USUAL_VALUE);
    log_record_put_fields(m, &w, &value, &header);
    assert(!value.full);
    /* How long the header is depends on lengths only, so it is known before the record is whole. */
    t.xattr = (struct span){value.at, value.len + RECORD_SUM + LOG_RECORD_HEAD_SUM};
    m->head_len = head_len != 0 ? head_len : (uint32_t)tar_head_len(&t);
    assert(m->head_len >= 1024 && m->head_len <= HEAD_MAX);
    format_put_be(value.at + header, m->head_len, HEAD_LEN_BYTES);
    record_end(&w);
    buf_zero(&value, LOG_RECORD_HEAD_SUM);
    assert(!value.full && value.len == t.xattr.len);
    t.xattr = buf_span(&value);
    at = tar_put_head(out, &t, m->head_len);
    buf_fini(&value);
    if (out->full)
        return;
    assert(at != 0 && out->len == start + m->head_len);
    at += t.xattr.len - LOG_RECORD_HEAD_SUM;
    format_put_be(out->at + start + at,
                  log_record_head_sum(out->at + start, m->head_len, at),
                  LOG_RECORD_HEAD_SUM);
}
