/* Evaluating a request by a parsed policy. */
#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "wire/s3policy_internal.h"

/* '*' is any text, '?' any byte. Linear but for the last '*', as every such matcher. */
static bool
matches(const char *pattern, struct span text, bool ignore_case)
{
    const char *star = NULL;
    size_t i = 0, from = 0;

    while (i < text.len) {
        char a = *pattern, b = text.at[i];

        if (ignore_case) {
            a = a >= 'A' && a <= 'Z' ? (char)(a + 32) : a;
            b = b >= 'A' && b <= 'Z' ? (char)(b + 32) : b;
        }
        if (*pattern == '*') {
            star = pattern++;
            from = i;
        } else if (*pattern != '\0' && (*pattern == '?' || a == b)) {
            pattern++;
            i++;
        } else if (star != NULL) {
            pattern = star + 1;
            i = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool
is_principal(const struct statement *s, const struct s3policy_request *r)
{
    if (s->everybody)
        return true;
    for (uint32_t i = 0; r->user.at != NULL && i < s->principals.count; i++)
        if (span_is(r->user, s->principals.at[i]) ||
            span_is(r->access_key, s->principals.at[i]))
            return true;
    return false;
}

static bool
is_action(const struct statement *s, const char *action)
{
    bool found = false;

    for (uint32_t i = 0; i < s->actions.count && !found; i++)
        found = matches(s->actions.at[i], span_of(action), true);
    return found != s->not_action;
}

#define RESOURCE_MAX (64 + 1 + 1024)
static bool
is_resource(const struct statement *s, const struct s3policy_request *r)
{
    char text[RESOURCE_MAX];
    size_t len = MIN(r->bucket.len, 64u);
    bool found = false;

    memcpy(text, r->bucket.at, len);
    if (r->key.len > 0) {
        size_t key = MIN(r->key.len, 1024u);

        text[len++] = '/';
        memcpy(text + len, r->key.at, key);
        len += key;
    }
    for (uint32_t i = 0; i < s->resources.count && !found; i++)
        found = matches(s->resources.at[i], (struct span){text, len}, false);
    return found != s->not_resource;
}

static bool
in_network(const char *network, struct span value)
{
    uint8_t want[16], have[16];
    char text[INET6_ADDRSTRLEN];
    unsigned bits, all;

    if (value.len >= sizeof text)
        return false;
    memcpy(text, value.at, value.len);
    text[value.len] = '\0';
    if (!s3policy_network(network, want, &bits) || !s3policy_network(text, have, &all))
        return false;
    for (unsigned i = 0; i < bits; i++)
        if (((want[i / 8] ^ have[i / 8]) >> (7 - i % 8) & 1) != 0)
            return false;
    return true;
}

static bool
number_holds(enum operator_kind kind, const char *wanted, struct span value)
{
    uint64_t want, have;

    if (num_u64(span_of(wanted), &want) != ERR_OK || num_u64(value, &have) != ERR_OK)
        return false;
    return kind == OP_NUMBER_EQUALS        ? have == want
           : kind == OP_NUMBER_LESS        ? have < want
           : kind == OP_NUMBER_LESS_EQUALS ? have <= want
           : kind == OP_NUMBER_GREATER     ? have > want
                                           : have >= want;
}

static bool
value_holds(enum operator_kind kind, const char *wanted, struct span value)
{
    switch (kind) {
    case OP_EQUALS:
        return span_is(value, wanted);
    case OP_EQUALS_IGNORE_CASE:
    case OP_BOOL:
        return span_case_is(value, wanted);
    case OP_LIKE:
        return matches(wanted, value, false);
    case OP_ADDRESS:
        return in_network(wanted, value);
    case OP_NUMBER_EQUALS:
    case OP_NUMBER_LESS:
    case OP_NUMBER_LESS_EQUALS:
    case OP_NUMBER_GREATER:
    case OP_NUMBER_GREATER_EQUALS:
        return number_holds(kind, wanted, value);
    case OP_IS_ABSENT:
        break; /* of the key, not of its value */
    }
    return false;
}

static bool
condition_holds(const struct condition *c, const struct s3policy_request *r)
{
    struct span value = {"", 0};
    bool there = r->value(r->arg, span_of(c->key), &value), any = false;

    if (c->kind == OP_IS_ABSENT) {
        for (uint32_t i = 0; i < c->values.count; i++)
            any |= (strcasecmp(c->values.at[i], "true") == 0) == !there;
        return any;
    }
    if (!there)
        return c->if_exists || c->negated;
    for (uint32_t i = 0; i < c->values.count && !any; i++)
        any = value_holds(c->kind, c->values.at[i], value);
    return any != c->negated;
}

static bool
applies(const struct statement *s, const struct s3policy_request *r)
{
    if (!is_principal(s, r) || !is_action(s, r->action) || !is_resource(s, r))
        return false;
    for (uint32_t i = 0; i < s->condition_count; i++)
        if (!condition_holds(&s->conditions[i], r))
            return false;
    return true;
}

/* Conditions on these narrow who a statement for everybody means. */
static bool
is_narrowed(const struct statement *s)
{
    for (uint32_t i = 0; i < s->condition_count; i++) {
        const struct condition *c = &s->conditions[i];

        if (!c->negated && !c->if_exists &&
            (strcmp(c->key, "aws:sourceip") == 0 || strcmp(c->key, "aws:username") == 0 ||
             strcmp(c->key, "aws:userid") == 0))
            return true;
    }
    return false;
}

static bool
is_public_statement(const struct statement *s)
{
    return !s->deny && s->everybody && !is_narrowed(s);
}

bool
s3policy_is_public(const struct s3policy *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (is_public_statement(&p->at[i]))
            return true;
    return false;
}

bool
s3policy_asks_tags(const struct s3policy *p)
{
    return p->asks_tags;
}

bool
s3policy_asks_request_tags(const struct s3policy *p)
{
    return p->asks_request_tags;
}

enum s3policy_verdict
s3policy_evaluate(const struct s3policy *p, const struct s3policy_request *r,
                  bool ignore_public)
{
    enum s3policy_verdict verdict = S3POLICY_SILENT;

    assert(r->action != NULL);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct statement *s = &p->at[i];

        if ((!s->deny &&
             (verdict == S3POLICY_ALLOW || (ignore_public && is_public_statement(s)))) ||
            !applies(s, r))
            continue;
        if (s->deny)
            return S3POLICY_DENY;
        verdict = S3POLICY_ALLOW;
    }
    return verdict;
}
