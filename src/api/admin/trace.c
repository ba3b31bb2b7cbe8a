/* trace: GET /_/trace?after=NS: the requests that were done since, for those who watch. */
#include <stdlib.h>

#include "api/admin/admin.h"
#include "api/trace.h"
#include "base/mem.h"

#define ANSWER_MAX  MIB(4)
#define ANSWER_ROOM 2048u /* entries of one answer */

static void
admin_trace_put_entry(struct json *j, const struct trace_entry *e)
{
    json_open_object(j, NULL);
    json_i64(j, "time_ms", e->wall_ms);
    json_text(j, "id", e->id);
    json_text(j, "peer", e->peer);
    json_text(j, "method", e->method);
    json_text(j, "path", e->path);
    json_i64(j, "status", e->status);
    json_u64(j, "us", e->duration_ns / 1000);
    json_u64(j, "first_byte_us", e->first_byte_ns / 1000);
    json_u64(j, "in", e->bytes_in);
    json_u64(j, "out", e->bytes_out);
    json_end(j);
}

enum err
admin_trace(struct request *q)
{
    struct trace_entry *at = xcalloc(ANSWER_ROOM, sizeof *at);
    uint64_t after = 0, upto = 0, lost = 0;
    struct errbuf eb = {{0}};
    struct admin_page page;
    size_t count = 0;
    enum err rc = query_u64(&q->query, "after", 0, 0, UINT64_MAX, &after, &q->fault);

    if (rc == ERR_OK && trace_look(q->api->trace, after, at, ANSWER_ROOM, &count, &upto,
                                   &lost, &eb) != ERR_OK)
        rc = fault_set(&q->fault, S3_SlowDown, "%s", eb.text);
    if (rc != ERR_OK) {
        free(at);
        return rc;
    }
    admin_page_begin(&page, ANSWER_MAX);
    json_open_object(&page.j, NULL);
    json_u64(&page.j, "after", upto);
    json_u64(&page.j, "lost", lost);
    json_open_array(&page.j, "requests");
    for (size_t i = 0; i < count; i++)
        admin_trace_put_entry(&page.j, &at[i]);
    json_end(&page.j);
    json_end(&page.j);
    free(at);
    return admin_page_answer(q, &page, 200);
}
