#include "api/response_cache.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/signature_cache.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "rt/bigmem.h"
#include "rt/loop.h"

#define WAYS     8u
#define SHARE    8u /* all loops together take at most 1/SHARE of the block cache's bytes */
#define TEXT_MAX 672u /* host, target and head */
#define LINE     64u  /* of cache */
#define USUAL    512u /* bytes of an answer that are read each time */

/* Fields that change nothing of a GET's answer. Connection and its like are the HTTP server's. */
#define BIT(f) (UINT64_C(1) << HTTP_##f)
#define PLAIN_FIELDS                                                                     \
    (BIT(HOST) | BIT(USER_AGENT) | BIT(ACCEPT) | BIT(ACCEPT_ENCODING) |                  \
     BIT(CONNECTION) | BIT(KEEP_ALIVE) | BIT(CACHE_CONTROL) |                            \
     BIT(AMZ_SDK_INVOCATION_ID) | BIT(AMZ_SDK_REQUEST))
#define SIGNATURE                                                                        \
    (BIT(AUTHORIZATION) | BIT(AMZ_DATE) | BIT(DATE) | BIT(AMZ_CONTENT_SHA256) |          \
     BIT(AMZ_SECURITY_TOKEN))

struct answer {
    struct object_revalidated again; /* what is looked at first stands in front */
    uint64_t map_serial;
    uint32_t epoch;
    uint16_t host_len, target_len;
    uint16_t form_len, lines_at; /* http_template_make() */
    uint64_t users; /* auth_serial() when `signer` was given it; 0: no signer was */
    const struct auth_key
        *signer;      /* only to be compared, and only while `users` is now */
    bool to_anybody;  /* an unsigned request was given it */
    bool on_loopback; /* which came from there */
    char text[TEXT_MAX];
} __attribute__((aligned(LINE)));
/* One line of cache: whom to look at. 0: nobody. */
struct set {
    uint32_t tags[WAYS];
    uint32_t next; /* to be overwritten */
    uint32_t unused[7];
};
struct table {
    struct set *sets;    /* owned */
    struct answer *kept; /* owned; WAYS a set */
};
struct answers {
    uint64_t set_mask;
    _Atomic uint32_t epoch;
    unsigned loops;
    struct table at[]; /* each its loop's alone; made when it first keeps one */
};

struct answers *
response_cache_new(uint64_t block_cache_bytes)
{
    unsigned loops = rt_loop_count();
    struct answers *a;
    uint64_t sets = 1,
             most = block_cache_bytes / SHARE / loops / (WAYS * sizeof(struct answer));

    if (most == 0)
        return NULL;
    while (2 * sets <= most)
        sets *= 2;
    a = xcalloc(1, sizeof *a + loops * sizeof a->at[0]);
    a->set_mask = sets - 1;
    a->loops = loops;
    return a;
}

void
response_cache_free(struct answers **ap)
{
    struct answers *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    for (unsigned i = 0; i < a->loops; i++) {
        bigmem_free(a->at[i].sets, (a->set_mask + 1) * sizeof *a->at[i].sets);
        bigmem_free(a->at[i].kept, (a->set_mask + 1) * WAYS * sizeof *a->at[i].kept);
    }
    free(a);
}

void
response_cache_forget(struct answers *a)
{
    if (a != NULL)
        atomic_fetch_add(&a->epoch, 1);
}

uint32_t
response_cache_epoch(const struct answers *a)
{
    return a != NULL ? atomic_load_explicit(&a->epoch, memory_order_acquire) : 0;
}

/* ---- which requests ---- */

static bool
is_plain_get(const struct http_request *http, uint64_t allowed)
{
    const struct http_head *h = http->head;

    return h->method == HTTP_METHOD_GET && (h->seen & ~allowed) == 0 &&
           h->unknown_count == 0 && h->query.at == NULL && h->body_length == 0 &&
           !http->draining && h->host.len + h->target.len < TEXT_MAX / 2;
}

bool
request_is_plain_get(const struct http_request *http, bool with_signature)
{
    return is_plain_get(http, with_signature ? PLAIN_FIELDS | SIGNATURE : PLAIN_FIELDS);
}

struct spot {
    struct set *set;
    struct answer *kept; /* of the set */
    uint32_t tag;
};

