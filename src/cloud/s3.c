/* s3: backends that speak S3. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "cloud/internal.h"
#include "rt/file.h"
#include "wire/etag.h"
#include "wire/s3tags.h"

#define PUT_PIECE (128u << 10)
#define YOUNG_MS  2000 /* both times have whole seconds */
#define CLOCK_SKEW_MS                                                                    \
    60000 /* a Last-Modified later than this is not of the remote's clock */

static struct span
remote_bucket(const struct map_bucket *b)
{
    return span_of(b->backend.bucket);
}

static enum err
probe_attempt(struct cloud *c, const struct map_backend *b, struct s3_failure *f,
              struct errbuf *eb)
{
    struct s3_list l = {.bucket = span_of(b->bucket), .max_keys = 1};
    struct arena *a = arena_new(KIB(16), MIB(32));
    struct s3_client *s3 = NULL;
    struct s3_list_page page;
    int64_t expires_s;
    enum err rc = cloud_client_make(c, b, &s3, &expires_s, eb);

    /* Not a client of the table: wrong keys must leave nothing behind. */
    metric_add(M_BACKEND_REQUESTS, B_LIST, 1);
    if (rc == ERR_OK)
        rc = s3_list_objects(s3, &l, a, &page, f, eb);
    s3_client_free(&s3);
    arena_free(&a);
    return rc;
}

/* Finds the network that the name leads to. The answer does not matter: there is no request that all web servers
 * answer. */
static enum err
probe_web(struct cloud *c, struct map_backend *b, struct errbuf *eb)
{
    for (enum map_network n = MAP_NETWORK_PUBLIC;
         b->network == MAP_NETWORK_UNSAID && n <= MAP_NETWORK_PRIVATE; n++) {
        struct map_backend there = *b;
        struct arena *a = arena_new(KIB(16), MIB(1));
        struct s3_client *s3 = NULL;
        struct s3_object_info info;
        struct s3_failure f = {0};
        int64_t expires_s;
        enum err rc;

        there.network = n;
        rc = cloud_client_make(c, &there, &s3, &expires_s, eb);
        if (rc == ERR_OK)
            rc = s3_head(s3, span_of(b->bucket), SPAN(""), a, &info, &f, eb);
        if (rc == ERR_OK || f.status != 0)
            b->network = n;
        s3_client_free(&s3);
        arena_free(&a);
        if (rc == ERR_CANCELLED || (rc == ERR_DENIED && n == MAP_NETWORK_PRIVATE))
            return rc;
        if (rc != ERR_DENIED)
            break;
    }
    err_forget(eb);
    return ERR_OK;
}

/* Uses the narrowest network that the name leads to, unless one is given. */
static enum err
probe_network(struct cloud *c, struct map_backend *b, struct s3_failure *f,
              struct errbuf *eb)
{
    bool unsaid = b->network == MAP_NETWORK_UNSAID;
    enum err rc;

    if (unsaid)
        b->network = MAP_NETWORK_PUBLIC;
    rc = probe_attempt(c, b, f, eb);
    if (!unsaid || rc != ERR_DENIED || f->status != 0)
        return rc;
    b->network = MAP_NETWORK_PRIVATE;
    *f = (struct s3_failure){0};
    return probe_attempt(c, b, f, eb);
}

enum err
cloud_probe(struct cloud *c, struct map_backend *b, char region[CLOUD_REGION_TEXT],
            struct errbuf *eb)
{
    struct map_backend there;
    struct s3_failure f = {0};
    enum err rc;

    region[0] = '\0';
    if (b->plain_http)
        return probe_web(c, b, eb);
    rc = probe_network(c, b, &f, eb);
    there = *b;
    if (rc != ERR_OK && rc != ERR_CANCELLED && b->region == NULL && f.region[0] != '\0') {
        snprintf(region, CLOUD_REGION_TEXT, "%s", f.region);
        there.region = region;
        rc = probe_attempt(c, &there, &f, eb);
    }
    if (rc != ERR_OK)
        err_prefix(eb, "the remote bucket \"%s\" at %s cannot be read", b->bucket,
                   b->endpoint != NULL ? b->endpoint : "AWS");
    return rc;
}

