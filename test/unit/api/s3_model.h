/* s3_model: what S3 says of a few buckets, kept as plainly as can be, and the requests that are held against it. */
#pragma once
#include <stdarg.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/num.h"
#include "unit/api/api_rig.h"
#include "wire/checksum.h"

#define M_BUCKETS  2
#define M_VERSIONS 24
#define M_UPLOADS  6
#define M_PARTS    3
#define M_DATA     (1u << 20)
#define M_ETAG     48

/* Keys in byte order, as they stand in a path, and as they stand in XML. */
static const struct {
    const char *key, *path, *xml;
} m_keys[] = {
    {"a", "a", "a"},
    {"a/1", "a/1", "a/1"},
    {"a/2/x", "a/2/x", "a/2/x"},
    {"b & <c>", "b%20%26%20%3Cc%3E", "b &amp; &lt;c&gt;"},
    {"b/", "b/", "b/"},
    {"b//d", "b//d", "b//d"},
    {"c+\xc3\xa9", "c%2B%C3%A9", "c+\xc3\xa9"},
    {"z", "z", "z"},
};
#define M_KEYS ARRAY_LEN(m_keys)

/* A checksum as headers tell it. */
struct m_sum {
    enum checksum_kind kind;
    bool composite; /* of an object of one part */
};
struct m_version {
    bool marker, null;
    struct m_sum sum;
    char id[40];
    uint32_t from, len;  /* of the data */
    char etag[M_ETAG];   /* without quotes */
    unsigned meta, tags; /* numbers that stand in them; 0: none */
};
struct m_upload {
    unsigned key;
    char id[40];
    unsigned meta, tags;
    struct m_sum sum; /* CHECKSUM_NONE: begun without one */
    struct {
        bool there;
        uint32_t from, len;
        enum checksum_kind sum;
    } part[M_PARTS];
};
struct m_bucket {
    const char *name;
    enum map_versioning versioning;
    struct m_version of[M_KEYS][M_VERSIONS]; /* the current one first */
    unsigned count[M_KEYS];
    struct m_upload uploads[M_UPLOADS]; /* in order of their begin */
    unsigned upload_count;
};
struct model {
    struct site *site;
    uint64_t state, seed, epoch, steps;
    bool made;
    char *data;
    struct m_bucket bucket[M_BUCKETS];
    uint64_t done[16];
};

/* ---- dice ---- */

static inline uint32_t
m_rnd(struct model *m, uint32_t below)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->state >> 33) % below;
}

static inline struct model *
model_new(uint64_t seed)
{
    struct model *m = xcalloc(1, sizeof *m);

    m->seed = m->state = seed;
    m->data = xmalloc(M_DATA);
    for (uint32_t i = 0; i < M_DATA; i++)
        m->data[i] = (char)((i * 40503u + (i >> 8)) >> 3);
    m->bucket[0].name = "one";
    m->bucket[1].name = "two";
    return m;
}

static inline void
model_free(struct model *m)
{
    free(m->data);
    free(m);
}

/* ---- asking ---- */

struct m_answer {
    int status;
    struct buf body;
    char etag[M_ETAG + 2], version[40], source_version[40];
    bool marker;
    unsigned meta, tag_count;
    char range[64];
    enum checksum_kind sum_kind;
    char sum[CHECKSUM_TEXT_MAX], sum_type[16];
};

static inline void
m_take(const struct http_head *h, const char *name, char *out, size_t room)
{
    struct span v = fields_get(http_fields(h), name);

    snprintf(out, room, "%.*s", (int)v.len, v.at != NULL ? v.at : "");
}

static inline void
m_on_head(const struct http_head *h, void *arg)
{
    struct m_answer *a = arg;
    char number[16];

    m_take(h, "etag", a->etag, sizeof a->etag);
    m_take(h, "x-amz-version-id", a->version, sizeof a->version);
    m_take(h, "x-amz-copy-source-version-id", a->source_version,
           sizeof a->source_version);
    m_take(h, "content-range", a->range, sizeof a->range);
    m_take(h, "x-amz-meta-m", number, sizeof number);
    a->meta = (unsigned)atoi(number);
    m_take(h, "x-amz-tagging-count", number, sizeof number);
    a->tag_count = (unsigned)atoi(number);
    m_take(h, "x-amz-delete-marker", number, sizeof number);
    a->marker = strcmp(number, "true") == 0;
    m_take(h, "x-amz-checksum-type", a->sum_type, sizeof a->sum_type);
    for (enum checksum_kind k = CHECKSUM_NONE + 1; k < CHECKSUM_KIND_COUNT_; k++) {
        if (fields_find(http_fields(h), checksum_header(k)) == NULL)
            continue;
        a->sum_kind = k;
        m_take(h, checksum_header(k), a->sum, sizeof a->sum);
    }
}

/* Headers of one request. */
struct m_headers {
    struct field at[12];
    char text[12][128];
    size_t count;
};

static inline void
m_header(struct m_headers *h, const char *name, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(h->text[h->count], sizeof h->text[0], fmt, ap);
    va_end(ap);
    h->at[h->count] = (struct field){span_of(name), span_of(h->text[h->count])};
    h->count++;
}

static inline void
m_ask(struct model *m, const char *method, const char *target,
      const struct m_headers *headers, struct span body, struct m_answer *out)
{
    struct http_call_request req = {.host = "127.0.0.1",
                                    .port = m->site->port,
                                    .method = method,
                                    .target = span_of(target),
                                    .headers = {headers != NULL ? headers->at : NULL,
                                                headers != NULL ? headers->count : 0},
                                    .length = body.at != NULL ? (int64_t)body.len
                                                              : HTTP_NO_BODY,
                                    .by = deadline_in_ms(20000)};
    struct errbuf eb = {{0}};
    enum err rc;

    *out = (struct m_answer){.status = 0};
    buf_init(&out->body, 16u << 20);
    rc = http_call_simple(m->site->client, &req, body, &out->status, &out->body,
                          m_on_head, out, &eb);
    if (rc != ERR_OK) {
        fprintf(stderr, "%s %s: %s: %s\n", method, target, err_name(rc), eb.text);
        abort();
    }
    buf_putc(&out->body, '\0');
    out->body.len--;
}

/* Ends the program with all that is needed to see it again. */
static inline void
m_fail(const struct model *m, const char *what, const struct m_answer *a)
{
    fprintf(stderr, "step %llu of seed %llu: %s; the answer is %d %s %s\n%s\n",
            (unsigned long long)m->steps, (unsigned long long)m->seed, what, a->status,
            a->etag, a->version, a->body.len < 4000 ? a->body.at : "");
    abort();
}

static inline void
m_want(const struct model *m, bool holds, const char *what, const struct m_answer *a)
{
    if (!holds)
        m_fail(m, what, a);
}

