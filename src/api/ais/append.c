/* append: bytes behind an object, invisible until they are flushed. The hidden copy is an upload in parts: the first part is
 * the object as it is, each append one more, and flush completes it. The handle names the upload and the next part, and
 * has the state of an XXH64 over all bytes, so that flush can verify a checksum without reading them again. */
#include <stdio.h>
#include <string.h>

#include "api/ais/ops.h"
#include "api/ais/put.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"

#define UPLOAD_TEXT 32 /* hex of an upload's id */
#define STATE_TEXT  (2 * sizeof(struct hash_xxh64))

struct handle {
    struct span upload;
    uint64_t next; /* number of the next part */
    struct hash_xxh64 sum;
};

/* "UPLOAD.NEXT.STATE" */
static enum err
take_handle(struct request *q, struct handle *h)
{
    struct span text = query_get(&q->query, "append_handle"), number, state;
    const char *dot, *last;

    *h = (struct handle){.next = 1};
    hash_xxh64_init(&h->sum);
    if (text.len == 0)
        return ERR_OK;
    dot = span_find(text, '.');
    h->upload = (struct span){text.at, dot != NULL ? (size_t)(dot - text.at) : text.len};
    number = span_from(text, h->upload.len + 1);
    last = span_find(number, '.');
    state = last != NULL ? span_from(number, (size_t)(last - number.at) + 1) : SPAN("");
    number.len = last != NULL ? (size_t)(last - number.at) : 0;
    if (h->upload.len != UPLOAD_TEXT || num_u64(number, &h->next) != ERR_OK ||
        h->next == 0 || state.len != STATE_TEXT ||
        hex_decode(state.at, state.len, &h->sum, sizeof h->sum) != (int)sizeof h->sum ||
        !hash_xxh64_is_state(&h->sum))
        return ais_fault(q, 400, NULL, "append handle \"%.*s\" is none of this server",
                         (int)MIN(text.len, 64u), text.at);
    return ERR_OK;
}

static void
put_handle(struct request *q, const struct handle *h)
{
    char state[STATE_TEXT + 1];

    hex_encode(&h->sum, sizeof h->sum, state);
    http_headerf(q->http, "ais-append-handle", "%.*s.%llu.%s", SPAN_ARG(h->upload),
                 (unsigned long long)h->next, state);
}

/* One part of the hidden copy: of the body, or of the object that is there. */
struct source {
    struct s3_body *body;
    struct object_get *get; /* with its range chosen */
};

static enum err
append_next_piece(struct request *q, struct source *from, struct span *piece)
{
    struct errbuf eb = {{0}};
    enum err rc;

    if (from->body != NULL)
        return s3_body_next(from->body, piece);
    rc = object_get_next(from->get, DEADLINE_NEVER, piece, &eb);
    return rc == ERR_OK ? ERR_OK : ais_fault_from(q, rc, &eb);
}

/* An empty source makes no part. */
static enum err
add_part(struct request *q, struct handle *h, struct source *from, uint64_t size)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct object_put_options o = {.size = size, .checksum_algorithm = CHECKSUM_CRC32C};
    struct object_meta none = {0};
    struct object_put *put = NULL;
    struct errbuf eb = {{0}};
    struct span piece;
    uint64_t got = 0;
    enum err rc;

    if (h->next > OBJECT_PARTS_MAX)
        return ais_fault(q, 400, NULL, "over %d appends without a flush",
                         OBJECT_PARTS_MAX);
    rc = object_part_begin(q->api->options.object, q->bucket, q->name.key, h->upload,
                           (uint32_t)h->next, &o, &put, &eb);
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    for (;;) {
        rc = append_next_piece(q, from, &piece);
        if (rc != ERR_OK || piece.len == 0)
            break;
        got += piece.len;
        hash_xxh64_add(&h->sum, piece.at, piece.len);
        rc = object_put_write(put, piece.at, piece.len, &eb);
        if (rc != ERR_OK) {
            rc = ais_fault_from(q, rc, &eb);
            break;
        }
    }
    if (rc == ERR_OK && got > 0) {
        rc = object_put_commit(&put, &none, q->arena, info, &eb);
        h->next += rc == ERR_OK;
        if (rc != ERR_OK)
            rc = ais_fault_from(q, rc, &eb);
    }
    object_put_abort(&put);
    return rc;
}