/* A web server returns bytes by name; other requests are not common to all of them. */
static enum err
refuse_plain(const struct map_bucket *b, const char *what, struct errbuf *eb)
{
    return b->backend.plain_http ? err_set(eb, ERR_NOT_IMPLEMENTED,
                                           "bucket \"%s\" is a plain web server (%s): %s",
                                           b->name, b->backend.endpoint, what)
                                 : ERR_OK;
}
#define READ_ONLY "it is read only here"

/* One call, repeated while a retry may help:
 *
 *     attempt_begin(&t, c, b, B_HEAD, eb);
 *     while (attempt_next(&t))
 *         t.rc = s3_head(t.s3, ..., &t.failure, eb);
 *     return attempt_end(&t, eb);
 */
struct attempt {
    struct cloud_client *client;
    struct s3_client *s3;
    struct retry retry;
    struct s3_failure failure; /* of the last one */
    unsigned label;            /* of M_BACKEND_REQUESTS */
    bool begun;
    bool asking; /* its outcome is to be reported */
    struct errbuf *eb;
    bool in_doubt; /* one try had no clear answer: it may have happened */
    enum err rc;
};

static void
attempt_begin(struct attempt *t, struct cloud *c, const struct map_bucket *b,
              unsigned label, struct errbuf *eb)
{
    *t = (struct attempt){.label = label, .eb = eb};
    t->rc = cloud_client_of(c, &b->backend, &t->client, eb);
    if (t->rc == ERR_OK)
        t->s3 = t->client->s3;
    retry_begin(&t->retry, c);
}

static bool
attempt_next(struct attempt *t)
{
    bool more = !t->begun ? t->rc == ERR_OK : t->rc != ERR_OK && t->rc != ERR_NOT_FOUND;

    assert(!t->asking || t->begun);
    if (t->asking)
        cloud_report(t->client, t->rc, &t->failure);
    t->asking = false;
    if (t->begun && more) {
        int status = t->failure.status;

        t->in_doubt = t->in_doubt || (status == 0 && !t->failure.unsent) ||
                      status == 200 || status >= 500;
        more = retry_wait(&t->retry, &t->failure, t->rc);
    }
    t->begun = true;
    if (more && cloud_check_breaker(t->client, &t->failure, t->eb) != ERR_OK) {
        t->rc = ERR_BACKEND;
        more = false;
    }
    t->asking = more;
    if (more)
        metric_add(M_BACKEND_REQUESTS, t->label, 1);
    return more;
}

static enum err
attempt_end(struct attempt *t, struct errbuf *eb)
{
    return t->rc == ERR_OK ? ERR_OK : backend_error(t->rc, eb);
}

static void
head_asked(struct attempt *t, struct cloud *c, const struct map_bucket *b,
           struct span key, struct arena *a, struct s3_object_info *out,
           struct errbuf *eb)
{
    attempt_begin(t, c, b, B_HEAD, eb);
    while (attempt_next(t))
        t->rc = s3_head(t->s3, remote_bucket(b), key, a, out, &t->failure, eb);
}

/* 2xx with an error: the head lacks required fields. */
static bool
is_refusal(const struct attempt *t)
{
    return t->rc == ERR_DENIED || t->rc == ERR_BAD_REQUEST ||
           t->rc == ERR_NOT_IMPLEMENTED ||
           (t->rc == ERR_BACKEND && t->failure.status / 100 == 2);
}

enum err
cloud_head_or_refused(struct cloud *c, const struct map_bucket *b, struct span key,
                      struct arena *a, struct s3_object_info *out, bool *refused,
                      struct errbuf *eb)
{
    struct attempt t;

    head_asked(&t, c, b, key, a, out, eb);
    *refused = is_refusal(&t);
    return *refused ? ERR_OK : attempt_end(&t, eb);
}

enum err
cloud_head(struct cloud *c, const struct map_bucket *b, struct span key, struct arena *a,
           struct s3_object_info *out, struct errbuf *eb)
{
    struct attempt t;

