/* Heads of tar members, written; see tar.h for the shape. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "wire/http_chars.h"
#include "wire/tar.h"
#include "wire/tar_format.h"

#define USTAR_NUMBER_MAX ((uint64_t)077777777777) /* eleven octal digits */
#define COMPONENT_MAX    255

/* ---- pax records: "LENGTH keyword=value\n", LENGTH counting itself ---- */

static size_t
tar_write_digits(size_t n)
{
    size_t count = 1;

    for (; n >= 10; n /= 10)
        count++;
    return count;
}

static size_t
record_len(size_t keyword_len, size_t value_len)
{
    size_t rest = keyword_len + value_len + 3; /* space, '=', newline */
    size_t len = rest + tar_write_digits(rest);

    return rest + tar_write_digits(len);
}

/* "LENGTH keyword=", without printf: each record that is made durable has one or two. */
static void
put_keyword(struct buf *out, size_t len, const char *keyword)
{
    size_t count = tar_write_digits(len), keyword_len = strlen(keyword);
    char *at = buf_reserve(out, count + keyword_len + 2);

    if (at == NULL)
        return;
    out->len += count + keyword_len + 2;
    for (size_t i = count; i-- > 0; len /= 10)
        at[i] = (char)('0' + len % 10);
    at[count] = ' ';
    memcpy(at + count + 1, keyword, keyword_len);
    at[count + 1 + keyword_len] = '=';
}

static void
put_record(struct buf *out, const char *keyword, struct span value)
{
    put_keyword(out, record_len(strlen(keyword), value.len), keyword);
    buf_put_span(out, value);
    buf_putc(out, '\n');
}

/* A record of exactly `len` bytes that says nothing. */
static void
tar_write_put_filler(struct buf *out, size_t len)
{
    static const char keyword[] = "comment";
    size_t around = tar_write_digits(len) + sizeof keyword - 1 + 3;
    char *p;

    assert(len >= around);
    put_keyword(out, len, keyword);
    p = buf_reserve(out, len - around);
    if (p != NULL) {
        memset(p, ' ', len - around);
        out->len += len - around;
    }
    buf_putc(out, '\n');
}

/* ---- which records a member needs ---- */

struct needs {
    bool path, size, mtime;
    char size_text[24], mtime_text[24];
    size_t len; /* of all records */
};

static struct needs
needs_of(const struct tar_member *m)
{
    struct needs n = {0};

    n.path = m->path.len > USTAR_NAME_LEN;
    n.size = m->size > USTAR_NUMBER_MAX;
    n.mtime = m->mtime_s > (int64_t)USTAR_NUMBER_MAX;
    if (n.path)
        n.len += record_len(strlen("path"), m->path.len);
    if (n.size) {
        snprintf(n.size_text, sizeof n.size_text, "%" PRIu64, m->size);
        n.len += record_len(strlen("size"), strlen(n.size_text));
    }
    if (n.mtime) {
        snprintf(n.mtime_text, sizeof n.mtime_text, "%" PRId64, m->mtime_s);
        n.len += record_len(strlen("mtime"), strlen(n.mtime_text));
    }
    if (m->xattr.len > 0)
        n.len += record_len(strlen(TAR_XATTR_KEYWORD), m->xattr.len);
    return n;
}

/* Returns where the xattr begins in `out`; 0: there is none. */
static size_t
put_records(struct buf *out, const struct tar_member *m, const struct needs *n)
{
    if (n->path)
        put_record(out, "path", m->path);
    if (n->size)
        put_record(out, "size", span_of(n->size_text));
    if (n->mtime)
        put_record(out, "mtime", span_of(n->mtime_text));
    if (m->xattr.len == 0)
        return 0;
    put_record(out, TAR_XATTR_KEYWORD, m->xattr);
    return out->len - 1 - m->xattr.len;
}

/* ---- headers ---- */

/* `width` includes the NUL at its end. */
static void
put_octal(char *at, size_t width, uint64_t value)
{
    at[--width] = '\0';
    while (width > 0) {
        at[--width] = (char)('0' + (value & 7));
        value >>= 3;
    }
    assert(value == 0);
}

static void
put_mtime(char *h, int64_t mtime_s)
{
    put_octal(h + USTAR_MTIME, 12,
              mtime_s >= 0 && mtime_s <= (int64_t)USTAR_NUMBER_MAX ? (uint64_t)mtime_s
                                                                   : 0);
}

static void
tar_write_put_sum(char *h)
{
    int64_t sum, high;

    memset(h + USTAR_SUM, ' ', 8);
    ustar_add_bytes(h, TAR_BLOCK / 8, &sum, &high);
    put_octal(h + USTAR_SUM, 7, (uint64_t)sum);
}

