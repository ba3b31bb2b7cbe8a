/* admin: our own pages under /_/. livez and readyz are for everyone; the rest stands behind the gate. */
#include <stdlib.h>
#include <string.h>

#include "api/admin/admin.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/num.h"
#include "wire/json.h"

#define PAGE_MAX (4u << 20)

static void
answer_text(struct request *q, int status, struct span text)
{
    request_put_ids(q);
    http_header(q->http, "content-type", SPAN("text/plain; charset=utf-8"));
    http_header(q->http, "cache-control", SPAN("no-store"));
    http_reply(q->http, status, text);
}

void
admin_answer_json(struct request *q, int status, struct span text)
{
    request_put_ids(q);
    http_header(q->http, "content-type", SPAN("application/json"));
    http_header(q->http, "cache-control", SPAN("no-store"));
    http_reply(q->http, status, text);
}

void
admin_page_begin(struct admin_page *p, size_t most)
{
    buf_init(&p->text, most);
    json_begin(&p->j, &p->text);
}

enum err
admin_page_answer(struct request *q, struct admin_page *p, int status)
{
    enum err rc = ERR_OK;

    if (p->text.full)
        rc = fault_set(&q->fault, S3_InternalError, "The page is over %zu bytes",
                       p->text.limit);
    else
        admin_answer_json(q, status, buf_span(&p->text));
    buf_fini(&p->text);
    return rc;
}

void
admin_put_time(struct json *j, const char *key, int64_t ms)
{
    char date[NUM_DATE_TEXT];

    date_iso(ms, date);
    json_text(j, key, ms > 0 ? date : NULL);
}

/* The loops turn: this fiber ran. */
static enum err
livez(struct request *q)
{
    answer_text(q, 200, SPAN("ok\n"));
    return ERR_OK;
}

static enum err
readyz(struct request *q)
{
    const struct members *m = q->api->options.members;
    bool ready = atomic_load(&q->api->ready) && !q->http->draining;
    bool lease = m == NULL || members_lease_left_ns(m) > 0;

    if (!ready || !lease)
        http_header(q->http, "retry-after", SPAN("1"));
    answer_text(q, ready && lease ? 200 : 503,
                !ready ? SPAN("not ready\n")
                : lease
                    ? SPAN("ready\n")
                    : SPAN("not ready: this node has no lease in its cluster (forebay "
                           "cluster show)\n"));
    return ERR_OK;
}

static enum err
metrics(struct request *q)
{
    struct buf text;

    buf_init(&text, PAGE_MAX);
    metrics_write(&text);
    if (text.full) {
        buf_fini(&text);
        return fault_set(&q->fault, S3_InternalError, "The metrics are over %u bytes",
                         PAGE_MAX);
    }
    request_put_ids(q);
    http_header(q->http, "content-type",
                SPAN("text/plain; version=0.0.4; charset=utf-8"));
    http_reply(q->http, 200, buf_span(&text));
    buf_fini(&text);
    return ERR_OK;
}

/* A built-in object of any size, to measure what is not storage. */
static enum err
bench(struct request *q)
{
    struct span name = span_from(q->http->head->path, strlen("/_/bench/"));
    uint64_t size;

    if (q->api->bench == NULL)
        return fault_set(&q->fault, S3_NotImplemented,
                         "Bench objects are off; start with --set bench.objects=true");
    if (num_u64(name, &size) != ERR_OK || size > API_BENCH_MAX)
        return fault_set(&q->fault, S3_InvalidArgument,
                         "A bench object has 0 to %u bytes", API_BENCH_MAX);
    http_header(q->http, "content-type", SPAN("application/octet-stream"));
    http_reply(q->http, 200, (struct span){q->api->bench, size});
    return ERR_OK;
}

static enum err home(struct request *q);

