#include "api/api.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/ais/summary.h"
#include "api/ais/xact.h"
#include "api/inline_get.h"
#include "api/internal.h"
#include "api/node_ask.h"
#include "api/relay.h"
#include "api/response_cache.h"
#include "api/signature_cache.h"
#include "api/trace.h"
#include "base/log.h"
#include "base/mem.h"
#include "rt/loop.h"
#include "rt/time.h"
#include "wire/xml.h"

/* Without user names: metric labels must be bounded. */
static void
collect_refused(struct buf *out, void *arg)
{
    (void)arg;
    buf_puts(out,
             "# HELP forebay_user_refused_total requests refused by a limit of their "
             "user\n# TYPE forebay_user_refused_total counter\n");
    buf_printf(out,
               "forebay_user_refused_total{limit=\"requests\"} %llu\n"
               "forebay_user_refused_total{limit=\"bytes\"} %llu\n"
               "forebay_user_refused_total{limit=\"parts\"} %llu\n",
               (unsigned long long)auth_meter_refused(AUTH_OVER_REQUESTS),
               (unsigned long long)auth_meter_refused(AUTH_OVER_BYTES),
               (unsigned long long)auth_meter_refused(AUTH_OVER_PARTS));
}

static void
on_object_change(void *arg, uint64_t bucket, struct span key)
{
    struct api *a = arg;

    shard_forget(a->shards, bucket, key);
}

enum err
api_new(const struct api_options *o, struct api **out, struct errbuf *eb)
{
    struct api *a = xcalloc(1, sizeof *a);
    enum err rc = ERR_OK;

    a->options = *o;
    if (a->options.region == NULL)
        a->options.region = "us-east-1";
    for (unsigned i = 0; i < o->domain_count; i++)
        a->domains[i] = span_of(o->domains[i]);
    a->keys = xcalloc(rt_loop_count(), sizeof(struct sigv4_cache *));
    for (unsigned i = 0; i < rt_loop_count(); i++)
        a->keys[i] = sigv4_cache_new();
    a->signatures = xcalloc(rt_loop_count(), sizeof(struct signature_cache *));
    for (unsigned i = 0; i < rt_loop_count(); i++)
        a->signatures[i] = signature_cache_new();
    a->responses = response_cache_new(o->block_cache_bytes);
    a->trace = trace_new();
    a->began_ns = rt_now_ns();
    a->shards = shard_start(o->object, SHARD_CACHE_BYTES);
    a->xacts = xacts_new();
    a->summaries = ais_summaries_new();
    if (o->bench_objects) {
        a->bench = xmalloc(API_BENCH_MAX);
        memset(a->bench, 'b', API_BENCH_MAX);
    }
    atomic_store(&a->ready, false);
    atomic_store(&a->access_log, o->access_log);
    metrics_register(collect_refused, a);
    if (o->shards != NULL && o->shard_index_bytes > 0)
        rc = shard_keep_in(a->shards, o->shards, o->shard_index_bytes, eb);
    if (rc != ERR_OK) {
        api_free(&a);
        return rc;
    }
    if (o->object != NULL)
        object_watch(o->object, on_object_change, a);
    *out = a;
    return ERR_OK;
}

void
api_free(struct api **ap)
{
    struct api *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    metrics_unregister(a);
    for (unsigned i = 0; i < rt_loop_count(); i++)
        sigv4_cache_free(&a->keys[i]);
    free(a->keys);
    for (unsigned i = 0; i < rt_loop_count(); i++)
        signature_cache_free(&a->signatures[i]);
    free(a->signatures);
    response_cache_free(&a->responses);
    trace_free(&a->trace);
    shard_stop(&a->shards);
    xacts_free(&a->xacts);
    ais_summaries_free(&a->summaries);
    free(a->bench);
    free(a);
}

void
api_set_ready(struct api *a, bool ready)
{
    atomic_store(&a->ready, ready);
}

void
api_set_access_log(struct api *a, bool on)
{
    atomic_store(&a->access_log, on);
}

/* `from` NULL: a client's own request. */
static void
api_serve(struct api *a, struct http_request *http, const struct peer_head *from)
{
    struct request *q = arena_alloc(http->arena, sizeof *q); /* zeros */
    enum err rc;

    q->api = a;
    q->from = from;
    q->http = http;
    q->arena = http->arena;
    q->op = OP_other;
    http->user = q;
    q->map_serial = map_serial(map_now(q->api->options.map));
    if (node_ask_is_one(q)) {
        q->front = front_end_of(SPAN("/"), false);
        gate_admit_node(q);
        node_ask_serve(q);
        map_bucket_drop(&q->bucket);
        arena_free(&q->work);
        return;
    }
    if (span_is(http->head->path,
                "*")) { /* OPTIONS *: of the server, not of a resource */
        q->front = front_end_of(SPAN("/"), false);
        http_header(http, "allow", SPAN("GET, HEAD, PUT, POST, DELETE, OPTIONS"));
        (void)http_reply(http, 204, SPAN(""));
        return;
    }
    rc = query_parse(http->head->query, q->arena, &q->query, &q->fault);
    if (rc == ERR_OK)
        rc = request_split_name(q);
    else
        q->front = front_end_of(http->head->path, false);
    if (rc == ERR_OK)
        q->front->handle(q);
    else
        q->front->write_error(q);
    audit_write(q, false);
    buf_fini(&q->audit);
    map_bucket_drop(&q->bucket);
    arena_free(&q->work);
}

