#include "store/record/manifest.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "store/record/format.h"

#define HEAD_BYTES  32u
#define ENTRY_BYTES 64u
#define SUMS_HEAD   16u /* of the section behind the pages */
static_assert(HEAD_BYTES + ENTRY_BYTES * MANIFEST_PAGE_PARTS <= MANIFEST_PAGE,
              "a page holds its parts");
static_assert(MANIFEST_PAGE % 512 == 0, "pages are whole blocks of tar");
static_assert(PART_MAX % MANIFEST_PAGE_PARTS == 0, "the largest manifest is whole pages");
static_assert(MANIFEST_SUM_MAX <= UINT8_MAX, "sum_len is one byte");
static_assert(HEAD_BYTES + MANIFEST_PAGE_PARTS * ENTRY_BYTES <= MANIFEST_PAGE,
              "a page holds its parts");
enum { IN_LOG = 1 };

void
manifest_fini(struct manifest *m)
{
    free(m->entries);
    free(m->sums);
    *m = (struct manifest){0};
}

struct span
manifest_sum(const struct manifest *m, uint32_t index)
{
    assert(index < m->count);
    if (m->sums == NULL)
        return (struct span){"", 0};
    return (struct span){m->sums + (size_t)index * m->sum_len, m->sum_len};
}

static uint64_t
pages_len(uint32_t count)
{
    uint32_t full = count / MANIFEST_PAGE_PARTS, rest = count % MANIFEST_PAGE_PARTS;

    if (rest == 0)
        return full == 0 ? 0
                         : (uint64_t)(full - 1) * MANIFEST_PAGE + HEAD_BYTES +
                               MANIFEST_PAGE_PARTS * ENTRY_BYTES;
    return (uint64_t)full * MANIFEST_PAGE + HEAD_BYTES + rest * ENTRY_BYTES;
}

uint64_t
manifest_len(uint32_t count, uint8_t sum_len)
{
    assert(count > 0 && count <= PART_MAX);
    assert(sum_len <= MANIFEST_SUM_MAX);
    return pages_len(count) + (sum_len > 0 ? SUMS_HEAD + (uint64_t)count * sum_len : 0);
}

static void
put_entry(char *out, const struct manifest_entry *e)
{
    memcpy(out, e->content.bytes, 16);
    format_put_be(out + 16, e->at, 8);
    format_put_be(out + 24, e->size, 8);
    format_put_be(out + 32, e->offset, 8);
    format_put_be(out + 40, e->segment, 4);
    format_put_be(out + 44, e->number, 2);
    format_put_be(out + 46, e->in_log ? IN_LOG : 0, 2);
    memcpy(out + 48, e->md5, 16);
}

static void
manifest_put_sums(const struct manifest *m, char *out)
{
    memcpy(out, "FBK1", 4);
    format_put_be(out + 4, m->count, 4);
    format_put_be(out + 8, m->sum_algorithm, 1);
    format_put_be(out + 9, m->sum_len, 1);
    memcpy(out + SUMS_HEAD, m->sums, (size_t)m->count * m->sum_len);
}

void
manifest_encode(const struct manifest *m, char *out)
{
    uint32_t count = m->count;
    char *page = out;

    assert(m->count > 0);
    assert(m->entries != NULL);
    assert((m->sums == NULL) == (m->sum_algorithm == 0) || m->sums != NULL ||
           m->count > 0);
    memset(out, 0, manifest_len(count, m->sum_len));
    for (uint32_t first = 0; first < count;
         first += MANIFEST_PAGE_PARTS, page += MANIFEST_PAGE) {
        uint32_t here = MIN(MANIFEST_PAGE_PARTS, count - first);

        memcpy(page, "FBM1", 4);
        format_put_be(page + 4, here, 4);
        format_put_be(page + 8, first, 4);
        format_put_be(page + 12, count, 4);
        for (uint32_t i = 0; i < here; i++)
            put_entry(page + HEAD_BYTES + i * ENTRY_BYTES, &m->entries[first + i]);
    }
    if (m->sum_len > 0)
        manifest_put_sums(m, out + pages_len(count));
}

