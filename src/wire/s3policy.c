/* Parsing of the policy language. */
#include "wire/s3policy.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "wire/s3policy_internal.h"

#define STATEMENTS_MAX 128u
#define LIST_MAX       256u /* values of one list */
#define ARN_S3         "arn:aws:s3:::"

static const struct {
    const char *name;
    enum operator_kind kind;
    bool negated;
} operators[] = {
    {"StringEquals", OP_EQUALS, false},
    {"StringNotEquals", OP_EQUALS, true},
    {"StringEqualsIgnoreCase", OP_EQUALS_IGNORE_CASE, false},
    {"StringNotEqualsIgnoreCase", OP_EQUALS_IGNORE_CASE, true},
    {"StringLike", OP_LIKE, false},
    {"StringNotLike", OP_LIKE, true},
    {"ArnEquals", OP_LIKE, false},
    {"ArnLike", OP_LIKE, false},
    {"ArnNotEquals", OP_LIKE, true},
    {"ArnNotLike", OP_LIKE, true},
    {"IpAddress", OP_ADDRESS, false},
    {"NotIpAddress", OP_ADDRESS, true},
    {"Bool", OP_BOOL, false},
    {"NumericEquals", OP_NUMBER_EQUALS, false},
    {"NumericNotEquals", OP_NUMBER_EQUALS, true},
    {"NumericLessThan", OP_NUMBER_LESS, false},
    {"NumericLessThanEquals", OP_NUMBER_LESS_EQUALS, false},
    {"NumericGreaterThan", OP_NUMBER_GREATER, false},
    {"NumericGreaterThanEquals", OP_NUMBER_GREATER_EQUALS, false},
    {"Null", OP_IS_ABSENT, false},
};

/* Condition keys that requests have here; a name that ends with '/' takes the name of a tag behind it. */
static const char *const condition_keys[] = {
    "aws:sourceip",
    "aws:securetransport",
    "aws:referer",
    "aws:useragent",
    "aws:username",
    "aws:userid",
    "s3:prefix",
    "s3:delimiter",
    "s3:max-keys",
    "s3:versionid",
    "s3:x-amz-acl",
    "s3:x-amz-grant-read",
    "s3:x-amz-grant-write",
    "s3:x-amz-grant-read-acp",
    "s3:x-amz-grant-write-acp",
    "s3:x-amz-grant-full-control",
    "s3:x-amz-copy-source",
    "s3:x-amz-metadata-directive",
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-storage-class",
    "s3:x-amz-content-sha256",
    "s3:if-match",
    "s3:if-none-match",
    "s3:existingobjecttag/",
    "s3:requestobjecttag/",
};

/* ---- memory ---- */

static void
texts_free(struct texts *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        free(t->at[i]);
    free(t->at);
    *t = (struct texts){0};
}

void
s3policy_free(struct s3policy **pp)
{
    struct s3policy *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < p->count; i++) {
        struct statement *s = &p->at[i];

        texts_free(&s->principals);
        texts_free(&s->actions);
        texts_free(&s->resources);
        for (uint32_t c = 0; c < s->condition_count; c++) {
            free(s->conditions[c].key);
            texts_free(&s->conditions[c].values);
        }
        free(s->conditions);
    }
    free(p->at);
    free(p);
}

/* ---- parsing ---- */

struct parsing {
    struct s3policy *policy;
    struct span bucket;
    struct errbuf *eb;
};

static enum err
bad_policy(struct parsing *p, const char *what, const char *value)
{
    return err_set(p->eb, ERR_BAD_REQUEST, "Policy: %s%s%.200s%s", what,
                   value != NULL ? " \"" : "", value != NULL ? value : "",
                   value != NULL ? "\"" : "");
}

/* A scalar as text; a number and true or false as JSON writes them. NULL: none of these. The caller frees it. */
static char *
scalar_text(const json_t *v)
{
    char number[32];

    if (json_is_string(v))
        return memchr(json_string_value(v), '\0', json_string_length(v)) == NULL
                   ? xstrdup(json_string_value(v))
                   : NULL;
    if (json_is_boolean(v))
        return xstrdup(json_is_true(v) ? "true" : "false");
    if (!json_is_integer(v))
        return NULL;
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
    return xstrdup(number);
}