static void
api_handle(struct http_request *http, void *arg)
{
    if (http->tried || !inline_get_cached(arg, http))
        api_serve(arg, http, NULL);
}

static void
api_handle_peer(struct http_request *http, const struct peer_head *head, void *arg)
{
    if ((head->flags & PEER_TRUSTED) != 0 || !inline_get_cached(arg, http))
        api_serve(arg, http, head);
}

static void
api_prefetch(struct http_request *http, unsigned step, void *arg)
{
    response_cache_prefetch(arg, http, step);
}

static bool
api_try_inline(struct http_request *http, void *arg)
{
    return inline_get(arg, http);
}

static void
log_access(const struct http_request *http, const struct http_done *d)
{
    const struct request *q = http->user;
    struct log_field all[12] = {L_TEXT("id", http->id),
                                L_TEXT("peer", http->peer),
                                L_SPAN("method", http->head->method_text),
                                L_SPAN("path", http->head->path),
                                L_I64("status", d->status),
                                L_U64("in", d->bytes_in),
                                L_U64("out", d->bytes_out),
                                L_U64("first_byte_us", d->first_byte_ns / 1000),
                                L_U64("us", d->duration_ns / 1000)};
    unsigned count = 9;

    if (q != NULL && q->from != NULL)
        all[count++] = L_U64("gateway", q->from->from);
    if (q != NULL && q->relayed_to != 0)
        all[count++] = L_U64("owner", q->relayed_to);
    log_event(LOG_INFO, "http.request", "answered", all, count);
}

static void
api_on_done(struct http_request *http, const struct http_done *d, void *arg)
{
    const struct api *a = arg;
    struct request *q = http->user; /* NULL: from the response cache */
    struct metric_request m = {
        .op = q != NULL ? q->op : OP_get,
        .api = q != NULL && q->ais != NULL ? API_ais : API_s3,
        .status = d->status,
        .duration_ns = d->duration_ns,
        .first_byte_ns = d->first_byte_ns,
        .bytes_in = d->bytes_in,
        .bytes_out = d->bytes_out,
    };

    if (q != NULL)
        auth_meter_end(&q->caller.charge, d->bytes_in + d->bytes_out, rt_now_ns());
    metric_request_done(&m);
    trace_note(a->trace, http, d);
    if (atomic_load_explicit(&a->access_log, memory_order_relaxed))
        log_access(http, d);
}

/* Error bodies of the http room, as S3 XML. */
static size_t
error_body(int status, const char *why, const char *id, char *out, size_t room,
           const char **content_type, void *arg)
{
    const char *code = status == 503   ? "SlowDown"
                       : status == 408 ? "RequestTimeout"
                       : status == 500 ? "InternalError"
                       : status == 501 ? "NotImplemented"
                       : status == 405 ? "MethodNotAllowed"
                                       : "BadRequest";
    struct buf text;
    struct xml x;
    size_t n;

    (void)arg;
    *content_type = "application/xml";
    buf_init(&text, room);
    xml_begin(&x, &text);
    xml_open(&x, "Error");
    xml_text(&x, "Code", code);
    xml_text(&x, "Message", why); /* it may quote the client */
    xml_text(&x, "RequestId", id);
    xml_text(&x, "HostId", id);
    xml_close(&x);
    n = text.full ? 0 : text.len;
    if (n > 0)
        memcpy(out, text.at, n);
    buf_fini(&text);
    return n;
}

/* Health and metrics pages are served even under overload. */
static bool
is_vital(const struct http_head *head, void *arg)
{
    (void)arg;
    return span_is(head->path, "/_/livez") || span_is(head->path, "/_/readyz") ||
           span_is(head->path, "/_/metrics");
}

void
api_handler(struct api *a, struct http_handler *out)
{
    *out = (struct http_handler){.handle = api_handle,
                                 .prefetch = api_prefetch,
                                 .try_inline = api_try_inline,
                                 .on_done = api_on_done,
                                 .error_body = error_body,
                                 .is_vital = is_vital,
                                 .arg = a};
    if (a->options.nodes != NULL)
        out->may_answer = relay_may_answer;
}

static uint64_t
api_epoch(void *arg)
{
    return nodes_epoch(((struct api *)arg)->options.nodes);
}

static enum err
api_catch_up(void *arg, uint64_t epoch, struct errbuf *eb)
{
    return nodes_catch_up(((struct api *)arg)->options.nodes, epoch, eb);
}

void
api_peer_handler(struct api *a, struct peer_options *out)
{
    assert(a->options.nodes != NULL);
    out->handle = api_handle_peer;
    out->handler = (struct http_handler){.may_answer = relay_may_answer,
                                         .on_done = api_on_done,
                                         .error_body = error_body,
                                         .arg = a};
    out->epoch = api_epoch;
    out->catch_up = api_catch_up;
    out->arg = a;
}

void
api_set_peers(struct api *a, struct peers *p)
{
    a->peers = p;
}
