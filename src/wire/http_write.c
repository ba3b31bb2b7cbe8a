/* http_write: lines of a head into a fixed buffer. Nothing gets in that could begin a
 * line of its own. */
#include "base/mem.h"
#include "wire/http.h"
#include "wire/http_chars.h"

/* Room for `len` more bytes, or NULL and bad. */
static char *
lines_reserve(struct http_lines *l, size_t len)
{
    char *at = l->at + l->len;

    if (l->room - l->len < len) {
        l->bad = true;
        return NULL;
    }
    l->len += len;
    return at;
}

static size_t
put_decimal(char out[20], uint64_t value)
{
    char digits[20];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    for (size_t i = 0; i < n; i++)
        out[i] = digits[n - 1 - i];
    return n;
}

void
http_put_status(struct http_lines *l, int status)
{
    struct span reason;
    char *at;

    if (status == 200) { /* nearly always */
        http_put_lines(l, SPAN("HTTP/1.1 200 OK\r\n"));
        return;
    }
    reason = span_of(http_reason(status));
    at = lines_reserve(l, 13 + reason.len + 2);
    assert(status >= 100);
    assert(status <= 599);
    if (at == NULL)
        return;
    memcpy(at, "HTTP/1.1 ", 9);
    put_decimal(at + 9, (uint64_t)status);
    at[12] = ' ';
    memcpy(at + 13, reason.at, reason.len);
    memcpy(at + 13 + reason.len, "\r\n", 2);
}

void
http_put_request(struct http_lines *l, const char *method, struct span target)
{
    struct span m = span_of(method);
    char *at;

    if (!http_is_token(m) || target.len == 0 || target.len > HTTP_REQUEST_LINE_MAX ||
        memchr(target.at, ' ', target.len) != NULL ||
        !has_no_control(target.at, target.len)) {
        l->bad = true;
        return;
    }
    at = lines_reserve(l, m.len + 1 + target.len + 11);
    if (at == NULL)
        return;
    memcpy(at, m.at, m.len);
    at[m.len] = ' ';
    memcpy(at + m.len + 1, target.at, target.len);
    memcpy(at + m.len + 1 + target.len, " HTTP/1.1\r\n", 11);
}

void
http_put(struct http_lines *l, const char *name, struct span value)
{
    struct span n = span_of(name);
    char *at;

    value = span_trim(value);
    if (!http_is_token(n) || !has_no_control_but_tab(value.at, value.len)) {
        l->bad = true;
        return;
    }
    at = lines_reserve(l, n.len + 2 + value.len + 2);
    if (at == NULL)
        return;
    memcpy(at, n.at, n.len);
    memcpy(at + n.len, ": ", 2);
    if (value.len > 0)
        memcpy(at + n.len + 2, value.at, value.len);
    memcpy(at + n.len + 2 + value.len, "\r\n", 2);
}

void
http_put_own(struct http_lines *l, struct span name, struct span value)
{
    char *at;

    value = span_trim(value);
    if (!has_no_control_but_tab(value.at, value.len)) {
        l->bad = true;
        return;
    }
    at = lines_reserve(l, name.len + value.len + 2);
    if (at == NULL)
        return;
    memcpy(at, name.at, name.len);
    if (value.len > 0)
        memcpy(at + name.len, value.at, value.len);
    memcpy(at + name.len + value.len, "\r\n", 2);
}

void
http_put_u64(struct http_lines *l, const char *name, uint64_t value)
{
    char digits[20];

    http_put(l, name, (struct span){digits, put_decimal(digits, value)});
}

void
http_put_length(struct http_lines *l, uint64_t value)
{
    struct span name = SPAN("Content-Length: ");
    char digits[20];
    size_t len = put_decimal(digits, value);
    char *at = lines_reserve(l, name.len + len + 2);

    if (at == NULL)
        return;
    memcpy(at, name.at, name.len);
    memcpy(at + name.len, digits, len);
    memcpy(at + name.len + len, "\r\n", 2);
}

void
http_put_lines(struct http_lines *l, struct span ready)
{
    char *at = lines_reserve(l, ready.len);

    if (at != NULL)
        memcpy(at, ready.at, ready.len);
}

void
http_put_end(struct http_lines *l)
{
    char *at = lines_reserve(l, 2);

    if (at != NULL)
        memcpy(at, "\r\n", 2);
}

size_t
http_chunk_head(char out[HTTP_CHUNK_HEAD_ROOM], uint64_t size)
{
    unsigned digits = 1;

    while (digits < 16 && size >> (4 * digits) != 0)
        digits++;
    for (unsigned i = 0; i < digits; i++)
        out[i] = "0123456789abcdef"[size >> (4 * (digits - 1 - i)) & 15];
    out[digits] = '\r';
    out[digits + 1] = '\n';
    return digits + 2;
}
