/* The page as bytes. Names share a prefix with the one before: a page of names that are alike is short. */
#include "api/share.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/s3name.h"

#define PAGE_MAGIC   0x46504701u /* "FPG", version 1 */
#define NAME_MAX_LEN S3_KEY_MAX

enum { PAGE_TRUNCATED = 1, PAGE_STALE = 2 };
enum { NAME_PREFIX = 1, NAME_MARKER = 2, NAME_LATEST = 4, NAME_ALL = 7 };

static void
put_text16(struct buf *out, struct span s)
{
    assert(s.len <= UINT16_MAX);
    buf_be(out, s.len, 2);
    buf_put_span(out, s);
}

static size_t
common_length(struct span a, struct span b)
{
    size_t n = 0, most = MIN(a.len, b.len);

    while (n < most && a.at[n] == b.at[n])
        n++;
    return n;
}

void
share_page_encode(const struct share_page *p, struct buf *out)
{
    struct span before = {"", 0};

    assert(p->count <= SHARE_NAMES_MAX);
    buf_be(out, PAGE_MAGIC, 4);
    buf_be(out, (p->truncated ? PAGE_TRUNCATED : 0) | (p->stale ? PAGE_STALE : 0), 1);
    buf_be(out, p->count, 4);
    put_text16(out, p->next);
    put_text16(out, p->next_sub);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct share_entry *e = &p->entries[i];
        size_t same = common_length(before, e->name);

        buf_be(out,
               (e->is_prefix ? NAME_PREFIX : 0) | (e->is_marker ? NAME_MARKER : 0) |
                   (e->latest ? NAME_LATEST : 0),
               1);
        buf_be(out, same, 2);
        put_text16(out, span_from(e->name, same));
        put_text16(out, e->etag);
        put_text16(out, span_of(e->version));
        buf_be(out, e->algorithm, 1);
        buf_be(out, e->type, 1);
        buf_be(out, e->size, 8);
        buf_be(out, (uint64_t)e->time_ms, 8);
        before = e->name;
    }
}

/* In the arena; `most` bytes at most. */
static struct span
take_text16(struct cursor *c, struct arena *a, size_t most)
{
    struct span s = take_span(c, (size_t)take_be(c, 2));

    c->bad = c->bad || s.len > most;
    return c->bad ? (struct span){"", 0} : arena_span(a, s);
}

static void
take_name(struct cursor *c, struct arena *a, struct span before, struct span *out)
{
    size_t same = (size_t)take_be(c, 2);
    struct span rest = take_span(c, (size_t)take_be(c, 2));
    char *text;

    *out = (struct span){"", 0};
    c->bad = c->bad || same > before.len || same + rest.len > NAME_MAX_LEN ||
             same + rest.len == 0;
    if (c->bad)
        return;
    text = arena_alloc(a, same + rest.len + 1);
    memcpy(text, before.at, same);
    memcpy(text + same, rest.at, rest.len);
    *out = (struct span){text, same + rest.len};
}

static void
take_share_entry(struct cursor *c, struct arena *a, struct span before,
                 struct share_entry *e)
{
    unsigned flags = (unsigned)take_be(c, 1);
    struct span version;

    take_name(c, a, before, &e->name);
    e->etag = take_text16(c, a, SHARE_ID_MAX);
    version = take_span(c, (size_t)take_be(c, 2));
    c->bad = c->bad || flags > NAME_ALL || version.len >= sizeof e->version ||
             memchr(version.at, '\0', version.len) != NULL;
    if (!c->bad)
        memcpy(e->version, version.at, version.len);
    e->is_prefix = (flags & NAME_PREFIX) != 0;
    e->is_marker = (flags & NAME_MARKER) != 0;
    e->latest = (flags & NAME_LATEST) != 0;
    e->algorithm = (uint8_t)take_be(c, 1);
    e->type = (uint8_t)take_be(c, 1);
    e->size = take_be(c, 8);
    e->time_ms = (int64_t)take_be(c, 8);
    c->bad = c->bad || span_cmp(e->name, before) < 0;
}

enum err
share_page_decode(struct span bytes, struct arena *a, struct share_page *out,
                  struct errbuf *eb)
{
    struct cursor c = cursor_of(bytes.at, bytes.len);
    uint64_t magic = take_be(&c, 4), flags = take_be(&c, 1), count = take_be(&c, 4);
    struct span before = {"", 0};

    *out = (struct share_page){0};
    if (c.bad || magic != PAGE_MAGIC || flags > (PAGE_TRUNCATED | PAGE_STALE) ||
        count > SHARE_NAMES_MAX)
        return err_set(eb, ERR_CORRUPT, "the head of a page of names is damaged");
    out->truncated = (flags & PAGE_TRUNCATED) != 0;
    out->stale = (flags & PAGE_STALE) != 0;
    out->next = take_text16(&c, a, NAME_MAX_LEN);
    out->next_sub = take_text16(&c, a, SHARE_ID_MAX);
    out->entries = arena_alloc(a, (count + 1) * sizeof *out->entries);
    for (; out->count < count && !c.bad; out->count++) {
        take_share_entry(&c, a, before, &out->entries[out->count]);
        before = out->entries[out->count].name;
    }
    if (c.bad || cursor_left(&c) > 0)
        return err_set(eb, ERR_CORRUPT, "name %u of a page is damaged", out->count);
    return ERR_OK;
}

/* ---- what is asked ---- */

void
share_ask_put(struct buf *out, const struct share_ask *ask)
{
    char number[24];

    snprintf(number, sizeof number, "%u", (unsigned)ask->kind);
    query_put(out, "kind", span_of(number));
    snprintf(number, sizeof number, "%u", ask->max);
    query_put(out, "max", span_of(number));
    query_put(out, "prefix", ask->prefix);
    query_put(out, "delimiter", ask->delimiter);
    query_put(out, "after", ask->after);
    query_put(out, "after-sub", ask->after_sub);
}

enum err
share_ask_get(const struct query *q, struct share_ask *out, struct errbuf *eb)
{
    uint64_t kind, max;

    *out = (struct share_ask){.prefix = query_get(q, "prefix"),
                              .delimiter = query_get(q, "delimiter"),
                              .after = query_get(q, "after"),
                              .after_sub = query_get(q, "after-sub")};
    if (num_u64(query_get(q, "kind"), &kind) != ERR_OK || kind >= SHARE_KINDS_ ||
        num_u64(query_get(q, "max"), &max) != ERR_OK || max == 0 || max > SHARE_NAMES_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "bad kind or max in a request for names");
    out->kind = (enum share_kind)kind;
    out->max = (uint32_t)max;
    return ERR_OK;
}
