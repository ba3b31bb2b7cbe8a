/* serve: runs a server on a folder. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/local.h"
#include "cli/serve_cluster.h"
#include "conf/conf.h"
#include "node/node.h"
#include "rt/limits.h"

#define WITHOUT_MAX 32

extern char **environ;

static const struct flag flags[] = {
    {"listen", 'l', "ADDR:PORT", "address to listen on; default 127.0.0.1:9000", false},
    {"credentials", 0, "FILE",
     "more users: profiles with their keys, as AWS tools write them", false},
    {"config", 'c', "FILE", "a configuration file (TOML)", false},
    {"set", 0, "NAME=VALUE", "sets one option; forebay config explains them", true},
    {"engine", 0, "auto|uring|epoll", "I/O engine", false},
    {"without", 0, "DISK", "start without this lost disk, by path or id", true},
    {"not-empty", 0, NULL, "a new folder may hold other things: data is put beside them",
     false},
    {"advertise", 0, "HOST:PORT",
     "how AIS clients and other nodes reach this server (option node.advertise)", false},
    {"etcd", 0, "URL,...", "join or create a cluster whose state is in this etcd", false},
    {"cluster", 0, "NAME", "the name of the cluster", false},
    {"cluster-key", 0, "FILE", "its key: forebay cluster key > FILE", false},
    {"node", 0, "NAME", "the name of this node, for life; HOSTNAME-PORT", false},
    {"domain", 0, "TEXT", "its failure domain, for example rack=r1", false},
    {"weight", 0, "N", "its share of keys; 1000", false},
    {"peer-listen", 0, "ADDR:PORT", "address for other nodes; the port + 1", false},
    {"auth", 0, NULL, "ask for keys on loopback too", false},
    {"tls-cert", 0, "FILE", "the server's certificate and its chain (PEM): serve HTTPS",
     false},
    {"tls-key", 0, "FILE", "the certificate's private key (PEM)", false},
    {"insecure-http", 0, NULL, "listen off loopback without TLS", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay serve ./data",
    "forebay serve ./data --listen 127.0.0.1:9100 --set cache.budget=200GiB",
    "forebay serve /mnt/disk1 /mnt/disk2 /mnt/disk3",
    "forebay serve /srv/forebay --listen 0.0.0.0:9000 --tls-cert tls.crt --tls-key "
    "tls.key",
    "forebay serve ./data --etcd http://10.0.0.1:2379 --cluster bay --cluster-key "
    "cluster.key",
    NULL,
};
static const struct verb verb = {
    .name = "serve",
    .summary = "serve folders as an object store",
    .arguments = "DIR...",
    .least = 1,
    .most = 32,
    .examples = examples,
    .flags = flags,
    .more = "SIGHUP reloads configuration, credentials and certificate, all or "
            "nothing; the log lists what changed and what needs a\n"
            "restart. A changed certificate file is loaded without a signal.",
};

static enum err
load_conf(const struct args *a, struct conf *c, struct errbuf *eb)
{
    static const struct {
        const char *flag;
        enum conf_option option;
    } direct[] = {{"listen", OPT_LISTEN},
                  {"advertise", OPT_ADVERTISE},
                  {"credentials", OPT_CREDENTIALS},
                  {"engine", OPT_ENGINE},
                  {"tls-cert", OPT_TLS_CERT},
                  {"tls-key", OPT_TLS_KEY},
                  {"etcd", OPT_CLUSTER_ETCD},
                  {"cluster", OPT_CLUSTER_NAME},
                  {"node", OPT_NODE_NAME},
                  {"domain", OPT_NODE_DOMAIN},
                  {"weight", OPT_NODE_WEIGHT},
                  {"cluster-key", OPT_CLUSTER_KEY_FILE},
                  {"peer-listen", OPT_CLUSTER_PEER_LISTEN}};
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
        .peer_max = (uint32_t)conf_u64(c, OPT_HTTP_PEER_CONNECTIONS),
        .heads_max = (uint32_t)conf_u64(c, OPT_HTTP_HEADS),
        .requests_max = (uint32_t)conf_u64(c, OPT_HTTP_REQUESTS),
        .waiting_max = (uint32_t)conf_u64(c, OPT_HTTP_WAITING),
        .wait_ms = conf_u64(c, OPT_HTTP_WAIT),
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

static const char *
text_or_null(const struct conf *c, enum conf_option id)
{
    return conf_text(c, id)[0] != '\0' ? conf_text(c, id) : NULL;
}

/* What may change while it serves. */
static void
take_live(const struct conf *c, struct node_live *out)
{
    *out = (struct node_live){
        .credentials = text_or_null(c, OPT_CREDENTIALS),
        .tls_cert = text_or_null(c, OPT_TLS_CERT),
        .tls_key = text_or_null(c, OPT_TLS_KEY),
        .access_log = conf_bool(c, OPT_LOG_ACCESS),
        .log_level = (enum log_level)conf_enum(c, OPT_LOG_LEVEL),
        .log_format = (enum log_format)conf_enum(c, OPT_LOG_FORMAT),
    };
}

