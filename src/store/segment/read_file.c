/* Reads log records and the sums of bodies from a segment. See read.h. */
#include <assert.h>
#include <inttypes.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/core/core.h"
#include "store/health/health.h"
#include "store/index/find.h"
#include "store/record/block.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/log_record_peek.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"

#define FIRST_LOOK     (8u << 10) /* of a log record of which only the header is wanted */
#define HEAD_GUESS     (2u << 10) /* a head with a key and little metadata has 1.5 KiB */
#define HEAD_GUESS_MAX (8u << 10)
#define SUMS_WINDOW    (64u << 10)

enum err
read_damage(struct store *d, const struct entry *entry, uint64_t block, struct errbuf *eb)
{
    char cid[33];

    hex_encode(entry->content.bytes, sizeof entry->content.bytes, cid);
    metric_add(M_CHECKSUM_FAILURES, 0, 1);
    health_corrupt_block(d->health);
    LOG(LOG_ERROR, "store.damage", "bytes on the disk are not what was written",
        L_TEXT("disk", rt_dir_path(d->root)), L_U64("segment", entry->place.segment),
        L_U64("offset", entry->place.offset), L_U64("block", block),
        L_TEXT("content", cid));
    return err_set(eb, ERR_CORRUPT, "the object is damaged on this disk");
}

/* ---- files ---- */

enum err
read_file_open(struct store *d, const struct entry *entry, struct read_file *out,
               struct errbuf *eb)
{
    enum store_class class =
        (entry->flags & ENTRY_CACHED) != 0 ? STORE_CACHED : STORE_NATIVE;
    char name[SEGMENT_NAME_ROOM];

    assert(out != NULL);
    *out = (struct read_file){.pin = segment_pin(d, entry->place.segment)};
    if (out->pin != NULL)
        return ERR_OK;
    segment_name(SEGMENT_ONE, entry->place.segment, name);
    return rt_open(d->dir[class], name, RT_O_DIRECT, 0, &out->own, eb);
}

void
read_file_close(struct read_file *f)
{
    rt_file_close(&f->own);
    segment_drop(&f->pin);
}

enum err
read_span(struct rt_file *f, uint64_t from, uint64_t len, struct deadline by,
          struct iobuf **out, uint32_t *skip, uint64_t *have, struct errbuf *eb)
{
    uint64_t begin = align_down(from, STORE_ALIGN),
             end = align_up(from + len, STORE_ALIGN);
    uint32_t n = 0;
    enum err rc;

    *out = NULL;
    assert(end - begin <= IOBUF_MAX);
    rc = iobuf_wait((uint32_t)(end - begin),
                    deadline_sooner(by, deadline_in_ms(IOBUF_WAIT_MS)), out);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer to read %" PRIu64 " bytes", end - begin);
    rc = rt_read(f, begin, *out, 0, (uint32_t)(end - begin), RT_READ, by, &n, eb);
    if (rc != ERR_OK) {
        iobuf_drop(out);
        return rc;
    }
    metric_add(M_DISK_IO_BYTES, 0, n);
    *skip = (uint32_t)(from - begin);
    *have = n > *skip ? n - *skip : 0;
    return ERR_OK;
}

/* ---- records of logs ---- */

void
loaded_fini(struct loaded *l)
{
    iobuf_drop(&l->buf);
    l->m = (struct log_record){0};
}

/* Parses the `len` bytes read from the record's header on. *more: read again with this length;
 * 0: verified. */
static enum err
read_verify_record(struct span have, uint64_t len, const struct segment *s,
                   const struct entry *entry, struct log_record *out, uint64_t *more,
                   struct errbuf *eb)
{
    size_t need = 0;
    enum log_record_result got = log_record_parse_placed(have, out, &need, eb);

    *more = 0;
    if (got == LOG_RECORD_MORE && have.len >= len && need > have.len) {
        *more = need;
        return ERR_OK;
    }
    if (got != LOG_RECORD_OK ||
        !log_record_is_at(out, s->id, s->generation, entry->place.offset))
        return ERR_CORRUPT;
    if (out->head_len + out->payload <= have.len)
        out->body = (struct span){have.at + out->head_len, out->payload};
    else
        *more = out->head_len + out->payload;
    return ERR_OK;
}

static enum err
read_check_record(struct rt_file *f, const struct segment *s, const struct entry *entry,
                  uint64_t len, struct loaded *out, uint64_t *more, struct errbuf *eb)
{
    uint32_t skip;
    uint64_t have;
    enum err rc = read_span(f, entry->place.offset, len, DEADLINE_NEVER, &out->buf, &skip,
                            &have, eb);

    *more = 0;
    return rc == ERR_OK ? read_verify_record((struct span){out->buf->at + skip, have},
                                             len, s, entry, &out->m, more, eb)
                        : rc;
}

static enum err
read_check_body(const struct store *d, const struct log_record *m, uint64_t *bad)
{
    *bad = 0;
    if (m->block_sums.len != 4 * block_count(m->payload))
        return ERR_CORRUPT;
    return block_check(block_seed(d->cluster_sum, &m->content, 0), 0, m->body.at,
                       m->payload, m->block_sums.at, bad);
}