    head_asked(&t, c, b, key, a, out, eb);
    return attempt_end(&t, eb);
}

/* ---- GET, taken up again where it broke ---- */

bool
cloud_etag_is_young(const struct s3_object_info *from)
{
    int64_t age_ms = from->date_ms - from->mtime_ms;
    unsigned char md5[16];
    unsigned parts;

    return !etag_parse(from->etag, md5, &parts) && from->version_id.len == 0 &&
           from->date_ms > 0 && from->mtime_ms > 0 && age_ms >= -CLOCK_SKEW_MS &&
           age_ms < YOUNG_MS;
}

struct cloud_get {
    struct cloud *c;
    const struct map_bucket *bucket; /* one reference */
    char *key;
    size_t key_len;
    struct arena *arena; /* owned: the head of a resumed answer */
    char *
        etag; /* of the version being read; "": the backend gives none that identifies it */
    struct cloud_client *client;
    bool entered; /* it has a place in the throttle */
    struct s3_call *call;
    uint64_t at, end; /* the next byte, and the end */
    struct retry retry;
    uint64_t renew_at;  /* a break behind this byte gets a new budget */
    const bool *urgent; /* borrowed; NULL: a reader waits for it */
};

static enum err
get_attempt(struct cloud_get *g, bool ranged, uint64_t last, struct arena *a,
            struct s3_object_info *out, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_get get = {.bucket = remote_bucket(g->bucket),
                         .key = {g->key, g->key_len},
                         .range = ranged,
                         .first = g->at,
                         .last = last,
                         .if_match = span_of(g->etag),
                         .checksum_mode = !ranged};

    enum err rc = cloud_check_breaker(g->client, f, eb);

    if (rc != ERR_OK)
        return rc;
    metric_add(M_BACKEND_REQUESTS, B_GET, 1);
    rc = s3_get_begin(g->client->s3, &get, a, out, &g->call, f, eb);
    cloud_report(g->client, rc, f);
    return rc;
}

/* Gets the client, and a place among its transfers. */
static enum err
get_enter(struct cloud_get *g, struct errbuf *eb)
{
    enum err rc = cloud_client_of(g->c, &g->bucket->backend, &g->client, eb);

    if (rc == ERR_OK)
        rc = throttle_enter(&g->client->throttle);
    g->entered = rc == ERR_OK;
    return rc;
}

enum err
cloud_get_begin(struct cloud *c, const struct map_bucket *b, struct span key,
                uint64_t first, uint64_t last, struct span if_match, struct arena *a,
                struct s3_object_info *out, struct cloud_get **get, struct errbuf *eb)
{
    struct cloud_get *g = xcalloc(1, sizeof *g);
    bool ranged = first > 0 || last != UINT64_MAX;
    struct s3_failure f;
    enum err rc;

    *get = NULL;
    g->c = c;
    g->bucket = map_bucket_ref(b);
    g->key = xmemdup0(key.at, key.len);
    g->key_len = key.len;
    g->etag = xmemdup0(if_match.at, if_match.len);
    g->at = first;
    g->arena = arena_new(KIB(4), MIB(1));
    retry_begin(&g->retry, c);
    rc = get_enter(g, eb);
    while (rc == ERR_OK) {
        rc = get_attempt(g, ranged, last, a, out, &f, eb);
        if (rc == ERR_OK)
            break;
        if (rc != ERR_NOT_FOUND && retry_wait(&g->retry, &f, rc))
            rc = ERR_OK;
        else
            break;
    }
    if (rc != ERR_OK) {
        cloud_get_end(&g);
        return rc == ERR_RANGE && ranged ? rc : backend_error(rc, eb);
    }
    g->end = first + out->body_length;
    assert(g->call != NULL);
    assert(g->end >= first);
    g->renew_at = first;
    free(g->etag);
    g->etag = xmemdup0(out->etag.at, cloud_etag_is_young(out) ? 0 : out->etag.len);
    *get = g;
    return ERR_OK;
}