/* The hidden copy begins as the object that is there, if there is one. */
static enum err
begin_copy(struct request *q, struct handle *h)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct source from = {.get = NULL};
    struct errbuf eb = {{0}};
    enum err rc = object_get_begin(q->api->options.object, q->bucket, q->name.key,
                                   q->arena, info, &from.get, &eb);
    bool there = rc == ERR_OK;

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return ais_fault_from(q, rc, &eb);
    rc = ais_begin_upload(q, there ? &info->meta : NULL, &h->upload);
    if (rc == ERR_OK && there && info->size > 0) {
        rc = object_get_range(from.get, 0, info->size, &eb);
        rc =
            rc == ERR_OK ? add_part(q, h, &from, info->size) : ais_fault_from(q, rc, &eb);
    }
    object_get_end(&from.get);
    return rc;
}

static enum err
append_bytes(struct request *q, struct handle *h)
{
    struct s3_body body;
    struct source from = {.body = &body};
    enum err rc = s3_body_begin(q, &body);

    if (rc == ERR_OK && h->upload.len == 0)
        rc = begin_copy(q, h);
    if (rc == ERR_OK && body.size != 0)
        rc = add_part(q, h, &from, body.size);
    s3_body_end(&body);
    if (rc != ERR_OK)
        return rc;
    put_handle(q, h);
    return ais_answer_empty(q, 200);
}

/* ---- flush ---- */

/* What the client says of the whole must be what was appended. */
static enum err
check_flushed(struct request *q, const struct handle *h)
{
    struct ais_given given;
    char text[24];
    enum err rc = ais_given_take(q, &given);

    if (rc != ERR_OK || given.type == AIS_CHECKSUM_NONE)
        return rc;
    if (ais_checksum_kind(given.type) != CHECKSUM_XXH64)
        return ais_fault(
            q, 400, NULL,
            "flush verifies checksums of the types xxhash and xxhash2, not \"%s\"",
            ais_checksum_name(given.type));
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash_xxh64_end(&h->sum));
    return ais_given_check(q, &given, text);
}

/* Nothing was appended to nothing: the object is empty. */
static enum err
flush_empty(struct request *q, const struct handle *h, struct object_info *info)
{
    struct object_service *s = q->api->options.object;
    struct object_put_options o = {.checksum_algorithm =
                                       (uint8_t)ais_stored_kind(q->bucket)};
    struct object_meta meta = {0};
    struct object_put *put = NULL;
    struct errbuf eb = {{0}};
    enum err rc = object_put_begin(s, q->bucket, q->name.key, &o, &put, &eb);

    if (rc == ERR_OK)
        rc = object_next_overwrites(s, q->bucket, q->name.key, &meta.overwrites, &eb);
    if (rc == ERR_OK)
        rc = object_put_commit(&put, &meta, q->arena, info, &eb);
    object_put_abort(&put);
    if (rc == ERR_OK)
        rc = object_upload_abort(s, q->bucket, q->name.key, h->upload, &eb);
    return rc == ERR_OK ? ERR_OK : ais_fault_from(q, rc, &eb);
}

static enum err
flush_copy(struct request *q, struct handle *h)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct object_complete_part *parts;
    enum err rc;

    if (h->upload.len == 0)
        return ais_fault(q, 400, NULL, "flush needs the append_handle of an append");
    if (h->next > OBJECT_PARTS_MAX + 1)
        return ais_fault(q, 400, NULL, "over %d appends without a flush",
                         OBJECT_PARTS_MAX);
    rc = check_flushed(q, h);
    if (rc != ERR_OK)
        return rc;
    parts = arena_alloc(request_work(q), h->next * sizeof *parts);
    for (uint32_t i = 0; i + 1 < h->next; i++)
        parts[i].number = i + 1;
    rc = h->next == 1
             ? flush_empty(q, h, info)
             : ais_finish_upload(q, h->upload, parts, (uint32_t)(h->next - 1), info);
    return rc == ERR_OK ? ais_answer_put(q, info) : rc;
}

enum err
ais_append_object(struct request *q)
{
    struct span type = query_get(&q->query, "append_type");
    struct handle *h = arena_alloc(q->arena, sizeof *h);
    enum err rc = take_handle(q, h);

    if (rc != ERR_OK)
        return rc;
    if (q->bucket->cached)
        return ais_fault(q, 501, "ErrUnsupp", "append to an object of a remote bucket");
    if (span_is(type, "append"))
        return append_bytes(q, h);
    return span_is(type, "flush")
               ? flush_copy(q, h)
               : ais_fault(q, 400, NULL, "append_type \"%.*s\": it is append or flush",
                           (int)MIN(type.len, 32u), type.at);
}
