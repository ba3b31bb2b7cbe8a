/* request: functions for every operation: the request's name, its memory, the headers of every reply. */
#include <assert.h>
#include <string.h>

#include "api/internal.h"
#include "base/mem.h"
#include "wire/cors.h"

struct arena *
request_work(struct request *q)
{
    if (q->work == NULL)
        q->work = arena_new(64u << 10, WORK_BYTES_MAX);
    return q->work;
}

void
request_write_ids(char lines[REQUEST_IDS_LEN], const char id[16])
{
    memcpy(lines + 18, id, 16);
    memcpy(lines + 48, id, 16);
}

void
request_ids_header(struct http_request *http)
{
    char lines[] = "x-amz-request-id: ................\r\n"
                   "x-amz-id-2: ................\r\n";

    static_assert(sizeof lines - 1 == REQUEST_IDS_LEN, "where the ids are");
    request_write_ids(lines, http->id);
    http_header_lines(http, (struct span){lines, sizeof lines - 1});
}

static void
put_list(struct request *q, const char *header, const struct cors_names *list)
{
    struct buf text;

    if (list->count == 0)
        return;
    buf_init(&text, KIB(8));
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            buf_puts(&text, ", ");
        buf_put_span(&text, list->at[i]);
    }
    if (!text.full)
        http_header(q->http, header, buf_span(&text));
    buf_fini(&text);
}

/* Adds the headers of the CORS rule that matches the Origin. */
static void
put_cors_headers(struct request *q)
{
    http_header(q->http, "access-control-allow-origin",
                q->cors_any ? SPAN("*") : http_get(q->http->head, HTTP_ORIGIN));
    if (!q->cors_any)
        http_header(q->http, "access-control-allow-credentials", SPAN("true"));
    put_list(q, "access-control-allow-methods", &q->cors->methods);
    put_list(q, "access-control-expose-headers", &q->cors->expose);
    if (q->cors->has_max_age)
        http_header_u64(q->http, "access-control-max-age", q->cors->max_age_s);
    http_header(q->http, "vary",
                SPAN("Origin, Access-Control-Request-Headers, "
                     "Access-Control-Request-Method"));
}

void
request_put_ids(struct request *q)
{
    request_ids_header(q->http);
    if (q->cors != NULL)
        put_cors_headers(q);
}

enum err
request_split_name(struct request *q)
{
    const struct http_head *head = q->http->head;
    size_t skip;
    enum err rc;

    q->front = front_end_of(head->path, false);
    if (q->front->splits_itself &&
        !s3_bucket_in_host(head->host, q->api->domains, q->api->options.domain_count)) {
        q->name = (struct s3_name){.bucket = {"", 0}, .key = {"", 0}};
        return ERR_OK;
    }
    rc = s3_name_split(head->path, head->host, q->api->domains,
                       q->api->options.domain_count, q->arena, &q->name, &q->fault);
    q->front = front_end_of(head->path, rc == ERR_OK && q->name.virtual_host);
    skip = q->front->skip;
    if (rc != ERR_OK || skip == 0)
        return rc;
    return s3_name_split(head->path.len > skip ? span_from(head->path, skip) : SPAN("/"),
                         head->host, q->api->domains, q->api->options.domain_count,
                         q->arena, &q->name, &q->fault);
}
