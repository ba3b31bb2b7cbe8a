/* token: bearer tokens (JSON Web Tokens, RFC 7519) with an HMAC of a shared key (HS256). Pure; any thread. */
#pragma once
#include "api/internal.h"

#define TOKEN_MAX       16384u /* bytes of one */
#define TOKEN_RIGHT_MAX 1024u  /* buckets and clusters that it names */

struct token_options {
    struct span key;     /* shared with who makes tokens; empty: none is taken */
    const char *cluster; /* rights of other clusters do not count */
    int64_t now_s;
};
struct token {
    struct span user; /* `sub` */
    const struct token_rights *rights;
};
/* NULL: it is valid, and *out is in the arena. Else what is wrong, as AIS clients read it. */
const char *token_verify(struct span text, const struct token_options *o, struct arena *a,
                         struct token *out) MUST_CHECK;