static const struct page {
    enum http_method method;
    const char *path;
    bool below;     /* the path and what is below it */
    enum need need; /* NEED_USER: the page itself asks for rights */
    enum err (*run)(struct request *q);
} pages[] = {
    {HTTP_METHOD_GET, "/_/livez", false, NEED_NOTHING, livez},
    {HTTP_METHOD_GET, "/_/readyz", false, NEED_NOTHING, readyz},
    {HTTP_METHOD_GET, "/_/metrics", false, NEED_ADMIN_ALL, metrics},
    {HTTP_METHOD_GET, "/_/stat", false, NEED_ADMIN_ALL, admin_stat},
    {HTTP_METHOD_GET, "/_/trace", false, NEED_ADMIN_ALL, admin_trace},
    {HTTP_METHOD_GET, "/_/scrub", false, NEED_ADMIN_ALL, admin_scrub_status},
    {HTTP_METHOD_POST, "/_/scrub", false, NEED_ADMIN_ALL, admin_scrub_start},
    {HTTP_METHOD_GET, "/_/buckets", false, NEED_ADMIN_ALL, admin_bucket_list},
    {HTTP_METHOD_POST, "/_/buckets", false, NEED_ADMIN_ALL, admin_bucket_attach},
    {HTTP_METHOD_GET, "/_/buckets/", true, NEED_USER, admin_bucket_here},
    {HTTP_METHOD_PATCH, "/_/buckets/", true, NEED_ADMIN_ALL, admin_bucket_set},
    {HTTP_METHOD_POST, "/_/buckets/", true, NEED_ADMIN_ALL, admin_bucket_evict},
    {HTTP_METHOD_GET, "/_/disks", false, NEED_ADMIN_ALL, admin_disk_list},
    {HTTP_METHOD_POST, "/_/disks", false, NEED_ADMIN_ALL, admin_disk_add},
    {HTTP_METHOD_POST, "/_/disks/", true, NEED_ADMIN_ALL, admin_disk_change},
    {HTTP_METHOD_GET, "/_/cluster", false, NEED_ADMIN_ALL, admin_cluster_show},
    {HTTP_METHOD_POST, "/_/cluster", false, NEED_ADMIN_ALL, admin_cluster_change},
    {HTTP_METHOD_GET, "/_/users", false, NEED_ADMIN_ALL, admin_user_list},
    {HTTP_METHOD_POST, "/_/users", false, NEED_ADMIN_ALL, admin_user_add},
    {HTTP_METHOD_POST, "/_/users/", true, NEED_ADMIN_ALL, admin_user_change},
    {HTTP_METHOD_DELETE, "/_/users/", true, NEED_ADMIN_ALL, admin_user_remove},
    {HTTP_METHOD_GET, "/_/jobs", false, NEED_USER, admin_job_list},
    {HTTP_METHOD_POST, "/_/jobs", false, NEED_USER, admin_job_begin},
    {HTTP_METHOD_GET, "/_/jobs/", true, NEED_USER, admin_job_show},
    {HTTP_METHOD_POST, "/_/jobs/", true, NEED_USER, admin_job_change},
    {HTTP_METHOD_DELETE, "/_/jobs/", true, NEED_USER, admin_job_forget},
    {HTTP_METHOD_GET, "/_/backup", false, NEED_ADMIN_ALL, admin_backup},
    {HTTP_METHOD_POST, "/_/backup/keys", false, NEED_ADMIN_ALL, admin_backup_keys},
    {HTTP_METHOD_POST, "/_/secrets/rotate", false, NEED_ADMIN_ALL, admin_secrets_rotate},
    {HTTP_METHOD_GET, "/_/bench/", true, NEED_ADMIN_ALL, bench},
    {HTTP_METHOD_GET, "/_/", false, NEED_ADMIN_ALL, home},
};

/* Every page that can be read. */
static enum err
home(struct request *q)
{
    struct buf text;

    buf_init(&text, KIB(4));
    buf_puts(&text, "Forebay\n");
    for (size_t i = 0; i < ARRAY_LEN(pages); i++)
        if (pages[i].method == HTTP_METHOD_GET && pages[i].run != home)
            buf_printf(&text, "%s%s\n", pages[i].path, pages[i].below ? "..." : "");
    answer_text(q, 200, buf_span(&text));
    buf_fini(&text);
    return ERR_OK;
}

static const struct page *
admin_find_page(struct span path, enum http_method method)
{
    if (method == HTTP_METHOD_HEAD)
        method = HTTP_METHOD_GET;
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        struct span name = span_of(pages[i].path);

        if (pages[i].method == method &&
            (pages[i].below ? span_starts(path, name) : span_eq(path, name)))
            return &pages[i];
    }
    return NULL;
}

bool
admin_page_at(size_t index, const char **method, const char **path, enum need *need)
{
    static const char *const methods[] = {
#define X(name) [HTTP_METHOD_##name] = #name,
        HTTP_METHOD_TABLE(X)
#undef X
    };

    if (index >= ARRAY_LEN(pages))
        return false;
    *method = methods[pages[index].method];
    *path = pages[index].path;
    *need = pages[index].need;
    return true;
}

void
admin_handle(struct request *q)
{
    const struct page *p = admin_find_page(q->http->head->path, q->http->head->method);
    enum need need = p != NULL ? p->need : NEED_ADMIN_ALL;
    enum err rc = need == NEED_NOTHING ? ERR_OK : gate(q, need);

    q->op = OP_admin;
    if (rc == ERR_OK && p == NULL)
        rc = fault_set(&q->fault, S3_NoSuchKey, "There is no such page under /_/");
    if (rc == ERR_OK)
        rc = p->run(q);
    if (rc != ERR_OK && !http_reply_began(q->http))
        q->front->write_error(q);
}