/* Opens a new connection at the missing byte, for the same version. */
static enum err
get_resume(struct cloud_get *g, struct errbuf *eb)
{
    struct s3_object_info info;
    struct s3_failure f;
    enum err rc = ERR_OK;

    assert(g->at < g->end);
    s3_end(&g->call);
    if (g->etag[0] == '\0')
        return err_set(eb, ERR_BACKEND,
                       "the transfer broke and the backend gives no ETag that tells "
                       "versions apart to go on by");
    while (rc == ERR_OK) {
        arena_reset(g->arena);
        rc = get_attempt(g, true, g->end - 1, g->arena, &info, &f, eb);
        if (rc == ERR_OK &&
            (info.range_first != g->at || info.body_length != g->end - g->at))
            return err_set(eb, ERR_BACKEND,
                           "the backend answered another range than was asked");
        if (rc == ERR_OK)
            return ERR_OK;
        if (rc == ERR_PRECONDITION || rc == ERR_NOT_FOUND)
            return err_set(eb, ERR_BACKEND,
                           "the object changed at the backend while it was read");
        if (retry_wait(&g->retry, &f, rc))
            rc = ERR_OK;
    }
    return rc;
}

/* Frees the connection for the next transfer as soon as the last byte is here. */
static void
get_leave(struct cloud_get *g)
{
    assert(g->at <= g->end || g->end == 0);
    if (g->entered && g->call != NULL && g->at == g->end)
        throttle_success(&g->client->throttle);
    s3_end(&g->call);
    if (g->entered)
        throttle_leave(&g->client->throttle);
    g->entered = false;
}

enum err
cloud_get_read(struct cloud_get *g, void *buf, size_t len, size_t *n, struct errbuf *eb)
{
    struct s3_failure broken = {.retry = true};

    assert(g->at <= g->end);
    assert(len > 0);
    *n = 0;
    for (;;) {
        enum err rc;

        if (g->at == g->end)
            return ERR_OK;
        rc = endpoint_wait(g->client->endpoint, g->urgent);
        if (rc != ERR_OK)
            return err_set(eb, rc, "the wait for the rate of the backend was cancelled");
        rc = g->call != NULL ? s3_read(g->call, buf, len, n, eb) : ERR_CLOSED;
        if (rc == ERR_OK && *n > 0) {
            assert(*n <= g->end - g->at);
            g->at += *n;
            metric_add(M_BACKEND_BYTES, 0, (int64_t)*n);
            endpoint_consumed(g->client->endpoint, *n);
            if (g->at == g->end)
                get_leave(g);
            return ERR_OK;
        }
        if (rc == ERR_OK) /* the answer was shorter than announced */
            rc = err_set(eb, ERR_INCOMPLETE, "the answer ended early");
        if (rc == ERR_CANCELLED)
            return rc;
        LOG(LOG_INFO, "backend.broke", eb->text, L_U64("at", g->at), L_U64("of", g->end));
        if (g->at >= g->renew_at) {
            retry_begin(&g->retry, g->c);
            g->renew_at = g->at + RETRY_RENEW_BYTES;
        }
        if (!retry_wait(&g->retry, &broken, rc))
            return backend_error(rc, eb);
        rc = get_resume(g, eb);
        if (rc != ERR_OK)
            return backend_error(rc, eb);
    }
}

void
cloud_get_background(struct cloud_get *g, const bool *urgent)
{
    g->urgent = urgent;
}

void
cloud_get_end(struct cloud_get **gp)
{
    struct cloud_get *g = *gp;

    *gp = NULL;
    if (g == NULL)
        return;
    get_leave(g);
    map_bucket_drop(&g->bucket);
    arena_free(&g->arena);
    free(g->key);
    free(g->etag);
    free(g);
}

/* ---- writes ---- */