/* A status, and of an error its code. */
static inline void
m_want_status(const struct model *m, const struct m_answer *a, int status,
              const char *code)
{
    char text[96], element[96];

    snprintf(text, sizeof text, "wanted %d %s", status, code != NULL ? code : "");
    m_want(m, a->status == status, text, a);
    if (code == NULL)
        return;
    snprintf(element, sizeof element, "<Code>%s</Code>", code);
    m_want(m, strstr(a->body.at, element) != NULL, text, a);
}

/* ---- the model itself ---- */

static inline void
m_remove(struct m_bucket *b, unsigned key, unsigned i)
{
    memmove(&b->of[key][i], &b->of[key][i + 1],
            (b->count[key] - i - 1) * sizeof b->of[key][0]);
    b->count[key]--;
}

static inline void
m_add(struct m_bucket *b, unsigned key, const struct m_version *v)
{
    for (unsigned i = 0; i < b->count[key]; i++)
        if (b->versioning == MAP_UNVERSIONED || (v->null && b->of[key][i].null))
            m_remove(b, key, i--);
    memmove(&b->of[key][1], &b->of[key][0], b->count[key] * sizeof b->of[key][0]);
    b->of[key][0] = *v;
    b->count[key]++;
}

/* The current object; NULL: none, or a delete marker. */
static inline struct m_version *
m_current(struct m_bucket *b, unsigned key)
{
    return b->count[key] > 0 && !b->of[key][0].marker ? &b->of[key][0] : NULL;
}

static inline void
m_etag_of(const struct model *m, uint32_t from, uint32_t len, bool parts,
          char out[M_ETAG])
{
    unsigned char md5[DIGEST_MAX];

    digest_once(DIGEST_MD5, m->data + from, len, md5);
    if (parts)
        digest_once(DIGEST_MD5, md5, 16, md5);
    hex_encode(md5, 16, out);
    if (parts)
        strcpy(out + 32, "-1");
}

static inline void
m_id_from(struct m_bucket *b, const struct m_answer *a, struct m_version *v)
{
    v->null = b->versioning != MAP_VERSIONED;
    snprintf(v->id, sizeof v->id, "%s", v->null ? "null" : a->version);
}

static inline void
m_want_new_id(const struct model *m, const struct m_bucket *b, const struct m_answer *a)
{
    bool right = b->versioning == MAP_UNVERSIONED ? a->version[0] == '\0'
                 : b->versioning == MAP_VERSIONED ? strlen(a->version) == 32
                                                  : strcmp(a->version, "null") == 0;

    m_want(m, right, "the version id does not fit the bucket's versioning", a);
}

static inline bool
m_etag_is(const struct m_answer *a, const char *etag)
{
    char quoted[M_ETAG + 2];

    snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    return strcmp(a->etag, quoted) == 0;
}

/* ---- checksums ---- */

static inline void
m_sum_text(const struct model *m, struct m_sum sum, uint32_t from, uint32_t len,
           char out[CHECKSUM_TEXT_MAX])
{
    struct checksum_value v = {.kind = sum.kind};
    struct checksum running;

    checksum_init(&running, sum.kind);
    checksum_add(&running, m->data + from, len);
    checksum_end(&running, &v);
    if (!sum.composite) {
        checksum_text(&v, out);
        return;
    }
    checksum_init(&running, sum.kind);
    checksum_add(&running, v.bytes, checksum_len(sum.kind));
    checksum_end(&running, &v);
    checksum_composite_text(&v, 1, out);
}

/* A client's checksum, or CHECKSUM_NONE. */
static inline enum checksum_kind
m_any_kind(struct model *m)
{
    return m_rnd(m, 2) == 0 ? CHECKSUM_NONE
                            : (enum checksum_kind)(1 + m_rnd(m, CHECKSUM_SHA256));
}

/* Now and then a wrong one: true. */
static inline bool
m_send_sum(struct model *m, enum checksum_kind kind, uint32_t from, uint32_t len,
           struct m_headers *h)
{
    char text[CHECKSUM_TEXT_MAX];
    bool wrong = kind != CHECKSUM_NONE && m_rnd(m, 16) == 0;

    if (kind == CHECKSUM_NONE)
        return false;
    m_sum_text(m, (struct m_sum){kind, false}, wrong ? 1 : from, wrong ? 77 : len, text);
    m_header(h, checksum_header(kind), "%s", text);
    return wrong && !(from == 1 && len == 77);
}

static inline void
m_want_sum_value(const struct model *m, struct m_sum sum, uint32_t from, uint32_t len,
                 const struct m_answer *a)
{
    char text[CHECKSUM_TEXT_MAX] = "";

    if (sum.kind != CHECKSUM_NONE)
        m_sum_text(m, sum, from, len, text);
    m_want(m, a->sum_kind == sum.kind && strcmp(a->sum, text) == 0, "checksum", a);
}

static inline void
m_want_sum(const struct model *m, struct m_sum sum, uint32_t from, uint32_t len,
           const struct m_answer *a)
{
    m_want_sum_value(m, sum, from, len, a);
    m_want(m,
           strcmp(a->sum_type, sum.kind == CHECKSUM_NONE ? ""
                               : sum.composite           ? "COMPOSITE"
                                                         : "FULL_OBJECT") == 0,
           "type of the checksum", a);
}

/* The same, in a document. */
static inline void
m_want_sum_element(const struct model *m, struct m_sum sum, uint32_t from, uint32_t len,
                   const struct m_answer *a)
{
    char text[CHECKSUM_TEXT_MAX], element[CHECKSUM_TEXT_MAX + 64];

    if (sum.kind == CHECKSUM_NONE) {
        m_want(m, strstr(a->body.at, "<Checksum") == NULL, "no checksum", a);
        return;
    }
    m_sum_text(m, sum, from, len, text);
    snprintf(element, sizeof element, "<%s>%s</%s>", checksum_element(sum.kind), text,
             checksum_element(sum.kind));
    m_want(m, strstr(a->body.at, element) != NULL, element, a);
}

/* ---- conditions ---- */

struct m_condition {
    int want; /* 0: it holds; else the status */
    const char *code;
};

/* Puts one of the conditions of a write into the headers, and says what it will do. */
static inline struct m_condition
m_write_condition(struct model *m, struct m_bucket *b, unsigned key, struct m_headers *h)
{
    const struct m_version *now = m_current(b, key);
    char other[M_ETAG] = "00000000000000000000000000000000";

    switch (m_rnd(m, 8)) {
    case 0:
        m_header(h, "if-none-match", "*");
        return now != NULL ? (struct m_condition){412, "PreconditionFailed"}
                           : (struct m_condition){0, NULL};
    case 1:
        m_header(h, "if-match", "\"%s\"", now != NULL ? now->etag : other);
        return now != NULL ? (struct m_condition){0, NULL}
                           : (struct m_condition){404, "NoSuchKey"};
    case 2:
        m_header(h, "if-match", "%s", other);
        return now != NULL ? (struct m_condition){412, "PreconditionFailed"}
                           : (struct m_condition){404, "NoSuchKey"};
    default:
        return (struct m_condition){0, NULL};
    }
}

