/* Headers of records, read back; see record.h. Everything here comes from outside: a disk may say anything. */

#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "wire/tar.h"

#define BIT(field) ((uint64_t)1 << (field))
#define OBJECT     (BIT(FIELD_BUCKET) | BIT(FIELD_KEY))

/* What a kind must have; SIZE and sums are numbers and lists that may be empty. */
static bool
required_of(unsigned kind, uint64_t *fields)
{
    switch (kind) {
    case LOG_RECORD_SEGMENT_HEADER:
        *fields = BIT(FIELD_CLUSTER) | BIT(FIELD_DISK);
        return true;
    case LOG_RECORD_PUT:
        *fields = OBJECT | BIT(FIELD_CONTENT) | BIT(FIELD_VERSION);
        return true;
    case LOG_RECORD_COMMIT:
        *fields = OBJECT | BIT(FIELD_CONTENT) | BIT(FIELD_VERSION) | BIT(FIELD_PLACE);
        return true;
    case LOG_RECORD_RELOCATED:
        *fields = OBJECT | BIT(FIELD_CONTENT) | BIT(FIELD_VERSION) | BIT(FIELD_OLD_PLACE);
        return true;
    case LOG_RECORD_META:
        *fields = OBJECT | BIT(FIELD_CONTENT) | BIT(FIELD_VERSION) | BIT(FIELD_PLACE) |
                  BIT(FIELD_LAYOUT) | BIT(FIELD_BORN);
        return true;
    case LOG_RECORD_VERSION_DELETE:
        *fields = OBJECT | BIT(FIELD_VERSION) | BIT(FIELD_BORN);
        return true;
    case LOG_RECORD_DELETE:
    case LOG_RECORD_IN_DOUBT:
    case LOG_RECORD_IN_DOUBT_CLEAR:
        *fields = OBJECT | BIT(FIELD_VERSION);
        return true;
    case LOG_RECORD_TOMBSTONE:
    case LOG_RECORD_TOMBSTONE_END:
        *fields = OBJECT | BIT(FIELD_VERSION);
        return true;
    case LOG_RECORD_PREPARE:
    case LOG_RECORD_COMMIT_PREPARED:
    case LOG_RECORD_OBSOLETE:
        *fields = OBJECT | BIT(FIELD_CONTENT) | BIT(FIELD_VERSION);
        return true;
    case LOG_RECORD_ABORT_PREPARED:
        *fields = OBJECT | BIT(FIELD_CONTENT);
        return true;
    case LOG_RECORD_UPLOAD_BEGIN:
    case LOG_RECORD_UPLOAD_ABORT:
        *fields = OBJECT | BIT(FIELD_UPLOAD);
        return true;
    case LOG_RECORD_PART:
        *fields = OBJECT | BIT(FIELD_UPLOAD) | BIT(FIELD_PART) | BIT(FIELD_CONTENT);
        return true;
    case LOG_RECORD_UPLOAD_COMPLETE:
        *fields = OBJECT | BIT(FIELD_UPLOAD) | BIT(FIELD_CONTENT) | BIT(FIELD_VERSION);
        return true;
    case LOG_RECORD_BUCKET:
        *fields = BIT(FIELD_BUCKET) | BIT(FIELD_PAYLOAD_SUM);
        return true;
    case LOG_RECORD_KEYS:
        *fields = BIT(FIELD_VERSION);
        return true;
    case LOG_RECORD_BODY:
        *fields = OBJECT | BIT(FIELD_CONTENT) | BIT(FIELD_SPAN);
        return true;
    case LOG_RECORD_OPEN:
        *fields = BIT(FIELD_CONTENT) | BIT(FIELD_SPAN);
        return true;
    case LOG_RECORD_SUMS:
        *fields = BIT(FIELD_CONTENT) | BIT(FIELD_PAYLOAD_SUM);
        return true;
    case LOG_RECORD_DEAD:
        *fields = BIT(FIELD_SPAN);
        return true;
    default:
        return false;
    }
}

static bool
take_bytes(struct span value, uint8_t *out, size_t len)
{
    if (value.len != len)
        return false;
    memcpy(out, value.at, len);
    return true;
}

static bool
parse_take_number(struct span value, uint64_t max, uint64_t *out)
{
    return record_u64(value, out) == ERR_OK && *out <= max;
}

static bool
take_number32(struct span value, uint32_t *out)
{
    uint64_t v;
    bool good = parse_take_number(value, UINT32_MAX, &v);

    *out = (uint32_t)v;
    return good;
}

static bool
parse_take_place(struct span value, struct place *p)
{
    struct cursor c = cursor_of(value.at, value.len);

    *p = (struct place){.segment = (uint32_t)take_be(&c, 4),
                        .generation = (uint32_t)take_be(&c, 4)};
    p->offset = take_be(&c, 8);
    p->span = take_be(&c, 8);
    return !c.bad && cursor_left(&c) == 0 && p->segment != 0;
}

