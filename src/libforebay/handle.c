/* handle: opening and closing; the connections of a handle; what a fork does to them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/settings.h"
#include "libforebay/internal.h"

#define CONNECTIONS_MOST 1024u
#define ATTEMPTS_MOST    1000u

/* ---- settings: those of the command line, by its own code ---- */

static const struct flag library_flags[] = {
    {"endpoint-url", 0, "URL", "", false}, {"profile", 0, "NAME", "", false},
    {"region", 0, "NAME", "", false},      {"ca-bundle", 0, "FILE", "", false},
    {"no-verify-tls", 0, NULL, "", false}, {"no-verify-ssl", 0, NULL, "", false},
    {"no-sign", 0, NULL, "", false},       {NULL, 0, NULL, NULL, false},
};
static const struct verb library_verb = {
    .name = "libforebay", .summary = "", .arguments = "", .flags = library_flags};

struct option_words {
    char *at[8]; /* owned */
    int count;
};

static void
option_word(struct option_words *w, const char *flag, const char *value)
{
    assert(w->count < (int)ARRAY_LEN(w->at));
    if (value != NULL)
        w->at[w->count++] = xasprintf("%s=%s", flag, value);
}

static void
option_switch(struct option_words *w, const char *flag, int on)
{
    assert(w->count < (int)ARRAY_LEN(w->at));
    if (on != 0)
        w->at[w->count++] = xstrdup(flag);
}

static enum err
library_settings(const struct forebay_options *o, struct settings *out, struct errbuf *eb)
{
    struct args *args = xcalloc(1, sizeof *args);
    struct option_words words = {.count = 0};
    enum err rc;

    option_word(&words, "--endpoint-url", o->endpoint);
    option_word(&words, "--profile", o->profile);
    option_word(&words, "--region", o->region);
    option_word(&words, "--ca-bundle", o->ca_bundle);
    option_switch(&words, "--no-verify-tls", o->no_verify_tls);
    option_switch(&words, "--no-sign",
                  o->unsigned_requests != 0 || o->access_key != NULL);
    rc = flags_parse(&library_verb, words.count, words.at, args, eb);
    if (rc == ERR_OK)
        rc = settings_find(args, &settings_first, false, out, eb);
    args_fini(args);
    free(args);
    for (int i = 0; i < words.count; i++)
        free(words.at[i]);
    return rc;
}

static const char *
env_of(const char *name, const char *upper)
{
    const char *v = getenv(name);

    return v != NULL && v[0] != '\0' ? v : upper != NULL ? getenv(upper) : NULL;
}

/* As the command line: HTTP_PROXY in upper case is ignored where a web server could set it. */
static enum err
library_proxies(struct proxies *out, struct errbuf *eb)
{
    const char *upper = getenv("REQUEST_METHOD") == NULL ? "HTTP_PROXY" : NULL;

    return proxies_init(out, env_of("http_proxy", upper),
                        env_of("https_proxy", "HTTPS_PROXY"),
                        env_of("no_proxy", "NO_PROXY"), eb);
}

