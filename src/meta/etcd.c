/* etcd: meta on the key-value store of a cluster, through its JSON gateway. */
#include "meta/etcd.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/loop.h"
#include "rt/time.h"

#define TIMEOUT_MS 10000u
#define FIRST_LIMIT                                                                      \
    64u /* pairs of the first request of a page; the next ones by their size */
#define LEAST_LIMIT   16u
#define PAIR_OVERHEAD 16u /* as `embedded` counts, so that pages are alike */

static struct etcd *
etcd_of(struct meta *m)
{
    return CONTAINER_OF(m, struct etcd, base);
}

static struct deadline
etcd_deadline(const struct etcd *e)
{
    assert(e->timeout_ms > 0);
    return deadline_sooner(rt_scope_now(), deadline_in_ms(e->timeout_ms));
}

/* ---- pages ---- */

struct page_read {
    struct etcd *e;
    const struct meta_range *range;
    struct meta_pair *pairs; /* owned; room for range->max */
    struct arena *a;         /* of the caller */
    struct meta_page *out;
    size_t bytes;
    enum err rc;
    struct errbuf *eb;
};

/* False: the page is full. */
static bool
page_add(struct page_read *p, const struct meta_pair *pair)
{
    size_t bytes = pair->key.len + pair->value.len;
    char *copy;

    assert(p->out->count < p->range->max);
    if (p->out->count > 0 && p->bytes + bytes > META_PAGE_BYTES) {
        p->out->more = true;
        return false;
    }
    copy = arena_try(p->a, bytes);
    if (copy == NULL) {
        p->rc = err_set(p->eb, ERR_TOO_LARGE,
                        "%u keys of the cluster's state are over the limit",
                        p->out->count + 1);
        return false;
    }
    memcpy(copy, pair->key.at, pair->key.len);
    if (pair->value.len > 0)
        memcpy(copy + pair->key.len, pair->value.at, pair->value.len);
    p->pairs[p->out->count++] =
        (struct meta_pair){.key = {copy, pair->key.len},
                           .value = {copy + pair->key.len, pair->value.len},
                           .revision = pair->revision};
    p->bytes += bytes + PAIR_OVERHEAD;
    return true;
}

static enum err
range_read(struct etcd *e, const struct meta_range *r, uint32_t limit, uint64_t revision,
           struct arena *scratch, struct etcd_found *found, struct errbuf *eb)
{
    uint64_t seen = e->seen;
    struct buf body, reply;
    bool maybe;
    enum err rc;

    buf_init(&body, KIB(8));
    buf_init(&reply, ETCD_REPLY_MAX);
    etcd_put_range(&body, etcd_prefix(e), r, limit, revision);
    assert(!body.full);
    rc = etcd_call(
        e, &(struct etcd_request){.path = "/v3/kv/range", .body = buf_span(&body)},
        etcd_deadline(e), &reply, &maybe, eb);
    if (rc == ERR_OK)
        rc = etcd_found_parse(buf_span(&reply), etcd_prefix(e), scratch, found, eb);
    if (rc == ERR_OK)
        rc = etcd_check_head(e, found->cluster, found->revision, seen, eb);
    if (rc == ERR_RANGE)
        rc = err_set(eb, ERR_BUSY, "revision %llu of the cluster's state is gone",
                     (unsigned long long)revision);
    buf_fini(&body);
    buf_fini(&reply);
    return rc;
}

static uint32_t
next_limit(const struct page_read *p)
{
    uint32_t left = p->range->max - p->out->count;
    size_t room = META_PAGE_BYTES - MIN(p->bytes, META_PAGE_BYTES);
    size_t each = p->out->count > 0 ? p->bytes / p->out->count : META_PAGE_BYTES;
    size_t wanted = p->out->count > 0 ? MAX(room / each + 1, LEAST_LIMIT) : FIRST_LIMIT;

    assert(left > 0);
    return (uint32_t)MIN(wanted, left);
}

