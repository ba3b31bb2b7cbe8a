#include "store/record/header_template.h"

#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "wire/tar.h"

#define PLACES 16u /* by the length of the key */
#define KEEP_EACH                                                                        \
    4u /* of those that nothing fits one is kept: keeping costs a tenth of encoding */
#define LEN_MOST   4096u /* of a header worth keeping */
#define TEXTS_MOST (16u << 10)
static_assert(LEN_MOST <= HEAD_MAX, "a template is a header");
static_assert(PLACES > 0, "a key has a place");

struct at {
    uint16_t at, len; /* in the header; at 0: the field is not there */
};

struct header_template {
    struct log_record
        of; /* what it was written of; spans lie in `head`, or in the arena */
    struct object_meta meta;
    struct arena *texts; /* owned */
    struct entry entry;
    struct at fields[FIELD_END_];
    uint16_t record, record_len; /* the record with its sum; the head's sum follows */
    uint16_t len;                /* 0: empty */
    uint32_t misses;
    uint64_t rest; /* of tar's own sum: what never changes */
    char head[LEN_MOST];
};

struct header_templates {
    struct header_template *at[PLACES]; /* owned; NULL: never needed */
};

struct header_templates *
header_templates_new(void)
{
    return xcalloc(1, sizeof(struct header_templates));
}

void
header_templates_free(struct header_templates **sp)
{
    struct header_templates *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    for (unsigned i = 0; i < PLACES; i++) {
        if (s->at[i] != NULL)
            arena_free(&s->at[i]->texts);
        free(s->at[i]);
    }
    free(s);
}

/* ---- is it alike? ---- */

static bool
has_version(const struct version *v)
{
    return v->epoch != 0 || v->counter != 0;
}

/* A body in the log under its own name, and nothing that only other records have. */
static bool
is_simple(const struct log_record *m)
{
    return m->kind == LOG_RECORD_PUT && !m->last && m->meta != NULL && m->part == 0 &&
           m->place.segment == 0 && m->old_place.segment == 0 && m->span == 0 &&
           !m->meta_behind && !m->copy && m->layout == 0 && !has_version(&m->born) &&
           has_version(&m->version) && !log_record_has_upload(m) &&
           m->meta->user_count == 0 && m->meta->mtime_ms > 0;
}

