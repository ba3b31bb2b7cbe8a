#include "api/ais/token.h"

#include <jansson.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"

#define MALFORMED "invalid token: it is not a JSON Web Token"

/* Base64 with the alphabet of URLs, without padding. */
static bool
decode_part(struct span part, struct arena *a, struct span *out)
{
    size_t padded = (part.len + 3) / 4 * 4;
    char *text = arena_try(a, padded + 1), *room = arena_try(a, padded + 1);
    int len;

    if (text == NULL || room == NULL || part.len == 0 || part.len % 4 == 1)
        return false;
    for (size_t i = 0; i < padded; i++) {
        char c = i < part.len ? part.at[i] : '=';

        text[i] = (char)(c == '-' ? '+' : c == '_' ? '/' : c);
    }
    len = base64_decode(text, padded, room, padded);
    *out = (struct span){room, len > 0 ? (size_t)len : 0};
    return len > 0;
}

static bool
split_token(struct span text, struct span part[3])
{
    for (int i = 0; i < 3; i++) {
        const char *dot = span_find(text, '.');

        part[i] =
            (struct span){text.at, dot != NULL ? (size_t)(dot - text.at) : text.len};
        if (i < 2 && dot == NULL)
            return false;
        text = span_from(text, part[i].len + 1);
    }
    return text.len == 0;
}

/* A number, or a number in quotes. */
static bool
number_of(const json_t *v, uint64_t *out)
{
    *out = 0;
    if (json_is_string(v))
        return num_u64(span_of(json_string_value(v)), out) == ERR_OK;
    if (json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) < 9e18)
        *out = (uint64_t)json_number_value(v);
    return json_is_number(v) && json_number_value(v) >= 0;
}

static auth_rights
rights_of(const json_t *o)
{
    uint64_t bits;

    return number_of(json_object_get(o, "perm"), &bits) ? (auth_rights)(bits & AUTH_ALL)
                                                        : 0;
}

/* The uname that a bucket of the flat space has, or a qualified one: {"name", "provider", "namespace"}. */
static bool
bucket_of(const json_t *bck, const char *cluster, struct arena *a, struct span *out)
{
    const char *name = json_string_value(json_object_get(bck, "name"));
    const char *uuid =
        json_string_value(json_object_get(json_object_get(bck, "namespace"), "uuid"));
    const char *ns =
        json_string_value(json_object_get(json_object_get(bck, "namespace"), "name"));
    const char *provider = json_string_value(json_object_get(bck, "provider"));

    if (name == NULL || (uuid != NULL && uuid[0] != '\0' && strcmp(uuid, cluster) != 0))
        return false;
    *out = ns != NULL && ns[0] != '\0'
               ? span_of(arena_printf(a, "%s@%s@%s", provider != NULL ? provider : "ais",
                                      ns, name))
               : arena_span(a, span_of(name));
    return true;
}

static const struct token_rights *
take_rights(const json_t *claims, const char *cluster, struct arena *a)
{
    const json_t *clusters = json_object_get(claims, "clusters");
    const json_t *buckets = json_object_get(claims, "buckets");
    struct token_rights *r = arena_alloc(a, sizeof *r);
    size_t count = MIN(json_array_size(buckets), (size_t)TOKEN_RIGHT_MAX);
    bool named = false;

    if (json_is_true(json_object_get(claims, "admin")))
        r->everywhere = AUTH_ALL;
    for (size_t i = 0; i < json_array_size(clusters) && r->everywhere != AUTH_ALL; i++) {
        const json_t *c = json_array_get(clusters, i);
        const char *id = json_string_value(json_object_get(c, "id"));
        bool ours = id != NULL && strcmp(id, cluster) == 0;

        if (ours || (!named && (id == NULL || id[0] == '\0')))
            r->everywhere = rights_of(c);
        named = named || ours;
    }
    if (r->everywhere == AUTH_ALL || count == 0)
        return r;
    r->at = arena_alloc(a, count * sizeof *r->at);
    for (size_t i = 0; i < count; i++) {
        const json_t *b = json_array_get(buckets, i);

        if (bucket_of(json_object_get(b, "bck"), cluster, a, &r->at[r->count].bucket))
            r->at[r->count++].rights = rights_of(b);
    }
    return r;
}

static const char *
check_claims(const json_t *claims, const struct token_options *o, struct arena *a,
             struct token *out)
{
    const char *sub = json_string_value(json_object_get(claims, "sub"));
    const json_t *begins = json_object_get(claims, "nbf");
    uint64_t expires, from = 0;

    if (sub == NULL || sub[0] == '\0' || strlen(sub) > 256)
        return "invalid token: it names no user in \"sub\"";
    if (!number_of(json_object_get(claims, "exp"), &expires))
        return "invalid token: it has no \"exp\"";
    if (o->now_s < 0 || expires <= (uint64_t)o->now_s)
        return "token expired";
    if (begins != NULL && (!number_of(begins, &from) || from > (uint64_t)o->now_s))
        return "invalid token: it is not valid yet";
    out->user = arena_span(a, span_of(sub));
    out->rights = take_rights(claims, o->cluster, a);
    return NULL;
}

const char *
token_verify(struct span text, const struct token_options *o, struct arena *a,
             struct token *out)
{
    struct span part[3], header, claims_text, given;
    unsigned char mac[32];
    const char *alg, *why;
    json_t *doc;

    *out = (struct token){.rights = NULL};
    if (o->key.len == 0)
        return "invalid token: this server takes none; set ais.token_key_file to the key "
               "that "
               "signs them";
    if (text.len > TOKEN_MAX || !split_token(text, part) ||
        !decode_part(part[0], a, &header) || !decode_part(part[1], a, &claims_text) ||
        !decode_part(part[2], a, &given))
        return MALFORMED;
    doc = json_loadb(header.at, header.len, 0, NULL);
    alg = json_string_value(json_object_get(doc, "alg"));
    why = alg == NULL ? MALFORMED
          : strcmp(alg, "HS256") != 0
              ? "invalid token: only HS256 signatures are verified"
              : NULL;
    json_decref(doc);
    if (why != NULL)
        return why;
    hash_hmac_sha256(o->key.at, o->key.len, text.at, part[0].len + 1 + part[1].len, mac);
    if (given.len != sizeof mac || !hash_same_secret(given.at, mac, sizeof mac))
        return "invalid token: its signature is wrong";
    doc = json_loadb(claims_text.at, claims_text.len, 0, NULL);
    why = json_is_object(doc) ? check_claims(doc, o, a, out) : MALFORMED;
    json_decref(doc);
    return why;
}
