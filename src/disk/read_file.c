/* Reading what lies in a segment: members of logs, sums of bodies. See read.h. */
#include <assert.h>
#include <inttypes.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "disk/block.h"
#include "disk/health.h"
#include "disk/member_glance.h"
#include "disk/read.h"
#include "disk/segment.h"

#define FIRST_LOOK     (8u << 10) /* of a log member whose header alone is wanted */
#define HEAD_GUESS     (2u << 10) /* a head with a key and few metadata has 1.5 KiB */
#define HEAD_GUESS_MAX (8u << 10)
#define SUMS_WINDOW    (64u << 10)

enum err
read_damage(struct disk *d, const struct row *row, uint64_t block, struct errbuf *eb)
{
    char cid[33];

    hex_encode(row->content.bytes, sizeof row->content.bytes, cid);
    metric_add(M_CHECKSUM_FAILURES, 0, 1);
    health_corrupt_block(d->health);
    LOG(LOG_ERROR, "disk.damage", "bytes on the disk are not what was written",
        L_TEXT("disk", rt_dir_path(d->root)), L_U64("segment", row->segment),
        L_U64("offset", row->offset), L_U64("block", block), L_TEXT("content", cid));
    return err_set(eb, ERR_CORRUPT, "the object is damaged on this disk");
}

/* ---- files ---- */

enum err
read_file_open(struct disk *d, const struct row *row, struct read_file *out,
               struct errbuf *eb)
{
    enum disk_class class = (row->flags & ROW_CACHED) != 0 ? DISK_CACHED : DISK_NATIVE;
    char name[SEGMENT_NAME_ROOM];

    *out = (struct read_file){.pin = segment_pin(d, row->segment)};
    if (out->pin != NULL)
        return ERR_OK;
    segment_name(SEGMENT_ONE, row->segment, name);
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
    uint64_t begin = align_down(from, DISK_ALIGN), end = align_up(from + len, DISK_ALIGN);
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

/* ---- members of logs ---- */

void
loaded_fini(struct loaded *l)
{
    iobuf_drop(&l->buf);
    l->m = (struct member){0};
}

/* What `len` bytes that were asked for from the member's header on have become. *more: bytes that are wanted instead, 0 when
 * it is judged. */
static enum err
judge_member(struct span have, uint64_t len, const struct segment *s,
             const struct row *row, struct member *out, uint64_t *more, struct errbuf *eb)
{
    size_t need = 0;
    enum member_got got = member_parse_placed(have, out, &need, eb);

    *more = 0;
    if (got == MEMBER_MORE && have.len >= len && need > have.len) {
        *more = need;
        return ERR_OK;
    }
    if (got != MEMBER_GOOD || !member_stands(out, s->id, s->generation, row->offset))
        return ERR_CORRUPT;
    if (out->head_len + out->payload <= have.len)
        out->body = (struct span){have.at + out->head_len, out->payload};
    else
        *more = out->head_len + out->payload;
    return ERR_OK;
}

static enum err
look_at_member(struct rt_file *f, const struct segment *s, const struct row *row,
               uint64_t len, struct loaded *out, uint64_t *more, struct errbuf *eb)
{
    uint32_t skip;
    uint64_t have;
    enum err rc =
        read_span(f, row->offset, len, DEADLINE_NEVER, &out->buf, &skip, &have, eb);

    *more = 0;
    return rc == ERR_OK ? judge_member((struct span){out->buf->at + skip, have}, len, s,
                                       row, &out->m, more, eb)
                        : rc;
}

static enum err
check_body(const struct disk *d, const struct member *m, uint64_t *bad)
{
    *bad = 0;
    if (m->block_sums.len != 4 * block_count(m->payload))
        return ERR_CORRUPT;
    return block_check(block_seed(d->cluster_sum, &m->content, 0), 0, m->body.at,
                       m->payload, m->block_sums.at, bad);
}

enum err
read_again(struct disk *d, uint64_t bucket, struct span key, struct row *row,
           struct errbuf *eb)
{
    struct row now;
    enum err rc = find_content(d->tail, d->index, bucket, key, &row->content, &now, eb);