static enum err
send_body(struct s3_call *call, uint64_t size, cloud_source *read, void *arg,
          struct errbuf *eb)
{
    struct iobuf *buf = NULL;
    uint64_t at = 0;
    enum err rc = iobuf_get(PUT_PIECE, &buf);

    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer is free");
    while (rc == ERR_OK && at < size) {
        size_t n = 0;

        rc = read(arg, at, buf->at, MIN(buf->room, size - at), &n, eb);
        if (rc == ERR_OK && n == 0)
            rc = err_set(eb, ERR_INTERNAL, "the body ended %llu bytes early",
                         (unsigned long long)(size - at));
        if (rc == ERR_OK)
            rc = s3_write(call, buf->at, n, eb);
        if (rc == ERR_OK)
            metric_add(M_BACKEND_BYTES, 1, (int64_t)n);
        at += n;
    }
    iobuf_drop(&buf);
    return rc;
}

static enum err
put_attempt(struct s3_client *s3, const struct s3_put *p, cloud_source *read, void *arg,
            struct arena *a, struct span *etag, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call *call = NULL;
    struct s3_put put = *p;
    bool connected = false;
    enum err rc;

    *f = (struct s3_failure){.retry = true};
    metric_add(M_BACKEND_REQUESTS, B_PUT, 1);
    put.connected = &connected;
    rc = s3_put_begin(s3, &put, &call, eb);
    if (rc == ERR_OK)
        rc = send_body(call, p->size, read, arg, eb);
    if (rc == ERR_OK)
        rc = s3_put_finish(call, a, etag, f, eb);
    f->unsent = !connected;
    s3_end(&call);
    return rc;
}

/* Writes are idempotent, so retries are safe. When the tries end, the outcome is unknown unless the backend
 * refused every try: an answer only speaks for its own try. */
enum err
cloud_put(struct cloud *c, const struct map_bucket *b, const struct s3_put *p,
          cloud_source *read, void *arg, struct arena *a, struct span *etag,
          bool *unknown, struct errbuf *eb)
{
    struct attempt t;
    enum err plain = refuse_plain(b, READ_ONLY, eb);

    *unknown = false;
    if (plain != ERR_OK)
        return plain;
    attempt_begin(&t, c, b, B_PUT, eb);
    while (attempt_next(&t))
        t.rc = put_attempt(t.s3, p, read, arg, a, etag, &t.failure, eb);
    *unknown = t.in_doubt;
    return attempt_end(&t, eb);
}

enum err
cloud_delete(struct cloud *c, const struct map_bucket *b, struct span key,
             const struct s3_header *headers, uint32_t header_count, bool *unknown,
             struct errbuf *eb)
{
    struct attempt t;
    enum err plain = refuse_plain(b, READ_ONLY, eb);

    *unknown = false;
    if (plain != ERR_OK)
        return plain;
    attempt_begin(&t, c, b, B_DELETE, eb);
    while (attempt_next(&t))
        t.rc = s3_delete_if(t.s3, remote_bucket(b), key, headers, header_count,
                            &t.failure, eb);
    *unknown = t.in_doubt;
    return t.rc == ERR_NOT_FOUND && (header_count == 0 || t.in_doubt)
               ? ERR_OK
               : attempt_end(&t, eb);
}

enum err
cloud_tags_get(struct cloud *c, const struct map_bucket *b, struct span key,
               struct arena *a, struct span *tags, struct errbuf *eb)
{
    struct fault f = {0};
    struct span doc = {NULL, 0};
    struct attempt t;
    enum err rc;

    attempt_begin(&t, c, b, B_OTHER, eb);
    while (attempt_next(&t))
        t.rc = s3_tags_get(t.s3, remote_bucket(b), key, a, &doc, &t.failure, eb);
    rc = attempt_end(&t, eb);
    if (rc == ERR_OK &&
        s3tags_parse_document(doc, S3TAGS_OF_BUCKET, a, tags, &f) != ERR_OK)
        rc = err_set(eb, ERR_BACKEND, "the backend's answer is no list of tags");
    return rc;
}

enum err
cloud_tags_set(struct cloud *c, const struct map_bucket *b, struct span key,
               struct span tags, struct errbuf *eb)
{
    struct attempt t;
    struct buf doc;

