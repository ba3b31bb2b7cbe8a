/* cloud: backends by their settings, and what all their calls share: retries within a budget, counting. */
#include "cloud/cloud.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/ip.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "client/identity.h"
#include "cloud/internal.h"
#include "rt/loop.h"

#define RENEW_S             300 /* before they expire */
#define RENEW_RETRY_S       10  /* after a failed renewal */
#define SECRET_BYTES_MAX    KIB(16)
#define CONNECTIONS_DEFAULT 64

enum err
cloud_start(const struct cloud_options *o, struct cloud **out, struct errbuf *eb)
{
    struct cloud *c;
    struct proxies proxies;
    enum err rc = s3_proxies_find(&o->proxy, &proxies, eb);

    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    c = xcalloc(1, sizeof *c);
    c->proxies = proxies;
    if (o->secrets != NULL)
        rc = secrets_open(o->secrets, o->state, o->key_file, &c->secrets, eb);
    if (rc != ERR_OK) {
        proxies_fini(&c->proxies);
        free(c);
        return rc;
    }
    c->options = *o;
    if (c->secrets != NULL && o->shared.meta != NULL)
        secrets_share(c->secrets, &o->shared);
    if (c->options.retry_ms == 0)
        c->options.retry_ms = 20000;
    c->clients = xcalloc(rt_loop_count(), sizeof(struct client_set));
    for (unsigned i = 0; i < rt_loop_count(); i++)
        table_init(&c->clients[i].by_settings, CLIENTS_MAX);
    *out = c;
    return ERR_OK;
}

void
cloud_stop(struct cloud **cp)
{
    struct cloud *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    for (unsigned i = 0; i < rt_loop_count(); i++) {
        TABLE_EACH(&c->clients[i].by_settings, place)
        {
            struct cloud_client *cc = place->value;

            s3_client_free(&cc->s3);
            free(cc->settings);
            free(cc);
        }
        table_fini(&c->clients[i].by_settings);
    }
    endpoints_fini(&c->endpoints);
    free(c->clients);
    proxies_fini(&c->proxies);
    secrets_close(&c->secrets);
    free(c);
}

/* Buckets behind the same endpoint are slow, and down, together. */
static const char *
endpoint_name(const struct map_backend *b)
{
    return b->endpoint != NULL ? b->endpoint : b->region != NULL ? b->region : "";
}

bool
cloud_any_down(const struct cloud *c)
{
    return endpoints_any_down(&c->endpoints);
}

bool
cloud_is_down(struct cloud *c, const struct map_bucket *b)
{
    return cloud_any_down(c) &&
           endpoint_is_down(&c->endpoints, endpoint_name(&b->backend));
}

struct secrets *
cloud_secrets(struct cloud *c)
{
    return c->secrets;
}

/* ---- credentials ---- */

static bool
has_line_end(const char *text)
{
    return text != NULL && strpbrk(text, "\r\n") != NULL;
}

enum err
cloud_credentials_store(struct cloud *c, const char *hint,
                        const struct s3_credentials *cr, char name[CLOUD_SECRET_NAME],
                        struct errbuf *eb)
{
    unsigned char random[8];
    char hex[2 * sizeof random + 1];
    char *text;
    enum err rc;

    name[0] = '\0';
    if (has_line_end(cr->access_key) || has_line_end(cr->secret_key) ||
        has_line_end(cr->session_token))
        return err_set(eb, ERR_BAD_REQUEST, "keys must not contain line ends");
    text =
        xasprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n%s%s%s",
                  cr->access_key, cr->secret_key,
                  cr->session_token != NULL ? "aws_session_token = " : "",
                  cr->session_token != NULL ? cr->session_token : "",
                  cr->session_token != NULL ? "\n" : "");
    rt_random(random, sizeof random);
    hex_encode(random, sizeof random, hex);
    snprintf(name, CLOUD_SECRET_NAME, "%.64s-%s", hint, hex);
    rc = secrets_store(c->secrets, name, span_of(text), eb);
    OPENSSL_cleanse(text, strlen(text));
    free(text);
    return rc;
}

void
cloud_credentials_remove(struct cloud *c, const char *name)
{
    struct errbuf eb = {{0}};
    struct rt_shield shield;
    enum err rc;

    if (name == NULL || name[0] == '\0')
        return;
    rt_shield_begin(&shield);
    rc = secrets_remove(c->secrets, name, &eb);
    rt_shield_end(&shield);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        LOG(LOG_WARN, "backend.secret", eb.text, L_TEXT("name", name));
}