    if (rc == ERR_NOT_FOUND)
        return err_set(eb, ERR_NOT_FOUND, "the object was replaced while it was read");
    if (rc != ERR_OK)
        return rc;
    if (now.segment == row->segment && now.offset == row->offset &&
        now.meta_segment == row->meta_segment && now.meta_offset == row->meta_offset)
        return ERR_CORRUPT;
    *row = now;
    return ERR_OK;
}

/* How much to read of a member, so that one read has all of it and little more. A last member of a group is filled up, but
 * not beyond the block of 4 KiB that read_span() ends at anyway. */
uint64_t
read_first_look(const struct segment *s, const struct row *row, bool want_body)
{
    uint32_t head = atomic_load_explicit(&s->head_guess, memory_order_relaxed);

    if (!want_body || (row->flags & ROW_PARTS) != 0)
        return FIRST_LOOK;
    return MIN(MAX(head, HEAD_GUESS) + row->size, (uint64_t)(DISK_INLINE_MAX + HEAD_MAX));
}

bool
read_is_whole(const struct disk *d, const struct segment *s, const struct row *row,
              uint64_t bucket, struct span key, struct span have, struct span *body)
{
    struct member_glance m;
    uint64_t bad;

    if (!member_glance(have, &m) || m.segment != s->id || m.generation != s->generation ||
        m.offset != row->offset || m.bucket != bucket || !span_eq(m.key, key) ||
        m.payload != row->size || !content_eq(&row->content, &m.content) ||
        have.len - m.head_len < m.payload ||
        m.block_sums.len != 4 * block_count(m.payload))
        return false;
    *body = (struct span){have.at + m.head_len, m.payload};
    return block_check(block_seed(d->cluster_sum, &m.content, 0), 0, body->at, body->len,
                       m.block_sums.at, &bad) == ERR_OK;
}

/* A longer head was met: who reads of this log from now on begins with as much. */
static void
learn_head(struct segment *s, uint32_t head_len)
{
    uint32_t now = MIN(head_len, HEAD_GUESS_MAX);

    if (now > atomic_load_explicit(&s->head_guess, memory_order_relaxed))
        atomic_store_explicit(&s->head_guess, now, memory_order_relaxed);
}

static enum err
load_log_member(struct disk *d, const struct row *row, bool want_body, struct loaded *out,
                uint64_t *bad, struct errbuf *eb)
{
    static const struct content_id any;
    struct segment *s = segment_pin(d, row->segment);
    uint64_t len, more;
    bool again = false;
    enum err rc;

    *bad = 0;
    *out = (struct loaded){0};
    if (s == NULL)
        return err_set(eb, ERR_NOT_FOUND, "segment %06" PRIu32 " is not there",
                       row->segment);
    len = read_first_look(s, row, want_body);
    do {
        iobuf_drop(&out->buf);
        rc = look_at_member(s->file, s, row, len, out, &more, eb);
        /* A payload that nobody wants is not waited for. */
        if (rc == ERR_OK && more > 0 && !want_body && out->m.head_len != 0)
            break;
        if (rc == ERR_OK && more > 0 && (more <= len || more > GROUP_MAX))
            rc = ERR_CORRUPT;
        len = more;
        again = again || more > 0;
    } while (rc == ERR_OK && more > 0);
    if (rc == ERR_OK && again && want_body)
        learn_head(s, out->m.head_len);
    segment_drop(&s);
    if (rc == ERR_OK && !content_eq(&row->content, &any) &&
        !content_eq(&row->content, &out->m.content))
        rc = ERR_CORRUPT;
    if (rc == ERR_OK && want_body)
        rc = check_body(d, &out->m, bad);
    if (rc != ERR_OK)
        loaded_fini(out);
    return rc;
}

enum err
read_log_member_quiet(struct disk *d, const struct row *row, bool want_body,
                      struct loaded *out, struct errbuf *eb)
{
    uint64_t bad;

