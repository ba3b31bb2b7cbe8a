#include "api/signature_cache.h"

#include <stdlib.h>

#include "base/mem.h"
#include "rt/loop.h"
#include "rt/time.h"

#define PLACES 16u

struct cached_signature {
    uint64_t lines_id; /* 0: unused */
    uint64_t users;    /* auth_serial() when the entry was made */
    const struct auth_key *key;
    struct sigv4_template template;
};
struct signature_cache {
    struct cached_signature at[PLACES];
};

struct signature_cache *
signature_cache_new(void)
{
    return xcalloc(1, sizeof(struct signature_cache));
}

void
signature_cache_free(struct signature_cache **sp)
{
    if (*sp != NULL)
        hash_wipe(*sp, sizeof **sp);
    free(*sp);
    *sp = NULL;
}

static struct cached_signature *
signature_place_of(const struct api *a, uint64_t lines_id)
{
    return &a->signatures[rt_loop_index()]->at[lines_id % PLACES];
}

/* The bytes in which requests with equal lines_id may differ. */
static struct span
signature_of(const struct http_head *h)
{
    struct span value = http_get(h, HTTP_AUTHORIZATION);

    return value.len >= SHA256_HEX ? span_from(value, value.len - SHA256_HEX)
                                   : (struct span){"", 0};
}

const struct auth_key *
signature_cache_find(const struct api *a, const struct http_request *http)
{
    const struct http_head *h = http->head;
    const struct cached_signature *s = signature_place_of(a, h->lines_id);
    int64_t now_ms;

    if (h->lines_id == 0 || s->lines_id != h->lines_id ||
        s->users != auth_serial(a->options.auth) || h->query.at != NULL)
        return NULL;
    now_ms = (int64_t)(rt_wall_ns() / 1000000u);
    if (s->key->expires_ms != 0 && now_ms >= s->key->expires_ms)
        return NULL;
    return sigv4_template_verify(&s->template, h->path, signature_of(h), now_ms / 1000)
               ? s->key
               : NULL;
}

void
signature_cache_keep(struct request *q, const struct sigv4_request *req,
                     const struct auth_key *k)
{
    const struct http_head *h = q->http->head;
    const struct sigv4_auth *auth = &q->caller.auth;
    struct cached_signature *s = signature_place_of(q->api, h->lines_id);

    /* Requests of a user with limits always pass the gate, which charges them. */
    if (k->user->meter != NULL)
        return;
    if (h->lines_id == 0 || h->query.at != NULL || auth->kind != SIGV4_HEADER ||
        auth->signature.at != signature_of(h).at ||
        (s->lines_id == h->lines_id && s->users == auth_serial(q->api->options.auth)))
        return;
    hash_wipe(s, sizeof *s);
    if (!sigv4_template_make(req, auth, &q->caller.key, q->arena, &s->template))
        return;
    s->lines_id = h->lines_id;
    s->users = auth_serial(q->api->options.auth);
    s->key = k;
}
