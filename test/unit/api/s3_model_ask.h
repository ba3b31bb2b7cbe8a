/* s3_model_ask: a request of the model, its answer taken apart, and what is said when the answer is another than the model's. */
#pragma once
#include <stdarg.h>

#include "unit/api/s3_model_state.h"

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
                                    .by = deadline_in_ms(PATIENCE_MS)};
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
m_target(char *out, size_t room, const struct m_bucket *b, unsigned key,
         const char *query)
{
    snprintf(out, room, "/%s/%s%s", b->name, m_keys[key].path, query);
}

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

static inline void
m_id_from(struct m_bucket *b, const struct m_answer *a, struct m_version *v)
{
    v->null = b->versioning != MAP_VERSIONED;
    snprintf(v->id, sizeof v->id, "%s", v->null ? "null" : a->version);
}

static inline void
m_want_new_id(const struct model *m, const struct m_bucket *b, const struct m_answer *a)
{
    bool right =
        b->versioning == MAP_VERSIONED ? strlen(a->version) == 32 : a->version[0] == '\0';

    m_want(m, right, "the version id does not fit the bucket's versioning", a);
}

static inline bool
m_etag_is(const struct m_answer *a, const char *etag)
{
    char quoted[M_ETAG + 2];

    snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    return strcmp(a->etag, quoted) == 0;
}
