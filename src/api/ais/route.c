/* route: the table of the AIS API, and the way of a request through it. */
#include <assert.h>
#include <string.h>

#include "api/ais/ais.h"
#include "api/ais/ops.h"
#include "api/relay.h"
#include "base/mem.h"
#include "rt/time.h"

/* What the property "access" of a bucket can deny. */
#define AUTH_OF_BUCKETS                                                                  \
    (AUTH_READ | AUTH_WRITE | AUTH_LIST | AUTH_PROMOTE | AUTH_DESTROY_BUCKET)

#define G HTTP_METHOD_GET
#define H HTTP_METHOD_HEAD
#define P HTTP_METHOD_PUT
#define T HTTP_METHOD_POST
#define D HTTP_METHOD_DELETE
#define A HTTP_METHOD_PATCH
/* A row that reads or writes an object has the scope OBJECT; FINDS_BUCKET implies that the path names one. */
/* clang-format off */
static const struct ais_route routes[] = {
    /* method, place, selected by, name, scope, rights, flags, metric, operation */
    {G, AIS_OBJECT, AIS_BY_QUERY, "archpath", AIS_ON_OBJECT, AUTH_GET_OBJECT, AIS_FINDS_BUCKET, OP_get, ais_get_member},
    {G, AIS_OBJECT, AIS_BY_QUERY, "archregx", AIS_ON_OBJECT, AUTH_GET_OBJECT, AIS_FINDS_BUCKET, OP_get, ais_get_matching},
    {D, AIS_BUCKET, AIS_BY_ACTION, "delete-listrange", AIS_ON_BUCKET, AUTH_WRITE, AIS_FINDS_BUCKET, OP_delete, ais_delete_many},
    {D, AIS_BUCKET, AIS_BY_ACTION, "evict-listrange", AIS_ON_BUCKET, AUTH_WRITE, AIS_FINDS_BUCKET, OP_delete, ais_evict_many},
    {T, AIS_BUCKET, AIS_BY_ACTION, "prefetch-listrange", AIS_ON_BUCKET, AUTH_READ | AUTH_LIST, AIS_FINDS_BUCKET, OP_other, ais_prefetch_many},
    {T, AIS_BUCKET, AIS_BY_ACTION, "copy-listrange", AIS_ON_BUCKET, AUTH_READ | AUTH_LIST, AIS_FINDS_BUCKET, OP_other, ais_copy_many},
    {T, AIS_BUCKET, AIS_BY_ACTION, "make-n-copies", AIS_ON_CLUSTER, AUTH_ADMIN, AIS_FINDS_BUCKET, OP_bucket, ais_make_copies},
    {T, AIS_BUCKET, AIS_BY_ACTION, "ec-encode", AIS_ON_BUCKET, AUTH_ADMIN, AIS_FINDS_BUCKET, OP_bucket, ais_no_erasure_code},
    {T, AIS_OBJECTS, AIS_BY_ACTION, "promote", AIS_ON_BUCKET, AUTH_PROMOTE, AIS_FINDS_BUCKET, OP_put, ais_promote},
    {T, AIS_OBJECTS, AIS_BY_ACTION, "blob-download", AIS_ON_BUCKET, AUTH_READ | AUTH_LIST, AIS_FINDS_BUCKET, OP_other, ais_blob_download},
    {T, AIS_BUCKET, AIS_BY_ACTION, "move-bck", AIS_ON_EITHER, AUTH_MOVE_BUCKET, AIS_FINDS_BUCKET, OP_bucket, ais_move_bucket},
    {T, AIS_BUCKET, AIS_BY_ACTION, "copy-bck", AIS_ON_BUCKET, AUTH_READ | AUTH_LIST, AIS_FINDS_BUCKET, OP_other, ais_copy_bucket},
    {P, AIS_BUCKET, AIS_BY_ACTION, "archive", AIS_ON_BUCKET, AUTH_READ | AUTH_LIST, AIS_FINDS_BUCKET, OP_other, ais_archive_many},
    {P, AIS_OBJECT, AIS_BY_QUERY, "archpath", AIS_ON_OBJECT, AUTH_READ | AUTH_WRITE, AIS_FINDS_BUCKET, OP_put, ais_put_member},
    {T, AIS_BUCKET, AIS_BY_ACTION, "rechunk", AIS_ON_BUCKET, AUTH_ADMIN, AIS_FINDS_BUCKET, OP_other, ais_bucket_upkeep},
    {T, AIS_BUCKET, AIS_BY_ACTION, "index-shard", AIS_ON_BUCKET, AUTH_ADMIN, AIS_FINDS_BUCKET, OP_other, ais_bucket_upkeep},
    {G, AIS_BATCH, AIS_ALWAYS, NULL, AIS_ON_NOTHING, 0, 0, OP_get, ais_get_batch},
    {G, AIS_OBJECT, AIS_ALWAYS, NULL, AIS_ON_OBJECT, AUTH_GET_OBJECT, AIS_FINDS_BUCKET, OP_get, ais_get_object},
    {H, AIS_OBJECT, AIS_ALWAYS, NULL, AIS_ON_OBJECT, AUTH_HEAD_OBJECT, AIS_FINDS_BUCKET, OP_head, ais_head_object},
    {P, AIS_OBJECT, AIS_BY_QUERY, "object_to", AIS_ON_OBJECT, AUTH_GET_OBJECT, AIS_FINDS_BUCKET, OP_put, ais_copy_to},
    {P, AIS_OBJECT, AIS_BY_QUERY, "uploadId", AIS_ON_OBJECT, AUTH_PUT_OBJECT, AIS_FINDS_BUCKET, OP_put, ais_put_part},
    {P, AIS_OBJECT, AIS_BY_QUERY, "append_type", AIS_ON_OBJECT, AUTH_APPEND_OBJECT, AIS_FINDS_BUCKET, OP_put, ais_append_object},
    {P, AIS_OBJECT, AIS_ALWAYS, NULL, AIS_ON_OBJECT, AUTH_PUT_OBJECT, AIS_FINDS_BUCKET, OP_put, ais_put_object},
    {D, AIS_OBJECT, AIS_BY_ACTION, "", AIS_ON_OBJECT, AUTH_DELETE_OBJECT, AIS_FINDS_BUCKET, OP_delete, ais_delete_object},
    {D, AIS_OBJECT, AIS_BY_ACTION, "mpt-abort", AIS_ON_OBJECT, AUTH_PUT_OBJECT, AIS_FINDS_BUCKET, OP_mpu, ais_abort_upload},
    {D, AIS_OBJECT, AIS_BY_ACTION, "evict-listrange", AIS_ON_OBJECT, AUTH_DELETE_OBJECT, AIS_FINDS_BUCKET, OP_delete, ais_evict_object},
    {T, AIS_OBJECT, AIS_BY_ACTION, "mpt-upload", AIS_ON_OBJECT, AUTH_PUT_OBJECT, AIS_FINDS_BUCKET, OP_mpu, ais_create_upload},
    {T, AIS_OBJECT, AIS_BY_ACTION, "mpt-complete", AIS_ON_OBJECT, AUTH_PUT_OBJECT, AIS_FINDS_BUCKET, OP_mpu, ais_complete_upload},
    {T, AIS_OBJECT, AIS_BY_ACTION, "rename-obj", AIS_ON_OBJECT, AUTH_MOVE_OBJECT, AIS_FINDS_BUCKET, OP_put, ais_rename_object},
    {T, AIS_OBJECT, AIS_BY_ACTION, "check-lock", AIS_ON_OBJECT, AUTH_HEAD_OBJECT, AIS_FINDS_BUCKET, OP_other, ais_check_lock},
    {A, AIS_OBJECT, AIS_BY_ACTION, "", AIS_ON_OBJECT, AUTH_UPDATE_OBJECT, AIS_FINDS_BUCKET, OP_other, ais_set_custom},

    {G, AIS_BUCKET, AIS_BY_ACTION, "list", AIS_ON_BUCKET, AUTH_LIST_OBJECTS, AIS_FINDS_BUCKET, OP_list, ais_list_objects},
    {G, AIS_BUCKET, AIS_BY_ACTION, "", AIS_ON_BUCKET, AUTH_LIST_OBJECTS, AIS_FINDS_BUCKET, OP_list, ais_list_objects},
    {G, AIS_BUCKET, AIS_BY_ACTION, "summary-bck", AIS_ON_BUCKET, AUTH_LIST, AIS_FINDS_BUCKET, OP_list, ais_summary},
    {H, AIS_BUCKET, AIS_BY_KEY, "bsumm_remote", AIS_ON_BUCKET, AUTH_LIST, AIS_FINDS_BUCKET, OP_list, ais_head_summary},
    {H, AIS_BUCKET, AIS_ALWAYS, NULL, AIS_ON_BUCKET, AUTH_HEAD_BUCKET, AIS_FINDS_BUCKET, OP_bucket, ais_head_bucket},
    {T, AIS_BUCKET, AIS_BY_ACTION, "create-bck", AIS_ON_EITHER, AUTH_CREATE_BUCKET, AIS_NAMES_BUCKET, OP_bucket, ais_create_bucket},
    {D, AIS_BUCKET, AIS_BY_ACTION, "destroy-bck", AIS_ON_EITHER, AUTH_DESTROY_BUCKET, AIS_FINDS_BUCKET | AIS_FINDS_CLOSING, OP_bucket, ais_destroy_bucket},
    {D, AIS_BUCKET, AIS_BY_ACTION, "evict-remote-bck", AIS_ON_EITHER, AUTH_DESTROY_BUCKET, AIS_FINDS_BUCKET, OP_bucket, ais_evict_bucket},
    {A, AIS_BUCKET, AIS_BY_ACTION, "set-bprops", AIS_ON_BUCKET, AUTH_PATCH_BUCKET, AIS_FINDS_BUCKET, OP_bucket, ais_patch_bucket},
    {A, AIS_BUCKET, AIS_BY_ACTION, "reset-bprops", AIS_ON_BUCKET, AUTH_PATCH_BUCKET, AIS_FINDS_BUCKET, OP_bucket, ais_reset_bucket},
    {G, AIS_BUCKETS, AIS_BY_ACTION, "list", AIS_ON_NOTHING, 0, 0, OP_bucket, ais_list_buckets},
    {G, AIS_BUCKETS, AIS_BY_ACTION, "", AIS_ON_NOTHING, 0, 0, OP_bucket, ais_list_buckets},
    {G, AIS_BUCKETS, AIS_BY_ACTION, "summary-bck", AIS_ON_NOTHING, 0, 0, OP_list, ais_summary},
    {T, AIS_BUCKETS, AIS_BY_ACTION, "create-bck", AIS_ON_NOTHING, 0, AIS_NAMES_BUCKET, OP_bucket, ais_create_bucket},
    {D, AIS_BUCKETS, AIS_BY_ACTION, "destroy-bck", AIS_ON_NOTHING, 0, AIS_NAMES_BUCKET, OP_bucket, ais_destroy_bucket},

    {P, AIS_CLUSTER_SET, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_set_config},
    {P, AIS_DAEMON_SET, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_set_config},
    {P, AIS_REVERSE_SET, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_set_config},
    {P, AIS_CLUSTER, AIS_BY_ACTION, "rotate-logs", AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_do_nothing},
    {P, AIS_CLUSTER, AIS_BY_ACTION, "reset-stats", AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_do_nothing},
    {P, AIS_CLUSTER, AIS_BY_ACTION, "set-config", AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_set_config},
    {P, AIS_REVERSE, AIS_BY_ACTION, "rotate-logs", AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_do_nothing},
    {P, AIS_REVERSE, AIS_BY_ACTION, "reset-stats", AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_do_nothing},
    {T, AIS_DOWNLOAD, AIS_ALWAYS, NULL, AIS_ON_NOTHING, 0, 0, OP_other, ais_download_start},
    {G, AIS_DOWNLOAD, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_download_show},
    {D, AIS_DOWNLOAD_ABORT, AIS_ALWAYS, NULL, AIS_ON_NOTHING, 0, 0, OP_other, ais_download_abort},
    {D, AIS_DOWNLOAD_REMOVE, AIS_ALWAYS, NULL, AIS_ON_NOTHING, 0, 0, OP_other, ais_download_remove},
    {G, AIS_SORT, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_dsort_show},
    {T, AIS_SORT, AIS_ALWAYS, NULL, AIS_ON_NOTHING, 0, 0, OP_other, ais_dsort_start},
    {D, AIS_SORT, AIS_ALWAYS, NULL, AIS_ON_NOTHING, 0, 0, OP_other, ais_dsort_remove},
    {D, AIS_SORT_ABORT, AIS_ALWAYS, NULL, AIS_ON_NOTHING, 0, 0, OP_other, ais_dsort_abort},
    {G, AIS_ETL, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_not_built},
    {P, AIS_ETL, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_not_built},
    {T, AIS_ETL, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_not_built},
    {D, AIS_ETL, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_ADMINISTER, 0, OP_other, ais_not_built},

    {G, AIS_HEALTH, AIS_ALWAYS, NULL, AIS_ON_NOTHING, 0, 0, OP_other, ais_health},
    {G, AIS_DAEMON, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_show_node},
    {G, AIS_REVERSE, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_show_node},
    {G, AIS_CLUSTER, AIS_BY_WHAT, "status", AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_job_status},
    {G, AIS_CLUSTER, AIS_BY_WHAT, "status_all", AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_job_status_all},
    {G, AIS_CLUSTER, AIS_BY_WHAT, "running_all", AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_jobs_running},
    {G, AIS_CLUSTER, AIS_BY_WHAT, "qryxstats", AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_job_snapshots},
    {P, AIS_CLUSTER, AIS_BY_ACTION, "start", AIS_ON_CLUSTER, AUTH_ADMIN, 0, OP_other, ais_job_start},
    {P, AIS_CLUSTER, AIS_BY_ACTION, "stop", AIS_ON_CLUSTER, AUTH_ADMIN, 0, OP_other, ais_job_stop},
    {G, AIS_CLUSTER, AIS_ALWAYS, NULL, AIS_ON_CLUSTER, AUTH_SHOW_CLUSTER, 0, OP_other, ais_show_cluster},
};
/* clang-format on */
#undef G
#undef H
#undef P
#undef T
#undef D
#undef A