static void
take_entry(struct cursor *c, struct manifest_entry *e)
{
    memcpy(e->content.bytes, take_span(c, 16).at, 16);
    e->at = take_be(c, 8);
    e->size = take_be(c, 8);
    e->offset = take_be(c, 8);
    e->segment = (uint32_t)take_be(c, 4);
    e->number = (uint16_t)take_be(c, 2);
    e->in_log = (take_be(c, 2) & IN_LOG) != 0;
    memcpy(e->md5, take_span(c, 16).at, 16);
}

static enum err
take_page(struct span page, uint32_t first, uint32_t count, struct manifest *m)
{
    uint32_t here = MIN(MANIFEST_PAGE_PARTS, count - first);
    struct cursor c = cursor_of(page.at, page.len);

    if (page.len < HEAD_BYTES + (size_t)here * ENTRY_BYTES ||
        !span_is(take_span(&c, 4), "FBM1"))
        return ERR_CORRUPT;
    if (take_be(&c, 4) != here || take_be(&c, 4) != first || take_be(&c, 4) != count)
        return ERR_CORRUPT;
    if (take_be(&c, 8) != 0 || take_be(&c, 8) != 0)
        return ERR_CORRUPT;
    for (uint32_t i = first; i < first + here; i++) {
        struct manifest_entry *e = &m->entries[i];
        const struct manifest_entry *before = i > 0 ? e - 1 : NULL;

        take_entry(&c, e);
        if (e->at != (before != NULL ? before->at + before->size : 0) ||
            e->size > BODY_MAX)
            return ERR_CORRUPT;
        if (e->number <= (before != NULL ? before->number : 0) || e->number > PART_MAX)
            return ERR_CORRUPT;
    }
    return ERR_OK;
}

/* What stands behind the pages: nothing, in manifests of before, or one checksum a part. */
static enum err
take_sums(struct span section, struct manifest *m)
{
    struct cursor c = cursor_of(section.at, section.len);
    bool ours;

    if (section.len == 0)
        return ERR_OK;
    ours = span_is(take_span(&c, 4), "FBK1") && take_be(&c, 4) == m->count;
    m->sum_algorithm = (uint8_t)take_be(&c, 1);
    m->sum_len = (uint8_t)take_be(&c, 1);
    if (!ours || take_be(&c, 6) != 0 || c.bad || m->sum_algorithm == 0 ||
        m->sum_len == 0 || m->sum_len > MANIFEST_SUM_MAX ||
        section.len != SUMS_HEAD + (size_t)m->count * m->sum_len)
        return ERR_CORRUPT;
    m->sums = xmalloc(section.len - SUMS_HEAD);
    memcpy(m->sums, section.at + SUMS_HEAD, section.len - SUMS_HEAD);
    return ERR_OK;
}

enum err
manifest_decode(struct span payload, struct manifest *out, struct errbuf *eb)
{
    struct cursor c = cursor_of(payload.at, payload.len);
    struct span pages;
    uint32_t count;
    enum err rc = ERR_OK;

    *out = (struct manifest){0};
    (void)take_span(&c, 12);
    count = (uint32_t)take_be(&c, 4);
    if (c.bad || count == 0 || count > PART_MAX || payload.len < pages_len(count))
        return err_set(eb, ERR_CORRUPT,
                       "a manifest of %zu bytes does not fit its count of parts",
                       payload.len);
    out->entries = xcalloc(count, sizeof *out->entries);
    out->count = count;
    pages = (struct span){payload.at, pages_len(count)};
    for (uint32_t first = 0; rc == ERR_OK && first < count; first += MANIFEST_PAGE_PARTS)
        rc = take_page(
            span_from(pages, (size_t)(first / MANIFEST_PAGE_PARTS) * MANIFEST_PAGE),
            first, count, out);
    if (rc == ERR_OK)
        rc = take_sums(span_from(payload, pages_len(count)), out);
    if (rc != ERR_OK) {
        manifest_fini(out);
        return err_set(eb, rc, "a page of a manifest is malformed");
    }
    return ERR_OK;
}
