/* Canonical requests: made from decoded bytes in one pass into one piece of the arena, so
 * that a failed check can show them. */
#include "wire/sigv4_canon.h"

#include <assert.h>

#include "base/mem.h"

#define CANON_MAX ((size_t)512 * 1024)

/* The room is computed before; a write beyond it is refused all the same. */
struct text {
    char *at, *end;
    bool full;
};

static void
canon_put(struct text *t, struct span s)
{
    if (s.len > (size_t)(t->end - t->at)) {
        t->full = true;
        return;
    }
    if (s.len > 0)
        memcpy(t->at, s.at, s.len);
    t->at += s.len;
}

static void
put_char(struct text *t, char c)
{
    canon_put(t, (struct span){&c, 1});
}

/* ---- percent encoding as it is signed ----
 * A table and no calls: this runs for each byte of path and query of every request. */

static bool
canon_unreserved(unsigned char c)
{
    static const uint32_t plain[8] = {
        /* a bit for each byte */
        [1] = 0x03ff6000, /* 0-9 - . */
        [2] = 0x87fffffe, /* A-Z _ */
        [3] = 0x47fffffe, /* a-z ~ */
    };

    return plain[c >> 5] >> (c & 31) & 1;
}

static void
put_encoded_byte(struct text *t, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";

    if (t->end - t->at < 3) {
        t->full = true;
        return;
    }
    t->at[0] = '%';
    t->at[1] = digits[c >> 4];
    t->at[2] = digits[c & 15];
    t->at += 3;
}

static void
put_encoded(struct text *t, struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.at[i];

        if (canon_unreserved(c) && t->at < t->end)
            *t->at++ = (char)c;
        else
            put_encoded_byte(t, c);
    }
}

/* The raw path, each byte decoded and encoded again; a '%' that is no escape is a byte. */
static void
canon_put_path(struct text *t, struct span raw)
{
    if (raw.len == 0)
        put_char(t, '/');
    for (size_t i = 0; i < raw.len; i++) {
        unsigned char c = (unsigned char)raw.at[i];

        if (c == '%' && raw.len - i > 2 && hex_decode(raw.at + i + 1, 2, &c, 1) == 1)
            i += 2;
        if ((c == '/' || canon_unreserved(c)) && t->at < t->end)
            *t->at++ = (char)c;
        else
            put_encoded_byte(t, c);
    }
}

/* ---- query ---- */

/* The order of the encoded forms, without encoding: an escape begins with '%', which is
 * below every unreserved byte, and two escapes are in the order of their bytes. */
static int
encoded_cmp(struct span a, struct span b)
{
    size_t n = MIN(a.len, b.len);

    for (size_t i = 0; i < n; i++) {
        unsigned char x = (unsigned char)a.at[i], y = (unsigned char)b.at[i];

        if (x == y)
            continue;
        if (canon_unreserved(x) != canon_unreserved(y))
            return canon_unreserved(x) ? 1 : -1;
        return x < y ? -1 : 1;
    }
    return (a.len > b.len) - (a.len < b.len);
}

static int
param_cmp(const struct param *a, const struct param *b)
{
    int c = encoded_cmp(a->name, b->name);

    return c != 0 ? c : encoded_cmp(a->value, b->value);
}

/* Sorted, without the signature itself. Clients send them nearly sorted: insertion. */
static size_t
sort_params(const struct query *q, const struct param *sorted[QUERY_PARAMS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < q->count && count < QUERY_PARAMS_MAX; i++) {
        const struct param *p = &q->at[i];
        size_t at = count;

        if (span_case_is(p->name, "x-amz-signature"))
            continue;
        for (; at > 0 && param_cmp(sorted[at - 1], p) > 0; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = p;
        count++;
    }
    return count;
}

static void
put_query(struct text *t, const struct query *q)
{
    const struct param *sorted[QUERY_PARAMS_MAX];
    size_t count = sort_params(q, sorted);

    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            put_char(t, '&');
        put_encoded(t, sorted[i]->name);
        put_char(t, '=');
        put_encoded(t, sorted[i]->value);
    }
}

static size_t
query_room(const struct query *q)
{
    size_t room = 0;

    for (size_t i = 0; i < q->count; i++)
        room += 3 * (q->at[i].name.len + q->at[i].value.len) + 2;
    return room;
}

/* ---- headers ---- */

bool
canon_next_name(struct span *list, struct span *name)
{
    const char *end;

    if (list->len == 0)
        return false;
    end = span_find(*list, ';');
    *name = (struct span){list->at, end != NULL ? (size_t)(end - list->at) : list->len};
    *list = span_from(*list, name->len + 1);
    return true;
}

