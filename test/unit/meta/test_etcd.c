/* meta over etcd, against Debian's etcd-server: the suite of all backends, and what happens to real servers: one of three
 * is killed, all are killed and come back, history is compacted, an older backup is restored, users, TLS. Skipped where
 * there is no `etcd`: neither in .tools (tools/unpack.sh etcd-server) nor in the PATH. */
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http/client.h"
#include "unit/meta/suite.h"
#include "unit/rt/certs.h"

#define SERVERS_MAX 3u

struct server {
    pid_t pid;
    uint16_t client, peer; /* ports */
    char folder[64];
};
struct etcds {
    struct server all[SERVERS_MAX];
    unsigned count;
    char urls[200], initial[200];
    const struct certs *certs; /* NULL: plain */
    char root[40];
};

static const char *etcd_path;

static const char *
etcd_find(void)
{
    static const char *const places[] = {".tools/usr/bin/etcd", "/usr/bin/etcd",
                                         "/usr/local/bin/etcd"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (access(places[i], X_OK) == 0)
            return places[i];
    }
    return NULL;
}

/* Below the ports that the kernel gives to clients. */
static uint16_t
port_free(void)
{
    static unsigned next;

    if (next == 0)
        next = (unsigned)getpid() * 37u;
    for (;;) {
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)(12000 + next++ % 18000)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int rc = bind(fd, (struct sockaddr *)&a, sizeof a);

        close(fd);
        if (rc == 0)
            return ntohs(a.sin_port);
    }
}

static void
server_start(struct etcds *e, unsigned index)
{
    struct server *s = &e->all[index];
    const char *scheme = e->certs != NULL ? "https" : "http";
    char name[16], client[64], peer[64], log[128], cert[128], key[128];
    const char *args[40] = {etcd_path,  "--name",
                            name,       "--data-dir",
                            s->folder,  "--listen-client-urls",
                            client,     "--advertise-client-urls",
                            client,     "--listen-peer-urls",
                            peer,       "--initial-advertise-peer-urls",
                            peer,       "--initial-cluster",
                            e->initial, "--unsafe-no-fsync"};
    unsigned n = 15;

    snprintf(name, sizeof name, "n%u", index);
    snprintf(client, sizeof client, "%s://127.0.0.1:%u", scheme, s->client);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%u", s->peer);
    snprintf(log, sizeof log, "%s/log-%u", e->root, index);
    if (e->certs != NULL) {
        args[n++] = "--cert-file";
        args[n++] = certs_path(e->certs, "server", "crt", cert);
        args[n++] = "--key-file";
        args[n++] = certs_path(e->certs, "server", "key", key);
    }
    s->pid = fork();
    if (s->pid != 0)
        return;
    if (freopen(log, "a", stderr) == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(1);
    execv(etcd_path, (char *const *)(uintptr_t)args);
    _exit(127);
}

static void
server_kill(struct server *s, int signo)
{
    if (s->pid <= 0)
        return;
    kill(s->pid, signo);
    while (waitpid(s->pid, NULL, 0) < 0)
        continue;
    s->pid = 0;
}

static void
etcds_start(struct etcds *e, unsigned count, const struct certs *certs)
{
    *e = (struct etcds){.count = count, .certs = certs, .root = "/tmp/fb-etcd-XXXXXX"};
    REQUIRE(mkdtemp(e->root) != NULL);
    for (unsigned i = 0; i < count; i++) {
        struct server *s = &e->all[i];
        size_t urls = strlen(e->urls), initial = strlen(e->initial);

        s->client = port_free();
        s->peer = port_free();
        snprintf(s->folder, sizeof s->folder, "%s/n%u", e->root, i);
        snprintf(e->urls + urls, sizeof e->urls - urls, "%s%s://127.0.0.1:%u",
                 i > 0 ? "," : "", certs != NULL ? "https" : "http", s->client);
        snprintf(e->initial + initial, sizeof e->initial - initial,
                 "%sn%u=http://127.0.0.1:%u", i > 0 ? "," : "", i, s->peer);
    }
    for (unsigned i = 0; i < count; i++)
        server_start(e, i);
}

static void
shell(const char *format, const char *a, const char *b)
{
    char command[300];

    snprintf(command, sizeof command, format, a, b);
    CHECK(system(command) == 0);
}

static void
etcds_stop(struct etcds *e)
{
    for (unsigned i = 0; i < e->count; i++)
        server_kill(&e->all[i], SIGKILL);
    shell("rm -rf '%s'%s", e->root, "");
}

/* Until they answer: they elect a leader first. */
static struct meta *
etcd_open(const struct etcds *e, const char *user, const char *password)
{
    char ca[128];
    struct meta_etcd_options o = {
        .endpoints = e->urls, .prefix = "forebay/t/", .user = user, .password = password};
    struct deadline by = deadline_in_ms(PATIENCE_MS);
    struct errbuf eb = {{0}};
    struct meta *m = NULL;

    if (e->certs != NULL)
        o.ca_file = certs_path(e->certs, "ca", "crt", ca);
    while (meta_open_etcd(&o, &m, &eb) != ERR_OK && !deadline_passed(by))
        (void)!rt_sleep_ms(50);
    if (m == NULL)
        fprintf(stderr, "etcd does not answer: %s\n", eb.text);
    return m;
}

/* Any request to the gateway, as an administrator makes them. */
static void
post(struct http_client *c, const struct etcds *e, const char *path, const char *body)
{
    struct http_call_request r = {.host = "127.0.0.1",
                                  .port = e->all[0].client,
                                  .method = "POST",
                                  .target = span_of(path),
                                  .length = (int64_t)strlen(body)};
    struct errbuf eb = {{0}};
    struct buf out;
    int status = 0;

    buf_init(&out, KIB(64));
    CHECK(http_call_simple(c, &r, span_of(body), &status, &out, NULL, NULL, &eb) ==
          ERR_OK);
    if (status != 200)
        fprintf(stderr, "%s: %.*s\n", path, SPAN_ARG(buf_span(&out)));
    CHECK_U64(status, 200);
    buf_fini(&out);
}

static void
in_world(fiber_fn *fn)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 2};
    struct errbuf eb = {{0}};

    CHECK(rt_run(&o, fn, NULL, &eb) == ERR_OK);
}