static void
put_ustar(struct buf *out, struct span name, char type, uint64_t size, int64_t mtime_s,
          unsigned mode)
{
    char *h = buf_reserve(out, TAR_BLOCK);

    if (h == NULL)
        return;
    memset(h, 0, TAR_BLOCK);
    memcpy(h + USTAR_NAME, name.at, MIN(name.len, USTAR_NAME_LEN));
    put_octal(h + USTAR_MODE, 8, mode & 07777);
    put_octal(h + USTAR_UID, 8, 0);
    put_octal(h + USTAR_GID, 8, 0);
    put_octal(h + USTAR_SIZE, 12, size <= USTAR_NUMBER_MAX ? size : 0);
    put_mtime(h, mtime_s);
    h[USTAR_TYPE] = type;
    memcpy(h + USTAR_MAGIC,
           "ustar\0"
           "00",
           8);
    tar_write_put_sum(h);
    out->len += TAR_BLOCK;
}

static_assert(TAR_SHORT_PATH == USTAR_NAME_LEN, "a path that needs no record");

static uint64_t
sum_bytes(const char *at, size_t len)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += (unsigned char)at[i];
    return sum;
}

uint64_t
tar_rest_sum(const char *ustar, size_t at, size_t len)
{
    int64_t sum, high;

    assert(at + len <= TAR_SHORT_PATH);
    ustar_add_bytes(ustar, TAR_BLOCK / 8, &sum, &high);
    return (uint64_t)sum + 8 * ' ' - sum_bytes(ustar + USTAR_SUM, 8) -
           sum_bytes(ustar + USTAR_NAME + at, len) - sum_bytes(ustar + USTAR_MTIME, 12);
}

void
tar_fill_head(char *ustar, size_t at, struct span name, int64_t mtime_s, uint64_t rest)
{
    assert(at + name.len <= TAR_SHORT_PATH);
    memcpy(ustar + USTAR_NAME + at, name.at, name.len);
    put_mtime(ustar, mtime_s);
    ustar[USTAR_SUM + 7] = ' ';
    put_octal(ustar + USTAR_SUM, 7,
              rest + sum_bytes(name.at, name.len) + sum_bytes(ustar + USTAR_MTIME, 12));
}

static size_t
len_with(const struct needs *n)
{
    if (n->len == 0)
        return TAR_BLOCK;
    return TAR_BLOCK + (size_t)align_up(n->len, TAR_BLOCK) + TAR_BLOCK;
}

size_t
tar_head_len(const struct tar_member *m)
{
    struct needs n = needs_of(m);

    return len_with(&n);
}

bool
tar_head_len_ok(const struct tar_member *m, size_t len)
{
    size_t shortest = tar_head_len(m);
    size_t least = shortest > TAR_BLOCK ? TAR_BLOCK : (size_t)2 * TAR_BLOCK;

    return len % TAR_BLOCK == 0 && len <= TAR_HEAD_MAX &&
           (len == shortest || len >= shortest + least);
}

size_t
tar_put_head(struct buf *out, const struct tar_member *m, size_t len)
{
    struct needs n = needs_of(m);
    size_t shortest = len_with(&n), start = out->len;
    size_t records, xattr = 0;

    assert(m->path.len > 0);
    assert(m->path.len <= TAR_PATH_MAX);
    assert(m->type == TAR_FILE || m->type == TAR_DIR);
    if (len == 0)
        len = shortest;
    assert(tar_head_len_ok(m, len));

    if (len > TAR_BLOCK) {
        records = len > shortest ? len - (size_t)2 * TAR_BLOCK : n.len;
        put_ustar(out, SPAN("././@PaxHeader"), 'x', records, 0, 0644);
        xattr = put_records(out, m, &n);
        if (records > n.len)
            tar_write_put_filler(out, records - n.len);
        tar_put_padding(out, records);
    }
    put_ustar(out, m->path, m->type == TAR_DIR ? '5' : '0', m->size, m->mtime_s,
              m->mode != 0 ? m->mode : 0644);
    return xattr == 0 || out->full ? 0 : xattr - start;
}

void
tar_put_padding(struct buf *out, uint64_t size)
{
    buf_zero(out, (size_t)tar_padding(size));
}

void
tar_put_end(struct buf *out)
{
    buf_zero(out, (size_t)2 * TAR_BLOCK);
}

static bool
component_safe(struct span c)
{
    return c.len > 0 && c.len <= COMPONENT_MAX && !span_is(c, ".") && !span_is(c, "..");
}

bool
tar_path_safe(struct span key)
{
    struct span rest = key;

    if (key.len == 0 || key.len > TAR_PATH_MAX || !has_no_control(key.at, key.len) ||
        !utf8_valid(key))
        return false;
    for (;;) {
        const char *slash = span_find(rest, '/');
        size_t len = slash != NULL ? (size_t)(slash - rest.at) : rest.len;

        if (!component_safe((struct span){rest.at, len}))
            return false;
        if (slash == NULL)
            return true;
        rest = span_from(rest, len + 1);
        if (rest.len == 0) /* a slash at the end */
            return false;
    }
}