const struct ais_route *
ais_route_at(size_t index)
{
    return index < ARRAY_LEN(routes) ? &routes[index] : NULL;
}

/* ---- the row ---- */

static bool
row_fits(const struct request *q, const struct ais_route *r)
{
    struct span value;

    switch (r->select) {
    case AIS_ALWAYS:
        return true;
    case AIS_BY_ACTION:
        return strcmp(q->ais->action, r->name) == 0;
    case AIS_BY_WHAT:
        return span_is(query_get(&q->query, "what"), r->name);
    case AIS_BY_QUERY:
        value = query_get(&q->query, r->name);
        return value.len > 0;
    case AIS_BY_KEY:
        return query_has(&q->query, r->name);
    }
    return false;
}

/* "GET, PUT": the methods of a place. */
static void
put_allow(struct request *q)
{
    static const char *const names[] = {
#define X(name) [HTTP_METHOD_##name] = #name,
        HTTP_METHOD_TABLE(X)
#undef X
    };
    unsigned seen = 0;
    struct buf text;

    buf_init(&text, 256);
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        unsigned bit = 1u << routes[i].method;

        if (routes[i].place != q->ais->place || (seen & bit) != 0)
            continue;
        buf_printf(&text, "%s%s", seen != 0 ? ", " : "", names[routes[i].method]);
        seen |= bit;
    }
    buf_printf(&text, "%sOPTIONS", seen != 0 ? ", " : "");
    http_header(q->http, "allow", buf_span(&text));
    buf_fini(&text);
}

