/* request: what every operation asks of a request, whatever it is: its name, its memory, the headers that each answer has. */
#include "api/internal.h"
#include "api/response_cache.h"

struct arena *
request_work(struct request *q)
{
    if (q->work == NULL)
        q->work = arena_new(64u << 10, WORK_BYTES_MAX);
    return q->work;
}

void
request_put_ids(struct request *q)
{
    put_request_ids(q->http);
    if (q->cors != NULL)
        s3_cors_headers(q);
}

/* "/s3" and "/s3/...", in path style only: S3 again. Returns the bytes to skip. */
static size_t
s3_prefix(struct span path)
{
    return span_eq(path, SPAN("/s3")) || span_starts(path, SPAN("/s3/")) ? 3 : 0;
}

bool
request_is_own_page(const struct request *q)
{
    return span_starts(q->http->head->path, SPAN("/_/")) && !q->name.virtual_host;
}

enum err
request_split_name(struct request *q)
{
    const struct http_head *head = q->http->head;
    enum err rc =
        s3_name_split(head->path, head->host, q->api->domains,
                      q->api->options.domain_count, q->arena, &q->name, &q->fault);
    size_t skip = s3_prefix(head->path);

    if (rc != ERR_OK || q->name.virtual_host || skip == 0)
        return rc;
    return s3_name_split(head->path.len > skip ? span_from(head->path, skip) : SPAN("/"),
                         head->host, q->api->domains, q->api->options.domain_count,
                         q->arena, &q->name, &q->fault);
}