/* ---- one server ---- */

static void
one_call_from_loop_1(void *arg)
{
    struct arena *a = arena_new(4096, KIB(64));
    struct meta_pair pair;
    struct errbuf eb = {{0}};

    CHECK(suite_put(arg, "loop/1", "from another loop", META_ANY, NULL) == ERR_OK);
    CHECK(meta_get(arg, SPAN("loop/1"), a, &pair, &eb) == ERR_OK);
    CHECK(span_is(pair.value, "from another loop"));
    arena_free(&a);
}

static void
one_server(void *arg)
{
    struct etcds e;
    struct meta *m;

    (void)arg;
    etcds_start(&e, 1, NULL);
    m = etcd_open(&e, NULL, NULL);
    if (m != NULL) {
        CHECK(meta_cluster_id(m) != 0);
        suite_all(m, true);
        CHECK(rt_call(1, one_call_from_loop_1, m) == ERR_OK);
    }
    meta_close(&m);
    etcds_stop(&e);
}

static void
test_one_server(void)
{
    in_world(one_server);
}

/* ---- three of them ---- */

static unsigned woken;

static void
on_woken(void *arg)
{
    (void)arg;
    woken++;
}

/* A write on `by` reaches the watch of another process (here: another `meta`). */
static void
watch_works(struct meta *writer)
{
    struct deadline by = deadline_in_ms(PATIENCE_MS);

    woken = 0;
    CHECK(suite_put(writer, "w/1", "", META_ANY, NULL) == ERR_OK);
    while (woken == 0 && !deadline_passed(by))
        (void)!rt_sleep_ms(5);
    CHECK(woken > 0);
}

/* Answers may be lost while servers die; a read tells. */
static void
put_until_done(struct meta *m, const char *value)
{
    struct deadline by = deadline_in_ms(PATIENCE_MS);

    while (suite_put(m, "k", value, META_ANY, NULL) != ERR_OK && !deadline_passed(by))
        (void)!rt_sleep_ms(50);
}

