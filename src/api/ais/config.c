/* config: the configuration of the cluster as AIS clients read it. Its command line stops where a section is missing that
 * it looks at, so every one of them is here, with the values that hold on this node or that AIStore has by default. */
#include "api/ais/documents.h"
#include "base/mem.h"
#include "base/num.h"

/* Literal values by type: "s:name=text", "b:name=1", "n:name=5". */
static void
put_literals(struct json *j, const char *const *at)
{
    for (; *at != NULL; at++) {
        const char *name = *at + 2, *value = strchr(name, '=') + 1;
        char key[48];

        snprintf(key, sizeof key, "%.*s", (int)(value - name - 1), name);
        if ((*at)[0] == 's')
            json_text(j, key, value);
        else if ((*at)[0] == 'b')
            json_bool(j, key, value[0] == '1');
        else
            json_i64(j, key, strtoll(value, NULL, 10));
    }
}

static void
put_section(struct json *j, const char *name, const char *const *at)
{
    json_open_object(j, name);
    put_literals(j, at);
    json_end(j);
}
#define SECTION(j, name, ...)                                                            \
    put_section((j), (name), (const char *const[]){__VA_ARGS__, NULL})

/* "checksum.type" of a bucket, or what stands for all. */
static const char *
property_or(const struct map_bucket *b, const char *name, const char *otherwise)
{
    const char *own = b != NULL ? map_bucket_property(b, name) : NULL;

    return own != NULL ? own : otherwise;
}

static void
put_value(struct json *j, char type, const char *key, const char *value)
{
    if (type == 's')
        json_text(j, key, value);
    else if (type == 'b')
        json_bool(j, key, strcmp(value, "true") == 0);
    else
        json_i64(j, key, strtoll(value, NULL, 10));
}

const struct ais_setting ais_settings[] = {
    {"checksum", NULL, "type", 's', "xxhash2"},
    {"checksum", NULL, "validate_cold_get", 'b', "false"},
    {"checksum", NULL, "validate_warm_get", 'b', "false"},
    {"checksum", NULL, "validate_obj_move", 'b', "false"},
    {"checksum", NULL, "enable_read_range", 'b', "false"},
    {"versioning", NULL, "enabled", 'b', "true"},
    {"versioning", NULL, "validate_warm_get", 'b', "false"},
    {"versioning", NULL, "synchronize", 'b', "false"},
    {"mirror", NULL, "copies", 'n', "2"},
    {"mirror", NULL, "burst_buffer", 'n', "512"},
    {"mirror", NULL, "enabled", 'b', "false"},
    {"ec", NULL, "objsize_limit", 'n', "262144"},
    {"ec", NULL, "compression", 's', "never"},
    {"ec", NULL, "bundle_multiplier", 'n', "2"},
    {"ec", NULL, "data_slices", 'n', "2"},
    {"ec", NULL, "parity_slices", 'n', "2"},
    {"ec", NULL, "enabled", 'b', "false"},
    {"ec", NULL, "disk_only", 'b', "false"},
    {"chunks", NULL, "objsize_limit", 's', "0B"},
    {"chunks", NULL, "max_monolithic_size", 's', "1TiB"},
    {"chunks", NULL, "chunk_size", 's', "1GiB"},
    {"chunks", NULL, "checkpoint_every", 'n', "0"},
    {"chunks", NULL, "flags", 'n', "0"},
    {"lru", NULL, "dont_evict_time", 's', "2h0m"},
    {"lru", NULL, "capacity_upd_time", 's', "10m"},
    {"lru", NULL, "batch_size", 'n', "32768"},
    {"lru", NULL, "enabled", 'b', "false"},
    {"write_policy", NULL, "data", 's', ""},
    {"write_policy", NULL, "md", 's', ""},
    {"rate_limit", "backend", "num_retries", 'n', "3"},
    {"rate_limit", "backend", "interval", 's', "1m"},
    {"rate_limit", "backend", "max_tokens", 'n', "1000"},
    {"rate_limit", "backend", "enabled", 'b', "false"},
    {"rate_limit", "backend", "per_op_max_tokens", 's', ""},
    {"rate_limit", "frontend", "burst_size", 'n', "375"},
    {"rate_limit", "frontend", "interval", 's', "1m"},
    {"rate_limit", "frontend", "max_tokens", 'n', "1000"},
    {"rate_limit", "frontend", "enabled", 'b', "false"},
    {"rate_limit", "frontend", "per_op_max_tokens", 's', ""},
    {NULL, NULL, NULL, 0, NULL},
};