static uint64_t
response_hash_of(const struct http_head *h)
{
    return hash_xxh3(h->target.at, h->target.len, hash_xxh3(h->host.at, h->host.len, 0));
}

/* False: this loop keeps none yet. */
static bool
spot_of(struct answers *a, const struct http_request *http, struct spot *out)
{
    struct table *t = &a->at[rt_loop_index()];
    uint64_t hash = http->ahead != 0 ? http->ahead : response_hash_of(http->head);

    if (t->sets == NULL)
        return false;
    out->set = &t->sets[hash & a->set_mask];
    out->kept = &t->kept[(hash & a->set_mask) * WAYS];
    out->tag = (uint32_t)(hash >> 32) | 1;
    return true;
}

static bool
is_for(const struct answer *k, const struct http_head *h)
{
    return k->host_len == h->host.len && k->target_len == h->target.len &&
           memcmp(k->text, h->host.at, h->host.len) == 0 &&
           memcmp(k->text + k->host_len, h->target.at, h->target.len) == 0;
}

/* All lines of an answer are asked for at once: one wait for memory instead of one each. */
static void
prefetch(const struct answer *k)
{
    for (size_t at = 0; at < USUAL; at += LINE)
        __builtin_prefetch((const char *)k + at);
}

/* The next answer with that tag from `way` on; NULL: there is none. */
static struct answer *
response_tagged(const struct spot *at, unsigned *way)
{
    while (*way < WAYS && at->set->tags[*way] != at->tag)
        ++*way;
    return *way < WAYS ? &at->kept[(*way)++] : NULL;
}

/* The answer kept for this head, or NULL. */
static struct answer *
response_find(struct answers *a, const struct http_request *http)
{
    struct answer *k;
    unsigned way = 0;
    struct spot at;

    if (!spot_of(a, http, &at))
        return NULL;
    while ((k = response_tagged(&at, &way)) != NULL) {
        prefetch(k);
        if (is_for(k, http->head))
            return k;
    }
    return NULL;
}

/* First where an answer would be, then the answer, then what it points at: each lies in memory that the step before has asked for. */
void
response_cache_prefetch(const struct api *a, struct http_request *http, unsigned step)
{
    const struct answer *k;
    unsigned way = 0;
    struct spot at;

    if (step == 0)
        http->ahead = response_hash_of(http->head);
    if (a->answers == NULL || !spot_of(a->answers, http, &at))
        return;
    if (step == 0)
        __builtin_prefetch(at.set);
    else if ((k = response_tagged(&at, &way)) == NULL)
        return;
    else if (step == 1)
        prefetch(k);
    else
        object_revalidated_preload(a->options.object, &k->again);
}

/* ---- serving ---- */

#define IDS_LEN 66

static void
write_ids(char lines[IDS_LEN], const char id[16])
{
    memcpy(lines + 18, id, 16);
    memcpy(lines + 48, id, 16);
}

void
put_request_ids(struct http_request *http)
{
    char lines[] = "x-amz-request-id: ................\r\n"
                   "x-amz-id-2: ................\r\n";

    static_assert(sizeof lines - 1 == IDS_LEN, "where the ids are");
    write_ids(lines, http->id);
    http_header_lines(http, (struct span){lines, sizeof lines - 1});
}

static void
response_release(void *held)
{
    object_revalidated_end(held);
}

/* Its head: as it was with the ids of this request, or, on a connection that does not stay, its lines alone. */
static void
response_put_head(struct http_request *http, const struct answer *k)
{
    struct span form = {k->text + k->host_len + k->target_len, k->form_len};
    char *lines = http_reply_template(http, form, k->lines_at);

    if (lines != NULL) {
        write_ids(lines, http->id);
        return;
    }
    put_request_ids(http);
    form = span_from(form, k->lines_at + IDS_LEN);
    http_header_lines(http, (struct span){form.at, form.len - 2}); /* its empty line */
}