static char *
value_of(char *text, const char *name)
{
    char *at = strstr(text, name), *end;

    if (at == NULL)
        return NULL;
    at += strlen(name);
    end = strchr(at, '\n');
    return end != NULL ? xmemdup0(at, (size_t)(end - at)) : xstrdup(at);
}

static enum err
load_stored(struct cloud *c, const char *name, struct s3_credentials *out,
            struct errbuf *eb)
{
    struct buf set;
    char *text;
    enum err rc;

    buf_init(&set, SECRET_BYTES_MAX);
    rc = secrets_load(c->secrets, name, &set, eb);
    buf_putc(&set, '\0');
    if (rc != ERR_OK) {
        buf_fini(&set);
        err_prefix(eb, "the stored keys of bucket \"%s\"", name);
        return rc;
    }
    text = set.at;
    *out = (struct s3_credentials){
        .access_key = value_of(text, "aws_access_key_id = "),
        .secret_key = value_of(text, "aws_secret_access_key = "),
        .session_token = value_of(text, "aws_session_token = "),
    };
    OPENSSL_cleanse(text, set.len);
    buf_fini(&set);
    return out->access_key != NULL && out->secret_key != NULL
               ? ERR_OK
               : err_set(eb, ERR_CORRUPT, "the stored keys of bucket \"%s\" are damaged",
                         name);
}

/* The server's own keys, which may expire. None means anonymous. */
static enum err
load_own(struct cloud *c, struct s3_identity *out, struct errbuf *eb)
{
    enum err rc = s3_identity_find(c->options.ca_file, &c->proxies, out, eb);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        err_prefix(eb, "the server's own keys");
    return rc;
}

/* ---- clients: one for each settings on each loop ---- */

static char *
settings_text(const struct map_backend *b)
{
    return xasprintf("%s\n%s\n%s\n%d%d%d%d", b->endpoint != NULL ? b->endpoint : "",
                     b->region != NULL ? b->region : "",
                     b->credentials == NULL ? "own" : b->credentials, b->path_style,
                     b->plain_http, b->requester_pays, (int)b->network);
}

/* The administrator names an endpoint; DNS decides where the name leads (promise S8). */
static unsigned
refused_networks(enum map_network allowed)
{
    static const unsigned never =
        1u << IP_LOOPBACK | 1u << IP_LINK_LOCAL | 1u << IP_SPECIAL;

    switch (allowed) {
    case MAP_NETWORK_ANY: /* only an address that is written out leads to a cloud's metadata */
        return 1u << IP_LINK_LOCAL;
    case MAP_NETWORK_PUBLIC:
        return never | 1u << IP_PRIVATE;
    case MAP_NETWORK_UNSAID:
    case MAP_NETWORK_PRIVATE:
        break;
    }
    return never;
}

/* The region becomes part of a host name. */
static enum err
check_region(const char *region, struct errbuf *eb)
{
    size_t len = strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-_");

    return len > 0 && len < CLOUD_REGION_TEXT && region[len] == '\0'
               ? ERR_OK
               : err_set(eb, ERR_BAD_REQUEST,
                         "region \"%.64s\": expected lower-case letters, digits, '-' and "
                         "'_', at most %d",
                         region, CLOUD_REGION_TEXT - 1);
}

enum err
cloud_client_make(struct cloud *c, const struct map_backend *b, struct s3_client **out,
                  int64_t *expires_s, struct errbuf *eb)
{
    struct s3_options o = {.ca_file = c->options.ca_file,
                           .connect_ms = c->options.connect_ms,
                           .first_byte_ms = c->options.timeout_ms,
                           .idle_ms = c->options.timeout_ms,
                           .connections = c->options.connections,
                           .proxies = &c->proxies,
                           .refuse = refused_networks(b->network)};
    struct s3_identity own = {0};
    char *endpoint = NULL;
    enum err rc = ERR_OK;

    *expires_s = 0;
    if (b->credentials == NULL) {
        rc = load_own(c, &own, eb);
        o.credentials = own.keys;
        own.keys = (struct s3_credentials){0};
        *expires_s = own.expires_s;
    } else if (b->credentials[0] != '\0')
        rc = load_stored(c, b->credentials, &o.credentials, eb);
    if (rc == ERR_OK) {
        o.region = b->region != NULL    ? b->region
                   : own.region != NULL ? own.region
                                        : "us-east-1";
        if (b->endpoint == NULL)
            rc = check_region(o.region, eb);
        if (b->endpoint == NULL)
            endpoint = xasprintf("https://s3.%s.amazonaws.com", o.region);
        o.endpoint = b->endpoint != NULL ? b->endpoint : endpoint;
        o.virtual_host = !b->path_style && !b->plain_http;
        o.plain = b->plain_http;
        o.requester_pays = b->requester_pays;
        if (rc == ERR_OK)
            rc = s3_client_new(&o, out, eb);
    }
    s3_credentials_fini(&o.credentials);
    s3_identity_fini(&own);
    free(endpoint);
    return rc;
}