static bool
is_loopback_host(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

static char *
keep_text(const char *s)
{
    return s != NULL ? xstrdup(s) : NULL;
}

/* ---- opening ---- */

static void
take_limits(struct forebay *f, const struct forebay_options *o)
{
    f->connections = MIN(o->connections > 0 ? o->connections : 16, CONNECTIONS_MOST);
    f->attempts = MIN(o->attempts > 0 ? o->attempts : 6, ATTEMPTS_MOST);
    f->connect_ms = o->connect_ms > 0 ? o->connect_ms : 5000;
    f->idle_ms = o->idle_ms > 0 ? o->idle_ms : 60000;
    f->interruptible = o->interruptible != 0;
}

static enum err
take_settings(struct forebay *f, const struct forebay_options *o, struct settings *s,
              struct errbuf *eb)
{
    enum err rc = s3_endpoint_parse(s->endpoint.value, &f->at, eb);

    if (rc != ERR_OK)
        return rc;
    if (o->access_key != NULL && o->secret_key == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "access_key \"%s\" comes without secret_key",
                       o->access_key);
    f->endpoint = xstrdup(s->endpoint.value);
    f->region = xstrdup(s->region.value);
    f->credentials = (struct s3_credentials){
        keep_text(o->access_key), keep_text(o->secret_key), keep_text(o->session_token)};
    if (o->access_key == NULL && s->has_keys) {
        f->credentials = s->keys;
        s->keys = (struct s3_credentials){0};
        f->foreign_keys = strncmp(s->keys_how, "AWS", 3) == 0 &&
                          is_loopback_host(f->at.host) && o->profile == NULL;
    }
    atomic_init(&f->unsigned_requests, f->credentials.access_key == NULL);
    rc = library_proxies(&f->proxies, eb);
    if (rc == ERR_OK && f->at.tls)
        rc = plain_tls_new(s->ca_bundle.value, s->no_verify_tls, &f->tls, eb);
    return rc;
}

int
forebay_open(const struct forebay_options *options, struct forebay **out,
             struct forebay_error *e)
{
    struct forebay_options o = {.size = sizeof o};
    struct forebay *f = xcalloc(1, sizeof *f);
    struct settings s = {0};
    struct errbuf eb = {{0}};
    enum err rc;

    *out = NULL;
    result_clear(e);
    if (options != NULL && options->size < sizeof options->size) {
        free(f);
        return result_invalid(e, "forebay_options.size is %zu: set it to sizeof",
                              options->size);
    }
    if (options != NULL)
        memcpy(&o, options, MIN(options->size, sizeof o));
    take_limits(f, &o);
    f->locked.conns = xcalloc(f->connections, sizeof(struct conn *));
    f->locked.busy = xcalloc(f->connections, sizeof(bool));
    lock_init(&f->locked.lock, LOCK_LIBRARY);
    pthread_cond_init(&f->locked.freed, NULL);
    atomic_init(&f->process, plain_process());
    rc = library_settings(&o, &s, &eb);
    if (rc == ERR_OK)
        rc = take_settings(f, &o, &s, &eb);
    settings_fini(&s);
    if (rc != ERR_OK) {
        forebay_close(&f);
        return result_of(rc, &(struct failure){0}, &eb, e);
    }
    *out = f;
    return FOREBAY_OK;
}

void
conn_free(struct conn **cp)
{
    struct conn *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    plain_close(&c->stream);
    sigv4_cache_free(&c->keys);
    arena_free(&c->arena);
    free(c->in);
    free(c);
}

static void take_over(struct forebay *f);

void
forebay_close(struct forebay **fp)
{
    struct forebay *f = *fp;

    *fp = NULL;
    if (f == NULL)
        return;
    take_over(f);
    for (unsigned i = 0; i < f->connections; i++) {
        assert(!f->locked.busy[i]); /* no call may be in progress */
        conn_free(&f->locked.conns[i]);
    }
    pthread_cond_destroy(&f->locked.freed);
    lock_fini(&f->locked.lock);
    free(f->locked.conns);
    free(f->locked.busy);
    plain_tls_free(&f->tls);
    proxies_fini(&f->proxies);
    s3_endpoint_fini(&f->at);
    s3_credentials_fini(&f->credentials);
    free(f->endpoint);
    free(f->region);
    free(f);
}

const char *
forebay_endpoint(const struct forebay *f)
{
    return f->endpoint;
}

const char *
forebay_version(void)
{
    return FOREBAY_VERSION;
}

/* ---- connections ---- */

/* In a child after fork(): the descriptors are the parent's connections, and the lock may have been held by a thread that
 * does not exist here. One thread takes over, others wait for it. */
static void
take_over(struct forebay *f)
{
    int mine = plain_process(), was = atomic_load(&f->process);

    while (was != mine) {
        if (was < 0) {
            if (plain_sleep_ms(1, false) != ERR_OK)
                abort(); /* it is not interruptible */
            was = atomic_load(&f->process);
            continue;
        }
        if (!atomic_compare_exchange_strong(&f->process, &was, -1))
            continue;
        lock_init(&f->locked.lock, LOCK_LIBRARY);
        pthread_cond_init(&f->locked.freed, NULL);
        for (unsigned i = 0; i < f->connections; i++) {
            struct conn *c = f->locked.conns[i];

            f->locked.conns[i] = NULL;
            if (c != NULL && f->locked.busy[i])
                plain_abandon(&c->stream); /* and *c: a thread of the parent was in it */
            else
                conn_free(&c);
            f->locked.busy[i] = false;
        }
        atomic_store(&f->process, mine);
        was = mine;
    }
}

/* A free slot, rather one with a connection. */
static bool
find_free_slot(const struct forebay *f, unsigned *out)
{
    bool found = false;

    assert(lock_held(&f->locked.lock));
    for (unsigned i = 0; i < f->connections; i++) {
        if (f->locked.busy[i])
            continue;
        if (!found || f->locked.conns[i] != NULL)
            *out = i;
        found = true;
        if (f->locked.conns[i] != NULL)
            break;
    }
    return found;
}

unsigned
handle_acquire(struct forebay *f)
{
    unsigned slot = 0;

    take_over(f);
    lock_acquire(&f->locked.lock);
    while (!find_free_slot(f, &slot))
        lock_wait(&f->locked.lock, &f->locked.freed);
    assert(!f->locked.busy[slot]);
    f->locked.busy[slot] = true;
    lock_release(&f->locked.lock);
    return slot;
}

void
handle_release(struct forebay *f, unsigned slot)
{
    lock_acquire(&f->locked.lock);
    assert(slot < f->connections);
    assert(f->locked.busy[slot]);
    f->locked.busy[slot] = false;
    pthread_cond_signal(&f->locked.freed);
    lock_release(&f->locked.lock);
}
