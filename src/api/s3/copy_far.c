#include "api/s3/copy_far.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/uri.h"
#include "peer/peer.h"
#include "rt/file.h"
#include "wire/etag.h"

#define FAR_BYTES  (128u << 10)
#define TARGET_MAX (8u << 10)

/* Begins the request and waits for the head of its answer. On ERR_OK the caller ends *out. */
static enum err
far_begin(struct request *q, const struct far_source *s, const char *method,
          const struct field *headers, size_t count, struct http_call **out,
          const struct http_head **head, struct errbuf *eb)
{
    struct peer_target to = {s->to.address, s->to.number, s->to.epoch};
    struct peer_request req = {.method = method,
                               .host = SPAN("localhost"),
                               .headers = {headers, count},
                               .length = HTTP_NO_BODY,
                               .flags = PEER_TRUSTED,
                               .id = q->http->id,
                               .client = q->http->peer};
    struct buf target;
    enum err rc;

    buf_init(&target, TARGET_MAX);
    buf_printf(&target, "/%s/", s->bucket->uname);
    uri_encode(&target, s->key, true);
    if (s->version.len > 0)
        buf_printf(&target, "?versionId=%.*s", SPAN_ARG(s->version));
    req.target = buf_span(&target);
    rc = target.full ? err_set(eb, ERR_BAD_REQUEST, "the name of the source is too long")
                     : peer_call_begin(q->api->peers, &to, &req, out, eb);
    buf_fini(&target);
    if (rc != ERR_OK)
        return rc;
    rc = http_call_finish(*out, head, eb);
    if (rc == ERR_OK && ((*head)->code >= 500 || (*head)->code == PEER_STALE))
        rc = err_set(eb, ERR_UNAVAILABLE, "node %u, which holds the source, answers %d",
                     s->to.number, (*head)->code);
    if (rc != ERR_OK)
        http_call_end(out);
    return rc == ERR_OK ? rc : ERR_UNAVAILABLE;
}

static struct fields
copy_fields(struct arena *a, const struct http_head *head)
{
    struct field *out = arena_alloc(a, (head->count + 1) * sizeof *out);

    for (unsigned i = 0; i < head->count; i++)
        out[i] = (struct field){arena_span(a, head->headers[i].name),
                                arena_span(a, head->headers[i].value)};
    return (struct fields){out, head->count};
}

/* The checksum that the copy is made with, and compared with where it is of the whole object. */
static void
take_checksum(struct fields f, struct arena *a, struct object_meta *meta)
{
    for (size_t i = 0; i < f.count; i++) {
        enum checksum_kind kind = checksum_of_header(f.at[i].name);
        struct checksum_value v;

        if (kind == CHECKSUM_NONE)
            continue;
        meta->checksum_algorithm = (uint8_t)kind;
        if (!span_is(fields_get(f, "x-amz-checksum-type"), "FULL_OBJECT") ||
            checksum_parse(kind, f.at[i].value, &v, NULL) != ERR_OK)
            return;
        meta->checksum_type = CHECKSUM_FULL_OBJECT;
        meta->checksum =
            arena_span(a, (struct span){(const char *)v.bytes, checksum_len(kind)});
        return;
    }
}

static enum err
take_far_info(struct request *q, struct fields f, struct object_info *info,
              struct errbuf *eb)
{
    struct span etag = etag_unquote(fields_get(f, "etag"));
    struct span version = fields_get(f, "x-amz-version-id");
    const char *dash = span_find(etag, '-');
    uint64_t parts = 0;
    int64_t mtime_s;

    if (s3_meta_from_fields(q, f, &info->meta) != ERR_OK ||
        num_u64(fields_get(f, "content-length"), &info->size) != ERR_OK ||
        date_http_parse(fields_get(f, "last-modified"), &mtime_s) != ERR_OK ||
        etag.len == 0 || etag.len >= sizeof info->etag)
        return err_set(
            eb, ERR_UNAVAILABLE,
            "another node describes the source in a way that this one does not "
            "understand");
    info->mtime_ms = mtime_s * 1000;
    memcpy(info->etag, etag.at, etag.len);
    info->etag[etag.len] = '\0';
    if (dash != NULL)
        (void)!num_u64(span_from(etag, (size_t)(dash - etag.at) + 1), &parts);
    info->meta.parts = (uint32_t)parts;
    info->meta.tags = fields_get(f, FAR_TAGS_FIELD);
    take_checksum(f, q->arena, &info->meta);
    info->version.null = true;
    if (version.len > 0 && !object_version_parse(version, &info->version))
        return err_set(eb, ERR_UNAVAILABLE, "another node names a bad version");
    return ERR_OK;
}