void
ais_setting_name(const struct ais_setting *s, char out[AIS_SETTING_NAME])
{
    snprintf(out, AIS_SETTING_NAME, "%s.%s%s%s", s->section,
             s->part != NULL ? s->part : "", s->part != NULL ? "." : "", s->name);
}

static bool
same_part(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

void
ais_put_bucket_sections(struct json *j, const struct map_bucket *b)
{
    const struct ais_setting *before = NULL;

    for (const struct ais_setting *s = ais_settings; s->section != NULL; s++) {
        bool new_section = before == NULL || strcmp(before->section, s->section) != 0;
        bool new_part = new_section || !same_part(before->part, s->part);
        char name[AIS_SETTING_NAME];

        if (before != NULL && new_part && before->part != NULL)
            json_end(j);
        if (before != NULL && new_section)
            json_end(j);
        if (new_section)
            json_open_object(j, s->section);
        if (new_part && s->part != NULL)
            json_open_object(j, s->part);
        ais_setting_name(s, name);
        put_value(j, s->type, s->name, property_or(b, name, s->value));
        before = s;
    }
    json_end(j); /* a part ... */
    json_end(j); /* ... and its section: the last ones have both */
}

static void
put_keepalive(struct json *j)
{
    json_open_object(j, "keepalivetracker");
    SECTION(j, "proxy", "s:name=heartbeat", "s:interval=10s", "n:factor=3");
    SECTION(j, "target", "s:name=heartbeat", "s:interval=10s", "n:factor=3");
    json_i64(j, "num_retries", 3);
    json_i64(j, "retry_factor", 4);
    json_end(j);
}

static void
put_net_section(struct request *q, struct json *j)
{
    json_open_object(j, "net");
    SECTION(j, "l4", "s:proto=tcp", "n:sndrcv_buf_size=131072");
    json_open_object(j, "http");
    json_bool(j, "use_https", q->http->is_tls);
    put_literals(j, (const char *const[]){
                        "s:server_crt=", "s:server_key=", "s:domain_tls=",
                        "s:client_ca_tls=", "n:client_auth_tls=0", "s:idle_conn_time=75s",
                        "n:idle_conns_per_host=32", "n:idle_conns=1024",
                        "n:write_buffer_size=0", "n:read_buffer_size=0",
                        "b:chunked_transfer=1", "b:skip_verify=0", NULL});
    json_end(j);
    json_bool(j, "use_ipv6", false);
    json_end(j);
}

static void
put_proxy(struct request *q, struct json *j)
{
    const char *url =
        arena_printf(q->arena, "%s://%.*s", q->http->is_tls ? "https" : "http",
                     SPAN_ARG(q->http->head->host));

    json_open_object(j, "proxy");
    json_text(j, "primary_url", url);
    json_text(j, "original_url", url);
    json_text(j, "discovery_url", "");
    json_bool(j, "non_electable", false);
    json_end(j);
}

static void
put_sections(struct request *q, struct json *j)
{
    json_open_object(j, "backend");
    json_end(j);
    ais_put_bucket_sections(j, NULL);
    SECTION(j, "log", "s:level=3", "s:max_size=4MiB", "s:max_total=128MiB",
            "s:flush_time=40s", "s:stats_time=60s", "b:to_stderr=0");
    SECTION(j, "periodic", "s:stats_time=10s", "s:retry_sync_time=2s",
            "s:notif_time=30s");
    SECTION(j, "timeout", "s:cplane_operation=2s", "s:max_keepalive=4s",
            "s:max_host_busy=20s", "s:startup_time=1m", "s:join_startup_time=3m",
            "s:send_file_time=5m", "s:ec_streams_time=10m", "s:object_md=2h",
            "s:cold_get_conflict=5s");
    SECTION(j, "client", "s:client_timeout=10s", "s:client_long_timeout=5m",
            "s:list_timeout=5m");
    put_proxy(q, j);
    SECTION(j, "space", "n:cleanupwm=65", "n:lowwm=75", "n:highwm=90",
            "n:out_of_space=95", "n:batch_size=32768", "s:dont_cleanup_time=2h0m");
    SECTION(j, "disk", "n:disk_util_low_wm=20", "n:disk_util_high_wm=80",
            "n:disk_util_max_wm=95", "s:iostat_time_long=2s",
            "s:iostat_time_short=100ms");
    SECTION(j, "rebalance", "b:enabled=1", "s:dest_retry_time=2m", "s:compression=never",
            "n:bundle_multiplier=2", "n:burst_buffer=1024");
    SECTION(j, "resilver", "b:enabled=1");
    put_net_section(q, j);
    SECTION(j, "fshc", "b:enabled=1", "n:test_files=4", "n:error_limit=2",
            "s:io_err_time=10s", "n:io_err_limit=10");
    json_open_object(j, "auth");
    json_bool(j, "client_auth_required", q->caller.kind != CALLER_LOCAL);
    json_end(j);
    put_keepalive(j);
    SECTION(j, "downloader", "s:timeout=1h");
    SECTION(j, "distributed_sort", "s:duplicated_records=ignore",
            "s:missing_shards=ignore", "s:ekm_malformed_line=abort",
            "s:ekm_missing_key=abort", "s:default_max_mem_usage=80%",
            "s:call_timeout=10m", "s:compression=never", "n:bundle_multiplier=4");
    SECTION(j, "transport", "n:max_header=4096", "n:burst_buffer=512",
            "s:idle_teardown=4s", "s:quiescent=10s", "s:lz4_block=256KiB",
            "b:lz4_frame_checksum=0");
    SECTION(j, "memsys", "s:min_free=2GiB", "s:default_buf=32KiB", "s:to_gc=4GiB",
            "s:hk_time=3m", "n:min_pct_total=0", "n:min_pct_free=0");
    SECTION(j, "tcb", "s:compression=never", "n:bundle_multiplier=2");
    SECTION(j, "tco", "s:compression=never", "n:bundle_multiplier=2");
    SECTION(j, "arch", "s:compression=never", "n:bundle_multiplier=2");
    SECTION(j, "lso", "s:idle_time=1m");
    SECTION(j, "get_batch", "s:max_wait=5s", "n:warmup_workers=2", "n:max_soft_errs=6");
}

static void
put_config(struct request *q, struct json *j)
{
    struct ais_ids ids;

    ais_ids(q->api, &ids);
    put_sections(q, j);
    json_text(j, "features", "0");
    json_text(j, "uuid", ids.cluster);
    json_text(j, "lastupdate_time", "");
    json_text(j, "config_version", "1");
}

enum err
ais_show_cluster_config(struct request *q)
{
    struct ais_document d;

    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    put_config(q, &d.j);
    json_end(&d.j);
    return ais_document_answer(q, &d);
}

/* The same with what is the node's own. */
enum err
ais_show_node_config(struct request *q)
{
    struct ais_document d;

    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    put_config(q, &d.j);
    json_text(&d.j, "confdir", "");
    json_text(&d.j, "log_dir", "");
    json_end(&d.j);
    return ais_document_answer(q, &d);
}
