/* body: the body of an upload, decoded and checked as it comes. */
#include <string.h>

#include "api/s3/s3.h"
#include "base/account.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/file.h"

#define SLICE                                                                            \
    (64u                                                                                 \
     << 10) /* received at a time; hashing a slice is what a loop does between two switches */

/* Length of the decoded body, as headers say it. */
static enum err
decide_size(struct request *q, struct s3_body *b)
{
    int64_t length = http_body_length(q->http);

    if (b->chunked != NULL) {
        b->size = b->chunked->length;
    } else if (length >= 0) {
        if (length == 0 && !q->http->head->has_length &&
            (q->http->head->method == HTTP_METHOD_PUT))
            return s3_fault(q, S3_MissingContentLength);
        b->size = (uint64_t)length;
    } else {
        b->size = OBJECT_SIZE_UNKNOWN;
    }
    if (b->size != OBJECT_SIZE_UNKNOWN && b->size > S3_PUT_MAX) {
        fault_set(&q->fault, S3_EntityTooLarge, NULL);
        fault_add(&q->fault, "ProposedSize",
                  span_of(arena_printf(q->arena, "%llu", (unsigned long long)b->size)));
        fault_add(
            &q->fault, "MaxSizeAllowed",
            span_of(arena_printf(q->arena, "%llu", (unsigned long long)S3_PUT_MAX)));
        return ERR_TOO_LARGE;
    }
    return ERR_OK;
}

/* CompleteMultipartUpload: x-amz-checksum-... speak of the object, not of the document in the body. */
static struct fields
sums_of_body(struct request *q, struct fields headers)
{
    struct field *kept;
    size_t n = 0;

    if (q->http->head->method != HTTP_METHOD_POST || !query_has(&q->query, "uploadId"))
        return headers;
    kept = arena_alloc(q->arena, headers.count * sizeof *kept);
    for (size_t i = 0; i < headers.count; i++)
        if (checksum_of_header(headers.at[i].name) == CHECKSUM_NONE)
            kept[n++] = headers.at[i];
    return (struct fields){kept, n};
}

enum err
s3_body_begin(struct request *q, struct s3_body *b)
{
    struct fields headers = http_fields(q->http->head);
    const struct sigv4_auth *auth = &q->caller.auth;
    enum err rc;

    *b = (struct s3_body){.q = q};
    rc = checksum_request_parse(sums_of_body(q, headers), &b->sums, &q->fault);
    if (rc != ERR_OK)
        return rc;
    if (payload_is_chunked(auth->payload.kind)) {
        b->chunked = arena_alloc(q->arena, sizeof *b->chunked);
        rc = awschunked_init(b->chunked, auth->payload.kind, auth, &q->caller.key,
                             headers, &q->fault);
        if (rc != ERR_OK)
            return rc;
    }
    rc = decide_size(q, b);
    if (rc != ERR_OK)
        return rc;
    if (auth->payload.kind == PAYLOAD_SHA256) {
        digest_init(&b->sha256, DIGEST_SHA256);
        b->check_sha256 = true;
    }
    return ERR_OK;
}

void
s3_body_end(struct s3_body *b)
{
    if (b->check_sha256)
        digest_fini(&b->sha256);
    b->check_sha256 = false;
    if (b->chunked != NULL)
        awschunked_fini(b->chunked);
    iobuf_drop(&b->buf);
}

/* Bytes of the HTTP body as they come; none at its end. */
static enum err
receive_to(struct s3_body *b, void *at, size_t room, size_t *n)
{
    struct request *q = b->q;
    struct errbuf eb = {{0}};
    enum err rc = http_body_read(q->http, at, room, n, &eb);

    if (rc == ERR_INCOMPLETE || rc == ERR_CLOSED)
        return fault_set(&q->fault, S3_IncompleteBody,
                         "The connection ended before the whole body had come");
    if (rc == ERR_BAD_REQUEST)
        return fault_set(&q->fault, S3_BadRequest, "%s", eb.text);
    if (rc == ERR_TIMEOUT)
        return fault_set(&q->fault, S3_RequestTimeout, NULL);
    return rc == ERR_OK ? rc : fault_from(q, rc, &eb);
}

/* Refills `in`; at the end of the HTTP body `ended` is set. */
static enum err
s3_body_receive(struct s3_body *b)
{
    struct request *q = b->q;
    size_t n = 0;
    enum err rc;

    if (b->buf == NULL) {
        int64_t length = http_body_length(q->http);
        uint32_t room = length >= 0 && length < SLICE ? (uint32_t)length : SLICE;

        rc = iobuf_get(MAX(room, 4096u), &b->buf);
        if (rc != ERR_OK) {
            fault_set(&q->fault, S3_SlowDown, NULL);
            return rc;
        }
    }
    rc = receive_to(b, b->buf->at, MIN(b->buf->room, SLICE), &n);
    if (rc != ERR_OK)
        return rc;
    b->in = (struct span){b->buf->at, n};
    b->ended = n == 0;
    return ERR_OK;
}