/* ---- operations ---- */

static inline struct m_bucket *
m_any_bucket(struct model *m)
{
    return &m->bucket[m_rnd(m, M_BUCKETS)];
}

static inline void
m_target(char *out, size_t room, const struct m_bucket *b, unsigned key,
         const char *query)
{
    snprintf(out, room, "/%s/%s%s", b->name, m_keys[key].path, query);
}

static inline void
m_any_body(struct model *m, struct m_version *v)
{
    v->len = m_rnd(m, 40) == 0 ? 200000 + m_rnd(m, 300000) : m_rnd(m, 2000);
    v->from = m_rnd(m, M_DATA - v->len);
}

static inline void
m_any_meta(struct model *m, struct m_version *v, struct m_headers *h)
{
    v->meta = m_rnd(m, 3) == 0 ? 1 + m_rnd(m, 1000) : 0;
    v->tags = m_rnd(m, 4) == 0 ? 1 + m_rnd(m, 1000) : 0;
    if (v->meta > 0)
        m_header(h, "x-amz-meta-m", "%u", v->meta);
    if (v->tags > 0)
        m_header(h, "x-amz-tagging", "t=%u", v->tags);
}

static inline void
m_put(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    unsigned key = m_rnd(m, M_KEYS);
    struct m_headers h = {.count = 0};
    struct m_version v = {.marker = false};
    struct m_condition c;
    struct m_answer a;
    char target[128];
    bool wrong;

    m_any_body(m, &v);
    m_any_meta(m, &v, &h);
    m_etag_of(m, v.from, v.len, false, v.etag);
    v.sum.kind = m_any_kind(m);
    wrong = m_send_sum(m, v.sum.kind, v.from, v.len, &h);
    c = m_write_condition(m, b, key, &h);
    m_target(target, sizeof target, b, key, "");
    m_ask(m, "PUT", target, &h, (struct span){m->data + v.from, v.len}, &a);
    if (v.sum.kind == CHECKSUM_NONE)
        v.sum.kind = CHECKSUM_CRC64NVME; /* as AWS does */
    if (wrong) {
        m_want_status(m, &a, 400, "BadDigest");
    } else if (c.want != 0) {
        m_want_status(m, &a, c.want, c.code);
    } else {
        m_want_status(m, &a, 200, NULL);
        m_want(m, m_etag_is(&a, v.etag), "ETag of a PUT", &a);
        m_want_sum(m, v.sum, v.from, v.len, &a);
        m_want_new_id(m, b, &a);
        m_id_from(b, &a, &v);
        m_add(b, key, &v);
    }
    buf_fini(&a.body);
}

/* Of one object: what GET or HEAD says of it. */
static inline void
m_want_object(struct model *m, const struct m_bucket *b, const struct m_version *v,
              const struct m_answer *a, bool with_body, uint32_t first, uint32_t len)
{
    char range[64] = "";

    if (len < v->len)
        snprintf(range, sizeof range, "bytes %u-%u/%u", first, first + len - 1, v->len);
    m_want_status(m, a, len < v->len ? 206 : 200, NULL);
    m_want(m, m_etag_is(a, v->etag), "ETag", a);
    m_want(m, a->meta == v->meta, "metadata", a);
    m_want(m, a->tag_count == (v->tags > 0), "count of tags", a);
    m_want(m, strcmp(a->range, range) == 0, range, a);
    m_want(m, strcmp(a->version, b->versioning == MAP_UNVERSIONED ? "" : v->id) == 0,
           v->id, a);
    if (with_body)
        m_want(m,
               a->body.len == len &&
                   memcmp(a->body.at, m->data + v->from + first, len) == 0,
               "bytes", a);
}

/* What a read of a version answers where there is no object; true: there is none. */
static inline bool
m_missing(struct model *m, const struct m_bucket *b, unsigned key,
          const struct m_version *v, bool by_id, bool head, const struct m_answer *a)
{
    const char *code = NULL;
    int status = 0;

    if (v != NULL && !v->marker)
        return false;
    if (by_id && v != NULL) {
        status = 405;
        code = "MethodNotAllowed";
    } else {
        status = 404;
        code = by_id ? "NoSuchVersion" : "NoSuchKey";
    }
    m_want_status(m, a, status, head ? NULL : code);
    if (v == NULL && !by_id && b->count[key] > 0)
        v = &b->of[key][0];
    m_want(m, a->marker == (v != NULL && v->marker), "x-amz-delete-marker", a);
    return true;
}

static inline void
m_get(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    unsigned key = m_rnd(m, M_KEYS), n = b->count[key];
    bool by_id = n > 0 && m_rnd(m, 3) == 0, head = m_rnd(m, 4) == 0,
         sums = m_rnd(m, 2) == 0;
    const struct m_version *v = by_id   ? &b->of[key][m_rnd(m, n)]
                                : n > 0 ? b->of[key]
                                        : NULL;
    struct m_headers h = {.count = 0};
    struct m_answer a;
    char target[200], query[64] = "";
    uint32_t first = 0, len = v != NULL ? v->len : 0;

    if (by_id)
        snprintf(query, sizeof query, "?versionId=%s", v->id);
    if (sums)
        m_header(&h, "x-amz-checksum-mode", "ENABLED");
    if (len > 1 && m_rnd(m, 3) == 0) {
        first = m_rnd(m, len);
        len = 1 + m_rnd(m, len - first);
        if (len == v->len)
            len--;
        m_header(&h, "range", "bytes=%u-%u", first, first + len - 1);
    }
    m_target(target, sizeof target, b, key, query);
    m_ask(m, head ? "HEAD" : "GET", target, &h, (struct span){NULL, 0}, &a);
    if (!m_missing(m, b, key, v, by_id, head, &a)) {
        m_want_object(m, b, v, &a, !head, first, len);
        m_want_sum(m, sums && len == v->len ? v->sum : (struct m_sum){0}, v->from, v->len,
                   &a);
    }
    buf_fini(&a.body);
}

