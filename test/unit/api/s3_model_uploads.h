/* s3_model_uploads: uploads in parts: begun, continued, completed, aborted. */
#pragma once
#include "unit/api/s3_model_objects.h"

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