/* True: rows of this method and place are chosen by the action of a message. *any: there is such a row. */
static bool
wants_message(const struct request *q, bool *any)
{
    bool wants = false;

    *any = false;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (routes[i].place == q->ais->place &&
            routes[i].method == q->http->head->method) {
            *any = true;
            wants = wants || routes[i].select == AIS_BY_ACTION;
        }
    return wants;
}

static const struct ais_route *
find_row(const struct request *q)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (routes[i].place == q->ais->place &&
            routes[i].method == q->http->head->method && row_fits(q, &routes[i]))
            return &routes[i];
    return NULL;
}

static enum err
no_row(struct request *q)
{
    if (q->ais->action != NULL)
        return ais_fault(q, 400, NULL, "invalid action \"%.100s\" for %.*s %s",
                         q->ais->action, SPAN_ARG(q->http->head->method_text),
                         ais_place_path(q->ais->place));
    return ais_fault(q, 400, NULL, "%.*s %s: the request selects nothing that there is",
                     SPAN_ARG(q->http->head->method_text), ais_place_path(q->ais->place));
}

static enum err
not_allowed(struct request *q)
{
    request_put_ids(q);
    put_allow(q);
    if (q->http->head->method == HTTP_METHOD_OPTIONS) {
        http_reply_last(q->http, 200);
        return ERR_OK;
    }
    http_header(q->http, "content-type", SPAN("text/plain; charset=utf-8"));
    http_reply(q->http, 405, SPAN("method not allowed\n"));
    return ERR_OK;
}