    return load_log_member(d, row, want_body, out, &bad, eb);
}

enum err
read_log_member(struct disk *d, const struct row *row, bool want_body, struct loaded *out,
                struct errbuf *eb)
{
    uint64_t bad;
    enum err rc = load_log_member(d, row, want_body, out, &bad, eb);

    return rc == ERR_CORRUPT ? read_damage(d, row, bad, eb) : rc;
}

/* ---- sums of bodies ---- */

void
sums_fini(struct sums *s)
{
    iobuf_drop(&s->buf);
    *s = (struct sums){0};
}

/* The window begins with the sums member: its header says where the sums are. */
static enum err
read_sums_head(struct rt_file *f, const struct row *row, struct sums *s,
               struct errbuf *eb)
{
    uint64_t from = body_payload(row) + align_up(row->size, 512),
             total = 4 * block_count(row->size);
    uint64_t len = MIN(2 * DISK_ALIGN + total, (uint64_t)SUMS_WINDOW), have;
    uint32_t skip;
    size_t need = 0;
    struct member m;
    enum member_got got;
    enum err rc = read_span(f, from, len, DEADLINE_NEVER, &s->buf, &skip, &have, eb);

    if (rc != ERR_OK)
        return rc;
    got = member_parse((struct span){s->buf->at + skip, have}, &m, &need, eb);
    if (got == MEMBER_MORE && have < need && need <= HEAD_MAX) {
        iobuf_drop(&s->buf);
        rc = read_span(f, from, need + total % SUMS_WINDOW, DEADLINE_NEVER, &s->buf,
                       &skip, &have, eb);
        if (rc != ERR_OK)
            return rc;
        got = member_parse((struct span){s->buf->at + skip, have}, &m, &need, eb);
    }
    if (got != MEMBER_GOOD || m.kind != MEMBER_SUMS || m.segment != row->segment ||
        m.offset != from || m.payload != total || !content_eq(&m.content, &row->content))
        return ERR_CORRUPT;
    s->file_offset = from + m.head_len;
    s->at = s->buf->at + skip + m.head_len;
    s->first = 0;
    s->count =
        have > m.head_len ? MIN((have - m.head_len) / 4, block_count(row->size)) : 0;
    return ERR_OK;
}

static enum err
read_sums_window(struct rt_file *f, const struct row *row, uint64_t block, uint64_t count,
                 struct sums *s, struct errbuf *eb)
{
    uint64_t want = MAX(count,
                        MIN((uint64_t)SUMS_WINDOW / 4, block_count(row->size) - block)),
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
sums_get(struct rt_file *f, const struct row *row, uint64_t block, uint64_t count,
         struct sums *s, const char **out, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(block + count <= block_count(row->size));
    if (s->file_offset == 0)
        rc = read_sums_head(f, row, s, eb);
    if (rc == ERR_OK && (block < s->first || block + count > s->first + s->count))
        rc = read_sums_window(f, row, block, count, s, eb);
    if (rc == ERR_OK)
        *out = s->at + 4 * (block - s->first);
    return rc;
}

enum err
body_is_whole(struct rt_file *f, uint32_t cluster_sum, const struct row *row,
              uint64_t *bad, struct errbuf *eb)
{
    uint32_t seed = block_seed(cluster_sum, &row->content, 0);
    uint64_t blocks = block_count(row->size), step = MIB(1) / BLOCK_BYTES;
    struct sums sums = {0};
    enum err rc = ERR_OK;

    *bad = 0;
    for (uint64_t first = 0; rc == ERR_OK && first < blocks; first += step) {
        uint64_t count = MIN(step, blocks - first), from = first * BLOCK_BYTES, have;
        uint64_t len = MIN(row->size - from, count * BLOCK_BYTES);
        struct iobuf *b = NULL;
        const char *want;
        uint32_t skip;

        *bad = first;
        rc = sums_get(f, row, first, count, &sums, &want, eb);
        if (rc == ERR_OK)
            rc = read_span(f, body_payload(row) + from, len, DEADLINE_NEVER, &b, &skip,
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