static enum err
next_plain(struct s3_body *b, struct span *piece)
{
    enum err rc = b->ended ? ERR_OK : s3_body_receive(b);

    if (rc == ERR_OK)
        *piece = b->ended ? (struct span){"", 0} : b->in;
    return rc;
}

static enum err
s3_body_next_chunked(struct s3_body *b, struct span *piece)
{
    struct request *q = b->q;

    for (;;) {
        enum err rc;

        switch (awschunked_next(b->chunked, &b->in, piece)) {
        case AWSCHUNKED_DATA:
            return ERR_OK;
        case AWSCHUNKED_END:
            if (b->in.len > 0)
                return fault_set(&q->fault, S3_IncompleteBody,
                                 "%zu bytes stand behind the last chunk", b->in.len);
            *piece = (struct span){"", 0};
            if (!b->ended) {
                rc = s3_body_receive(b); /* the end of the HTTP body itself */
                if (rc != ERR_OK)
                    return rc;
                if (!b->ended)
                    continue; /* bytes behind the end: rejected above */
            }
            return checksum_request_trailer(&b->sums, awschunked_trailers(b->chunked),
                                            &q->fault);
        case AWSCHUNKED_BAD:
            q->fault = b->chunked->fault;
            return s3_code_err(q->fault.code);
        case AWSCHUNKED_MORE:
            if (b->ended)
                return awschunked_finish(b->chunked, &q->fault);
            rc = s3_body_receive(b);
            if (rc != ERR_OK)
                return rc;
            if (b->ended) {
                rc = awschunked_finish(b->chunked, &q->fault);
                if (rc != ERR_OK)
                    return rc;
                *piece = (struct span){"", 0};
                return checksum_request_trailer(&b->sums, awschunked_trailers(b->chunked),
                                                &q->fault);
            }
        }
    }
}

static enum err
s3_body_finish(struct s3_body *b)
{
    struct request *q = b->q;
    unsigned char sum[DIGEST_MAX];

    if (b->size != OBJECT_SIZE_UNKNOWN && b->got != b->size)
        return fault_set(&q->fault, S3_IncompleteBody,
                         "The body has %llu bytes, its headers said %llu",
                         (unsigned long long)b->got, (unsigned long long)b->size);
    if (!b->check_sha256)
        return ERR_OK;
    digest_end(&b->sha256, sum);
    b->check_sha256 = false;
    return payload_check(&q->caller.auth.payload, sum, q->arena, &q->fault);
}

enum err
s3_body_next(struct s3_body *b, struct span *piece)
{
    enum err rc =
        b->chunked != NULL ? s3_body_next_chunked(b, piece) : next_plain(b, piece);

    if (rc != ERR_OK)
        return rc;
    if (piece->len == 0)
        return s3_body_finish(b);
    b->got += piece->len;
    if (b->got > S3_PUT_MAX)
        return s3_fault(b->q, S3_EntityTooLarge);
    if (b->check_sha256)
        digest_add(&b->sha256, piece->at, piece->len);
    return ERR_OK;
}

enum err
s3_body_check_sums(struct s3_body *b, const struct object_sums *got)
{
    struct request *q = b->q;
    struct checksum_value value = {.kind = b->sums.kind};

    if (b->sums.has_md5) {
        enum err rc = content_md5_check(b->sums.md5, got->md5, q->arena, &q->fault);

        if (rc != ERR_OK)
            return rc;
    }
    if (!b->sums.given)
        return ERR_OK;
    memcpy(value.bytes, got->checksum, got->checksum_len);
    return checksum_check(&b->sums.want, &value, &q->fault);
}

/* The body came with the head: it goes to the disk from where it lies. */
static enum err
lend(struct s3_body *b, struct object_put *put, struct span body)
{
    struct errbuf eb;
    enum err rc;

    err_forget(&eb);
    if (b->check_sha256)
        digest_add(&b->sha256, body.at, body.len);
    b->got = body.len;
    rc = object_put_zero_copy(put, body, &eb);
    return rc == ERR_OK ? s3_body_finish(b) : fault_from(b->q, rc, &eb);
}

/* What needs no decoding is received into the buffer that goes to the disk. *taken: the whole body came that way; else none
 * of it has. */