enum err
read_relookup(struct store *d, uint64_t bucket, struct span key, struct entry *entry,
              struct errbuf *eb)
{
    struct entry now;
    enum err rc =
        find_content(d->memtable, d->index, bucket, key, &entry->content, &now, eb);

    if (rc == ERR_NOT_FOUND)
        return err_set(eb, ERR_NOT_FOUND, "the object was replaced while it was read");
    if (rc != ERR_OK)
        return rc;
    if (now.place.segment == entry->place.segment &&
        now.place.offset == entry->place.offset &&
        now.place.meta_segment == entry->place.meta_segment &&
        now.place.meta_offset == entry->place.meta_offset)
        return ERR_CORRUPT;
    *entry = now;
    return ERR_OK;
}

/* Returns how much to read of a record, so that one read gets all of it and little more. The
 * padding of a batch's last record may extend it, but not beyond the 4 KiB block at which
 * read_span() ends anyway. */
uint64_t
read_first_look(const struct segment *s, const struct entry *entry, bool want_body)
{
    uint32_t head = atomic_load_explicit(&s->head_guess, memory_order_relaxed);

    if (!want_body || (entry->flags & ENTRY_PARTS) != 0)
        return FIRST_LOOK;
    return MIN(MAX(head, HEAD_GUESS) + entry->size,
               (uint64_t)(STORE_INLINE_MAX + HEAD_MAX));
}

bool
read_is_whole(const struct store *d, const struct segment *s, const struct entry *entry,
              uint64_t bucket, struct span key, struct span have, struct span *body)
{
    struct log_record_peek m;
    uint64_t bad;

    if (!log_record_peek(have, &m) || m.segment != s->id ||
        m.generation != s->generation || m.offset != entry->place.offset ||
        m.bucket != bucket || !span_eq(m.key, key) || m.payload != entry->size ||
        !content_eq(&entry->content, &m.content) || have.len - m.head_len < m.payload ||
        m.block_sums.len != 4 * block_count(m.payload))
        return false;
    *body = (struct span){have.at + m.head_len, m.payload};
    return block_check(block_seed(d->cluster_sum, &m.content, 0), 0, body->at, body->len,
                       m.block_sums.at, &bad) == ERR_OK;
}

/* Notes a longer head: later reads of this log begin with that length. */
static void
learn_head(struct segment *s, uint32_t head_len)
{
    uint32_t now = MIN(head_len, HEAD_GUESS_MAX);

    if (now > atomic_load_explicit(&s->head_guess, memory_order_relaxed))
        atomic_store_explicit(&s->head_guess, now, memory_order_relaxed);
}

static enum err
load_log_record(struct store *d, const struct entry *entry, bool want_body,
                struct loaded *out, uint64_t *bad, struct errbuf *eb)
{
    static const struct content_id any;
    struct segment *s = segment_pin(d, entry->place.segment);
    uint64_t len, more;
    bool again = false;
    enum err rc;

    *bad = 0;
    *out = (struct loaded){0};
    if (s == NULL)
        return err_set(eb, ERR_NOT_FOUND, "segment %06" PRIu32 " is not there",
                       entry->place.segment);
    len = read_first_look(s, entry, want_body);
    do {
        iobuf_drop(&out->buf);
        rc = read_check_record(s->file, s, entry, len, out, &more, eb);
        /* Skips a payload that the caller does not want. */
        if (rc == ERR_OK && more > 0 && !want_body && out->m.head_len != 0)
            break;
        if (rc == ERR_OK && more > 0 && (more <= len || more > BATCH_MAX))
            rc = ERR_CORRUPT;
        len = more;
        again = again || more > 0;
    } while (rc == ERR_OK && more > 0);
    if (rc == ERR_OK && again && want_body)
        learn_head(s, out->m.head_len);
    segment_drop(&s);
    if (rc == ERR_OK && !content_eq(&entry->content, &any) &&
        !content_eq(&entry->content, &out->m.content))
        rc = ERR_CORRUPT;
    if (rc == ERR_OK && want_body)
        rc = read_check_body(d, &out->m, bad);
    if (rc != ERR_OK)
        loaded_fini(out);
    return rc;
}

enum err
read_log_record_quiet(struct store *d, const struct entry *entry, bool want_body,
                      struct loaded *out, struct errbuf *eb)
{
    uint64_t bad;

    assert(d->segments != NULL);
    return load_log_record(d, entry, want_body, out, &bad, eb);
}

enum err
read_log_record(struct store *d, const struct entry *entry, bool want_body,
                struct loaded *out, struct errbuf *eb)
{
    uint64_t bad;
    enum err rc = load_log_record(d, entry, want_body, out, &bad, eb);

    return rc == ERR_CORRUPT ? read_damage(d, entry, bad, eb) : rc;
}

/* ---- sums of bodies ---- */

void
sums_fini(struct sums *s)
{
    iobuf_drop(&s->buf);
    *s = (struct sums){0};
}