/* One request of the page: *go stays true when there may be more to read. */
static void
page_step(struct page_read *p, struct meta_range *at, uint32_t *most, bool *go)
{
    struct arena *scratch = arena_new(16384, ETCD_REPLY_MAX);
    uint32_t limit = MIN(next_limit(p), *most);
    struct etcd_found found = {0};
    bool added = true;

    p->rc = range_read(p->e, at, limit, p->out->revision, scratch, &found, p->eb);
    if (p->rc == ERR_TOO_LARGE && limit > 1) { /* values are larger than before */
        *most = limit / 2;
        p->rc = ERR_OK;
        arena_free(&scratch);
        return;
    }
    if (p->rc == ERR_OK && p->out->revision == 0)
        p->out->revision = found.revision;
    for (uint32_t i = 0; p->rc == ERR_OK && added && i < found.count; i++)
        added = page_add(p, &found.pairs[i]);
    if (p->rc == ERR_OK && added) {
        p->out->more = found.more;
        if (p->out->count > 0)
            at->after = p->pairs[p->out->count - 1].key;
    }
    *go = p->rc == ERR_OK && added && found.more && p->out->count < p->range->max;
    arena_free(&scratch);
}

static void
etcd_page_work(void *arg)
{
    struct page_read *p = arg;
    struct meta_range at = *p->range;
    uint32_t most = META_PAGE_MAX;
    bool go = true;

    assert(p->out->count == 0);
    p->out->revision = p->range->revision;
    while (go)
        page_step(p, &at, &most, &go);
}

/* Runs `fn` on loop 0, where all of this backend lives. */
static enum err
on_loop_0(fiber_fn *fn, void *arg, struct errbuf *eb)
{
    enum err rc;

    if (rt_loop_index() == 0) {
        fn(arg);
        return ERR_OK;
    }
    rc = rt_call_cancellable(0, fn, arg);
    return rc == ERR_OK ? rc : err_set(eb, rc, "no fiber for a call to etcd");
}

static enum err
etcd_page(struct meta *base, const struct meta_range *r, struct arena *a,
          struct meta_page *out, struct errbuf *eb)
{
    struct page_read p = {.e = etcd_of(base), .range = r, .a = a, .out = out, .eb = eb};
    enum err rc;

    assert(r->max > 0);
    assert(r->max <= META_PAGE_MAX);
    p.pairs = xmalloc(r->max * sizeof *p.pairs);
    rc = on_loop_0(etcd_page_work, &p, eb);
    if (rc == ERR_OK)
        rc = p.rc;
    if (rc == ERR_OK) {
        out->pairs = arena_try(a, MAX(out->count, 1u) * sizeof *out->pairs);
        if (out->pairs == NULL)
            rc = err_set(eb, ERR_TOO_LARGE,
                         "%u keys of the cluster's state are over the limit", out->count);
        else if (out->count > 0)
            memcpy(out->pairs, p.pairs, out->count * sizeof *out->pairs);
    }
    free(p.pairs);
    return rc;
}

/* ---- transactions ---- */

struct txn_call {
    struct etcd *e;
    const struct meta_txn *t;
    struct arena *a; /* of the caller; NULL without reads */
    struct meta_result *out;
    struct errbuf *eb;
    uint64_t
        failed_revision; /* of the key whose condition did not hold; 0: there is none */
    enum err rc;
};

static bool
has_condition(const struct meta_txn *t)
{
    for (uint32_t i = 0; i < t->change_count; i++) {
        if (t->changes[i].if_revision != META_ANY)
            return true;
    }
    return false;
}

static enum err
copy_reads(struct txn_call *c, const struct meta_pair *from)
{
    uint32_t count = c->t->read_count;
    struct meta_pair *reads;

    if (count == 0)
        return ERR_OK;
    assert(c->a != NULL);
    reads = arena_try(c->a, count * sizeof *reads);
    for (uint32_t i = 0; reads != NULL && i < count; i++) {
        struct span key = c->t->reads[i];
        char *copy = arena_try(c->a, key.len + from[i].value.len);

        if (copy == NULL) {
            reads = NULL;
            break;
        }
        memcpy(copy, key.at, key.len);
        if (from[i].value.len > 0)
            memcpy(copy + key.len, from[i].value.at, from[i].value.len);
        reads[i] = (struct meta_pair){.key = {copy, key.len},
                                      .value = {copy + key.len, from[i].value.len},
                                      .revision = from[i].revision};
    }
    c->out->reads = reads;
    return reads != NULL
               ? ERR_OK
               : err_set(c->eb, ERR_TOO_LARGE,
                         "%u keys of the cluster's state are over the limit", count);
}