    buf_init(&doc, KIB(64));
    if (tags.len > 0 && !s3tags_write(tags, &doc)) {
        buf_fini(&doc);
        return err_set(eb, ERR_BAD_REQUEST, "the tags are too long");
    }
    attempt_begin(&t, c, b, B_OTHER, eb);
    while (attempt_next(&t))
        t.rc = s3_tags_set(t.s3, remote_bucket(b), key, buf_span(&doc), &t.failure, eb);
    buf_fini(&doc);
    return attempt_end(&t, eb);
}

enum err
cloud_list(struct cloud *c, const struct map_bucket *b, const struct s3_list *l,
           struct arena *a, struct s3_list_page *out, bool *down, struct errbuf *eb)
{
    struct attempt t;
    enum err plain = refuse_plain(b, "it has no listing; names must be known", eb);

    *down = false;
    if (plain != ERR_OK)
        return plain;
    attempt_begin(&t, c, b, B_LIST, eb);
    while (attempt_next(&t))
        t.rc = s3_list_objects(t.s3, l, a, out, &t.failure, eb);
    *down = t.rc != ERR_OK && t.rc != ERR_CANCELLED &&
            (t.failure.status == 0 || t.failure.status >= 500);
    return attempt_end(&t, eb);
}

enum err
cloud_upload_begin(struct cloud *c, const struct map_bucket *b, struct span key,
                   const struct s3_header *headers, uint32_t count, struct arena *a,
                   struct span *upload_id, struct errbuf *eb)
{
    struct attempt t;
    enum err plain = refuse_plain(b, READ_ONLY, eb);

    if (plain != ERR_OK)
        return plain;
    attempt_begin(&t, c, b, B_OTHER, eb);
    while (attempt_next(&t))
        t.rc = s3_upload_begin(t.s3, remote_bucket(b), key, headers, count, a, upload_id,
                               &t.failure, eb);
    return attempt_end(&t, eb);
}

enum err
cloud_upload_complete(struct cloud *c, const struct map_bucket *b,
                      const struct s3_completion *w, struct arena *a, struct span *etag,
                      bool *unknown, struct errbuf *eb)
{
    struct s3_completion to = *w;
    struct attempt t;

    to.bucket = remote_bucket(b);

    attempt_begin(&t, c, b, B_OTHER, eb);
    while (attempt_next(&t))
        t.rc = s3_upload_complete_if(t.s3, &to, a, etag, &t.failure, eb);
    *unknown = t.in_doubt;
    return attempt_end(&t, eb);
}

enum err
cloud_upload_abort(struct cloud *c, const struct map_bucket *b, struct span key,
                   struct span upload_id, struct errbuf *eb)
{
    struct attempt t;

    attempt_begin(&t, c, b, B_OTHER, eb);
    while (attempt_next(&t))
        t.rc = s3_upload_abort(t.s3, remote_bucket(b), key, upload_id, &t.failure, eb);
    return attempt_end(&t, eb);
}

enum err
cloud_upload_list(struct cloud *c, const struct map_bucket *b,
                  const struct s3_upload_list *l, struct arena *a,
                  struct s3_upload_page *out, struct errbuf *eb)
{
    struct attempt t;
    enum err plain = refuse_plain(b, "it has no uploads", eb);

    if (plain != ERR_OK)
        return plain;
    attempt_begin(&t, c, b, B_LIST, eb);
    while (attempt_next(&t))
        t.rc = s3_upload_list(t.s3, remote_bucket(b), l, a, out, &t.failure, eb);
    return attempt_end(&t, eb);
}

enum err
cloud_part_list(struct cloud *c, const struct map_bucket *b, struct span key,
                struct span upload_id, uint32_t after, uint32_t max, struct arena *a,
                struct s3_part_page *out, struct errbuf *eb)
{
    struct attempt t;

    attempt_begin(&t, c, b, B_LIST, eb);
    while (attempt_next(&t))
        t.rc = s3_part_list(t.s3, remote_bucket(b), key, upload_id, after, max, a, out,
                            &t.failure, eb);
    return attempt_end(&t, eb);
}