static bool
response_serve(struct api *a, struct http_request *http, struct answer *k)
{
    struct store_pinned *held = arena_alloc(http->arena, sizeof *held);

    if (k->map_serial != map_serial(map_now(a->options.map)) ||
        k->epoch != response_cache_epoch(a->answers) ||
        !object_revalidated_begin(a->options.object, &k->again, held))
        return false;
    metric_add(M_RESPONSE_CACHE_HITS, 0, 1);
    response_put_head(http, k);
    http_reply_headroom(http, held->front);
    /* A client that is gone is nobody to tell. */
    (void)!http_reply_zero_copy(http, 200, held->pieces, held->count, response_release,
                                held);
    return http_reply_began(http);
}

/* Whoever signed like this before, and was given this. */
static bool
is_for_signer(const struct api *a, const struct http_request *http,
              const struct answer *k)
{
    return k->users != 0 && k->users == auth_serial(a->options.auth) &&
           k->signer == signature_cache_find(a, http);
}

bool
response_cache_serve(struct api *a, struct http_request *http)
{
    bool is_signed = (http->head->seen & BIT(AUTHORIZATION)) != 0;
    struct answer *k;

    if (a->answers == NULL ||
        !is_plain_get(http, is_signed ? PLAIN_FIELDS | SIGNATURE : PLAIN_FIELDS))
        return false;
    k = response_find(a->answers, http);
    if (k == NULL || (is_signed ? !is_for_signer(a, http, k)
                                : !k->to_anybody || k->on_loopback != http->is_loopback))
        return false;
    return response_serve(a, http, k);
}

/* The caller has passed the gate: the next time it is enough that he signed. */
static void
keep_signer(struct answer *k, const struct caller *caller)
{
    k->signer = caller->signed_request ? caller->signer : NULL;
    k->users = caller->signed_request ? caller->users : 0;
}

bool
response_cache_serve_signed(struct request *q)
{
    struct answer *k;

    if (q->api->answers == NULL || !q->caller.signed_request ||
        !is_plain_get(q->http, PLAIN_FIELDS | SIGNATURE))
        return false;
    k = response_find(q->api->answers, q->http);
    if (k == NULL)
        return false;
    keep_signer(k, &q->caller);
    return response_serve(q->api, q->http, k);
}

/* ---- keeping ---- */

/* The place of an answer: the one it has, an empty one, or the set's next. */
static struct answer *
response_place(struct answers *a, const struct http_request *http)
{
    struct table *t = &a->at[rt_loop_index()];
    struct answer *k = response_find(a, http);
    struct spot at;
    unsigned way = 0;

    if (k != NULL)
        return k;
    if (t->sets == NULL) {
        t->sets = bigmem_new((a->set_mask + 1) * sizeof *t->sets);
        t->kept = bigmem_new((a->set_mask + 1) * WAYS * sizeof *t->kept);
    }
    if (!spot_of(a, http, &at))
        return NULL;
    while (way < WAYS && at.set->tags[way] != 0)
        way++;
    if (way == WAYS)
        way = at.set->next++ % WAYS;
    at.set->tags[way] = at.tag;
    return &at.kept[way];
}

void
response_cache_keep(struct request *q, const struct object_get *get)
{
    struct answers *a = q->api->answers;
    const struct http_head *h = q->http->head;
    size_t names = h->host.len + h->target.len, len, lines_at;
    struct object_revalidated again;
    char form[TEXT_MAX];
    struct answer *k;

    if (a == NULL || !is_plain_get(q->http, PLAIN_FIELDS | SIGNATURE) ||
        http_header_text(q->http).len < IDS_LEN || !object_revalidated_keep(get, &again))
        return;
    len =
        http_template_make(q->http, again.place.size, form, TEXT_MAX - names, &lines_at);
    if (len == 0)
        return;
    k = response_place(a, q->http);
    if (k == NULL)
        return;
    k->again = again;
    k->map_serial = q->map_serial;
    k->epoch = q->response_cache_epoch;
    k->host_len = (uint16_t)h->host.len;
    k->target_len = (uint16_t)h->target.len;
    k->form_len = (uint16_t)len;
    k->lines_at = (uint16_t)lines_at;
    k->to_anybody = !q->caller.signed_request;
    keep_signer(k, &q->caller);
    k->on_loopback = q->http->is_loopback;
    memcpy(k->text, h->host.at, h->host.len);
    memcpy(k->text + h->host.len, h->target.at, h->target.len);
    memcpy(k->text + names, form, len);
}