/* ---- names and rights ---- */

/* Bucket and object of the path, checked. */
static enum err
route_take_names(struct request *q)
{
    struct ais_request *r = q->ais;
    struct span name = r->bucket.name;
    enum err rc;

    if (name.len == 0)
        return ERR_OK;
    rc = ais_bucket_name(q, query_get(&q->query, "provider"),
                         query_get(&q->query, "namespace"), name, &r->bucket);
    if (rc != ERR_OK)
        return rc;
    q->name.bucket = r->bucket.uname;
    if (r->place == AIS_BUCKET && r->object.len > 0 &&
        q->http->head->method != HTTP_METHOD_HEAD)
        return ais_fault(q, 400, NULL,
                         "invalid bucket name: a bucket has one element of the path");
    if (r->place == AIS_OBJECT && q->http->head->method != HTTP_METHOD_HEAD)
        rc = ais_object_check(q, r->object);
    q->name.key = r->object;
    return rc;
}

enum err
ais_require(struct request *q, enum ais_scope scope, auth_rights rights)
{
    struct span bucket =
        scope == AIS_ON_CLUSTER ? SPAN(AUTH_EVERY_BUCKET) : q->name.bucket;
    struct span key = q->name.key; /* of a listing: its prefix */

    if (scope == AIS_ON_EITHER &&
        caller_may(q, rights, SPAN(AUTH_EVERY_BUCKET), SPAN("")))
        return ERR_OK;
    return scope == AIS_ON_NOTHING ? ERR_OK : caller_require(q, rights, bucket, key);
}