static void
take_node(const struct conf *c, struct node_options *o)
{
    static const enum rt_engine engines[] = {RT_AUTO, RT_URING, RT_EPOLL};
    size_t domains = 0;

    take_live(c, &o->live);
    o->audit = text_or_null(c, OPT_LOG_AUDIT);
    o->skew_s = conf_u64(c, OPT_S3_CLOCK_SKEW) / 1000;
    o->auth = conf_bool(c, OPT_AUTH);
    o->advertise = text_or_null(c, OPT_ADVERTISE);
    o->token_key_file = text_or_null(c, OPT_AIS_TOKEN_KEY_FILE);
    o->promote_dir = text_or_null(c, OPT_AIS_PROMOTE_DIR);
    o->download_private = conf_bool(c, OPT_AIS_DOWNLOAD_PRIVATE);
    o->insecure_http = conf_bool(c, OPT_INSECURE_HTTP);
    o->region = conf_text(c, OPT_S3_REGION);
    o->domains = conf_list(c, OPT_S3_DOMAINS, &domains);
    o->domain_count = (unsigned)domains;
    o->bench_objects = conf_bool(c, OPT_BENCH_OBJECTS);
    o->memory_limit = conf_u64(c, OPT_MEMORY_LIMIT);
    o->block_cache_bytes = conf_u64(c, OPT_MEMORY_BLOCK_CACHE);
    o->cache_budget = conf_u64(c, OPT_CACHE_BUDGET);
    o->readahead = (unsigned)conf_u64(c, OPT_CACHE_READAHEAD);
    o->cache_large = conf_u64(c, OPT_CACHE_LARGE);
    o->cache_chunk = conf_u64(c, OPT_CACHE_CHUNK);
    o->reshard_memory = conf_u64(c, OPT_RESHARD_MEMORY);
    o->reshard_spill = conf_u64(c, OPT_RESHARD_SPILL);
    o->shard_index_bytes = conf_u64(c, OPT_SHARD_INDEXES);
    o->cache_high = (unsigned)conf_u64(c, OPT_CACHE_HIGH);
    o->cache_low = (unsigned)conf_u64(c, OPT_CACHE_LOW);
    o->segment_bytes = conf_u64(c, OPT_DISK_SEGMENT_BYTES);
    o->index_map_bytes = conf_u64(c, OPT_INDEX_MAP_SIZE);
    o->index_interval_ms = conf_u64(c, OPT_INDEX_INTERVAL);
    o->store_limits = (struct store_limits){
        .errors =
            conf_u64(c, OPT_DISK_ERRORS) > 0 ? conf_u64(c, OPT_DISK_ERRORS) : UINT64_MAX,
        .error_window_ms = conf_u64(c, OPT_DISK_ERROR_WINDOW),
        .slow_ms = conf_u64(c, OPT_DISK_SLOW),
        .slow_leave_ms = conf_u64(c, OPT_DISK_SLOW_LEAVE),
        .stall_ms = conf_u64(c, OPT_DISK_STALL),
    };
    o->scrub_rate = conf_u64(c, OPT_SCRUB_RATE);
    o->scrub_pass_ms = conf_u64(c, OPT_SCRUB_PASS);
    o->rebalance_rate = conf_u64(c, OPT_DISK_REBALANCE_RATE);
    o->memtable_bytes = conf_u64(c, OPT_MEMORY_MEMTABLE);
    o->drain_ms = conf_u64(c, OPT_DRAIN_TIMEOUT);
    o->backend.retry_ms = conf_u64(c, OPT_BACKEND_RETRY_TIME);
    o->backend.retries = (unsigned)conf_u64(c, OPT_BACKEND_RETRIES);
    o->backend.timeout_ms = conf_u64(c, OPT_BACKEND_TIMEOUT);
    o->backend.connect_ms = conf_u64(c, OPT_BACKEND_CONNECT_TIMEOUT);
    o->backend.connections = (unsigned)conf_u64(c, OPT_BACKEND_CONNECTIONS);
    o->backend.rate = conf_u64(c, OPT_BACKEND_RATE);
    o->backend.key_file = text_or_null(c, OPT_SECRETS_KEY_FILE);
    o->backend.ca_file = text_or_null(c, OPT_BACKEND_CA_FILE);
    o->backend.proxy = (struct s3_proxy_options){
        .http = conf_text(c, OPT_BACKEND_HTTP_PROXY),
        .https = conf_text(c, OPT_BACKEND_HTTPS_PROXY),
        .except = conf_text(c, OPT_BACKEND_NO_PROXY),
        .credentials = conf_text(c, OPT_BACKEND_PROXY_CREDENTIALS)};
    take_http(c, &o->http);
    o->rt = (struct rt_options){
        .engine = engines[conf_enum(c, OPT_ENGINE)],
        .loops = (unsigned)conf_u64(c, OPT_LOOPS),
        .workers = (unsigned)conf_u64(c, OPT_WORKERS),
        .fibers_max = (unsigned)conf_u64(c, OPT_FIBERS),
        .turn_limit_ms = conf_u64(c, OPT_TURN_LIMIT),
        .iobuf_bytes = conf_u64(c, OPT_MEMORY_BUFFERS),
        .pin = true,
    };
    log_set_level(o->live.log_level);
    log_set_format(o->live.log_format);
}

