/* Reads heads of tar members, our own and others'; see tar.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "wire/tar.h"
#include "wire/tar_format.h"

#define SIZE_MAX_HERE ((uint64_t)1 << 62)

static enum tar_got PRINTF(2, 3) bad(struct errbuf *eb, const char *fmt, ...)
{
    va_list ap;

    if (eb != NULL) {
        va_start(ap, fmt);
        vsnprintf(eb->text, sizeof eb->text, fmt, ap);
        va_end(ap);
    }
    return TAR_GOT_BAD;
}

/* ---- fields ---- */

static struct span
text_field(const char *at, size_t width)
{
    return (struct span){at, strnlen(at, width)};
}

/* GNU and star: the first bit set, then a big-endian two's complement number. */
static bool
tar_read_base256(const unsigned char *at, size_t width, int64_t *out)
{
    uint64_t v = at[0] & 0x40 ? UINT64_MAX : 0; /* the sign, spread */

    for (size_t i = 0; i < width; i++) {
        unsigned byte = i > 0 ? at[i] : at[i] & 0x40 ? at[i] : at[i] & 0x7f;
        uint64_t top = v >> 55;

        if (top != 0 && top != 0x1ff)
            return false; /* the next shift would lose bits */
        v = v << 8 | byte;
    }
    *out = (int64_t)v;
    return true;
}

static bool
number_field(const char *at, size_t width, int64_t *out)
{
    size_t i = 0;
    int64_t v = 0;

    if (((unsigned char)at[0] & 0x80) != 0)
        return tar_read_base256((const unsigned char *)at, width, out);
    while (i < width && at[i] == ' ')
        i++;
    for (; i < width && at[i] >= '0' && at[i] <= '7'; i++) {
        if (v > INT64_MAX >> 3)
            return false;
        v = v << 3 | (at[i] - '0');
    }
    for (; i < width; i++) {
        if (at[i] != ' ' && at[i] != '\0')
            return false;
    }
    *out = v;
    return true;
}

/* The sum's own field counts as blanks. Old tars summed signed bytes: either sum is right. */
static bool
sum_ok(const char *block)
{
    int64_t want, sum, high, own, own_high;

    if (!number_field(block + USTAR_SUM, 8, &want))
        return false;
    ustar_add_bytes(block, TAR_BLOCK / 8, &sum, &high);
    ustar_add_bytes(block + USTAR_SUM, 1, &own, &own_high);
    sum += 8 * ' ' - own;
    return want == sum || want == sum - 256 * (high - own_high);
}

static bool
all_zero(const char *block)
{
    return block[0] == '\0' && memcmp(block, block + 1, TAR_BLOCK - 1) == 0;
}

/* ---- pax records ---- */

/* What extension headers say; it stands above the ustar fields. */
struct extension {
    struct span path, link, xattr;
    bool has_size, has_mtime;
    uint64_t size;
    int64_t mtime_s;
};

/* "-12.75" -> -13: whole seconds, downwards. */
static bool
pax_time(struct span text, int64_t *out)
{
    bool negative = text.len > 0 && text.at[0] == '-';
    struct span whole = negative ? span_from(text, 1) : text;
    const char *dot = span_find(whole, '.');
    bool fraction = false;
    uint64_t v;

    if (dot != NULL) {
        for (const char *p = dot + 1; p < whole.at + whole.len; p++) {
            if (*p < '0' || *p > '9')
                return false;
            fraction = fraction || *p != '0';
        }
        whole.len = (size_t)(dot - whole.at);
    }
    if (num_u64(whole, &v) != ERR_OK || v > INT64_MAX / 2)
        return false;
    *out = negative ? -(int64_t)v - (fraction ? 1 : 0) : (int64_t)v;
    return true;
}

static enum tar_got
take_path(struct span value, struct span *out, const char *what, struct errbuf *eb)
{
    if (value.len > TAR_PATH_MAX)
        return bad(eb, "tar: a %s of %zu bytes, at most %u", what, value.len,
                   TAR_PATH_MAX);
    if (span_find(value, '\0') != NULL)
        return bad(eb, "tar: a %s with a zero byte", what);
    *out = value;
    return TAR_GOT_HEAD;
}