/* One fiber renews expiring keys before they expire; the others use the old ones while they last. */
static enum err
renew_keys(struct cloud *c, struct cloud_client *cc, struct errbuf *eb)
{
    int64_t now_s = (int64_t)(rt_wall_ns() / 1000000000);
    struct s3_identity own = {0};
    enum err rc = ERR_OK;

    if (cc->expires_s == 0 || now_s + RENEW_S < cc->expires_s)
        return ERR_OK;
    while (cc->renewing && now_s >= cc->expires_s && rc == ERR_OK)
        rc = rt_cond_wait(&cc->renewed, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "the wait for new keys was cancelled");
    if (cc->renewing || now_s + RENEW_S < cc->expires_s ||
        (now_s < cc->expires_s && rt_now_ns() < cc->renew_ns))
        return ERR_OK;
    assert(!cc->renewing);
    cc->renewing = true;
    cc->renew_ns = rt_now_ns() + RENEW_RETRY_S * 1000000000ull;
    rc = s3_identity_find(c->options.ca_file, &c->proxies, &own, eb);
    if (rc == ERR_OK) {
        s3_client_set_credentials(cc->s3, &own.keys);
        cc->expires_s = own.expires_s;
    } else {
        LOG(LOG_WARN, "backend.keys", "the keys could not be renewed",
            L_TEXT("why", eb->text));
        rc = now_s < cc->expires_s ? ERR_OK : ERR_DENIED;
    }
    s3_identity_fini(&own);
    assert(cc->renewing);
    cc->renewing = false;
    rt_cond_broadcast(&cc->renewed);
    return rc;
}

enum err
cloud_client_of(struct cloud *c, const struct map_backend *b, struct cloud_client **out,
                struct errbuf *eb)
{
    struct client_set *set = &c->clients[rt_loop_index()];
    char *settings = settings_text(b);
    struct cloud_client *cc = table_get(&set->by_settings, span_of(settings)), *other;
    enum err rc = ERR_OK;

    if (cc != NULL) {
        free(settings);
        *out = cc;
        return renew_keys(c, cc, eb);
    }
    cc = xcalloc(1, sizeof *cc);
    assert(settings[0] != '\0');
    cc->settings = settings;
    cc->endpoint = endpoint_of(&c->endpoints, endpoint_name(b), c->options.rate);
    rt_cond_init(&cc->renewed);
    throttle_init(&cc->throttle, c->options.connections != 0 ? c->options.connections
                                                             : CONNECTIONS_DEFAULT);
    rc =
        cloud_client_make(c, b, &cc->s3, &cc->expires_s,
                          eb); /* may switch: another fiber may have made one meanwhile */
    other = table_get(&set->by_settings, span_of(settings));
    if (rc == ERR_OK && other == NULL &&
        !table_put(&set->by_settings, span_of(settings), cc))
        rc = err_set(eb, ERR_BUSY, "over %u different backends are in use", CLIENTS_MAX);
    if (rc == ERR_OK && other == NULL) {
        *out = cc;
        return ERR_OK;
    }
    s3_client_free(&cc->s3);
    free(cc->settings);
    free(cc);
    if (rc == ERR_OK)
        *out = other;
    return rc;
}

/* ---- a backend that is down, or says that it is too much ---- */

