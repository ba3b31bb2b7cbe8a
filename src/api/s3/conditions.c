/* conditions: what a write demands of the object that is there, from headers or from an item of DeleteObjects. The disk
 * checks it in one step with the change. */
#include <string.h>

#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/etag.h"

#define ETAGS_MAX 16

/* `"a", "b"` as MD5s; ETags of another form match nothing. */
static enum err
parse_etags(struct request *q, const char *header, struct span list,
            const struct md5_etag **out, uint32_t *count)
{
    struct md5_etag *etags = arena_alloc(q->arena, ETAGS_MAX * sizeof *etags);

    while (list.len > 0) {
        const char *comma = memchr(list.at, ',', list.len);
        size_t len = comma != NULL ? (size_t)(comma - list.at) : list.len;
        struct md5_etag *e = &etags[*count];
        unsigned parts = 0;

        if (*count == ETAGS_MAX)
            return fault_set(&q->fault, S3_InvalidRequest, "%s names over %u ETags",
                             header, ETAGS_MAX);
        if (!etag_parse(etag_unquote((struct span){list.at, len}), e->md5, &parts))
            memset(e->md5, 0, sizeof e->md5); /* the ETag of nothing */
        e->parts = parts;
        ++*count;
        list = span_from(list, len + (comma != NULL));
    }
    *out = etags;
    return ERR_OK;
}

static enum err
parse_if_match(struct request *q, struct span list, struct object_condition *out)
{
    out->disk.if_exists = true;
    return span_is(span_trim(list), "*")
               ? ERR_OK
               : parse_etags(q, "If-Match", list, &out->disk.etags,
                             &out->disk.etag_count);
}

static enum err
parse_if_none_match(struct request *q, struct span list, struct object_condition *out)
{
    out->disk.if_absent = span_is(span_trim(list), "*");
    return out->disk.if_absent
               ? ERR_OK
               : parse_etags(q, "If-None-Match", list, &out->disk.none_etags,
                             &out->disk.none_count);
}

static enum err
not_built(struct request *q, const char *header)
{
    fault_set(&q->fault, S3_NotImplemented,
              "A header you provided implies functionality that is not implemented");
    fault_add(&q->fault, "Header", span_of(header));
    return ERR_NOT_IMPLEMENTED;
}

enum err
s3_write_condition(struct request *q, const struct object_condition **out)
{
    const struct http_head *h = q->http->head;
    struct span match = http_get(h, HTTP_IF_MATCH),
                none = http_get(h, HTTP_IF_NONE_MATCH);
    struct object_condition *c;
    enum err rc = ERR_OK;

    *out = NULL;
    if (match.at == NULL && none.at == NULL)
        return ERR_OK;
    if (match.at != NULL && none.at != NULL)
        return not_built(q, "If-None-Match");
    c = arena_alloc(q->arena, sizeof *c);
    *c = (struct object_condition){.if_match = match, .if_none_match = none};
    rc = match.at != NULL ? parse_if_match(q, match, c) : parse_if_none_match(q, none, c);
    *out = c;
    return rc;
}

static enum err
parse_delete_headers(struct request *q, struct object_condition *c, bool *given)
{
    struct fields headers = http_fields(q->http->head);
    struct span size = fields_get(headers, "x-amz-if-match-size");
    struct span time = fields_get(headers, "x-amz-if-match-last-modified-time");
    int64_t ms;

    if (size.at != NULL) {
        if (num_u64(span_trim(size), &c->disk.size) != ERR_OK)
            return fault_argument(&q->fault, "x-amz-if-match-size", size,
                                  "The size is not a number");
        c->disk.if_size = *given = true;
    }
    if (time.at == NULL)
        return ERR_OK;
    c->disk.if_mtime = *given = true;
    if (date_http_parse(span_trim(time), &c->disk.mtime_s) == ERR_OK)
        return ERR_OK;
    if (date_iso_parse(span_trim(time), &ms) == ERR_OK) {
        c->disk.mtime_s = ms / 1000;
        return ERR_OK;
    }
    return fault_argument(&q->fault, "x-amz-if-match-last-modified-time", time,
                          "The date is malformed");
}

enum err
s3_delete_condition(struct request *q, const struct object_condition **out)
{
    struct span match = http_get(q->http->head, HTTP_IF_MATCH);
    struct object_condition *c = arena_alloc(q->arena, sizeof *c);
    bool given = match.at != NULL;
    enum err rc;

    *out = NULL;
    *c = (struct object_condition){.if_match = match};
    if (http_get(q->http->head, HTTP_IF_NONE_MATCH).at != NULL)
        return not_built(q, "If-None-Match");
    rc = parse_delete_headers(q, c, &given);
    if (rc == ERR_OK && match.at != NULL)
        rc = parse_if_match(q, match, c);
    c->disk.or_absent = true; /* what is not there is deleted */
    if (rc == ERR_OK && given)
        *out = c;
    return rc;
}

enum err
s3_item_condition(struct request *q, const struct s3xml_delete_item *item,
                  struct object_condition *c, const struct object_condition **out)
{
    enum err rc = ERR_OK;

    *out = NULL;
    if (!item->has_condition)
        return ERR_OK;
    *c = (struct object_condition){.disk = {.if_size = item->has_size,
                                            .size = item->size,
                                            .if_mtime = item->has_mtime,
                                            .mtime_s = item->mtime_s,
                                            .or_absent = true}};
    if (item->etag.at != NULL) {
        c->if_match = span_is(item->etag, "*")
                          ? item->etag
                          : span_of(arena_printf(q->arena, "\"%.*s\"",
                                                 SPAN_ARG(etag_unquote(item->etag))));
        rc = parse_if_match(q, item->etag, c);
    }
    *out = c;
    return rc;
}

enum err
s3_condition_fault(struct request *q, const struct object_condition *c, enum err rc,
                   const struct errbuf *eb)
{
    const char *name = c == NULL                     ? NULL
                       : c->if_none_match.at != NULL ? "If-None-Match"
                       : c->disk.if_exists           ? "If-Match"
                       : c->disk.if_size             ? "x-amz-if-match-size"
                                         : "x-amz-if-match-last-modified-time";

    if (rc != ERR_PRECONDITION || name == NULL)
        return fault_from(q, rc, eb);
    fault_set(&q->fault, S3_PreconditionFailed, NULL);
    fault_add(&q->fault, "Condition", span_of(name));
    return rc;
}