/* Most names differ in length or in their first letter: those calls are spared. */
static bool
same_name(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || ((a.at[0] | 0x20) == (b.at[0] | 0x20) &&
                                             strncasecmp(a.at, b.at, a.len) == 0));
}

bool
canon_list_has(struct span list, struct span name)
{
    struct span one;

    while (canon_next_name(&list, &one)) {
        if (same_name(one, name))
            return true;
    }
    return false;
}

/* Trimmed; runs of spaces become one. */
static void
canon_put_value(struct text *t, struct span value)
{
    struct span v = span_trim(value);

    if (v.len == 0 || memmem(v.at, v.len, "  ", 2) == NULL) {
        canon_put(t, v);
        return;
    }
    for (size_t i = 0; i < v.len; i++) {
        if (v.at[i] != ' ' || v.at[i - 1] != ' ')
            put_char(t, v.at[i]);
    }
}

static void
put_header(struct text *t, const struct canon *c, struct span name)
{
    struct fields fs = c->req->headers;
    bool first = true;

    canon_put(t, name);
    put_char(t, ':');
    if (c->host.at != NULL && span_case_is(name, "host")) {
        canon_put_value(t, c->host);
    } else {
        for (size_t i = 0; i < fs.count; i++) {
            if (!same_name(fs.at[i].name, name))
                continue;
            if (!first)
                put_char(t, ',');
            canon_put_value(t, fs.at[i].value);
            first = false;
        }
    }
    put_char(t, '\n');
}

/* Enough when each header is signed once; a list that repeats a name does not fit and is refused: no client sends
 * one. */
static size_t
headers_room(const struct canon *c)
{
    size_t room = 3 * c->signed_headers.len + 4 + c->host.len;
    struct fields fs = c->req->headers;

    for (size_t i = 0; i < fs.count; i++)
        room += fs.at[i].value.len + 1;
    return room;
}

/* ---- the whole ---- */

bool
canon_request(const struct canon *c, struct arena *a, struct span *out)
{
    size_t room = c->req->method.len + 3 * c->req->path.len + query_room(c->q) +
                  headers_room(c) + c->payload.len + 8;
    char *start = room <= CANON_MAX ? arena_try(a, room) : NULL;
    struct text t;
    struct span list = c->signed_headers, name;

    *out = (struct span){"", 0};
    if (start == NULL)
        return false;
    t = (struct text){start, start + room, false};
    canon_put(&t, c->req->method);
    put_char(&t, '\n');
    canon_put_path(&t, c->req->path);
    put_char(&t, '\n');
    put_query(&t, c->q);
    put_char(&t, '\n');
    while (canon_next_name(&list, &name))
        put_header(&t, c, name);
    put_char(&t, '\n');
    canon_put(&t, c->signed_headers);
    put_char(&t, '\n');
    canon_put(&t, c->payload);
    if (t.full)
        return false;
    *out = (struct span){start, (size_t)(t.at - start)};
    return true;
}

size_t
canon_path(struct span raw, char *out, size_t room)
{
    struct text t = {out, out + room, false};

    canon_put_path(&t, raw);
    return t.full ? 0 : (size_t)(t.at - out);
}

bool
canon_query(const struct query *q, struct arena *a, struct span *out)
{
    size_t room = query_room(q);
    char *start = room <= CANON_MAX ? arena_try(a, room) : NULL;
    struct text t;

    *out = (struct span){"", 0};
    if (start == NULL)
        return false;
    t = (struct text){start, start + room, false};
    put_query(&t, q);
    if (t.full)
        return false;
    *out = (struct span){start, (size_t)(t.at - start)};
    return true;
}

struct span
canon_string_to_sign(const char *date, struct span scope, struct span request,
                     char room[SIGV4_TEXT_MAX])
{
    struct text t = {room, room + SIGV4_TEXT_MAX, false};
    unsigned char sum[SHA256_LEN];
    char hex[SHA256_HEX + 1];

    digest_oneshot(DIGEST_SHA256, request.at, request.len, sum);
    hex_encode(sum, sizeof sum, hex);
    canon_put(&t, SPAN("AWS4-HMAC-SHA256\n"));
    canon_put(&t, span_of(date));
    put_char(&t, '\n');
    canon_put(&t, scope);
    put_char(&t, '\n');
    canon_put(&t, (struct span){hex, SHA256_HEX});
    assert(!t.full); /* the region's length is limited */
    return (struct span){room, (size_t)(t.at - room)};
}