static enum tar_got
apply_record(struct span keyword, struct span value, struct extension *x,
             struct errbuf *eb)
{
    if (span_is(keyword, "path"))
        return take_path(value, &x->path, "path", eb);
    if (span_is(keyword, "linkpath"))
        return take_path(value, &x->link, "link", eb);
    if (span_is(keyword, TAR_XATTR_KEYWORD))
        x->xattr = value;
    if (span_is(keyword, "size")) {
        if (num_u64(value, &x->size) != ERR_OK || x->size > SIZE_MAX_HERE)
            return bad(eb, "tar: a pax size \"%.*s\"", (int)MIN(value.len, 40), value.at);
        x->has_size = true;
    }
    if (span_is(keyword, "mtime")) {
        if (!pax_time(value, &x->mtime_s))
            return bad(eb, "tar: a pax mtime \"%.*s\"", (int)MIN(value.len, 40),
                       value.at);
        x->has_mtime = true;
    }
    if (span_starts(keyword, SPAN("GNU.sparse.")))
        return bad(eb, "tar: a sparse member, which is not supported");
    return TAR_GOT_HEAD;
}

static enum tar_got
apply_pax(struct span records, struct extension *x, struct errbuf *eb)
{
    while (records.len > 0) {
        const char *space = memchr(records.at, ' ', MIN(records.len, 12));
        struct span text = {records.at, space ? (size_t)(space - records.at) : 0};
        const char *equals;
        uint64_t len;
        enum tar_got got;

        if (space == NULL || num_u64(text, &len) != ERR_OK || len > records.len ||
            len < text.len + 3 || records.at[len - 1] != '\n')
            return bad(eb, "tar: a pax record with a wrong length");
        equals = memchr(space + 1, '=', (size_t)len - text.len - 2);
        if (equals == NULL)
            return bad(eb, "tar: a pax record without \"=\"");
        got = apply_record(
            (struct span){space + 1, (size_t)(equals - space - 1)},
            (struct span){equals + 1, (size_t)(records.at + len - 1 - (equals + 1))}, x,
            eb);
        if (got != TAR_GOT_HEAD)
            return got;
        records = span_from(records, (size_t)len);
    }
    return TAR_GOT_HEAD;
}

/* One header in front of the member's own: pax or GNU. */
static enum tar_got
apply_extension(char type, struct span data, struct extension *x, struct errbuf *eb)
{
    switch (type) {
    case 'x':
        return apply_pax(data, x, eb);
    case 'L':
        return take_path(text_field(data.at, data.len), &x->path, "path", eb);
    case 'K':
        return take_path(text_field(data.at, data.len), &x->link, "link", eb);
    default: /* 'g': defaults for a whole archive; unused in practice */
        return TAR_GOT_HEAD;
    }
}

/* ---- the member's own header ---- */

static enum tar_type
type_of(char flag, struct span path)
{
    switch (flag) {
    case '\0':
    case '0':
    case '7': /* contiguous */
        return path.len > 0 && path.at[path.len - 1] == '/' ? TAR_DIR : TAR_FILE;
    case '1':
        return TAR_HARDLINK;
    case '2':
        return TAR_SYMLINK;
    case '5':
        return TAR_DIR;
    default:
        return TAR_OTHER;
    }
}

static bool
has_payload(char flag, enum tar_type type)
{
    if (type == TAR_OTHER)
        return flag != '3' && flag != '4' && flag != '6'; /* devices, fifos */
    return type == TAR_FILE;
}

static struct span
ustar_path(const char *block, char joined[260])
{
    struct span name = text_field(block + USTAR_NAME, USTAR_NAME_LEN);
    struct span prefix = text_field(block + USTAR_PREFIX, USTAR_PREFIX_LEN);

    if (memcmp(block + USTAR_MAGIC, "ustar", 6) != 0 || prefix.len == 0)
        return name;
    memcpy(joined, prefix.at, prefix.len);
    joined[prefix.len] = '/';
    memcpy(joined + prefix.len + 1, name.at, name.len);
    return (struct span){joined, prefix.len + 1 + name.len};
}

