/* serve: runs a server on a folder. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "conf/conf.h"
#include "node/node.h"

extern char **environ;

static const struct flag flags[] = {
    {"listen", 'l', "ADDR:PORT", "where to listen; 127.0.0.1:9000 unless told otherwise",
     false},
    {"credentials", 0, "FILE",
     "more users: profiles with their keys, as AWS tools write them", false},
    {"config", 'c', "FILE", "a configuration file (TOML)", false},
    {"set", 0, "NAME=VALUE", "sets one option; forebay config explains them", true},
    {"engine", 0, "auto|uring|epoll", "how the kernel is asked for I/O", false},
    {"auth", 0, NULL, "ask for keys on loopback too", false},
    {"insecure-http", 0, NULL, "listen off loopback without TLS", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay serve ./data",
    "forebay serve ./data --listen 127.0.0.1:9100 --set cache.budget=200GiB",
    "forebay serve /srv/forebay --listen 0.0.0.0:9000 --insecure-http",
    NULL,
};
static const struct verb verb = {
    .name = "serve",
    .summary = "serve a folder as an object store",
    .arguments = "DIR",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
};

/* "127.0.0.1:9000", "[::1]:9000", ":9000", "9000", "unix:/path". */
static enum err
split_listen(const char *text, char **addr, uint16_t *port, struct errbuf *eb)
{
    const char *colon = strrchr(text, ':');
    uint64_t number = 0;

    *port = 0;
    if (strncmp(text, "unix:", 5) == 0) {
        *addr = xstrdup(text);
        return ERR_OK;
    }
    if (num_u64(span_of(colon != NULL ? colon + 1 : text), &number) != ERR_OK ||
        number > 65535)
        return err_set(eb, ERR_BAD_REQUEST,
                       "listen \"%s\": expected ADDR:PORT, a port is 0 to 65535", text);
    *port = (uint16_t)number;
    if (colon == NULL || colon == text)
        *addr = xstrdup("127.0.0.1");
    else if (text[0] == '[' && colon[-1] == ']')
        *addr = xmemdup0(text + 1, (size_t)(colon - text) - 2);
    else
        *addr = xmemdup0(text, (size_t)(colon - text));
    return ERR_OK;
}

static enum err
load_conf(const struct args *a, struct conf *c, struct errbuf *eb)
{
    static const struct {
        const char *flag;
        enum conf_option option;
    } direct[] = {
        {"listen", OPT_LISTEN}, {"credentials", OPT_CREDENTIALS}, {"engine", OPT_ENGINE}};
    const char *file = args_value(a, "config"), *pair;
    enum err rc = ERR_OK;

    if (file != NULL)
        rc = conf_file(c, file, eb);
    if (rc == ERR_OK)
        rc = conf_env(c, environ, eb);
    for (size_t i = 0; rc == ERR_OK && (pair = args_nth(a, "set", i)) != NULL; i++)
        rc = conf_set(c, pair, "--set", eb);
    for (size_t i = 0; i < ARRAY_LEN(direct) && rc == ERR_OK; i++)
        if (args_value(a, direct[i].flag) != NULL)
            rc = conf_set_option(c, direct[i].option, args_value(a, direct[i].flag),
                                 "command line", eb);
    if (rc == ERR_OK && args_has(a, "auth"))
        rc = conf_set_option(c, OPT_AUTH, "true", "--auth", eb);
    if (rc == ERR_OK && args_has(a, "insecure-http"))
        rc = conf_set_option(c, OPT_INSECURE_HTTP, "true", "--insecure-http", eb);
    return rc;
}

static void
take_http(const struct conf *c, struct http_server_options *h)
{
    *h = (struct http_server_options){
        .connections_max = (uint32_t)conf_u64(c, OPT_HTTP_CONNECTIONS),
        .requests_max = (uint32_t)conf_u64(c, OPT_HTTP_REQUESTS),
        .buffer_bytes = (uint32_t)conf_u64(c, OPT_HTTP_BUFFER),
        .arena_bytes = (uint32_t)conf_u64(c, OPT_HTTP_REQUEST_MEMORY),
        .header_ms = conf_u64(c, OPT_HTTP_HEADER_TIMEOUT),
        .idle_ms = conf_u64(c, OPT_HTTP_IDLE_TIMEOUT),
        .body_grace_ms = conf_u64(c, OPT_HTTP_BODY_GRACE),
        .body_rate = conf_u64(c, OPT_HTTP_MIN_RATE),
        .body_idle_ms = conf_u64(c, OPT_HTTP_BODY_IDLE),
        .send_stall_ms = conf_u64(c, OPT_HTTP_SEND_STALL),
        .retry_after_s = (uint32_t)(conf_u64(c, OPT_HTTP_RETRY_AFTER) / 1000),
    };
}