/* GetObjectAttributes, and the parts of an object one by one. All that came in parts has one. */
static inline void
m_attributes(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    unsigned key = m_rnd(m, M_KEYS);
    const struct m_version *v = b->count[key] > 0 ? b->of[key] : NULL;
    bool parts = v != NULL && !v->marker && strchr(v->etag, '-') != NULL;
    struct m_headers h = {.count = 0};
    struct m_sum own = v != NULL ? (struct m_sum){v->sum.kind, false} : (struct m_sum){0};
    struct m_answer a;
    char target[200];
    const char *list;

    m_header(&h, "x-amz-object-attributes", "Checksum,ObjectParts,ETag,ObjectSize");
    m_target(target, sizeof target, b, key, "?attributes");
    m_ask(m, "GET", target, &h, (struct span){NULL, 0}, &a);
    if (m_missing(m, b, key, v, false, false, &a)) {
        buf_fini(&a.body);
        return;
    }
    m_want_status(m, &a, 200, NULL);
    if (v->sum.kind == CHECKSUM_NONE) /* its part may have one, which makes none of it */
        m_want(m, strstr(a.body.at, "<Checksum>") == NULL, "no checksum", &a);
    else if (!v->sum.composite)
        m_want_sum_element(m, v->sum, v->from, v->len, &a);
    list = strstr(a.body.at, "<ObjectParts>");
    m_want(m, (list != NULL) == parts, "parts", &a);
    m_want(m,
           !parts || v->sum.kind == CHECKSUM_NONE ||
               strstr(list, checksum_element(v->sum.kind)) != NULL,
           "a checksum of the part", &a);
    buf_fini(&a.body);

    h.count = 0;
    m_header(&h, "x-amz-checksum-mode", "ENABLED");
    m_target(target, sizeof target, b, key, "?partNumber=1");
    m_ask(m, m_rnd(m, 2) == 0 ? "HEAD" : "GET", target, &h, (struct span){NULL, 0}, &a);
    m_want_status(m, &a, v->len > 0 ? 206 : 200, NULL);
    if (parts && !v->sum.composite)
        own.kind = CHECKSUM_NONE;
    m_want_sum_value(m, own, v->from, v->len, &a);
    buf_fini(&a.body);
}

/* Takes one version, or the object, out of the model. */
static inline void
m_model_delete(struct m_bucket *b, unsigned key, const struct m_version *named,
               const char *marker_id)
{
    if (named != NULL) {
        m_remove(b, key, (unsigned)(named - b->of[key]));
    } else if (b->versioning == MAP_UNVERSIONED) {
        b->count[key] = 0;
    } else {
        struct m_version v = {.marker = true, .null = b->versioning != MAP_VERSIONED};

        snprintf(v.id, sizeof v.id, "%s", marker_id);
        m_add(b, key, &v);
    }
}

static inline void
m_delete(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    unsigned key = m_rnd(m, M_KEYS), n = b->count[key];
    bool by_id = n > 0 && m_rnd(m, 2) == 0;
    const struct m_version *v = by_id ? &b->of[key][m_rnd(m, n)] : NULL;
    const struct m_version *now = by_id ? v : m_current(b, key);
    struct m_headers h = {.count = 0};
    struct m_answer a;
    char target[200], query[64] = "";
    int want = 204;

    if (by_id)
        snprintf(query, sizeof query, "?versionId=%s", v->id);
    if (!by_id && m_rnd(m, 4) == 0) {
        bool right = m_rnd(m, 2) == 0;

        m_header(&h, "if-match", "%s",
                 right && now != NULL ? now->etag : "00000000000000000000000000000000");
        want = now == NULL ? 404 : right ? 204 : 412;
    } else if (!by_id && m_rnd(m, 6) == 0) {
        uint32_t size = m_rnd(m, 2) == 0 && now != NULL ? now->len : 7;

        m_header(&h, "x-amz-if-match-size", "%u", size);
        want = now == NULL || now->len == size ? 204 : 412;
    }
    m_target(target, sizeof target, b, key, query);
    m_ask(m, "DELETE", target, &h, (struct span){NULL, 0}, &a);
    m_want_status(m, &a, want, want == 412 ? "PreconditionFailed" : NULL);
    if (want == 204) {
        bool marker = by_id ? v->marker : b->versioning != MAP_UNVERSIONED;

        m_want(m, a.marker == marker, "x-amz-delete-marker of a DELETE", &a);
        if (by_id)
            m_want(m,
                   strcmp(a.version, b->versioning == MAP_UNVERSIONED ? "" : v->id) == 0,
                   "version of a DELETE", &a);
        else
            m_want_new_id(m, b, &a);
        m_model_delete(b, key, v, a.version);
    }
    buf_fini(&a.body);
}

static inline void
m_delete_many(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    unsigned keys[3], n = 1 + m_rnd(m, 3);
    unsigned char md5[DIGEST_MAX];
    struct m_headers h = {.count = 0};
    char base64[BASE64_LEN(16) + 1], target[32];
    struct m_answer a;
    struct buf doc;

    buf_init(&doc, 4096);
    buf_puts(&doc, "<Delete>");
    for (unsigned i = 0; i < n; i++) {
        keys[i] = m_rnd(m, M_KEYS);
        buf_printf(&doc, "<Object><Key>%s</Key></Object>", m_keys[keys[i]].xml);
    }
    buf_puts(&doc, "</Delete>");
    digest_once(DIGEST_MD5, doc.at, doc.len, md5);
    base64_encode(md5, 16, base64);
    m_header(&h, "content-md5", "%s", base64);
    snprintf(target, sizeof target, "/%s?delete", b->name);
    m_ask(m, "POST", target, &h, buf_span(&doc), &a);
    m_want_status(m, &a, 200, NULL);
    m_want(m, strstr(a.body.at, "<Error>") == NULL, "no error of DeleteObjects", &a);
    for (const char *at = a.body.at; n-- > 0;) {
        static const char id_name[] = "<DeleteMarkerVersionId>";
        const char *next = strstr(at, "<Deleted>"), *id;
        unsigned key = 0;
        char marker[40] = "";

        m_want(m, next != NULL, "one <Deleted> for each", &a);
        at = next + 1;
        while (key < M_KEYS) {
            char text[64];

            snprintf(text, sizeof text, "<Deleted><Key>%s</Key>", m_keys[key].xml);
            if (strncmp(next, text, strlen(text)) == 0)
                break;
            key++;
        }
        m_want(m, key < M_KEYS, "a key that was named", &a);
        id = strstr(next, id_name);
        if (b->versioning != MAP_UNVERSIONED) {
            m_want(m, id != NULL, "a delete marker", &a);
            snprintf(marker, sizeof marker, "%.*s",
                     (int)strcspn(id + strlen(id_name), "<"), id + strlen(id_name));
        }
        m_model_delete(b, key, NULL, marker);
    }
    buf_fini(&doc);
    buf_fini(&a.body);
}

