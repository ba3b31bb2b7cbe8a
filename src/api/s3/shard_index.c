/* shard_index: GET /BUCKET/KEY?shard-index=json|wids|dali: what a shard holds, for this program, for WebDataset's wids and for DALI. */
#include "api/access.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/uri.h"
#include "shard/index_text.h"

static enum err
index_sink(void *arg, struct span bytes, struct errbuf *eb)
{
    struct request *q = arg;
    enum err rc = ERR_OK;

    if (!http_reply_began(q->http))
        rc = http_reply_begin(q->http, 200, -1);
    if (rc == ERR_OK)
        rc = http_reply_write(q->http, bytes.at, bytes.len);
    return rc == ERR_OK ? rc : err_set(eb, rc, "the client has gone");
}

/* The URL of the shard as this client reaches it. */
static void
put_shard_url(struct request *q, struct buf *out)
{
    buf_printf(out, "http%s://%.*s/", q->http->is_tls ? "s" : "",
               SPAN_ARG(q->http->head->host));
    if (!q->name.virtual_host) {
        uri_encode(out, q->name.bucket, false);
        buf_putc(out, '/');
    }
    uri_encode(out, q->name.key, true);
}

static enum err
index_send(struct request *q, enum shard_text form, const struct shard_index *x,
           const struct object_info *info)
{
    struct shard_about about = {.name = q->name.key,
                                .etag = span_of(info->etag),
                                .size = info->size,
                                .etag_is_md5 = info->meta.parts == 0 &&
                                               (!q->bucket->cached || info->etag_is_md5)};
    struct errbuf eb = {{0}};
    struct buf url;
    enum err rc;

    buf_init(&url, KIB(8));
    put_shard_url(q, &url);
    about.url = buf_span(&url);
    request_put_ids(q);
    s3_put_etag(q, info->etag);
    http_header(q->http, "content-type",
                form == SHARD_TEXT_DALI ? SPAN("text/plain") : SPAN("application/json"));
    rc = shard_index_text(x, form, &about, (struct shard_sink){index_sink, q}, &eb);
    buf_fini(&url);
    if (rc == ERR_OK)
        return http_reply_end(q->http);
    if (!http_reply_began(q->http))
        return fault_set(&q->fault, S3_InvalidArgument, "%s", eb.text);
    http_reply_abort(q->http);
    return ERR_OK;
}

enum err
s3_shard_index(struct request *q)
{
    struct span asked = query_get(&q->query, "shard-index");
    struct shard_ask ask = {.bucket = q->bucket, .key = q->name.key};
    struct shard_open *open = NULL;
    struct errbuf eb = {{0}};
    enum shard_text form;
    enum err rc;

    if (!shard_text_of(asked, &form))
        return fault_set(&q->fault, S3_InvalidArgument,
                         "shard-index=%.*s is not known: json, wids, dali",
                         (int)MIN(asked.len, 40), asked.at);
    rc = shard_index_open(q->api->shards, &ask, &open, &eb);
    if (rc == ERR_BAD_REQUEST || rc == ERR_TOO_LARGE)
        return fault_set(&q->fault, S3_InvalidArgument, "%s", eb.text);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    rc = access_recheck(q, &shard_index_archive(open)->meta);
    if (rc == ERR_OK)
        rc = index_send(q, form, shard_index_of(open), shard_index_archive(open));
    shard_index_close(&open);
    return rc;
}