static void
take_node(const struct conf *c, struct node_options *o)
{
    static const enum rt_engine engines[] = {RT_AUTO, RT_URING, RT_EPOLL};
    size_t domains = 0;

    o->credentials =
        conf_text(c, OPT_CREDENTIALS)[0] != '\0' ? conf_text(c, OPT_CREDENTIALS) : NULL;
    o->auth = conf_bool(c, OPT_AUTH);
    o->insecure_http = conf_bool(c, OPT_INSECURE_HTTP);
    o->region = conf_text(c, OPT_S3_REGION);
    o->domains = conf_list(c, OPT_S3_DOMAINS, &domains);
    o->domain_count = (unsigned)domains;
    o->bench_objects = conf_bool(c, OPT_BENCH_OBJECTS);
    o->access_log = conf_bool(c, OPT_LOG_ACCESS);
    o->hot_bytes = conf_u64(c, OPT_MEMORY_HOT);
    o->cache_budget = conf_u64(c, OPT_CACHE_BUDGET);
    o->segment_bytes = conf_u64(c, OPT_DISK_SEGMENT_BYTES);
    o->index_map_bytes = conf_u64(c, OPT_INDEX_MAP_SIZE);
    o->index_interval_ms = conf_u64(c, OPT_INDEX_INTERVAL);
    o->tail_bytes = conf_u64(c, OPT_INDEX_MEMORY);
    o->drain_ms = conf_u64(c, OPT_DRAIN_TIMEOUT);
    o->backend.retry_ms = conf_u64(c, OPT_BACKEND_RETRY_TIME);
    o->backend.retries = (unsigned)conf_u64(c, OPT_BACKEND_RETRIES);
    o->backend.timeout_ms = conf_u64(c, OPT_BACKEND_TIMEOUT);
    o->backend.connect_ms = conf_u64(c, OPT_BACKEND_CONNECT_TIMEOUT);
    o->backend.connections = (unsigned)conf_u64(c, OPT_BACKEND_CONNECTIONS);
    take_http(c, &o->http);
    o->rt = (struct rt_options){
        .engine = engines[conf_enum(c, OPT_ENGINE)],
        .loops = (unsigned)conf_u64(c, OPT_LOOPS),
        .workers = (unsigned)conf_u64(c, OPT_WORKERS),
        .fibers_max = (unsigned)conf_u64(c, OPT_FIBERS),
        .iobuf_bytes = conf_u64(c, OPT_MEMORY_BUFFERS),
        .pin = true,
    };
    log_set_level((enum log_level)conf_enum(c, OPT_LOG_LEVEL));
    log_set_format((enum log_format)conf_enum(c, OPT_LOG_FORMAT));
}

/* What answers, where the keys are, what to type next. */
static void
on_ready(const struct node_ready *r, void *arg)
{
    char space[NUM_SIZE_TEXT];
    bool v6 = strchr(r->addr, ':') != NULL;

    (void)arg;
    printf("Forebay %s  data %s (%s free)  engine %s\n", FOREBAY_VERSION, r->dir,
           num_size_text(r->free_bytes, space), r->engine);
    printf("S3/HTTP   http://%s%s%s:%u\n", v6 ? "[" : "", r->addr, v6 ? "]" : "",
           r->port);
    printf("Keys      %s%s\n", r->credentials,
           r->keys_needed ? "" : "   (loopback: none needed)");
    printf("Health    /_/livez /_/readyz   Metrics /_/metrics\n");
    printf("Try:      eval $(forebay env --endpoint-url http://%s%s%s:%u)"
           "  &&  aws s3 mb s3://test  &&  aws s3 cp README.md s3://test/\n",
           v6 ? "[" : "", r->addr, v6 ? "]" : "", r->port);
    fflush(stdout);
}

static enum err
make_folder(const char *dir, struct errbuf *eb)
{
    if (mkdir(dir, 0700) == 0 || errno == EEXIST)
        return ERR_OK;
    return err_errno(eb, errno == EACCES ? ERR_DENIED : ERR_IO, errno,
                     "the folder \"%s\" cannot be made", dir);
}

static enum exit_code
run(const struct args *a)
{
    struct node_options o = {.dir = a->at[0], .on_ready = on_ready};
    struct conf *c = conf_new();
    struct errbuf eb = {{0}};
    char *addr = NULL;
    enum err rc = load_conf(a, c, &eb);

    if (rc == ERR_OK)
        rc = split_listen(conf_text(c, OPT_LISTEN), &addr, &o.port, &eb);
    if (rc != ERR_OK) {
        conf_free(&c);
        return cli_usage(&eb, &verb);
    }
    o.addr = addr;
    take_node(c, &o);
    rc = make_folder(o.dir, &eb);
    if (rc == ERR_OK)
        rc = node_serve(&o, &eb);
    free(addr);
    conf_free(&c);
    return rc == ERR_OK ? EXIT_OK_ : cli_fail(rc, &eb);
}

const struct cli_verb cli_serve = {&verb, run};