static void
three_servers(void *arg)
{
    struct arena *a = arena_new(4096, 1u << 20);
    struct errbuf eb = {{0}};
    struct meta_watch *w = NULL;
    struct meta_pair pair;
    struct etcds e;
    struct meta *m, *other;

    (void)arg;
    etcds_start(&e, 3, NULL);
    m = etcd_open(&e, NULL, NULL);
    other = etcd_open(&e, NULL, NULL);
    REQUIRE(m != NULL && other != NULL);
    CHECK(meta_watch_start(m, SPAN("w/"), on_woken, NULL, &w, &eb) == ERR_OK);
    put_until_done(m, "three");
    server_kill(&e.all[0], SIGKILL); /* the endpoint that is used first */
    put_until_done(m, "two");
    CHECK(meta_get(other, SPAN("k"), a, &pair, &eb) == ERR_OK &&
          span_is(pair.value, "two"));
    watch_works(other);
    server_kill(&e.all[1], SIGKILL); /* no majority: nothing is answered */
    server_kill(&e.all[2], SIGKILL);
    CHECK(meta_get(m, SPAN("k"), a, &pair, &eb) != ERR_OK);
    CHECK_SAYS(eb.text, "127.0.0.1");
    for (unsigned i = 0; i < 3; i++)
        server_start(&e, i);
    put_until_done(m, "back");
    CHECK(meta_get(other, SPAN("k"), a, &pair, &eb) == ERR_OK &&
          span_is(pair.value, "back"));
    watch_works(other);
    meta_watch_stop(&w);
    meta_close(&m);
    meta_close(&other);
    arena_free(&a);
    etcds_stop(&e);
}

static void
test_three_servers(void)
{
    in_world(three_servers);
}

/* ---- history ---- */

/* A revision that was compacted cannot be read; the present one can. */
static void
compacted(struct http_client *c, const struct etcds *e, struct meta *m)
{
    struct arena *a = arena_new(4096, 1u << 20);
    struct meta_range r = {.prefix = SPAN("c/")};
    struct meta_page page;
    struct errbuf eb = {{0}};
    uint64_t last = 0;
    char body[64];

    CHECK(suite_put(m, "c/1", "one", META_ANY, &r.revision) == ERR_OK);
    CHECK(suite_put(m, "c/1", "two", META_ANY, &last) == ERR_OK);
    snprintf(body, sizeof body, "{\"revision\":\"%llu\",\"physical\":true}",
             (unsigned long long)last);
    post(c, e, "/v3/kv/compaction", body);
    CHECK(meta_page(m, &r, a, &page, &eb) == ERR_BUSY);
    r.revision = 0;
    CHECK(meta_page(m, &r, a, &page, &eb) == ERR_OK && page.count == 1);
    arena_free(&a);
}

/* The folder of a server as it was before: etcd starts, and differs from the one that was seen. */
static void
an_old_backup(void *arg)
{
    struct arena *a = arena_new(4096, 1u << 20);
    struct errbuf eb = {{0}};
    struct http_client *c = NULL;
    struct meta_pair pair;
    struct etcds e;
    struct meta *m;
    enum err rc;

    (void)arg;
    CHECK(http_client_new(&(struct http_client_options){0}, &c, &eb) == ERR_OK);
    etcds_start(&e, 1, NULL);
    m = etcd_open(&e, NULL, NULL);
    REQUIRE(m != NULL);
    put_until_done(m, "old");
    server_kill(&e.all[0], SIGTERM);
    shell("cp -r '%s' '%s/backup'", e.all[0].folder, e.root);
    server_start(&e, 0);
    put_until_done(m, "new");
    compacted(c, &e, m);
    server_kill(&e.all[0], SIGTERM);
    shell("rm -rf '%s'%s", e.all[0].folder, "");
    shell("cp -r '%2$s/backup' '%1$s'", e.all[0].folder, e.root);
    server_start(&e, 0);
    do
        rc = meta_get(m, SPAN("k"), a, &pair, &eb);
    while (rc != ERR_OK && strstr(eb.text, "older backup") == NULL && !rt_cancelled());
    CHECK(rc == ERR_UNAVAILABLE);
    CHECK(meta_get(m, SPAN("k"), a, &pair, &eb) == ERR_UNAVAILABLE);
    CHECK_SAYS(eb.text, "docs/cluster.md");
    meta_close(&m);
    http_client_free(&c);
    arena_free(&a);
    etcds_stop(&e);
}