/* Over TLS some clients send the head of a PUT alone, and the body to where they are sent. The mark says that they
 * were; who may write is decided by the request that has it, too. */
static bool
wants_redirect(const struct request *q, const struct ais_route *row)
{
    return q->http->is_tls && row->place == AIS_OBJECT &&
           row->method == HTTP_METHOD_PUT && !query_has(&q->query, "pid");
}

static enum err
answer_redirect(struct request *q)
{
    const struct http_head *head = q->http->head;
    bool has_query = head->query.at != NULL && head->query.len > 0;
    struct ais_ids ids;

    ais_ids(q->api, &ids);
    request_put_ids(q);
    http_headerf(q->http, "location", "https://%.*s%.*s?%.*s%spid=%s&utm=%llu",
                 SPAN_ARG(head->host), SPAN_ARG(head->path),
                 has_query ? (int)head->query.len : 0, has_query ? head->query.at : "",
                 has_query ? "&" : "", ids.gateway, (unsigned long long)rt_wall_ns());
    http_reply_close_after(q->http);
    http_reply(q->http, 307, (struct span){"", 0});
    return ERR_OK;
}

static enum err
run_row(struct request *q, const struct ais_route *row)
{
    enum err rc = ais_require(q, row->scope, row->rights);

    q->op = row->op;
    if (rc == ERR_OK && (row->flags & (AIS_FINDS_BUCKET | AIS_NAMES_BUCKET)) != 0 &&
        q->ais->bucket.text == NULL)
        rc = ais_fault(q, 400, NULL, "the path names no bucket");
    if (rc == ERR_OK && (row->flags & AIS_FINDS_BUCKET) != 0)
        rc = ais_bucket_find(q, &q->ais->bucket, &q->bucket);
    if (rc == ERR_OK && q->bucket != NULL && q->bucket->closing &&
        (row->flags & AIS_FINDS_CLOSING) == 0)
        rc = ais_no_bucket(q, &q->ais->bucket);
    if (rc == ERR_OK && q->bucket != NULL && q->bucket->property_count > 0 &&
        (row->rights & AUTH_OF_BUCKETS & ~ais_bucket_access(q->bucket)) != 0)
        rc = ais_fault(q, 403, NULL, "bucket \"%s\": its property \"access\" denies this",
                       q->ais->bucket.text);
    if (rc != ERR_OK)
        return rc;
    return wants_redirect(q, row) ? answer_redirect(q) : row->run(q);
}