static inline void
m_copy(struct model *m)
{
    struct m_bucket *from = m_any_bucket(m), *b = m_any_bucket(m);
    unsigned source = m_rnd(m, M_KEYS),
             key = m_rnd(m, 3) == 0 ? source : m_rnd(m, M_KEYS);
    unsigned n = from->count[source];
    bool by_id = n > 0 && m_rnd(m, 3) == 0, replace = m_rnd(m, 2) == 0;
    bool replace_tags = m_rnd(m, 3) == 0;
    const struct m_version *v =
        by_id ? &from->of[source][m_rnd(m, n)] : m_current(from, source);
    bool itself = from == b && source == key && !by_id;
    struct m_headers h = {.count = 0};
    struct m_version made = {.marker = false}, said = {.marker = false};
    struct m_condition c = {0, NULL};
    struct m_answer a;
    char target[128];

    m_header(&h, "x-amz-copy-source", "/%s/%s%s%s", from->name, m_keys[source].path,
             by_id ? "?versionId=" : "", by_id ? v->id : "");
    m_header(&h, "x-amz-metadata-directive", replace ? "REPLACE" : "COPY");
    m_header(&h, "x-amz-tagging-directive", replace_tags ? "REPLACE" : "COPY");
    m_any_meta(m, &said, &h);
    if (m_rnd(m, 4) == 0)
        c = m_write_condition(m, b, key, &h);
    m_target(target, sizeof target, b, key, "");
    m_ask(m, "PUT", target, &h, (struct span){"", 0}, &a);
    if (v == NULL) {
        m_want_status(m, &a, 404, "NoSuchKey");
    } else if (v->marker) {
        m_want_status(m, &a, 400, "InvalidRequest");
    } else if (itself && !replace) {
        m_want_status(m, &a, 400, "InvalidRequest");
    } else if (c.want != 0) {
        m_want_status(m, &a, c.want, c.code);
    } else {
        bool in_place = itself && b->versioning != MAP_VERSIONED &&
                        (b->versioning == MAP_UNVERSIONED || strcmp(v->id, "null") == 0);

        made = *v;
        made.meta = replace ? said.meta : v->meta;
        made.tags = replace_tags ? said.tags : v->tags;
        m_want_status(m, &a, 200, NULL);
        m_want(m,
               strcmp(a.source_version,
                      from->versioning == MAP_UNVERSIONED ? "" : v->id) == 0,
               "version of the source", &a);
        if (in_place) {
            b->of[key][0] = made;
            m_want(m,
                   strcmp(a.version, b->versioning == MAP_UNVERSIONED ? "" : made.id) ==
                       0,
                   "the version stays", &a);
        } else {
            m_etag_of(m, made.from, made.len, false, made.etag);
            made.sum = (struct m_sum){
                v->sum.kind != CHECKSUM_NONE ? v->sum.kind : CHECKSUM_CRC64NVME, false};
            m_want_new_id(m, b, &a);
            m_id_from(b, &a, &made);
            m_add(b, key, &made);
        }
        m_want(m, strstr(a.body.at, made.etag) != NULL, "ETag of a copy", &a);
        m_want_sum_element(m, made.sum, made.from, made.len, &a);
    }
    buf_fini(&a.body);
}

static inline void
m_tags(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    unsigned key = m_rnd(m, M_KEYS), n = b->count[key], what = m_rnd(m, 3),
             tag = m_rnd(m, 1000);
    bool by_id = n > 0 && m_rnd(m, 2) == 0;
    struct m_version *v = by_id ? &b->of[key][m_rnd(m, n)] : n > 0 ? b->of[key] : NULL;
    static const char *const methods[] = {"GET", "PUT", "DELETE"};
    static const int statuses[] = {200, 200, 204};
    struct m_answer a;
    char target[200], query[80], doc[160];

    snprintf(query, sizeof query, "?tagging%s%s", by_id ? "&versionId=" : "",
             by_id ? v->id : "");
    snprintf(
        doc, sizeof doc,
        "<Tagging><TagSet><Tag><Key>t</Key><Value>%u</Value></Tag></TagSet></Tagging>",
        tag + 1);
    m_target(target, sizeof target, b, key, query);
    m_ask(m, methods[what], target, NULL,
          what == 1 ? span_of(doc) : (struct span){NULL, 0}, &a);
    if (!m_missing(m, b, key, v, by_id, false, &a)) {
        m_want_status(m, &a, statuses[what], NULL);
        if (what == 1)
            v->tags = tag + 1;
        else if (what == 2)
            v->tags = 0;
        else if (v->tags == 0)
            m_want(m, strstr(a.body.at, "<Tag>") == NULL, "no tag", &a);
        else {
            snprintf(doc, sizeof doc, "<Tag><Key>t</Key><Value>%u</Value></Tag>",
                     v->tags);
            m_want(m, strstr(a.body.at, doc) != NULL, doc, &a);
        }
    }
    buf_fini(&a.body);
}

/* ---- multipart ---- */

static inline void
m_upload_begin(struct model *m, struct m_bucket *b)
{
    struct m_upload u = {.key = m_rnd(m, M_KEYS)};
    struct m_headers h = {.count = 0};
    struct m_version v = {.marker = false};
    struct m_answer a;
    char target[128];
    const char *id;

    if (b->upload_count == M_UPLOADS)
        return;
    m_any_meta(m, &v, &h);
    u.meta = v.meta;
    u.tags = v.tags;
    u.sum.kind = m_any_kind(m);
    if (u.sum.kind != CHECKSUM_NONE) {
        bool sha = u.sum.kind == CHECKSUM_SHA1 || u.sum.kind == CHECKSUM_SHA256;

        u.sum.composite = sha || (u.sum.kind != CHECKSUM_CRC64NVME && m_rnd(m, 2) == 0);
        m_header(&h, "x-amz-checksum-algorithm", "%s", checksum_name(u.sum.kind));
        m_header(&h, "x-amz-checksum-type", "%s",
                 u.sum.composite ? "COMPOSITE" : "FULL_OBJECT");
    }
    m_target(target, sizeof target, b, u.key, "?uploads");
    m_ask(m, "POST", target, &h, (struct span){NULL, 0}, &a);
    m_want_status(m, &a, 200, NULL);
    id = strstr(a.body.at, "<UploadId>");
    m_want(m, id != NULL, "an id", &a);
    snprintf(u.id, sizeof u.id, "%.32s", id + strlen("<UploadId>"));
    b->uploads[b->upload_count++] = u;
    buf_fini(&a.body);
}

static inline void
m_upload_part(struct model *m, struct m_bucket *b, struct m_upload *u)
{
    unsigned n = m_rnd(m, M_PARTS), source = m_rnd(m, M_KEYS);
    const struct m_version *v = m_rnd(m, 3) == 0 ? m_current(b, source) : NULL;
    struct m_headers h = {.count = 0};
    struct m_version part = {.marker = false};
    bool wrong = false;
    struct m_answer a;
    char target[200], query[80];

    snprintf(query, sizeof query, "?uploadId=%s&partNumber=%u", u->id, n + 1);
    m_target(target, sizeof target, b, u->key, query);
    if (v != NULL) {
        uint32_t first = v->len > 1 ? m_rnd(m, v->len) : 0;

        part.from = v->from + first;
        part.len = v->len - first;
        m_header(&h, "x-amz-copy-source", "%s/%s", b->name, m_keys[source].path);
        if (first > 0)
            m_header(&h, "x-amz-copy-source-range", "bytes=%u-%u", first, v->len - 1);
        m_ask(m, "PUT", target, &h, (struct span){"", 0}, &a);
    } else {
        m_any_body(m, &part);
        part.sum.kind = u->sum.composite               ? u->sum.kind
                        : m_rnd(m, 2) == 0             ? CHECKSUM_NONE
                        : u->sum.kind == CHECKSUM_NONE ? m_any_kind(m)
                                                       : u->sum.kind;
        wrong = m_send_sum(m, part.sum.kind, part.from, part.len, &h);
        m_ask(m, "PUT", target, &h, (struct span){m->data + part.from, part.len}, &a);
    }
    m_etag_of(m, part.from, part.len, false, part.etag);
    if (wrong) {
        m_want_status(m, &a, 400, "BadDigest");
        buf_fini(&a.body);
        return;
    }
    m_want_status(m, &a, 200, NULL);
    if (part.sum.kind == CHECKSUM_NONE)
        part.sum.kind = u->sum.kind != CHECKSUM_NONE ? u->sum.kind : CHECKSUM_CRC64NVME;
    if (v != NULL)
        m_want_sum_element(m, part.sum, part.from, part.len, &a);
    else
        m_want_sum_value(m, part.sum, part.from, part.len, &a);
    m_want(m, v != NULL ? strstr(a.body.at, part.etag) != NULL : m_etag_is(&a, part.etag),
           "ETag of a part", &a);
    u->part[n].there = true;
    u->part[n].from = part.from;
    u->part[n].len = part.len;
    u->part[n].sum = part.sum.kind;
    buf_fini(&a.body);
}

