/* s3_model_sums: checksums of objects and parts: asked for, sent, and what an answer has to say of them. */
#pragma once
#include "unit/api/s3_model_ask.h"

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
