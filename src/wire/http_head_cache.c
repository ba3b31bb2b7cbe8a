#include "wire/http_head_cache.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "wire/http_chars.h"

#define PLACES  16u
#define MET     16u /* hashes of lines seen once */
#define VERSION " HTTP/1.1\r\n"

/* A header line by places in `text`. */
struct line {
    uint16_t name_at, name_len, value_at, value_len;
};
struct entry {
    uint64_t id; /* 0: empty */
    uint64_t hash;
    uint16_t len;
    uint16_t gap_at; /* of a signature; `len` when there is none */
    uint16_t host_at, host_len;
    enum http_method method;
    bool keep_alive, has_length;
    int64_t body_length;
    uint8_t count;
    unsigned unknown_count;
    uint64_t seen, repeated;
    uint8_t first[HTTP_FIELD_COUNT_];
    struct line lines[HTTP_HEAD_CACHE_FIELDS];
    char text[HTTP_HEAD_CACHE_BYTES];
};
struct http_head_cache {
    unsigned next, latest, next_met;
    uint64_t met[MET]; /* hashes */
    struct entry at[PLACES];
};
static atomic_ullong ids;

struct http_head_cache *
http_head_cache_new(void)
{
    return xcalloc(1, sizeof(struct http_head_cache));
}

void
http_head_cache_free(struct http_head_cache **kp)
{
    free(*kp);
    *kp = NULL;
}

/* ---- comparing ---- */

/* "GET /... HTTP/1.1" or PUT, exactly so. *len: of the line with its end. */
static bool
find_first_line(const char *buf, size_t room, size_t *len, struct span *target)
{
    const size_t version = sizeof VERSION - 1;
    const char *lf = memchr(buf, '\n', MIN(room, HTTP_HEAD_CACHE_LINE));

    *len = lf != NULL ? (size_t)(lf - buf) + 1 : 0;
    if (*len < 5 + version ||
        (memcmp(buf, "GET /", 5) != 0 && memcmp(buf, "PUT /", 5) != 0) ||
        memcmp(buf + *len - version, VERSION, version) != 0)
        return false;
    *target = (struct span){buf + 4, *len - 4 - version};
    return has_no_control(target->at, target->len) &&
           memchr(target->at, ' ', target->len) == NULL &&
           memchr(target->at, '#', target->len) == NULL;
}

/* Fills method, target, path and query. */
static bool
take_first_line(struct http_head *h, const char *buf, size_t room, size_t *len)
{
    struct span target;
    const char *mark;

    if (!find_first_line(buf, room, len, &target))
        return false;
    mark = memchr(target.at, '?', target.len);
    h->method = buf[0] == 'G' ? HTTP_METHOD_GET : HTTP_METHOD_PUT;
    h->method_text = (struct span){buf, 3};
    h->target = h->path = target;
    if (mark != NULL) {
        h->path.len = (size_t)(mark - target.at);
        h->query = span_from(target, h->path.len + 1);
    }
    return true;
}

/* Bytes that do not change how a line is read, anywhere except at an end. */
static bool
head_cache_is_plain(const char *at, size_t len)
{
    return has_no_control(at, len) && at[len - 1] != ' ';
}

static bool
is_entry(const struct entry *e, enum http_method method, const char *lines, size_t room)
{
    size_t behind = e->gap_at + HTTP_HEAD_CACHE_SIGNATURE;

    if (e->id == 0 || e->method != method || room < e->len ||
        memcmp(lines, e->text, e->gap_at) != 0)
        return false;
    return e->gap_at == e->len ||
           (memcmp(lines + behind, e->text + behind, e->len - behind) == 0 &&
            head_cache_is_plain(lines + e->gap_at, HTTP_HEAD_CACHE_SIGNATURE));
}

/* A write takes no shortcut from lines_id: its lines describe its body. */
static uint64_t
head_cache_id_of(const struct entry *e)
{
    return e->method == HTTP_METHOD_GET ? e->id : 0;
}

static void
head_cache_fill(struct http_head *h, const struct entry *e, const char *lines,
                size_t first_len)
{
    h->minor = 1;
    h->keep_alive = e->keep_alive;
    h->has_length = e->has_length;
    h->body_length = e->body_length;
    h->host = (struct span){lines + e->host_at, e->host_len};
    h->count = e->count;
    for (unsigned i = 0; i < e->count; i++) {
        const struct line *l = &e->lines[i];

        h->headers[i].name = (struct span){lines + l->name_at, l->name_len};
        h->headers[i].value = (struct span){lines + l->value_at, l->value_len};
    }
    memcpy(h->first, e->first, sizeof h->first);
    h->seen = e->seen;
    h->repeated = e->repeated;
    h->unknown_count = e->unknown_count;
    h->lines_id = head_cache_id_of(e);
    h->block_at_ = first_len;
    h->len = h->line_at_ = h->scanned_ = first_len + e->len;
}