/* Parts are small here, so an object has one; naming two is refused for the size of the first. */
static inline void
m_upload_complete(struct model *m, struct m_bucket *b, unsigned index)
{
    struct m_upload u = b->uploads[index];
    unsigned n = m_rnd(m, M_PARTS),
             second = n + 1 < M_PARTS && m_rnd(m, 3) == 0 ? n + 1 : n;
    struct m_headers h = {.count = 0};
    struct m_version v = {.meta = u.meta, .tags = u.tags};
    struct m_condition c = {0, NULL};
    struct m_answer a;
    char target[200], query[80], doc[800], etag[CHECKSUM_TEXT_MAX];
    size_t len;

    snprintf(query, sizeof query, "?uploadId=%s", u.id);
    m_target(target, sizeof target, b, u.key, query);
    len = (size_t)snprintf(doc, sizeof doc, "<CompleteMultipartUpload>");
    for (unsigned i = n; i <= second; i++) {
        m_etag_of(m, u.part[i].from, u.part[i].len, false, etag);
        len += (size_t)snprintf(doc + len, sizeof doc - len,
                                "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag>", i + 1,
                                etag);
        if (u.sum.composite || (u.part[i].sum != CHECKSUM_NONE && m_rnd(m, 2) == 0)) {
            enum checksum_kind kind =
                u.part[i].sum != CHECKSUM_NONE ? u.part[i].sum : u.sum.kind;

            m_sum_text(m, (struct m_sum){kind, false}, u.part[i].from, u.part[i].len,
                       etag);
            len += (size_t)snprintf(doc + len, sizeof doc - len, "<%s>%s</%s>",
                                    checksum_element(kind), etag, checksum_element(kind));
        }
        len += (size_t)snprintf(doc + len, sizeof doc - len, "</Part>");
    }
    snprintf(doc + len, sizeof doc - len, "</CompleteMultipartUpload>");
    if (m_rnd(m, 3) == 0)
        c = m_write_condition(m, b, u.key, &h);
    m_ask(m, "POST", target, &h, span_of(doc), &a);
    if (!u.part[n].there) {
        m_want_status(m, &a, 400, "InvalidPart");
    } else if (second != n) {
        m_want_status(m, &a, 400, "EntityTooSmall");
    } else if (c.want != 0) {
        m_want_status(m, &a, c.want, c.code);
    } else {
        m_want_status(m, &a, 200, NULL);
        v.from = u.part[n].from;
        v.len = u.part[n].len;
        m_etag_of(m, v.from, v.len, true, v.etag);
        m_want(m, strstr(a.body.at, v.etag) != NULL, "ETag of an object of parts", &a);
        v.sum = u.sum;
        if (v.sum.kind == CHECKSUM_NONE && u.part[n].sum < CHECKSUM_SHA1)
            v.sum.kind = u.part[n].sum;
        m_want_sum_element(m, v.sum, v.from, v.len, &a);
        m_want_new_id(m, b, &a);
        m_id_from(b, &a, &v);
        m_add(b, u.key, &v);
        memmove(&b->uploads[index], &b->uploads[index + 1],
                (b->upload_count - index - 1) * sizeof u);
        b->upload_count--;
    }
    buf_fini(&a.body);
}

static inline void
m_upload_abort(struct model *m, struct m_bucket *b, unsigned index)
{
    struct m_upload u = b->uploads[index];
    struct m_answer a;
    char target[200], query[80];

    snprintf(query, sizeof query, "?uploadId=%s", u.id);
    m_target(target, sizeof target, b, u.key, query);
    m_ask(m, "DELETE", target, NULL, (struct span){NULL, 0}, &a);
    m_want_status(m, &a, 204, NULL);
    buf_fini(&a.body);
    m_ask(m, "DELETE", target, NULL, (struct span){NULL, 0}, &a);
    m_want_status(m, &a, 404, "NoSuchUpload");
    buf_fini(&a.body);
    memmove(&b->uploads[index], &b->uploads[index + 1],
            (b->upload_count - index - 1) * sizeof u);
    b->upload_count--;
}

static inline void
m_multipart(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    unsigned index = b->upload_count > 0 ? m_rnd(m, b->upload_count) : 0;
    unsigned what = m_rnd(m, 10);

    if (b->upload_count == 0 || what < 3)
        m_upload_begin(m, b);
    else if (what < 7)
        m_upload_part(m, b, &b->uploads[index]);
    else if (what < 9)
        m_upload_complete(m, b, index);
    else
        m_upload_abort(m, b, index);
}

/* ---- lists ---- */

/* The text of the next element of that name behind *at, which is moved behind it. False: there is none before `end`. */
static inline bool
m_next(const char **at, const char *end, const char *name, char *out, size_t room)
{
    char open[64];
    const char *found, *close;

    snprintf(open, sizeof open, "<%s>", name);
    found = strstr(*at, open);
    if (found == NULL || found >= end)
        return false;
    found += strlen(open);
    close = strchr(found, '<');
    snprintf(out, room, "%.*s", (int)(close - found), found);
    *at = close;
    return true;
}

/* What a list should say, and what it said: one line for each thing. */
struct m_lines {
    struct buf text;
    unsigned count;
};

static inline const char *
m_xml_of(const char *key, size_t len)
{
    static char out[256];
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        const char *as = key[i] == '&'   ? "&amp;"
                         : key[i] == '<' ? "&lt;"
                         : key[i] == '>' ? "&gt;"
                                         : NULL;

        if (as != NULL)
            n += (size_t)snprintf(out + n, sizeof out - n, "%s", as);
        else
            out[n++] = key[i];
    }
    out[n] = '\0';
    return out;
}