/* The first condition that does not hold, by the revisions that came with the refusal. */
static enum err
txn_refused(struct txn_call *c, const struct etcd_outcome *o)
{
    uint32_t at = 0;
    bool found = false;

    for (uint32_t i = 0; i < c->t->change_count; i++) {
        if (c->t->changes[i].if_revision == META_ANY)
            continue;
        assert(at < o->read_count);
        if (!found && o->reads[at].revision != c->t->changes[i].if_revision) {
            c->out->failed = i;
            c->failed_revision = o->reads[at].revision;
            found = true;
        }
        at++;
    }
    if (!found)
        return err_set(c->eb, ERR_BACKEND, "etcd refuses a change whose conditions hold");
    if (copy_reads(c, o->reads + at) != ERR_OK)
        return ERR_TOO_LARGE;
    return err_set(c->eb, ERR_PRECONDITION, "\"%.*s\" has changed meanwhile",
                   SPAN_ARG(c->t->changes[c->out->failed].key));
}

/* How many answers the branch that etcd took must have. */
static uint32_t
reads_wanted(const struct meta_txn *t, bool succeeded)
{
    uint32_t count = t->read_count;

    for (uint32_t i = 0; !succeeded && i < t->change_count; i++)
        count += t->changes[i].if_revision != META_ANY;
    return count;
}

static enum err
txn_answered(struct txn_call *c, struct span reply, uint64_t seen, struct arena *scratch)
{
    struct etcd_outcome o;
    enum err rc = etcd_outcome_parse(reply, scratch, &o, c->eb);

    if (rc == ERR_OK)
        rc = etcd_check_head(c->e, o.cluster, o.revision, seen, c->eb);
    if (rc == ERR_OK && o.read_count != reads_wanted(c->t, o.succeeded))
        rc = err_set(c->eb, ERR_BACKEND, "etcd's answer has %u reads, %u were asked for",
                     o.read_count, reads_wanted(c->t, o.succeeded));
    if (rc != ERR_OK)
        return rc;
    c->out->revision = o.revision;
    return o.succeeded ? copy_reads(c, o.reads) : txn_refused(c, &o);
}

/* Sends it once. *maybe: etcd may have made the changes, or may still do so. */
static enum err
txn_send(struct txn_call *c, struct deadline by, bool *maybe)
{
    struct arena *scratch = arena_new(16384, ETCD_REPLY_MAX);
    bool changes = c->t->change_count > 0;
    uint64_t seen = c->e->seen;
    struct buf body, reply;
    enum err rc;

    buf_init(&body, 2 * META_TXN_BYTES_MAX + KIB(256));
    buf_init(&reply, ETCD_REPLY_MAX);
    etcd_put_txn(&body, etcd_prefix(c->e), c->t);
    assert(!body.full);
    rc = etcd_call(c->e,
                   &(struct etcd_request){
                       .path = "/v3/kv/txn", .body = buf_span(&body), .changes = changes},
                   by, &reply, maybe, c->eb);
    if (rc == ERR_OK) {
        rc = txn_answered(c, buf_span(&reply), seen, scratch);
        *maybe = changes && rc != ERR_OK && rc != ERR_PRECONDITION;
    }
#ifdef FB_TEST_HOOKS
    if (rc == ERR_OK && changes && meta_lose_outcome) {
        meta_lose_outcome = false;
        *maybe = true;
        rc = err_set(c->eb, ERR_IO, "planted: the answer is lost");
    }
#endif
    buf_fini(&body);
    buf_fini(&reply);
    arena_free(&scratch);
    return rc;
}

/* Whether this transaction made the change that stands there: all values are its own, of one revision. */
static enum err
txn_stands(struct txn_call *c, struct deadline by, bool *mine, uint64_t *revision)
{
    assert(c->t->change_count > 0);
    assert(c->out->failed < c->t->change_count);
    *mine = false;
    *revision = 0;
    for (uint32_t i = 0; i < c->t->change_count; i++) {
        const struct meta_change *change = &c->t->changes[i];
        struct arena *a = arena_new(4096, ETCD_REPLY_MAX);
        struct meta_txn t = {.reads = &change->key, .read_count = 1};
        struct meta_result result = {0};
        struct txn_call read = {.e = c->e, .t = &t, .a = a, .out = &result, .eb = c->eb};
        bool maybe, equal = false;
        enum err rc = txn_send(&read, by, &maybe);

        if (rc == ERR_OK) {
            const struct meta_pair *p = &result.reads[0];

            equal = change->remove
                        ? p->revision == 0
                        : p->revision > 0 && span_eq(p->value, change->value) &&
                              (*revision == 0 || *revision == p->revision);
            if (!change->remove)
                *revision = p->revision;
        }
        arena_free(&a);
        if (rc != ERR_OK || !equal)
            return rc;
    }
    *mine = *revision > 0; /* removals alone prove nothing */
    return ERR_OK;
}