bool
http_head_cache_parse(struct http_head_cache *k, unsigned *place, struct http_head *h,
                      const char *buf, size_t len)
{
    const struct entry *e = &k->at[*place];
    size_t first_len;

    http_head_init(h);
    if (!take_first_line(h, buf, len, &first_len)) {
        http_head_init(h);
        return false;
    }
    if (!is_entry(e, h->method, buf + first_len, len - first_len)) {
        *place = k->latest;
        e = &k->at[*place];
        if (!is_entry(e, h->method, buf + first_len, len - first_len)) {
            http_head_init(h);
            return false;
        }
    }
    head_cache_fill(h, e, buf + first_len, first_len);
    return true;
}

/* ---- inserting ---- */

/* Where the signature stands: the last 64 bytes of the one Authorization, behind "Signature=". Otherwise `len`. */
static uint16_t
gap_of(const struct http_head *h, const char *lines, size_t len)
{
    struct span name = SPAN("Signature="), value = http_get(h, HTTP_AUTHORIZATION);
    size_t end = name.len + HTTP_HEAD_CACHE_SIGNATURE;
    const char *at;

    if (value.len <= end || http_is_repeated(h, HTTP_AUTHORIZATION))
        return (uint16_t)len;
    at = value.at + value.len - HTTP_HEAD_CACHE_SIGNATURE;
    if (memcmp(at - name.len, name.at, name.len) != 0 ||
        !head_cache_is_plain(at, HTTP_HEAD_CACHE_SIGNATURE))
        return (uint16_t)len;
    return (uint16_t)(at - lines);
}

/* Of the method and all but the signature. */
static uint64_t
hash_lines(enum http_method method, const char *lines, size_t len, size_t gap_at)
{
    size_t behind = MIN(gap_at + HTTP_HEAD_CACHE_SIGNATURE, len);

    return hash_xxh3(lines + behind, len - behind,
                     hash_xxh3(lines, gap_at, (uint64_t)method));
}

/* Whether these lines came before; remembers them. */
static bool
was_met(struct http_head_cache *k, uint64_t hash)
{
    for (unsigned i = 0; i < MET; i++)
        if (k->met[i] == hash)
            return true;
    k->met[k->next_met++ % MET] = hash;
    return false;
}

static void
head_cache_make(struct entry *e, const struct http_head *h, const char *lines, size_t len,
                uint16_t gap_at, uint64_t hash)
{
    e->id = atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed) + 1;
    e->hash = hash;
    e->len = (uint16_t)len;
    e->gap_at = gap_at;
    e->host_at = (uint16_t)(h->host.at - lines);
    e->host_len = (uint16_t)h->host.len;
    e->method = h->method;
    e->keep_alive = h->keep_alive;
    e->has_length = h->has_length;
    e->body_length = h->body_length;
    e->count = (uint8_t)h->count;
    for (unsigned i = 0; i < h->count; i++) {
        const struct field *f = &h->headers[i];

        e->lines[i] =
            (struct line){(uint16_t)(f->name.at - lines), (uint16_t)f->name.len,
                          (uint16_t)(f->value.at - lines), (uint16_t)f->value.len};
    }
    memcpy(e->first, h->first, sizeof e->first);
    e->seen = h->seen;
    e->repeated = h->repeated;
    e->unknown_count = h->unknown_count;
    memcpy(e->text, lines, len);
}

/* A GET without a body, or a PUT with a Content-Length and without Expect. */
static bool
has_usual_body(const struct http_head *h)
{
    return h->method == HTTP_METHOD_GET ? h->body_length == 0 && !h->has_length
                                        : h->method == HTTP_METHOD_PUT && h->has_length &&
                                              h->body_length >= 0 && !h->expect;
}

/* A first line in a form that is never cached (HTTP/1.2) is not inserted. */
static bool
is_worth_it(const struct http_head *h, const char *buf, size_t len)
{
    struct span target;
    size_t first;

    return find_first_line(buf, h->block_at_, &first, &target) && has_usual_body(h) &&
           h->minor == 1 && h->blank_ == 0 && h->target.at[0] == '/' &&
           h->count <= HTTP_HEAD_CACHE_FIELDS && len <= HTTP_HEAD_CACHE_BYTES;
}

void
http_head_cache_insert(struct http_head_cache *k, unsigned *place, struct http_head *h,
                       const char *buf)
{
    const char *lines = buf + h->block_at_;
    size_t len = h->len - h->block_at_;
    uint16_t gap_at;
    uint64_t hash;

    if (!is_worth_it(h, buf, len))
        return;
    gap_at = gap_of(h, lines, len);
    hash = hash_lines(h->method, lines, len, gap_at);
    for (unsigned i = 0; i < PLACES; i++)
        if (k->at[i].hash == hash && is_entry(&k->at[i], h->method, lines, len)) {
            *place = k->latest = i;
            h->lines_id = head_cache_id_of(&k->at[i]);
            return;
        }
    if (!was_met(k, hash))
        return;
    *place = k->latest = k->next++ % PLACES;
    head_cache_make(&k->at[*place], h, lines, len, gap_at, hash);
    h->lines_id = head_cache_id_of(&k->at[*place]);
}
