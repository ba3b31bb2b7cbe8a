/* s3_model_objects: put, get, attributes, delete, copy and tags, with the conditions of a write. */
#pragma once
#include "unit/api/s3_model_sums.h"

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
    int want = 204, absent = n > 0 && b->of[key][0].marker ? 412 : 204;

    if (by_id)
        snprintf(query, sizeof query, "?versionId=%s", v->id);
    if (!by_id && m_rnd(m, 4) == 0) {
        bool right = m_rnd(m, 2) == 0;

        m_header(&h, "if-match", "%s",
                 right && now != NULL ? now->etag : "00000000000000000000000000000000");
        want = now == NULL ? absent : right ? 204 : 412;
    } else if (!by_id && m_rnd(m, 6) == 0) {
        uint32_t size = m_rnd(m, 2) == 0 && now != NULL ? now->len : 7;

        m_header(&h, "x-amz-if-match-size", "%u", size);
        want = now == NULL ? absent : now->len == size ? 204 : 412;
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
        else if (b->versioning == MAP_SUSPENDED)
            m_want(m, strcmp(a.version, "null") == 0, "version of a null marker", &a);
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
    digest_oneshot(DIGEST_MD5, doc.at, doc.len, md5);
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
            m_want(m, a.version[0] == '\0', "the version stays", &a);
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