/* The group of a key, or 0. */
static inline size_t
m_group(const char *key, const char *prefix, const char *delimiter)
{
    const char *at =
        delimiter[0] != '\0' ? strstr(key + strlen(prefix), delimiter) : NULL;

    return at != NULL ? (size_t)(at - key) + strlen(delimiter) : 0;
}

static inline void
m_expect_list(struct m_bucket *b, const char *prefix, const char *delimiter,
              bool versions, struct buf *keys, struct buf *groups)
{
    char last[64] = "";

    for (unsigned k = 0; k < M_KEYS; k++) {
        size_t group;

        if (strncmp(m_keys[k].key, prefix, strlen(prefix)) != 0 ||
            (versions ? b->count[k] == 0 : m_current(b, k) == NULL))
            continue;
        group = m_group(m_keys[k].key, prefix, delimiter);
        if (group > 0) {
            char name[64];

            snprintf(name, sizeof name, "%.*s", (int)group, m_keys[k].key);
            if (strcmp(name, last) != 0)
                buf_printf(groups, "%s\n", m_xml_of(name, strlen(name)));
            strcpy(last, name);
            continue;
        }
        for (unsigned i = 0; i < (versions ? b->count[k] : 1); i++) {
            const struct m_version *v = &b->of[k][i];

            if (versions)
                buf_printf(keys, "%s %s %d %s %u\n", m_keys[k].xml, v->id, i == 0,
                           v->marker ? "-" : v->etag, v->marker ? 0 : v->len);
            else
                buf_printf(keys, "%s %s %u\n", m_keys[k].xml, v->etag, v->len);
        }
    }
}

/* One element of a list as a line. */
static inline void
m_read_entry(const char *at, const char *end, bool versions, bool marker,
             struct buf *keys)
{
    char key[128], id[64] = "", latest[8] = "", etag[80] = "-", size[16] = "0";
    const char *from = at;

    m_next(&from, end, "Key", key, sizeof key);
    if (versions) {
        m_next(&from, end, "VersionId", id, sizeof id);
        m_next(&from, end, "IsLatest", latest, sizeof latest);
    }
    if (!marker) {
        m_next(&from, end, "ETag", etag, sizeof etag);
        m_next(&from, end, "Size", size, sizeof size);
    }
    if (!marker && strncmp(etag, "&quot;", 6) == 0) {
        memmove(etag, etag + 6, strlen(etag) - 5);
        etag[strlen(etag) - 6] = '\0';
    } else if (!marker && etag[0] == '"') {
        memmove(etag, etag + 1, strlen(etag));
        etag[strlen(etag) - 1] = '\0';
    }
    if (versions)
        buf_printf(keys, "%s %s %d %s %s\n", key, id, strcmp(latest, "true") == 0, etag,
                   size);
    else
        buf_printf(keys, "%s %s %s\n", key, etag, size);
}

static inline unsigned
m_read_page(const char *at, bool versions, struct buf *keys, struct buf *groups)
{
    static const char *const names[] = {"<Contents>", "<Version>", "<DeleteMarker>",
                                        "<CommonPrefixes>"};
    unsigned count = 0;

    for (;;) {
        const char *next = NULL, *end;
        unsigned what = 0;
        char prefix[128];

        for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
            const char *found = strstr(at, names[i]);

            if (found != NULL && (next == NULL || found < next)) {
                next = found;
                what = i;
            }
        }
        if (next == NULL)
            return count;
        at = next + strlen(names[what]);
        end = at + strlen(at);
        for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
            const char *found = strstr(at, names[i]);

            if (found != NULL && found < end)
                end = found;
        }
        if (what == 3) {
            m_next(&at, end, "Prefix", prefix, sizeof prefix);
            buf_printf(groups, "%s\n", prefix);
        } else {
            m_read_entry(at, end, versions, what == 2, keys);
        }
        count++;
    }
}

static inline void
m_encode(const char *xml_text, char *out, size_t room)
{
    size_t n = 0;

    for (const unsigned char *c = (const unsigned char *)xml_text;
         *c != '\0' && n + 4 < room;) {
        unsigned char byte = *c;

        if (strncmp((const char *)c, "&amp;", 5) == 0) {
            byte = '&';
            c += 5;
        } else if (strncmp((const char *)c, "&lt;", 4) == 0) {
            byte = '<';
            c += 4;
        } else if (strncmp((const char *)c, "&gt;", 4) == 0) {
            byte = '>';
            c += 4;
        } else {
            c++;
        }
        n += (size_t)snprintf(out + n, room - n, "%%%02X", byte);
    }
    out[n] = '\0';
}

/* Where the next page begins; false: this was the last. */
static inline bool
m_next_page(const struct m_answer *a, bool versions, char *query, size_t room)
{
    char token[256], encoded[512], id[64] = "";
    const char *at = a->body.at, *end = a->body.at + a->body.len;

    if (strstr(at, "<IsTruncated>true</IsTruncated>") == NULL)
        return false;
    if (!m_next(&at, end, versions ? "NextKeyMarker" : "NextContinuationToken", token,
                sizeof token))
        return false;
    m_encode(token, encoded, sizeof encoded);
    at = a->body.at;
    if (!versions)
        snprintf(query, room, "&continuation-token=%s", encoded);
    else if (m_next(&at, end, "NextVersionIdMarker", id, sizeof id))
        snprintf(query, room, "&key-marker=%s&version-id-marker=%s", encoded, id);
    else
        snprintf(query, room, "&key-marker=%s", encoded);
    return true;
}

static inline void
m_list_of(struct model *m, struct m_bucket *b, const char *prefix, const char *delimiter,
          bool versions, unsigned size)
{
    struct buf want_keys, want_groups, keys, groups;
    char target[1024], more[700] = "";
    struct m_answer a = {.status = 0};
    bool again;

    buf_init(&want_keys, 1u << 20);
    buf_init(&want_groups, 1u << 16);
    buf_init(&keys, 1u << 20);
    buf_init(&groups, 1u << 16);
    m_expect_list(b, prefix, delimiter, versions, &want_keys, &want_groups);
    do {
        char p[64], d[64];
        unsigned count;

        m_encode(prefix, p, sizeof p);
        m_encode(delimiter, d, sizeof d);
        snprintf(target, sizeof target, "/%s?%s&prefix=%s&delimiter=%s&max-keys=%u%s",
                 b->name, versions ? "versions" : "list-type=2", p, d, size, more);
        m_ask(m, "GET", target, NULL, (struct span){NULL, 0}, &a);
        m_want_status(m, &a, 200, NULL);
        count = m_read_page(a.body.at, versions, &keys, &groups);
        m_want(m, count <= size, "a page no longer than asked", &a);
        again = m_next_page(&a, versions, more, sizeof more);
        m_want(m, !again || count == size, "only full pages are truncated", &a);
        if (again)
            buf_fini(&a.body);
    } while (again);
    buf_putc(&want_keys, '\0');
    buf_putc(&keys, '\0');
    buf_putc(&want_groups, '\0');
    buf_putc(&groups, '\0');
    if (strcmp(keys.at, want_keys.at) != 0 || strcmp(groups.at, want_groups.at) != 0) {
        fprintf(stderr, "%s\nwanted:\n%s--\n%s\ngot:\n%s--\n%s\n", target, want_keys.at,
                want_groups.at, keys.at, groups.at);
        m_fail(m, "a list", &a);
    }
    buf_fini(&a.body);
    buf_fini(&want_keys);
    buf_fini(&want_groups);
    buf_fini(&keys);
    buf_fini(&groups);
}