static bool
parse_take_version(struct span value, struct version *v)
{
    struct cursor c = cursor_of(value.at, value.len);

    v->epoch = take_be(&c, 8);
    v->counter = take_be(&c, 8);
    return !c.bad && cursor_left(&c) == 0;
}

static bool
parse_take_coordinator(struct span value, struct coordinator *out)
{
    struct cursor c = cursor_of(value.at, value.len);

    out->node = (uint16_t)take_be(&c, 2);
    out->epoch = take_be(&c, 8);
    return !c.bad && cursor_left(&c) == 0 && out->node != 0 && out->epoch != 0;
}

static bool
take_binding(struct log_record *m, uint8_t field, struct span value)
{
    uint64_t number;

    switch (field) {
    case FIELD_SEGMENT:
        return take_number32(value, &m->segment);
    case FIELD_GENERATION:
        return take_number32(value, &m->generation);
    case FIELD_OFFSET:
        return parse_take_number(value, UINT64_MAX, &m->offset);
    case FIELD_HEADER:
        return take_number32(value, &m->head_len);
    case FIELD_PAYLOAD:
        return parse_take_number(value, INT64_MAX, &m->payload);
    case FIELD_EPOCH:
        return parse_take_number(value, UINT64_MAX, &m->epoch);
    case FIELD_BATCH:
        return parse_take_number(value, UINT64_MAX, &m->batch);
    case FIELD_FLAGS:
        if (!parse_take_number(value, UINT32_MAX, &number))
            return false;
        m->last = (number & 1) != 0;
        m->after_unsynced = (number & 2) != 0;
        return true;
    case FIELD_UNSYNCED:
        return parse_take_number(value, UINT64_MAX, &m->unsynced);
    default:
        return true;
    }
}

static bool
take_segment_field(struct log_record *m, uint8_t field, struct span value)
{
    uint64_t number = 0;
    bool good = true;

    switch (field) {
    case FIELD_CLUSTER:
        return take_bytes(value, m->cluster_id, sizeof m->cluster_id);
    case FIELD_DISK:
        return take_bytes(value, m->disk_id, sizeof m->disk_id);
    case FIELD_CLASS:
        good = parse_take_number(value, STORE_CLASSES_ - 1, &number);
        m->class = (enum store_class)number;
        return good;
    case FIELD_SEGMENT_KIND:
        good = parse_take_number(value, SEGMENT_ONE, &number);
        m->segment_kind = (enum segment_kind)number;
        return good;
    case FIELD_FIRST_BATCH:
        return parse_take_number(value, UINT64_MAX, &m->first_batch);
    case FIELD_SEGMENT_BYTES:
        return parse_take_number(value, INT64_MAX, &m->segment_bytes);
    case FIELD_MTIME:
        good = parse_take_number(value, INT64_MAX, &number);
        m->mtime_ms = (int64_t)number;
        return good;
    default:
        return true;
    }
}

static bool
take_object_field(struct log_record *m, uint8_t field, struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);

    switch (field) {
    case FIELD_BUCKET:
        return parse_take_number(value, UINT64_MAX, &m->bucket);
    case FIELD_IMMUTABLE_NAME:
        m->immutable_name = value;
        return value.len <= 255;
    case FIELD_KEY:
        m->key = value;
        return value.len >= 1 && value.len <= STORE_KEY_MAX;
    case FIELD_CONTENT:
        return take_bytes(value, m->content.bytes, sizeof m->content.bytes);
    case FIELD_VERSION:
        return parse_take_version(value, &m->version);
    case FIELD_BORN:
        return parse_take_version(value, &m->born);
    case FIELD_LAYOUT:
        return take_number32(value, &m->layout) && m->layout >= LAYOUT_PLAIN &&
               m->layout <= LAYOUT_PARTS;
    case FIELD_SIZE:
        return parse_take_number(value, INT64_MAX, &m->size);
    case FIELD_PLACE:
        return parse_take_place(value, &m->place);
    case FIELD_SPAN:
        return parse_take_number(value, INT64_MAX, &m->span);
    case FIELD_BLOCK_SUMS:
        m->block_sums = value;
        return value.len % 4 == 0;
    case FIELD_PAYLOAD_SUM:
        m->payload_sum = (uint32_t)take_be(&c, 4);
        return value.len == 4;
    case FIELD_UPLOAD:
        return take_bytes(value, m->upload.id.bytes, sizeof m->upload.id.bytes);
    case FIELD_PART:
        return take_number32(value, &m->part) && m->part >= 1 && m->part <= PART_MAX;
    case FIELD_META_BEHIND:
        m->meta_behind = true;
        return value.len == 0;
    case FIELD_OLD_PLACE:
        return parse_take_place(value, &m->old_place);
    case FIELD_COPY:
        m->copy = true;
        return value.len == 0;
    case FIELD_COORDINATOR:
        return parse_take_coordinator(value, &m->coordinator);
    default:
        return true;
    }
}