enum err
cloud_check_breaker(struct cloud_client *cc, struct s3_failure *f, struct errbuf *eb)
{
    uint64_t left_ms;

    if (breaker_allows(&cc->breaker, rt_now_ns(), &left_ms))
        return ERR_OK;
    *f = (struct s3_failure){0};
    return err_set(eb, ERR_BACKEND,
                   "it did not answer the last %u calls and is asked again in %.1f s",
                   MAX(cc->breaker.failures, (unsigned)BREAKER_FAILURES),
                   (double)left_ms / 1000);
}

static bool
says_slow_down(const struct s3_failure *f)
{
    return f->status == 503 || f->status == 429;
}

void
cloud_report(struct cloud_client *cc, enum err rc, const struct s3_failure *f)
{
    enum breaker_outcome what = BREAKER_ANSWERED;
    bool changed;

    if (rc == ERR_CANCELLED)
        what = BREAKER_UNKNOWN;
    else if (rc != ERR_OK && !says_slow_down(f) && (f->status == 0 || f->status >= 500))
        what = BREAKER_NO_ANSWER;
    if (rc != ERR_OK && says_slow_down(f) &&
        throttle_slow_down(&cc->throttle, rt_now_ns()))
        LOG(LOG_INFO, "backend.slow_down", "the backend wants fewer transfers at once",
            L_U64("now", (uint64_t)cc->throttle.limit));
    changed = breaker_report(&cc->breaker, what, rt_now_ns());
    if (what == BREAKER_ANSWERED)
        endpoint_mark_up(cc->endpoint);
    else if (what == BREAKER_NO_ANSWER && breaker_is_open(&cc->breaker))
        endpoint_mark_down(cc->endpoint);
    if (changed) {
        char where[256];

        snprintf(where, sizeof where, "%.*s", (int)strcspn(cc->settings, "\n"),
                 cc->settings);
        LOG(LOG_WARN, "backend.breaker",
            breaker_is_open(&cc->breaker) ? "the backend does not answer: misses fail at "
                                            "once, what is here is served"
                                          : "the backend answers again",
            L_TEXT("backend", where));
    }
}

/* ---- repeating ---- */

void
retry_begin(struct retry *r, const struct cloud *c)
{
    *r = (struct retry){.until = deadline_in_ms(c->options.retry_ms),
                        .left = c->options.retries,
                        .base_ms = RETRY_BASE_MS};
}

/* Full jitter: between zero and a bound that doubles. */
bool
retry_wait(struct retry *r, const struct s3_failure *f, enum err rc)
{
    uint64_t bound = MIN(r->base_ms << MIN(r->tries, 10u), RETRY_BOUND_MS), wait;
    uint32_t random;

    assert(r->base_ms > 0);
    metric_add(M_BACKEND_ERRORS, 0, 1);
    if (!f->retry || rc == ERR_CANCELLED || rt_cancelled() || r->left-- == 0)
        return false;
    rt_random(&random, sizeof random);
    wait = MAX(random % (bound + 1), f->retry_after_ms);
    if (rt_now_ns() + wait * 1000000u >= r->until.at_ns)
        return false;
    r->tries++;
    return rt_sleep_ms(wait) == ERR_OK;
}

/* The error for the client: the backend's own words, marked as the backend's. */
enum err
backend_error(enum err rc, struct errbuf *eb)
{
    switch (rc) {
    case ERR_NOT_FOUND:
    case ERR_NO_UPLOAD:
    case ERR_CANCELLED:
    case ERR_PRECONDITION:
    case ERR_TOO_LARGE:
    case ERR_NOT_IMPLEMENTED:
        return rc;
    case ERR_BAD_REQUEST: /* a clear refusal: a retry gets the same */
    case ERR_DENIED:
        err_prefix(eb, "the backend");
        return rc;
    case ERR_OK:
    case ERR_QUOTA:
    case ERR_NO_BUCKET:
    case ERR_NOT_ALLOWED:
    case ERR_TIMEOUT:
    case ERR_EXISTS:
    case ERR_NOT_EMPTY:
    case ERR_NOT_MODIFIED:
    case ERR_RANGE:
    case ERR_BAD_DIGEST:
    case ERR_INCOMPLETE:
    case ERR_IO:
    case ERR_CORRUPT:
    case ERR_INTERNAL:
    case ERR_BACKEND:
    case ERR_BUSY:
    case ERR_CLOSED:
    case ERR_UNAVAILABLE:
    case ERR_NO_SPACE:
    case ERR_COUNT_:
        break;
    }
    err_prefix(eb, "the backend");
    return ERR_BACKEND;
}