/* A text, or a list of them. */
static enum err
take_texts(struct parsing *p, const json_t *v, const char *what, struct texts *out)
{
    size_t count = json_is_array(v) ? json_array_size(v) : 1;

    if (count == 0 || count > LIST_MAX)
        return bad_policy(p, "a list is empty or over 256 values:", what);
    out->at = xcalloc(count, sizeof *out->at);
    for (size_t i = 0; i < count; i++) {
        char *text = scalar_text(json_is_array(v) ? json_array_get(v, i) : v);

        if (text == NULL)
            return bad_policy(p, "this must be a text or a list of texts:", what);
        out->at[out->count++] = text;
    }
    return ERR_OK;
}

/* arn:aws:iam::ACCOUNT:user/PATH/NAME is NAME; other ARNs name no user here and stay as they are. */
static void
strip_user_arn(char *text)
{
    const char *user = strstr(text, ":user/");

    if (strncmp(text, "arn:aws:iam:", 12) != 0 || user == NULL)
        return;
    user = strrchr(user, '/') + 1;
    memmove(text, user, strlen(user) + 1);
}

static enum err
take_principal(struct parsing *p, const json_t *v, struct statement *s)
{
    const json_t *users = v;
    enum err rc;

    if (json_is_object(v)) {
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)v, key, value)
        {
            (void)value;
            if (strcmp(key, "AWS") != 0 && strcmp(key, "CanonicalUser") != 0)
                return bad_policy(p, "this kind of Principal is not built:", key);
        }
        if (json_object_size(v) != 1)
            return bad_policy(p, "Principal must name users of AWS", NULL);
        users = json_object_iter_value(json_object_iter((json_t *)(uintptr_t)v));
    } else if (!json_is_string(v) || strcmp(json_string_value(v), "*") != 0) {
        return bad_policy(p, "Principal must be \"*\" or {\"AWS\": ...}", NULL);
    }
    rc = take_texts(p, users, "Principal", &s->principals);
    for (uint32_t i = 0; rc == ERR_OK && i < s->principals.count; i++) {
        strip_user_arn(s->principals.at[i]);
        if (strcmp(s->principals.at[i], "*") == 0)
            s->everybody = true;
        else if (s->principals.at[i][0] == '\0' ||
                 strchr(s->principals.at[i], '*') != NULL)
            rc = bad_policy(p, "Invalid principal in policy:", s->principals.at[i]);
    }
    return rc;
}

static enum err
take_actions(struct parsing *p, const json_t *v, struct statement *s)
{
    enum err rc = take_texts(p, v, "Action", &s->actions);

    for (uint32_t i = 0; rc == ERR_OK && i < s->actions.count; i++)
        if (strcmp(s->actions.at[i], "*") != 0 &&
            strncasecmp(s->actions.at[i], "s3:", 3) != 0)
            rc = bad_policy(p, "an action begins with \"s3:\", not", s->actions.at[i]);
    return rc;
}

/* arn:aws:s3:::BUCKET or arn:aws:s3:::BUCKET/KEY; BUCKET may have wildcards, and must be able to mean this one. */
static enum err
take_resources(struct parsing *p, const json_t *v, struct statement *s)
{
    enum err rc = take_texts(p, v, "Resource", &s->resources);

    for (uint32_t i = 0; rc == ERR_OK && i < s->resources.count; i++) {
        char *text = s->resources.at[i];
        const char *slash;
        struct span name;

        if (strcmp(text, "*") == 0)
            continue;
        if (strncmp(text, ARN_S3, strlen(ARN_S3)) != 0)
            return bad_policy(p, "a resource is arn:aws:s3:::BUCKET/KEY, not", text);
        memmove(text, text + strlen(ARN_S3), strlen(text) - strlen(ARN_S3) + 1);
        slash = strchr(text, '/');
        name = (struct span){text, slash != NULL ? (size_t)(slash - text) : strlen(text)};
        if (memchr(name.at, '*', name.len) == NULL &&
            memchr(name.at, '?', name.len) == NULL && !span_eq(name, p->bucket))
            rc = bad_policy(
                p, "Policy has invalid resource: it is of another bucket:", text);
    }
    return rc;
}