/* The window begins with the sums record, whose header gives the offset of the sums. */
static enum err
read_sums_head(struct rt_file *f, const struct entry *entry, struct sums *s,
               struct errbuf *eb)
{
    uint64_t from = body_payload(entry) + align_up(entry->size, 512),
             total = 4 * block_count(entry->size);
    uint64_t len = MIN(2 * STORE_ALIGN + total, (uint64_t)SUMS_WINDOW), have;
    uint32_t skip;
    size_t need = 0;
    struct log_record m;
    enum log_record_result got;
    enum err rc = read_span(f, from, len, DEADLINE_NEVER, &s->buf, &skip, &have, eb);

    if (rc != ERR_OK)
        return rc;
    got = log_record_parse((struct span){s->buf->at + skip, have}, &m, &need, eb);
    if (got == LOG_RECORD_MORE && have < need && need <= HEAD_MAX) {
        iobuf_drop(&s->buf);
        rc = read_span(f, from, need + total % SUMS_WINDOW, DEADLINE_NEVER, &s->buf,
                       &skip, &have, eb);
        if (rc != ERR_OK)
            return rc;
        got = log_record_parse((struct span){s->buf->at + skip, have}, &m, &need, eb);
    }
    if (got != LOG_RECORD_OK || m.kind != LOG_RECORD_SUMS ||
        m.segment != entry->place.segment || m.offset != from || m.payload != total ||
        !content_eq(&m.content, &entry->content))
        return ERR_CORRUPT;
    s->file_offset = from + m.head_len;
    s->at = s->buf->at + skip + m.head_len;
    s->first = 0;
    s->count =
        have > m.head_len ? MIN((have - m.head_len) / 4, block_count(entry->size)) : 0;
    return ERR_OK;
}

static enum err
read_sums_window(struct rt_file *f, const struct entry *entry, uint64_t block,
                 uint64_t count, struct sums *s, struct errbuf *eb)
{
    uint64_t want = MAX(count,
                        MIN((uint64_t)SUMS_WINDOW / 4, block_count(entry->size) - block)),
             have;
    uint32_t skip;
    enum err rc;

    iobuf_drop(&s->buf);
    rc = read_span(f, s->file_offset + 4 * block, 4 * want, DEADLINE_NEVER, &s->buf,
                   &skip, &have, eb);
    if (rc != ERR_OK)
        return rc;
    s->at = s->buf->at + skip;
    s->first = block;
    s->count = MIN(have / 4, want);
    return s->count >= count ? ERR_OK : ERR_CORRUPT;
}

enum err
sums_get(struct rt_file *f, const struct entry *entry, uint64_t block, uint64_t count,
         struct sums *s, const char **out, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(count > 0);
    assert(s != NULL);
    assert(block + count <= block_count(entry->size));
    if (s->file_offset == 0)
        rc = read_sums_head(f, entry, s, eb);
    if (rc == ERR_OK && (block < s->first || block + count > s->first + s->count))
        rc = read_sums_window(f, entry, block, count, s, eb);
    if (rc == ERR_OK)
        *out = s->at + 4 * (block - s->first);
    return rc;
}

enum err
body_is_whole(struct rt_file *f, uint32_t cluster_sum, const struct entry *entry,
              uint64_t *bad, struct errbuf *eb)
{
    uint32_t seed = block_seed(cluster_sum, &entry->content, 0);
    uint64_t blocks = block_count(entry->size), step = MIB(1) / BLOCK_BYTES;
    struct sums sums = {0};
    enum err rc = ERR_OK;

    *bad = 0;
    for (uint64_t first = 0; rc == ERR_OK && first < blocks; first += step) {
        uint64_t count = MIN(step, blocks - first), from = first * BLOCK_BYTES, have;
        uint64_t len = MIN(entry->size - from, count * BLOCK_BYTES);
        struct iobuf *b = NULL;
        const char *want;
        uint32_t skip;

        *bad = first;
        rc = sums_get(f, entry, first, count, &sums, &want, eb);
        if (rc == ERR_OK)
            rc = read_span(f, body_payload(entry) + from, len, DEADLINE_NEVER, &b, &skip,
                           &have, eb);
        if (rc == ERR_OK && have < len)
            rc = ERR_CORRUPT;
        if (rc == ERR_OK)
            rc = block_check(seed, first, b->at + skip, len, want, bad);
        iobuf_drop(&b);
    }
    sums_fini(&sums);
    return rc;
}

enum err
manifest_load(struct store *d, const struct entry *entry, struct manifest *out,
              struct errbuf *eb)
{
    enum err rc = manifest_load_quiet(d, entry, out, eb);

    return rc == ERR_CORRUPT ? read_damage(d, entry, 0, eb) : rc;
}

enum err
manifest_load_quiet(struct store *d, const struct entry *entry, struct manifest *out,
                    struct errbuf *eb)
{
    struct loaded record;
    enum err rc;

    *out = (struct manifest){0};
    rc = read_log_record_quiet(d, entry, true, &record, eb);
    if (rc != ERR_OK)
        return rc;
    rc = manifest_decode(record.m.body, out, eb);
    loaded_fini(&record);
    return rc;
}