/* ---- reading it again ---- */

/* The configuration in force, and the one that a reload has read. */
struct source {
    const struct args *args;
    struct conf *now, *next; /* owned */
};

static enum err
serve_reload(struct node_live *out, void *arg, struct errbuf *eb)
{
    struct source *s = arg;
    enum err rc;

    conf_free(&s->next);
    s->next = conf_new();
    rc = load_conf(s->args, s->next, eb);
    if (rc == ERR_OK)
        take_live(s->next, out);
    return rc;
}

static void
tell_change(enum conf_option id, bool live, const char *from, const char *to, void *arg)
{
    (void)arg;
    LOG(live ? LOG_INFO : LOG_WARN, live ? "conf.changed" : "conf.waits",
        live ? "changed" : "changed in the configuration, waits for a restart",
        L_TEXT("option", conf_option_name(id)), L_TEXT("from", from), L_TEXT("to", to));
}

static void
reloaded(bool taken, void *arg)
{
    struct source *s = arg;

    if (taken) {
        LOG0(LOG_INFO, "conf.reloaded",
             "configuration, users and certificate were read again");
        conf_compare(s->now, s->next, tell_change, NULL);
        conf_free(&s->now);
        s->now = s->next;
        s->next = NULL;
    }
    conf_free(&s->next);
}

/* Where a client on this machine finds it: an address that stands for all is none to connect to. */
static const char *
reachable(const char *addr)
{
    return strcmp(addr, "0.0.0.0") == 0 ? "127.0.0.1"
           : strcmp(addr, "::") == 0    ? "::1"
                                        : addr;
}

/* A line that can be pasted. With TLS the server is not asked for its keys before it is trusted: they are named. */
static void
say_try(const struct node_ready *r, const struct conf *c)
{
    const char *me = program_invocation_name, *addr = reachable(r->addr);
    bool v6 = strchr(addr, ':') != NULL;

    printf("Try:      eval \"$(%s env --endpoint-url http%s://%s%s%s:%u", me,
           r->tls ? "s" : "", v6 ? "[" : "", addr, v6 ? "]" : "", r->port);
    if (r->tls || r->keys_needed)
        printf(" --credentials '%s'", r->credentials);
    if (r->tls)
        printf(" --ca-bundle '%s'", conf_text(c, OPT_TLS_CERT));
    printf(")\"  &&  %s mb s3://test  &&  %s cp README.md s3://test/\n", me, me);
    if (r->tls)
        printf("          (--ca-bundle is for a certificate of your own that names this "
               "address)\n");
}

/* What answers, where the keys are, what to type next. */
static void
serve_on_ready(const struct node_ready *r, void *arg)
{
    char space[NUM_SIZE_TEXT];
    bool v6 = strchr(r->addr, ':') != NULL;
    const struct source *s = arg;

    printf("Forebay %s  data", FOREBAY_VERSION);
    for (unsigned i = 0; i < r->dir_count; i++)
        printf(" %s", r->dirs[i]);
    printf(" (%s free)  engine %s\n", num_size_text(r->free_bytes, space), r->engine);
    printf("%s http%s://%s%s%s:%u\n", r->tls ? "S3/HTTPS " : "S3/HTTP  ",
           r->tls ? "s" : "", v6 ? "[" : "", r->addr, v6 ? "]" : "", r->port);
    printf("Keys      %s%s\n", r->credentials,
           r->keys_needed ? "" : "   (loopback: none needed)");
    printf("Health    /_/livez /_/readyz   Metrics /_/metrics\n");
    say_try(r, s->now);
    fflush(stdout);
}