static bool
is_zero(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

static bool
takes_as_much(const struct header_template *s, enum log_record_field field,
              uint64_t number)
{
    return s->fields[field].len == record_u64_len(number);
}

static bool
is_alike(const struct header_template *s, const struct log_record *m)
{
    const struct log_record *of = &s->of;

    return is_simple(m) && m->after_unsynced == of->after_unsynced &&
           m->segment == of->segment && m->generation == of->generation &&
           m->epoch == of->epoch && m->bucket == of->bucket &&
           m->payload == of->payload && m->size == of->size &&
           m->key.len == of->key.len && m->block_sums.len == of->block_sums.len &&
           span_eq(m->immutable_name, of->immutable_name) &&
           meta_is_alike(m->meta, &s->meta) &&
           takes_as_much(s, FIELD_OFFSET, m->offset) &&
           takes_as_much(s, FIELD_BATCH, m->batch) &&
           takes_as_much(s, FIELD_UNSYNCED, m->unsynced) &&
           takes_as_much(s, FIELD_MTIME, (uint64_t)m->meta->mtime_ms) &&
           !is_zero(m->content.bytes, sizeof m->content.bytes) &&
           !is_zero(m->meta->md5, sizeof m->meta->md5) && tar_path_safe(m->key);
}

/* ---- filling in ---- */

static void
template_put_number(char *out, const struct header_template *s,
                    enum log_record_field field, uint64_t v)
{
    const struct at *f = &s->fields[field];

    for (unsigned i = f->len; i-- > 0; v >>= 8)
        out[f->at + i] = (char)v;
}

static void
template_put_bytes(char *out, const struct header_template *s,
                   enum log_record_field field, size_t from, const void *bytes,
                   size_t len)
{
    assert(from + len == s->fields[field].len);
    if (len > 0)
        memcpy(out + s->fields[field].at + from, bytes, len);
}

static void
template_put_fields(char *out, const struct header_template *s,
                    const struct log_record *m)
{
    const struct object_meta *meta = m->meta;
    char version[16];

    format_put_be(version, m->version.epoch, 8);
    format_put_be(version + 8, m->version.counter, 8);
    template_put_number(out, s, FIELD_OFFSET, m->offset);
    template_put_number(out, s, FIELD_BATCH, m->batch);
    template_put_number(out, s, FIELD_UNSYNCED, m->unsynced);
    template_put_bytes(out, s, FIELD_KEY, 0, m->key.at, m->key.len);
    template_put_bytes(out, s, FIELD_CONTENT, 0, m->content.bytes,
                       sizeof m->content.bytes);
    template_put_bytes(out, s, FIELD_VERSION, 0, version, sizeof version);
    template_put_bytes(out, s, FIELD_BLOCK_SUMS, 0, m->block_sums.at, m->block_sums.len);
    template_put_number(out, s, FIELD_MTIME, (uint64_t)meta->mtime_ms);
    template_put_bytes(out, s, FIELD_MD5, 0, meta->md5, sizeof meta->md5);
    if (meta->checksum_algorithm != 0) /* algorithm and type stand in front */
        template_put_bytes(out, s, FIELD_CHECKSUM, 2, meta->checksum.at,
                           meta->checksum.len);
}

static void
template_put_sums(char *out, const struct header_template *s)
{
    size_t at = s->record + s->record_len;

    format_put_be(out + at - RECORD_SUM,
                  hash_crc32c(0, out + s->record, s->record_len - RECORD_SUM),
                  RECORD_SUM);
    format_put_be(out + at, log_record_head_sum(out, s->len, at), LOG_RECORD_HEAD_SUM);
}

static void
template_entry_of(const struct header_template *s, const struct log_record *m,
                  struct entry *entry)
{
    *entry = s->entry;
    entry->version = m->version;
    entry->content = m->content;
    entry->mtime_ms = m->meta->mtime_ms;
    entry->place.offset = m->offset;
    memcpy(entry->md5, m->meta->md5, sizeof entry->md5);
}

#ifdef FB_TEST_HOOKS
static bool
same_entry(const struct entry *a, const struct entry *b)
{
    return a->flags == b->flags && a->parts == b->parts &&
           version_cmp(&a->version, &b->version) == 0 &&
           content_eq(&a->content, &b->content) && a->size == b->size &&
           a->mtime_ms == b->mtime_ms && a->place.segment == b->place.segment &&
           a->place.offset == b->place.offset &&
           memcmp(a->md5, b->md5, sizeof a->md5) == 0 && !has_version(&a->born) &&
           !has_version(&b->born);
}

/* As it would be had it been encoded, and read back. */
static void
template_compare(enum store_class class, const struct log_record *m, const char *out,
                 const struct entry *entry)
{
    struct log_record encoded = *m, again;
    struct errbuf eb = {0};
    struct entry read;
    struct buf b;
    size_t need;

    buf_init(&b, HEAD_MAX);
    log_record_encode(&encoded, 0, &b);
    assert(b.len == m->head_len && memcmp(b.at, out, b.len) == 0);
    assert(log_record_parse((struct span){out, b.len}, &again, &need, &eb) ==
           LOG_RECORD_OK);
    assert(record_entry(&again, class, &read, &eb) == ERR_OK && same_entry(&read, entry));
    buf_fini(&b);
}
#endif

bool
header_templates_fill(struct header_templates *set, enum store_class class,
                      struct log_record *m, char *out, struct entry *entry)
{
    const struct header_template *s = set->at[m->key.len % PLACES];

    assert(m->head_len == 0 || m->head_len <= HEAD_MAX);
    assert(m->meta == NULL || m->meta->user_count == 0 || m->meta->user != NULL);
    (void)class;
    if (s == NULL || s->len == 0 || !is_alike(s, m))
        return false;
    memcpy(out, s->head, s->len);
    template_put_fields(out, s, m);
    tar_fill_head(out + s->len - TAR_BLOCK, s->of.immutable_name.len + 1, m->key,
                  m->meta->mtime_ms / 1000, s->rest);
    template_put_sums(out, s);
    m->head_len = s->len;
    template_entry_of(s, m, entry);
#ifdef FB_TEST_HOOKS
    template_compare(class, m, out, entry);
#endif
    return true;
}

/* ---- keeping ---- */

/* Where each field's value stands. False: the record is not there as it should be. */
static bool
find_fields(struct header_template *s, size_t record)
{
    struct span bytes = {s->head + record, s->len - record}, value;
    struct record r;
    uint8_t field;

    if (record_open(bytes, &r, NULL) != ERR_OK)
        return false;
    s->record = (uint16_t)record;
    s->record_len = (uint16_t)r.len;
    memset(s->fields, 0, sizeof s->fields);
    while (record_next(&r, &field, &value)) {
        if (field >= ARRAY_LEN(s->fields))
            return false;
        s->fields[field] =
            (struct at){(uint16_t)(value.at - s->head), (uint16_t)value.len};
    }
    return true;
}

/* Is the path bucket and key, whole in the last block? */
static bool
names_itself(const struct log_record *m, const char *ustar)
{
    size_t bucket = m->immutable_name.len, len = bucket + 1 + m->key.len;

    return bucket > 0 && len <= TAR_SHORT_PATH && tar_path_safe(m->key) &&
           memcmp(ustar, m->immutable_name.at, bucket) == 0 && ustar[bucket] == '/' &&
           memcmp(ustar + bucket + 1, m->key.at, m->key.len) == 0;
}

static void
template_take(struct header_template *s, const struct log_record *m, struct span head,
              size_t record, const struct entry *entry)
{
    s->len = (uint16_t)head.len;
    memcpy(s->head, head.at, head.len);
    if (!find_fields(s, record)) {
        s->len = 0;
        return;
    }
    arena_reset(s->texts);
    meta_copy(s->texts, m->meta, &s->meta);
    s->of = *m;
    s->of.meta = &s->meta;
    s->of.key = (struct span){s->head + s->fields[FIELD_KEY].at, m->key.len};
    s->of.immutable_name = (struct span){s->head + s->fields[FIELD_IMMUTABLE_NAME].at,
                                         m->immutable_name.len};
    s->rest =
        tar_rest_sum(s->head + s->len - TAR_BLOCK, m->immutable_name.len + 1, m->key.len);
    s->of.block_sums.at = NULL; /* the caller's; only how long it is matters */
    s->entry = *entry;
}

void
header_templates_keep(struct header_templates *set, const struct log_record *m,
                      struct span head, const struct entry *entry)
{
    struct header_template **place = &set->at[m->key.len % PLACES], *s = *place;

    assert(head.len <= HEAD_MAX);
    assert(m->kind == LOG_RECORD_PUT);
    if (!is_simple(m) || head.len > LEN_MOST || m->record.at == NULL ||
        !names_itself(m, head.at + head.len - TAR_BLOCK) ||
        is_zero(m->content.bytes, sizeof m->content.bytes) ||
        is_zero(m->meta->md5, sizeof m->meta->md5))
        return;
    if (s == NULL) {
        s = *place = xcalloc(1, sizeof *s);
        s->texts = arena_new(1024, TEXTS_MOST);
    }
    if (s->misses++ % KEEP_EACH == 0)
        template_take(s, m, head, (size_t)(m->record.at - head.at), entry);
}