/* An answer was lost. The same transaction is sent again: its conditions hold only if the lost one was not carried out,
 * and after it the lost one cannot be any more. */
static enum err
txn_resolve(struct txn_call *c, struct deadline by, uint64_t seen_before, enum err rc)
{
    bool maybe = true, mine = false;
    uint64_t revision;

    while (maybe && !deadline_passed(by) && !rt_cancelled())
        rc = txn_send(c, by, &maybe);
    if (!maybe && rc == ERR_OK)
        return ERR_OK;
    c->out->unknown = true;
    if (maybe || rc != ERR_PRECONDITION)
        return rc == ERR_PRECONDITION ? ERR_UNAVAILABLE : rc;
    if (c->failed_revision > 0 && c->failed_revision <= seen_before) {
        c->out->unknown = false; /* it could not hold when the first one was sent */
        return ERR_PRECONDITION;
    }
    rc = txn_stands(c, by, &mine, &revision);
    if (rc == ERR_OK && mine) {
        c->out->unknown = false;
        c->out->revision = revision;
        c->out->failed = 0;
        return ERR_OK; /* the reads came with the refusal, behind the change */
    }
    c->out->reads = NULL;
    return err_set(c->eb, ERR_UNAVAILABLE,
                   "etcd's answer was lost, and \"%.*s\" has changed",
                   SPAN_ARG(c->t->changes[c->out->failed].key));
}

static void
txn_run(void *arg)
{
    struct txn_call *c = arg;
    struct deadline by = etcd_deadline(c->e);
    uint64_t seen = c->e->seen;
    bool maybe;

    assert(c->t->read_count == 0 || c->a != NULL);
    c->rc = txn_send(c, by, &maybe);
    if (!maybe)
        return;
    assert(c->rc != ERR_OK);
    if (has_condition(c->t))
        c->rc = txn_resolve(c, by, seen, c->rc);
    else
        c->out->unknown = true;
}

static enum err
etcd_apply(struct meta *base, const struct meta_txn *t, struct arena *a,
           struct meta_result *out, struct errbuf *eb)
{
    struct txn_call c = {.e = etcd_of(base), .t = t, .a = a, .out = out, .eb = eb};
    enum err rc;

    if (t->change_count + t->read_count == 0)
        return ERR_OK;
    rc = on_loop_0(txn_run, &c, eb);
    if (rc == ERR_OK)
        rc = c.rc;
    for (uint32_t i = 0; i < t->change_count && (rc == ERR_OK || out->unknown); i++)
        meta_changed(base, t->changes[i].key);
    return rc;
}

/* ---- open and close ---- */

static void
etcd_free(struct meta *base)
{
    struct etcd *e = etcd_of(base);

    etcd_watch_stop(e);
    http_client_free(&e->http);
    tls_context_free(&e->tls);
    for (unsigned i = 0; i < e->endpoint_count; i++)
        free(e->endpoints[i].host);
    if (e->password != NULL)
        hash_wipe(e->password, strlen(e->password));
    free(e->password);
    free(e->user);
    free(e->token);
    free(e->prefix);
    free(e);
}

static const struct meta_ops etcd_ops = {
    .name = "etcd",
    .page = etcd_page,
    .apply = etcd_apply,
    .close = etcd_free,
};