static enum tar_got
take_member(const char *block, const struct extension *x, struct tar_head *out,
            struct errbuf *eb)
{
    int64_t size, mtime, mode;

    out->type_flag = block[USTAR_TYPE];
    if (out->type_flag == 'S' || out->type_flag == 'M')
        return bad(eb, "tar: a sparse or continued member, which is not supported");
    if (!number_field(block + USTAR_SIZE, 12, &size) || size < 0 ||
        (uint64_t)size > SIZE_MAX_HERE)
        return bad(eb, "tar: a size that is not a number");
    if (!number_field(block + USTAR_MTIME, 12, &mtime))
        mtime = 0; /* some tars leave rubbish there */
    if (!number_field(block + USTAR_MODE, 8, &mode))
        mode = 0644;
    out->path = x->path.len > 0 ? x->path : ustar_path(block, out->joined);
    if (out->path.len == 0)
        return bad(eb, "tar: a member without a name");
    out->link = x->link.len > 0 ? x->link : text_field(block + USTAR_LINK, 100);
    out->xattr = x->xattr;
    out->type = type_of(out->type_flag, out->path);
    out->size = x->has_size ? x->size : (uint64_t)size;
    if (!has_payload(out->type_flag, out->type))
        out->size = 0;
    out->mtime_s = x->has_mtime ? x->mtime_s : mtime;
    out->mode = (unsigned)mode & 07777;
    return TAR_GOT_HEAD;
}

static bool
is_extension(char type)
{
    return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

/* The extension at `at`: its data, and how far it reaches. */
static enum tar_got
measure_extension(struct span window, size_t at, struct span *data, size_t *end,
                  struct errbuf *eb)
{
    int64_t size;

    if (!number_field(window.at + at + USTAR_SIZE, 12, &size) || size < 0 ||
        size > TAR_HEAD_MAX)
        return bad(eb, "tar: an extended header that is too long, at most %u bytes",
                   TAR_HEAD_MAX);
    *end = at + TAR_BLOCK + (size_t)align_up((uint64_t)size, TAR_BLOCK);
    if (*end + TAR_BLOCK > TAR_HEAD_MAX)
        return bad(eb, "tar: headers of one member beyond %u bytes", TAR_HEAD_MAX);
    if (*end > window.len)
        return TAR_GOT_MORE;
    *data = (struct span){window.at + at + TAR_BLOCK, (size_t)size};
    return TAR_GOT_HEAD;
}

/* Whether this is a header: by its checksum, or by its name where another sum covers the whole head. */
static bool
tar_read_is_header(const char *block, bool summed)
{
    return (summed && memcmp(block + USTAR_MAGIC, "ustar", 6) == 0) || sum_ok(block);
}

static enum tar_got
tar_read_base_head(struct span window, bool summed, struct tar_head *out,
                   struct errbuf *eb)
{
    struct extension x = {0};
    enum tar_got got;
    size_t at = 0;

    for (;;) {
        const char *block = window.at + at;
        struct span data = {"", 0};
        size_t end = at;

        out->need = at + TAR_BLOCK;
        if (window.len < out->need)
            return TAR_GOT_MORE;
        if (all_zero(block))
            return at == 0 ? TAR_GOT_ZERO
                           : bad(eb, "tar: an extended header without its member");
        if (!tar_read_is_header(block, summed))
            return bad(eb, "tar: a header whose checksum is wrong");
        if (!is_extension(block[USTAR_TYPE])) {
            out->head_len = out->need;
            return take_member(block, &x, out, eb);
        }
        got = measure_extension(window, at, &data, &end, eb);
        if (got == TAR_GOT_MORE)
            out->need = end;
        else if (got == TAR_GOT_HEAD)
            got = apply_extension(block[USTAR_TYPE], data, &x, eb);
        if (got != TAR_GOT_HEAD)
            return got;
        at = end;
    }
}

enum tar_got
tar_head_read(struct span window, struct tar_head *out, struct errbuf *eb)
{
    return tar_read_base_head(window, false, out, eb);
}

enum tar_got
tar_head_read_summed(struct span window, struct tar_head *out, struct errbuf *eb)
{
    return tar_read_base_head(window, true, out, eb);
}