/* The key in lower case, but for the name of a tag. */
static enum err
take_condition_key(struct parsing *p, const char *given, struct condition *c)
{
    const char *slash = strchr(given, '/');
    size_t lower = slash != NULL ? (size_t)(slash - given) + 1 : strlen(given);

    c->key = xstrdup(given);
    for (size_t i = 0; i < lower; i++)
        if (c->key[i] >= 'A' && c->key[i] <= 'Z')
            c->key[i] = (char)(c->key[i] + 32);
    for (size_t i = 0; i < ARRAY_LEN(condition_keys); i++)
        if (strlen(condition_keys[i]) == lower &&
            strncmp(condition_keys[i], c->key, lower) == 0) {
            if (strncmp(c->key, "s3:existingobjecttag/", lower) == 0 && slash != NULL)
                p->policy->asks_tags = true;
            if (strncmp(c->key, "s3:requestobjecttag/", lower) == 0 && slash != NULL)
                p->policy->asks_request_tags = true;
            return ERR_OK;
        }
    return bad_policy(p, "this condition key is not built:", given);
}

static enum err
take_operator(struct parsing *p, const char *name, struct condition *c)
{
    static const char suffix[] = "IfExists";
    size_t len = strlen(name), tail = strlen(suffix);

    c->if_exists = len > tail && strcmp(name + len - tail, suffix) == 0;
    if (c->if_exists)
        len -= tail;
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (strlen(operators[i].name) == len &&
            strncmp(operators[i].name, name, len) == 0) {
            c->kind = operators[i].kind;
            c->negated = operators[i].negated;
            return ERR_OK;
        }
    return bad_policy(p, "this condition operator is not built:", name);
}

bool
s3policy_network(const char *text, uint8_t out[16], unsigned *bits)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const char *slash = strchr(text, '/');
    char address[INET6_ADDRSTRLEN];
    size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
    uint64_t given = 0;
    bool four;

    if (len == 0 || len >= sizeof address)
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    memcpy(out, mapped, sizeof mapped);
    four = inet_pton(AF_INET, address, out + 12) == 1;
    if (!four && inet_pton(AF_INET6, address, out) != 1)
        return false;
    if (slash != NULL &&
        (num_u64(span_of(slash + 1), &given) != ERR_OK || given > (four ? 32 : 128)))
        return false;
    *bits = slash == NULL ? 128 : (unsigned)given + (four ? 96 : 0);
    return true;
}

static bool
is_good_value(enum operator_kind kind, const char *text)
{
    uint8_t address[16];
    unsigned bits;
    uint64_t number;

    switch (kind) {
    case OP_ADDRESS:
        return s3policy_network(text, address, &bits);
    case OP_BOOL:
    case OP_IS_ABSENT:
        return strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0;
    case OP_NUMBER_EQUALS:
    case OP_NUMBER_LESS:
    case OP_NUMBER_LESS_EQUALS:
    case OP_NUMBER_GREATER:
    case OP_NUMBER_GREATER_EQUALS:
        return num_u64(span_of(text), &number) == ERR_OK;
    case OP_EQUALS:
    case OP_EQUALS_IGNORE_CASE:
    case OP_LIKE:
        return true;
    }
    return false;
}

/* {"OPERATOR": {"KEY": VALUES, ...}, ...}: all of them must hold. */
static enum err
take_conditions(struct parsing *p, const json_t *v, struct statement *s)
{
    const char *name, *key;
    json_t *keys, *values;

    json_object_foreach((json_t *)(uintptr_t)v, name, keys)
    {
        if (!json_is_object(keys))
            return bad_policy(p, "a condition must be an object:", name);
        json_object_foreach(keys, key, values)
        {
            struct condition *c;
            enum err rc;

            if (s->condition_count == LIST_MAX)
                return bad_policy(p, "a statement has over 256 conditions", NULL);
            if (s->conditions == NULL)
                s->conditions = xcalloc(LIST_MAX, sizeof *s->conditions);
            c = &s->conditions[s->condition_count++];
            rc = take_operator(p, name, c);
            if (rc == ERR_OK)
                rc = take_condition_key(p, key, c);
            if (rc == ERR_OK)
                rc = take_texts(p, values, key, &c->values);
            for (uint32_t i = 0; rc == ERR_OK && i < c->values.count; i++)
                if (!is_good_value(c->kind, c->values.at[i]))
                    rc = bad_policy(
                        p, "this value does not fit its condition:", c->values.at[i]);
            if (rc != ERR_OK)
                return rc;
        }
    }
    return json_is_object(v) ? ERR_OK
                             : bad_policy(p, "Condition must be an object", NULL);
}