static void
test_an_old_backup(void)
{
    in_world(an_old_backup);
}

/* ---- users ---- */

static void
users(void *arg)
{
    static const char *const steps[][2] = {
        {"/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"r\"}"},
        {"/v3/auth/role/add", "{\"name\":\"root\"}"},
        {"/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}"},
        {"/v3/auth/user/add", "{\"name\":\"bay\",\"password\":\"secret\"}"},
        {"/v3/auth/user/add", "{\"name\":\"guest\",\"password\":\"secret\"}"},
        {"/v3/auth/role/add", "{\"name\":\"bay\"}"},
        /* readwrite (2) on forebay/t/ */
        {"/v3/auth/role/grant",
         "{\"name\":\"bay\",\"perm\":{\"permType\":\"READWRITE\",\"key\":"
         "\"Zm9yZWJheS90Lw==\",\"range_end\":\"Zm9yZWJheS90MA==\"}}"},
        {"/v3/auth/user/grant", "{\"user\":\"bay\",\"role\":\"bay\"}"},
        {"/v3/auth/enable", "{}"},
    };
    struct meta_etcd_options o = {.prefix = "forebay/t/", .user = "bay"};
    struct errbuf eb = {{0}};
    struct http_client *c = NULL;
    struct etcds e;
    struct meta *m, *denied = NULL;

    (void)arg;
    CHECK(http_client_new(&(struct http_client_options){0}, &c, &eb) == ERR_OK);
    etcds_start(&e, 1, NULL);
    m = etcd_open(&e, NULL, NULL);
    meta_close(&m);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        post(c, &e, steps[i][0], steps[i][1]);
    o.endpoints = e.urls;
    o.password = "wrong";
    CHECK(meta_open_etcd(&o, &denied, &eb) == ERR_DENIED);
    CHECK_SAYS(eb.text, "refuses user \"bay\"");
    o.user = NULL;
    CHECK(meta_open_etcd(&o, &denied, &eb) == ERR_DENIED);
    CHECK_SAYS(eb.text, "wants a user");
    o.user = "guest";
    o.password = "secret";
    CHECK(meta_open_etcd(&o, &denied, &eb) == ERR_DENIED);
    CHECK_SAYS(eb.text, "\"forebay/t/\"");
    m = etcd_open(&e, "bay", "secret");
    if (m != NULL)
        suite_all(m, true);
    server_kill(&e.all[0], SIGKILL); /* its tokens are gone with it */
    server_start(&e, 0);
    put_until_done(m, "with a new token");
    meta_close(&m);
    http_client_free(&c);
    etcds_stop(&e);
}

static void
test_users(void)
{
    in_world(users);
}

static void
over_tls(void *arg)
{
    struct certs certs;
    struct meta_etcd_options o = {.prefix = "forebay/t/"};
    struct errbuf eb = {{0}};
    struct meta *m, *denied = NULL;
    struct etcds e;

    (void)arg;
    certs_begin(&certs);
    certs_add(&certs, &(struct cert_wish){.file = "server", .names = "IP:127.0.0.1"});
    etcds_start(&e, 1, &certs);
    m = etcd_open(&e, NULL, NULL);
    if (m != NULL)
        suite_all(m, true);
    o.endpoints = e.urls; /* without its authority */
    o.timeout_ms = 2000;
    CHECK(meta_open_etcd(&o, &denied, &eb) != ERR_OK && denied == NULL);
    CHECK_SAYS(eb.text, "certificate");
    meta_close(&m);
    etcds_stop(&e);
    certs_end(&certs);
}

static void
test_tls(void)
{
    in_world(over_tls);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    etcd_path = etcd_find();
    if (etcd_path == NULL) {
        printf("skipped: no etcd here; `tools/unpack.sh etcd-server` fetches it\n");
        return 0;
    }
    RUN(test_one_server);
    RUN(test_three_servers);
    RUN(test_an_old_backup);
    RUN(test_users);
    RUN(test_tls);
    return check_done();
}