/* Keys are in this process's memory: no core dump, and no debugger of the same user attaches. Sanitizers trace their own
 * process, so their builds may be looked at. */
static void
hide_memory(const struct conf *c)
{
    static const struct rlimit none = {0, 0};

    if (conf_bool(c, OPT_CORE_DUMPS))
        return;
    if (setrlimit(RLIMIT_CORE, &none) != 0)
        LOG0(LOG_WARN, "serve.core_limit", "the limit of core dumps cannot be set");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (prctl(PR_SET_DUMPABLE, 0) != 0)
        LOG0(LOG_WARN, "serve.dumpable", "core dumps cannot be forbidden");
#endif
}

static enum err
make_folder(const char *dir, struct errbuf *eb)
{
    if (mkdir(dir, 0700) == 0 || errno == EEXIST)
        return ERR_OK;
    return err_errno(eb, errno == EACCES ? ERR_DENIED : ERR_IO, errno,
                     "the folder \"%s\" cannot be made", dir);
}

/* Folders by their paths from the root: a list of disks outlives the folder this was typed in. A disk that is left out may be an id, or
 * stand in the list as it was typed once: it is given both ways. */
struct typed {
    char **dirs; /* owned, as what they hold */
    char *without[2 * WITHOUT_MAX];
    unsigned count, without_count;
};

static void
typed_take(struct typed *t, const struct args *a)
{
    const char *one;

    t->count = (unsigned)a->count;
    t->dirs = xcalloc(a->count + 1, sizeof *t->dirs);
    for (size_t i = 0; i < a->count; i++)
        t->dirs[i] = local_absolute(a->at[i]);
    for (unsigned i = 0; i < WITHOUT_MAX && (one = args_nth(a, "without", i)) != NULL;
         i++) {
        t->without[t->without_count++] = xstrdup(one);
        if (one[0] != '/')
            t->without[t->without_count++] = local_absolute(one);
    }
}

static void
typed_fini(struct typed *t)
{
    for (unsigned i = 0; i < t->count; i++)
        free(t->dirs[i]);
    for (unsigned i = 0; i < t->without_count; i++)
        free(t->without[i]);
    free(t->dirs);
}

static enum exit_code
serve_run(const struct args *a)
{
    struct typed typed = {0};
    struct node_options o = {.on_ready = serve_on_ready};
    struct conf *c = conf_new(); /* the node borrows its texts to the end */
    struct source source = {.args = a};
    struct serve_cluster cluster = {0};
    struct errbuf eb = {{0}};
    char *addr = NULL;
    enum err rc = load_conf(a, c, &eb);

    if (rc == ERR_OK)
        rc = serve_split_address("listen", conf_text(c, OPT_LISTEN), &addr, &o.port, &eb);
    if (rc == ERR_OK)
        rc = serve_cluster_take(c, &o, &cluster, &eb);
    if (rc != ERR_OK) {
        serve_cluster_fini(&cluster);
        free(addr);
        conf_free(&c);
        return cli_usage(&eb, &verb);
    }
    typed_take(&typed, a);
    o.dirs = (const char *const *)typed.dirs;
    o.dir_count = typed.count;
    o.without = (const char *const *)typed.without;
    o.without_count = typed.without_count;
    o.dirs_not_empty = args_has(a, "not-empty");
    o.addr = addr;
    take_node(c, &o);
    hide_memory(c);
    rc = rt_limits_check(conf_u64(c, OPT_DISK_SEGMENT_BYTES), &eb);
    if (rc == ERR_OK)
        rc = make_folder(o.dirs[0], &eb);
    source.now = conf_new(); /* a copy: it goes when a reload is taken */
    if (rc == ERR_OK)
        rc = load_conf(a, source.now, &eb);
    o.reload = serve_reload;
    o.reloaded = reloaded;
    o.arg = &source;
    if (rc == ERR_OK)
        rc = node_serve(&o, &eb);
    conf_free(&source.now);
    conf_free(&source.next);
    typed_fini(&typed);
    serve_cluster_fini(&cluster);
    free(addr);
    conf_free(&c);
    if (rc == ERR_OK)
        return EXIT_OK_;
    (void)cli_fail(rc, &eb);
    if (rc == ERR_EXISTS && strstr(eb.text, strerror(EADDRINUSE)) != NULL)
        fputs("  Another program has that port: --listen ADDR:PORT names another.\n",
              stderr);
    return cli_exit_of(rc);
}

const struct cli_verb cli_serve = {&verb, serve_run};