enum err
far_source_info(struct request *q, const struct far_source *s, struct object_info *info,
                struct errbuf *eb)
{
    struct field headers[] = {{SPAN("x-amz-checksum-mode"), SPAN("ENABLED")}};
    const struct http_head *head;
    struct http_call *call;
    struct fields f;
    int status;
    enum err rc = far_begin(q, s, "HEAD", headers, 1, &call, &head, eb);

    memset(info, 0, sizeof *info);
    if (rc != ERR_OK)
        return rc;
    f = copy_fields(q->arena, head);
    status = head->code;
    http_call_end(&call);
    info->is_marker = span_is(fields_get(f, "x-amz-delete-marker"), "true");
    if (status == 404 || status == 405)
        return err_set(eb, ERR_NOT_FOUND, "the source is not there");
    if (status != 200)
        return err_set(eb, ERR_UNAVAILABLE, "node %u, which holds the source, answers %d",
                       s->to.number, status);
    return take_far_info(q, f, info, eb);
}

static enum err
far_read_into(struct http_call *call, uint64_t len, struct object_put *put,
              struct errbuf *eb)
{
    struct iobuf *buf = NULL;
    enum err rc = iobuf_wait(FAR_BYTES, deadline_in_ms(IOBUF_WAIT_MS), &buf);
    uint64_t got = 0;

    if (rc != ERR_OK)
        return err_set(eb, ERR_BUSY, "no memory is free for a copy from another node");
    while (rc == ERR_OK) {
        size_t n = 0;

        if (http_call_read(call, buf->at, buf->room, &n, eb) != ERR_OK)
            rc = ERR_UNAVAILABLE;
        else if (n == 0 || got + n > len)
            break;
        else
            rc = object_put_write(put, buf->at, n, eb);
        got += n;
    }
    iobuf_drop(&buf);
    if (rc == ERR_OK && got != len)
        rc = err_set(eb, ERR_UNAVAILABLE,
                     "another node sent %llu bytes of a source of %llu",
                     (unsigned long long)got, (unsigned long long)len);
    return rc;
}

enum err
far_source_copy(struct request *q, const struct far_source *s,
                const struct object_info *info, uint64_t first, uint64_t len,
                struct object_put *put, struct errbuf *eb)
{
    char etag[sizeof info->etag + 2], range[64];
    struct field headers[2] = {{SPAN("if-match"), {etag, 0}}};
    const struct http_head *head;
    struct http_call *call;
    size_t count = 1;
    int status;
    enum err rc;

    assert(first + len <= info->size);
    if (len == 0)
        return ERR_OK;
    headers[0].value.len = (size_t)snprintf(etag, sizeof etag, "\"%s\"", info->etag);
    if (len < info->size) {
        int n =
            snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)first,
                     (unsigned long long)(first + len - 1));

        headers[count++] = (struct field){SPAN("range"), {range, (size_t)n}};
    }
    rc = far_begin(q, s, "GET", headers, count, &call, &head, eb);
    if (rc != ERR_OK)
        return rc;
    status = head->code;
    if (status == 200 || status == 206)
        rc = far_read_into(call, len, put, eb);
    else if (status == 404 || status == 412)
        rc = err_set(eb, ERR_NOT_FOUND, "the source was replaced");
    else
        rc = err_set(eb, ERR_UNAVAILABLE, "node %u, which holds the source, answers %d",
                     s->to.number, status);
    http_call_end(&call);
    return rc;
}

void
far_source_put_headers(struct request *q, const struct object_info *info)
{
    if (q->from != NULL && (q->from->flags & PEER_TRUSTED) != 0 &&
        info->meta.tags.len > 0)
        http_header(q->http, FAR_TAGS_FIELD, info->meta.tags);
}
