/* put: PUT of an object. The checksum that the client names is verified; the one that the bucket's type wants is stored. */
#include "api/ais/put.h"

#include <string.h>

#include "api/ais/ops.h"
#include "base/log.h"
#include "base/mem.h"

/* ---- the client's checksum ---- */

enum err
ais_given_take(struct request *q, struct ais_given *out)
{
    struct fields h = http_fields(q->http->head);
    struct span type = fields_get(h, "ais-checksum-type");
    struct span value = fields_get(h, "ais-checksum-value");

    *out = (struct ais_given){.value = span_trim(value)};
    if (type.len == 0 && value.len == 0)
        return ERR_OK;
    if (!ais_checksum_parse(type, &out->type))
        return ais_fault(
            q, 400, NULL,
            "checksum type \"%.*s\": it is one of none, xxhash, xxhash2, md5, crc32c, "
            "sha256, sha512",
            (int)MIN(type.len, 32u), type.at != NULL ? type.at : "");
    if (out->value.len == 0)
        out->type = AIS_CHECKSUM_NONE;
    return ERR_OK;
}

enum err
ais_given_check(struct request *q, const struct ais_given *g, const char *computed)
{
    if (g->type == AIS_CHECKSUM_NONE || span_case_is(g->value, computed))
        return ERR_OK;
    ais_fault(q, 400, "ErrBadCksum", "BAD DATA CHECKSUM: %s(%.*s != %s)",
              ais_checksum_name(g->type), (int)MIN(g->value.len, 128u), g->value.at,
              computed);
    return ERR_BAD_DIGEST;
}

/* The hex text of what is known of the body: `sums` has the MD5 and the stored kind, `second` another one. */
static const char *
computed_text(struct request *q, enum ais_checksum type, enum checksum_kind stored,
              const struct object_sums *sums, const struct checksum_value *second)
{
    char *text = arena_alloc(q->arena, AIS_CHECKSUM_TEXT);
    enum checksum_kind kind = ais_checksum_kind(type);

    if (type == AIS_CHECKSUM_MD5)
        hex_encode(sums->md5, sizeof sums->md5, text);
    else if (kind == stored)
        hex_encode(sums->checksum, sums->checksum_len, text);
    else
        hex_encode(second->bytes, checksum_len(kind), text);
    return text;
}

/* ---- the body ---- */

/* The same as s3_body_to_put(), with another checksum beside. */
static enum err
body_with_second(struct request *q, struct s3_body *body, struct object_put *put,
                 struct checksum *second)
{
    struct errbuf eb = {{0}};
    struct span piece;

    for (;;) {
        enum err rc = s3_body_next(body, &piece);

        if (rc != ERR_OK || piece.len == 0)
            return rc;
        checksum_add(second, piece.at, piece.len);
        rc = object_put_write(put, piece.at, piece.len, &eb);
        if (rc != ERR_OK)
            return ais_fault_from(q, rc, &eb);
    }
}

enum err
ais_body_to_put(struct request *q, struct s3_body *body, const struct ais_given *given,
                enum checksum_kind stored, struct object_put *put)
{
    enum checksum_kind kind = ais_checksum_kind(given->type);
    bool beside = kind != CHECKSUM_NONE && kind != stored;
    struct checksum second;
    struct checksum_value value;
    struct object_sums sums;
    struct errbuf eb = {{0}};
    enum err rc;

    checksum_init(&second, beside ? kind : CHECKSUM_NONE);
    rc = beside ? body_with_second(q, body, put, &second) : s3_body_to_put(body, put);
    checksum_end(&second, &value);
    if (rc != ERR_OK || given->type == AIS_CHECKSUM_NONE)
        return rc;
    rc = object_put_sums(put, &sums, &eb);
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    return ais_given_check(q, given,
                           computed_text(q, given->type, stored, &sums, &value));
}

enum checksum_kind
ais_stored_kind(const struct map_bucket *b)
{
    enum checksum_kind kind = ais_checksum_kind(ais_checksum_of_bucket(b));

    if (b->cached)
        return CHECKSUM_NONE; /* the remote decides */
    return kind != CHECKSUM_NONE ? kind : CHECKSUM_CRC64NVME;
}

/* ---- PUT ---- */

/* The object is there with this very checksum: there is nothing to do. */
static enum err
is_there_already(struct request *q, const struct ais_given *given,
                 struct object_info *info, bool *there)
{
    char text[AIS_CHECKSUM_TEXT];
    struct errbuf eb = {{0}};
    enum err rc;

    *there = false;
    if (given->type == AIS_CHECKSUM_NONE || q->bucket->cached ||
        given->type != ais_checksum_of_bucket(q->bucket) || ais_query_flag(q, "skip_vc"))
        return ERR_OK;
    rc = object_head(q->api->options.object, q->bucket, q->name.key, q->arena, info, &eb);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    *there = ais_checksum_of(q->bucket, &info->meta, text) == given->type &&
             span_case_is(given->value, text);
    return ERR_OK;
}

enum err
ais_answer_put(struct request *q, const struct object_info *info)
{
    request_put_ids(q);
    ais_put_checksum(q, info);
    ais_put_atime(q, info);
    ais_put_version(q, info);
    http_reply_last(q->http, 200);
    return ERR_OK;
}

static enum err
put_store(struct request *q, struct s3_body *body, const struct ais_given *given,
          struct object_info *info)
{
    enum checksum_kind stored = ais_stored_kind(q->bucket);
    struct object_put_options o = {.size = body->size,
                                   .checksum_algorithm = (uint8_t)stored};
    struct object_service *s = q->api->options.object;
    struct object_meta meta = {0};
    struct object_put *put = NULL;
    struct errbuf eb = {{0}};
    enum err rc = object_put_begin(s, q->bucket, q->name.key, &o, &put, &eb);

    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    rc = ais_body_to_put(q, body, given, stored, put);
    if (rc == ERR_OK) {
        rc = object_next_overwrites(s, q->bucket, q->name.key, &meta.overwrites, &eb);
        if (rc == ERR_OK)
            rc = object_put_commit(&put, &meta, q->arena, info, &eb);
        if (rc != ERR_OK)
            rc = ais_fault_from(q, rc, &eb);
    }
    object_put_abort(&put);
    return rc;
}

enum err
ais_put_object(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct ais_given given;
    struct s3_body body;
    bool there = false;
    enum err rc = ais_given_take(q, &given);

    if (rc == ERR_OK)
        rc = is_there_already(q, &given, info, &there);
    if (rc != ERR_OK || there)
        return rc == ERR_OK ? ais_answer_put(q, info) : rc;
    rc = s3_body_begin(q, &body);
    if (rc == ERR_OK)
        rc = put_store(q, &body, &given, info);
    s3_body_end(&body);
    return rc == ERR_OK ? ais_answer_put(q, info) : rc;
}

enum err
ais_delete_object(struct request *q)
{
    struct object_service *s = q->api->options.object;
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct errbuf eb = {{0}};
    enum err rc = object_head(s, q->bucket, q->name.key, q->arena, info, &eb);

    if (rc == ERR_OK)
        rc = object_delete(s, q->bucket, q->name.key, &eb);
    AUDIT(q, "object.delete", rc == ERR_OK ? "ok" : err_name(rc),
          L_SPAN("bucket", q->name.bucket), L_SPAN("object", q->name.key));
    return rc == ERR_OK ? ais_answer_empty(q, 200) : ais_fault_from(q, rc, &eb);
}