/* "http://host:port", with or without '/' behind it. */
static enum err
endpoint_parse(struct span text, struct etcd_endpoint *out, struct errbuf *eb)
{
    struct span rest = text, host;
    uint64_t port = 0;
    const char *colon;

    out->tls = span_starts(text, SPAN("https://"));
    if (!out->tls && !span_starts(text, SPAN("http://")))
        return err_set(
            eb, ERR_BAD_REQUEST,
            "etcd \"%.*s\": an address is http://HOST:PORT or https://HOST:PORT",
            SPAN_ARG(text));
    rest = span_from(rest, out->tls ? 8 : 7);
    if (rest.len > 0 && rest.at[rest.len - 1] == '/')
        rest.len--;
    colon = rest.len > 0 ? memrchr(rest.at, ':', rest.len) : NULL;
    host = (struct span){rest.at, colon != NULL ? (size_t)(colon - rest.at) : 0};
    if (host.len > 2 && host.at[0] == '[' && host.at[host.len - 1] == ']')
        host = (struct span){host.at + 1, host.len - 2};
    if (host.len == 0 || host.len > 253 || memchr(host.at, '/', host.len) != NULL ||
        num_u64(span_from(rest, (size_t)(colon - rest.at) + 1), &port) != ERR_OK ||
        port == 0 || port > UINT16_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "etcd \"%.*s\": a host and a port are needed, as in "
                       "http://127.0.0.1:2379",
                       SPAN_ARG(text));
    out->host = xmemdup0(host.at, host.len);
    out->port = (uint16_t)port;
    return ERR_OK;
}

static enum err
endpoints_parse(struct etcd *e, struct span all, struct errbuf *eb)
{
    while (all.len > 0) {
        const char *comma = span_find(all, ',');
        struct span one = {all.at, comma != NULL ? (size_t)(comma - all.at) : all.len};
        enum err rc;

        if (e->endpoint_count == META_ENDPOINTS_MAX)
            return err_set(eb, ERR_BAD_REQUEST, "etcd has at most %u addresses",
                           META_ENDPOINTS_MAX);
        rc = endpoint_parse(span_trim(one), &e->endpoints[e->endpoint_count], eb);
        if (rc != ERR_OK)
            return rc;
        e->endpoint_count++;
        if (e->endpoints[e->endpoint_count - 1].tls != e->endpoints[0].tls)
            return err_set(eb, ERR_BAD_REQUEST,
                           "etcd's addresses are all http or all https, not both");
        all = span_from(all, one.len + 1);
    }
    return e->endpoint_count > 0 ? ERR_OK
                                 : err_set(eb, ERR_BAD_REQUEST,
                                           "etcd has no address: give http://HOST:PORT");
}

static enum err
etcd_connect(struct etcd *e, const struct meta_etcd_options *o, struct errbuf *eb)
{
    struct http_client_options http = {.connect_ms = 2000};
    enum err rc = endpoints_parse(e, span_of(o->endpoints), eb);

    if (rc == ERR_OK && e->endpoints[0].tls)
        rc = tls_client_new(&(struct tls_client_options){.ca_file = o->ca_file}, &e->tls,
                            eb);
    http.tls = e->tls;
    return rc == ERR_OK ? http_client_new(&http, &e->http, eb) : rc;
}

/* The first answer: revision and name of the cluster, from which the watch goes on. */
static enum err
etcd_first_read(struct etcd *e, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, KIB(256));
    struct meta_range r = {.max = 1};
    struct meta_page page;
    enum err rc = meta_page(&e->base, &r, a, &page, eb);

    arena_free(&a);
    return rc == ERR_OK ? etcd_watch_start(e, eb) : rc;
}

enum err
meta_open_etcd(const struct meta_etcd_options *o, struct meta **out, struct errbuf *eb)
{
    struct etcd *e = xcalloc(1, sizeof *e);
    enum err rc = ERR_OK;

    assert(rt_loop_index() == 0);
    *out = NULL;
    e->base.ops = &etcd_ops;
    e->prefix = xstrdup(o->prefix != NULL ? o->prefix : "");
    e->prefix_len = strlen(e->prefix);
    e->user = o->user != NULL ? xstrdup(o->user) : NULL;
    e->password = o->password != NULL ? xstrdup(o->password) : NULL;
    e->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : TIMEOUT_MS;
    if (e->prefix_len == 0 || e->prefix_len > ETCD_PREFIX_MAX)
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "a prefix in etcd of %zu bytes, 1 to %u are possible", e->prefix_len,
                     ETCD_PREFIX_MAX);
    if (rc == ERR_OK)
        rc = etcd_connect(e, o, eb);
    if (rc == ERR_OK)
        rc = etcd_first_read(e, eb);
    if (rc != ERR_OK) {
        etcd_free(&e->base);
        return rc;
    }
    *out = &e->base;
    return ERR_OK;
}

uint64_t
meta_cluster_id(const struct meta *m)
{
    return m->ops == &etcd_ops ? CONTAINER_OF(m, const struct etcd, base)->cluster : 0;
}