static bool
take_keys_field(struct log_record *m, uint8_t field, struct span value)
{
    if (field == FIELD_KEYS)
        m->keys = value;
    else if (field == FIELD_KEYS_BEFORE)
        m->keys_before = value;
    return value.len % LOG_RECORD_KEY_BYTES == 0;
}

/* The record's fields into *m; says which one is wrong. */
static enum err
parse_take_record(struct record *r, struct log_record *m, struct errbuf *eb)
{
    uint64_t seen = 0, wanted;
    uint8_t field = 0, last = 0;
    struct span value;

    if (!required_of(r->kind, &wanted))
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "a record of kind %u, which this program does not know", r->kind);
    while (record_next(r, &field, &value)) {
        bool good = true;

        if (field == last && field != FIELD_USER)
            return err_set(eb, ERR_CORRUPT, "field %u of a record stands twice", field);
        last = field;
        if (field <= FIELD_UNSYNCED)
            good = take_binding(m, field, value);
        else if (field < FIELD_CLUSTER)
            good = take_object_field(m, field, value);
        else if (r->kind == LOG_RECORD_SEGMENT_HEADER)
            good = take_segment_field(m, field, value);
        else if (r->kind == LOG_RECORD_KEYS)
            good = take_keys_field(m, field, value);
        if (!good)
            return err_set(eb, ERR_CORRUPT, "field %u of a record is malformed", field);
        if (field < 64)
            seen |= BIT(field);
    }
    if ((seen & wanted) != wanted)
        return err_set(eb, ERR_CORRUPT, "a record of kind %u lacks fields it must have",
                       r->kind);
    return ERR_OK;
}

static enum log_record_result
parse_refuse(struct errbuf *eb, const char *why)
{
    (void)err_set(eb, ERR_CORRUPT, "%s", why);
    return LOG_RECORD_BAD;
}

static enum log_record_result
parse_header(struct span window, bool placed, struct log_record *out, size_t *need,
             struct errbuf *eb)
{
    struct tar_head head;
    struct record r;
    struct cursor c;
    enum tar_got got = placed ? tar_head_read_summed(window, &head, eb)
                              : tar_head_read(window, &head, eb);
    enum err rc;
    size_t at;

    *out = (struct log_record){0};
    if (got == TAR_GOT_ZERO)
        return LOG_RECORD_ZERO;
    if (got == TAR_GOT_MORE) {
        *need = head.need;
        return head.need > HEAD_MAX ? parse_refuse(eb, "a header longer than 20 KiB")
                                    : LOG_RECORD_MORE;
    }
    if (got != TAR_GOT_HEAD)
        return LOG_RECORD_BAD;
    if (head.xattr.len < RECORD_OVERHEAD + LOG_RECORD_HEAD_SUM ||
        head.head_len > HEAD_MAX)
        return parse_refuse(eb, "a tar member without our record");
    at = (size_t)(head.xattr.at - window.at) + head.xattr.len - LOG_RECORD_HEAD_SUM;
    c = cursor_of(window.at + at, LOG_RECORD_HEAD_SUM);
    if (log_record_head_sum(window.at, head.head_len, at) !=
        (uint32_t)take_be(&c, LOG_RECORD_HEAD_SUM))
        return parse_refuse(eb, "the sum of the header is wrong");
    out->record = (struct span){head.xattr.at, head.xattr.len - LOG_RECORD_HEAD_SUM};
    if (record_open(out->record, &r, eb) != ERR_OK)
        return LOG_RECORD_BAD;
    if (r.version < LOG_RECORD_VERSION || r.version > LOG_RECORD_VERSION_NEWEST) {
        (void)err_set(eb, ERR_NOT_IMPLEMENTED,
                      "a record of version %u; this program reads up to %u", r.version,
                      LOG_RECORD_VERSION_NEWEST);
        return LOG_RECORD_NEWER;
    }
    out->kind = (enum log_record_kind)r.kind;
    rc = parse_take_record(&r, out, eb);
    if (rc != ERR_OK)
        return rc == ERR_NOT_IMPLEMENTED ? LOG_RECORD_NEWER : LOG_RECORD_BAD;
    if (out->head_len != head.head_len || out->payload != head.size ||
        r.len != out->record.len)
        return parse_refuse(eb, "record and tar header disagree");
    return LOG_RECORD_OK;
}

enum log_record_result
log_record_parse(struct span window, struct log_record *out, size_t *need,
                 struct errbuf *eb)
{
    return parse_header(window, false, out, need, eb);
}

enum log_record_result
log_record_parse_placed(struct span window, struct log_record *out, size_t *need,
                        struct errbuf *eb)
{
    return parse_header(window, true, out, need, eb);
}