static enum err
receive_in_place(struct s3_body *b, struct object_put *put, bool *taken)
{
    struct errbuf eb;
    struct span body;

    err_forget(&eb);
    *taken = false;
    if (b->chunked != NULL || b->size == OBJECT_SIZE_UNKNOWN || b->size == 0)
        return ERR_OK;
    if (http_body_here(b->q->http, &body)) {
        *taken = true;
        return lend(b, put, body);
    }
    while (b->got < b->size) {
        size_t room, n;
        void *at;
        enum err rc = object_put_room(put, &at, &room, &eb);

        if (rc != ERR_OK)
            return fault_from(b->q, rc, &eb);
        if (at == NULL)
            return ERR_OK;
        rc = receive_to(b, at, room, &n);
        if (rc != ERR_OK)
            return rc;
        if (n == 0)
            break; /* finish() says what is missing */
        if (b->check_sha256)
            digest_add(&b->sha256, at, n);
        b->got += n;
        object_put_filled(put, n);
    }
    *taken = true;
    return s3_body_finish(b);
}

enum err
s3_body_to_put(struct s3_body *b, struct object_put *put)
{
    struct request *q = b->q;
    struct errbuf eb;
    struct object_sums sums;
    struct span piece;
    bool taken;
    enum err rc = receive_in_place(b, put, &taken);

    err_forget(&eb);
    if (rc != ERR_OK)
        return rc;
    while (!taken) {
        rc = s3_body_next(b, &piece);
        if (rc != ERR_OK)
            return rc;
        if (piece.len == 0)
            break;
        rc = object_put_write(put, piece.at, piece.len, &eb);
        if (rc != ERR_OK)
            return fault_from(q, rc, &eb);
    }
    rc = object_put_sums(put, &sums, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    return s3_body_check_sums(b, &sums);
}

/* Small documents stand whole in the arena. */
static enum err
s3_body_gather(struct s3_body *b, size_t limit, struct buf *text)
{
    struct span piece;
    enum err rc;

    for (;;) {
        rc = s3_body_next(b, &piece);
        if (rc != ERR_OK || piece.len == 0)
            return rc;
        buf_put_span(text, piece);
        if (text->full)
            return fault_set(&b->q->fault, S3_MaxMessageLengthExceeded,
                             "The document is over its limit of %zu bytes", limit);
    }
}

static enum err
check_document_sums(struct s3_body *b, const struct buf *text)
{
    struct object_sums sums = {.size = text->len};
    unsigned char md5[DIGEST_MAX];
    struct checksum running;
    struct checksum_value value;

    digest_oneshot(DIGEST_MD5, text->at, text->len, md5);
    memcpy(sums.md5, md5, sizeof sums.md5);
    checksum_init(&running, b->sums.kind);
    checksum_add(&running, text->at, text->len);
    checksum_end(&running, &value);
    sums.checksum_len = checksum_len(b->sums.kind);
    memcpy(sums.checksum, value.bytes, sums.checksum_len);
    return s3_body_check_sums(b, &sums);
}

enum err
s3_body_document(struct request *q, size_t limit, bool demand_sum, struct span *doc)
{
    int64_t known = http_body_length(q->http), held = 0;
    uint64_t taken = known >= 0 ? MIN((uint64_t)known, (uint64_t)limit) : limit;
    struct s3_body b;
    struct buf text;
    enum err rc;

    *doc = (struct span){"", 0};
    if (http_body_length(q->http) == 0 && !demand_sum)
        return ERR_OK;
    rc = s3_body_begin(q, &b);
    if (rc == ERR_OK && demand_sum)
        rc = checksum_request_demand(&b.sums, &q->fault);
    if (rc == ERR_OK && b.size != OBJECT_SIZE_UNKNOWN && b.size > limit)
        rc = fault_set(&q->fault, S3_MaxMessageLengthExceeded,
                       "The document is over its limit of %zu bytes", limit);
    /* Twice, as it grows and where it stands then; refused before it is read. */
    if (rc == ERR_OK && !account_reserve(ACCOUNT_DOCUMENTS, 2 * taken))
        rc = fault_set(&q->fault, S3_SlowDown, NULL);
    else if (rc == ERR_OK)
        held = 2 * (int64_t)taken;
    buf_init(&text, limit);
    if (rc == ERR_OK)
        rc = s3_body_gather(&b, limit, &text);
    if (rc == ERR_OK)
        rc = check_document_sums(&b, &text);
    if (rc == ERR_OK) {
        char *copy = arena_try(request_work(q), text.len + 1);

        if (copy == NULL)
            rc = fault_set(&q->fault, S3_MaxMessageLengthExceeded, NULL);
        else if (text.len > 0)
            memcpy(copy, text.at, text.len);
        *doc = (struct span){copy != NULL ? copy : "", text.len};
    }
    buf_fini(&text);
    account_add(ACCOUNT_DOCUMENTS, -held);
    s3_body_end(&b);
    return rc;
}