static enum err
policy_take_member(struct parsing *p, const char *name, const json_t *v,
                   struct statement *s)
{
    if (strcmp(name, "Sid") == 0)
        return json_is_string(v) ? ERR_OK : bad_policy(p, "Sid must be a text", NULL);
    if (strcmp(name, "Effect") == 0) {
        const char *effect = json_is_string(v) ? json_string_value(v) : "";

        s->deny = strcmp(effect, "Deny") == 0;
        return s->deny || strcmp(effect, "Allow") == 0
                   ? ERR_OK
                   : bad_policy(p, "Effect is Allow or Deny, not", effect);
    }
    if (strcmp(name, "Principal") == 0)
        return take_principal(p, v, s);
    if (strcmp(name, "Action") == 0 || strcmp(name, "NotAction") == 0) {
        s->not_action = name[0] == 'N';
        return s->actions.count == 0 ? take_actions(p, v, s)
                                     : bad_policy(p, "Action is given twice", NULL);
    }
    if (strcmp(name, "Resource") == 0 || strcmp(name, "NotResource") == 0) {
        s->not_resource = name[0] == 'N';
        return s->resources.count == 0 ? take_resources(p, v, s)
                                       : bad_policy(p, "Resource is given twice", NULL);
    }
    if (strcmp(name, "Condition") == 0)
        return take_conditions(p, v, s);
    return bad_policy(p, "this element of a statement is not built:", name);
}

static enum err
take_statement(struct parsing *p, json_t *v)
{
    struct statement *s = &p->policy->at[p->policy->count++];
    const char *name;
    json_t *value;

    if (!json_is_object(v))
        return bad_policy(p, "a statement must be an object", NULL);
    json_object_foreach(v, name, value)
    {
        enum err rc = policy_take_member(p, name, value, s);

        if (rc != ERR_OK)
            return rc;
    }
    if (json_object_get(v, "Effect") == NULL || s->principals.count == 0 ||
        s->actions.count == 0 || s->resources.count == 0)
        return bad_policy(p, "a statement needs Effect, Principal, Action and Resource",
                          NULL);
    return ERR_OK;
}

static enum err
policy_take_document(struct parsing *p, const json_t *root)
{
    json_t *list = json_object_get(root, "Statement");
    json_t *version = json_object_get(root, "Version");
    size_t count = json_is_array(list) ? json_array_size(list) : 1;
    enum err rc = ERR_OK;

    if (version != NULL && (!json_is_string(version) ||
                            (strcmp(json_string_value(version), "2012-10-17") != 0 &&
                             strcmp(json_string_value(version), "2008-10-17") != 0)))
        return bad_policy(p, "the Version is 2012-10-17 or 2008-10-17", NULL);
    if (list == NULL || count == 0 || count > STATEMENTS_MAX)
        return bad_policy(p, "a policy has 1 to 128 statements", NULL);
    p->policy->at = xcalloc(count, sizeof *p->policy->at);
    for (size_t i = 0; rc == ERR_OK && i < count; i++)
        rc = take_statement(p, json_is_array(list) ? json_array_get(list, i) : list);
    return rc;
}

/* jansson's own limit on nesting is 2,048 deep, which recursion pays for; ours is checked first. */
static bool
nests_too_deeply(struct span json)
{
    unsigned depth = 0;
    bool in_text = false;

    for (size_t i = 0; i < json.len; i++) {
        char c = json.at[i];

        if (in_text && c == '\\')
            i++;
        else if (c == '"')
            in_text = !in_text;
        else if (!in_text && (c == '{' || c == '[') && ++depth > S3POLICY_NESTING)
            return true;
        else if (!in_text && (c == '}' || c == ']') && depth > 0)
            depth--;
    }
    return false;
}

enum err
s3policy_parse(struct span json, struct span bucket, struct s3policy **out,
               struct errbuf *eb)
{
    struct parsing p = {.bucket = bucket, .eb = eb};
    json_error_t where;
    json_t *root;
    enum err rc;

    *out = NULL;
    if (json.len > S3POLICY_BYTES_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "Policy: %zu bytes, at most %u are allowed",
                       json.len, S3POLICY_BYTES_MAX);
    if (nests_too_deeply(json))
        return bad_policy(&p, "it nests over 16 deep", NULL);
    root = json_loadb(json.at, json.len, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(root)) {
        json_decref(root);
        return err_set(eb, ERR_BAD_REQUEST, "Policies must be valid JSON: line %d: %s",
                       where.line, root == NULL ? where.text : "not an object");
    }
    p.policy = xcalloc(1, sizeof *p.policy);
    rc = policy_take_document(&p, root);
    json_decref(root);
    if (rc != ERR_OK)
        s3policy_free(&p.policy);
    *out = p.policy;
    return rc;
}