static inline void
m_list(struct model *m)
{
    static const char *const prefixes[] = {"", "a", "a/", "b", "b/", "none"};
    static const char *const delimiters[] = {"", "/", "//"};

    m_list_of(m, m_any_bucket(m), prefixes[m_rnd(m, ARRAY_LEN(prefixes))],
              delimiters[m_rnd(m, ARRAY_LEN(delimiters))], m_rnd(m, 2) == 0,
              m_rnd(m, 2) == 0 ? 1000 : 1 + m_rnd(m, 5));
}

static inline void
m_list_uploads(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    struct m_answer a;
    char target[64];
    const char *at;
    unsigned count = 0;

    snprintf(target, sizeof target, "/%s?uploads", b->name);
    m_ask(m, "GET", target, NULL, (struct span){NULL, 0}, &a);
    m_want_status(m, &a, 200, NULL);
    at = a.body.at;
    /* By key, then begin; both are in the model's order within a key. */
    for (unsigned k = 0; k < M_KEYS; k++)
        for (unsigned i = 0; i < b->upload_count; i++) {
            char key[128], id[64];

            if (b->uploads[i].key != k)
                continue;
            m_want(m,
                   m_next(&at, a.body.at + a.body.len, "Key", key, sizeof key) &&
                       m_next(&at, a.body.at + a.body.len, "UploadId", id, sizeof id) &&
                       strcmp(key, m_keys[k].xml) == 0 &&
                       strcmp(id, b->uploads[i].id) == 0,
                   "an upload", &a);
            count++;
        }
    m_want(m, strstr(at, "<Upload>") == NULL && count == b->upload_count, "no more", &a);
    buf_fini(&a.body);
}

/* ---- the bucket ---- */

static inline void
m_versioning(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    bool on = m_rnd(m, 2) == 0;
    struct m_answer a;
    char target[64], doc[160];

    if (b->versioning == MAP_UNVERSIONED && m_rnd(m, 4) != 0)
        return; /* stays for a while as buckets begin */
    snprintf(target, sizeof target, "/%s?versioning", b->name);
    snprintf(doc, sizeof doc,
             "<VersioningConfiguration><Status>%s</Status></VersioningConfiguration>",
             on ? "Enabled" : "Suspended");
    m_ask(m, "PUT", target, NULL, span_of(doc), &a);
    m_want_status(m, &a, 200, NULL);
    buf_fini(&a.body);
    b->versioning = on ? MAP_VERSIONED : MAP_SUSPENDED;
    for (unsigned k = 0; k < M_KEYS; k++)
        for (unsigned i = 0; i < b->count[k]; i++)
            if (b->of[k][i].id[0] == '\0')
                strcpy(b->of[k][i].id, "null");
}

/* Room for one more version. */
static inline void
m_trim(struct model *m)
{
    for (unsigned i = 0; i < M_BUCKETS; i++)
        for (unsigned k = 0; k < M_KEYS; k++) {
            struct m_bucket *b = &m->bucket[i];

            while (b->count[k] + 3 >= M_VERSIONS) {
                unsigned n = m_rnd(m, b->count[k]);
                struct m_answer a;
                char target[200], query[64];

                snprintf(query, sizeof query, "?versionId=%s", b->of[k][n].id);
                m_target(target, sizeof target, b, k, query);
                m_ask(m, "DELETE", target, NULL, (struct span){NULL, 0}, &a);
                m_want_status(m, &a, 204, NULL);
                buf_fini(&a.body);
                m_remove(b, k, n);
            }
        }
}

/* At the start of each world. */
static inline void
model_prepare(struct model *m)
{
    for (unsigned i = 0; i < M_BUCKETS; i++) {
        struct m_answer a;
        char target[64];

        snprintf(target, sizeof target, "/%s", m->bucket[i].name);
        m_ask(m, "PUT", target, NULL, (struct span){"", 0}, &a);
        m_want_status(m, &a, m->made ? 409 : 200, NULL);
        buf_fini(&a.body);
    }
    m->made = true;
}

static inline void
model_step(struct model *m)
{
    static const struct {
        unsigned weight;
        void (*run)(struct model *m);
    } ops[] = {
        {26, m_put},         {18, m_get},       {14, m_delete},    {4, m_delete_many},
        {10, m_copy},        {8, m_tags},       {9, m_multipart},  {5, m_list},
        {1, m_list_uploads}, {1, m_versioning}, {4, m_attributes},
    };
    uint32_t die = m_rnd(m, 100);

    m->steps++;
    m_trim(m);
    for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
        if (die < ops[i].weight) {
            ops[i].run(m);
            m->done[i]++;
            return;
        }
        die -= ops[i].weight;
    }
    abort();
}

/* Every version of everything, and every list. */
static inline void
model_look_at_all(struct model *m)
{
    for (unsigned i = 0; i < M_BUCKETS; i++) {
        struct m_bucket *b = &m->bucket[i];

        for (unsigned k = 0; k < M_KEYS; k++)
            for (unsigned n = 0; n < b->count[k]; n++) {
                const struct m_version *v = &b->of[k][n];
                struct m_answer a;
                char target[200], query[64] = "";

                if (v->marker)
                    continue;
                if (b->versioning != MAP_UNVERSIONED)
                    snprintf(query, sizeof query, "?versionId=%s", v->id);
                m_target(target, sizeof target, b, k, query);
                m_ask(m, "GET", target, NULL, (struct span){NULL, 0}, &a);
                m_want_object(m, b, v, &a, true, 0, v->len);
                buf_fini(&a.body);
            }
        m_list_of(m, b, "", "", false, 1000);
        m_list_of(m, b, "", "", true, 1000);
    }
}

static inline void
model_say(const struct model *m)
{
    printf(
        "puts %llu, reads %llu, deletes %llu + %llu, copies %llu, tags %llu, multipart "
        "%llu, lists %llu + %llu, versioning %llu, attributes %llu\n",
        (unsigned long long)m->done[0], (unsigned long long)m->done[1],
        (unsigned long long)m->done[2], (unsigned long long)m->done[3],
        (unsigned long long)m->done[4], (unsigned long long)m->done[5],
        (unsigned long long)m->done[6], (unsigned long long)m->done[7],
        (unsigned long long)m->done[8], (unsigned long long)m->done[9],
        (unsigned long long)m->done[10]);
}