static enum err
run_request(struct request *q)
{
    const struct ais_route *row;
    bool known, message;
    enum err rc = ais_find_place(q);

    if (rc != ERR_OK)
        return rc;
    message = wants_message(q, &known);
    if (!known)
        return not_allowed(q);
    if (q->http->draining)
        return ais_fault(q, 503, NULL, "the server is shutting down");
    if (q->ais->place != AIS_HEALTH)
        rc = gate(q, message ? NEED_USER : NEED_CALLER);
    if (rc == ERR_OK)
        rc = route_take_names(q);
    if (rc == ERR_OK && q->ais->place == AIS_OBJECT) {
        bool answered;

        rc = relay_route(q, &answered);
        if (answered)
            return rc;
    }
    if (rc == ERR_OK && message)
        rc = ais_read_message(q);
    if (rc != ERR_OK)
        return rc;
    row = find_row(q);
    if (message && q->ais->place == AIS_BUCKET && q->ais->object.len == 0) {
        const char *prefix = json_string_value(ais_member(q->ais->value, "prefix"));

        q->name.key = span_of(prefix != NULL ? prefix : "");
    }
    return row != NULL ? run_row(q, row) : no_row(q);
}

void
ais_handle(struct request *q)
{
    enum err rc;

    q->ais = arena_alloc(q->arena, sizeof *q->ais);
    rc = run_request(q);
    if (rc != ERR_OK && http_reply_began(q->http))
        http_reply_abort(q->http);
    else if (rc != ERR_OK && !http_reply_is_barred(q->http))
        ais_write_error(q);
    json_decref(q->ais->message);
}
