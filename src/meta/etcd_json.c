#include "meta/etcd_json.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/json.h"

#define READS_MAX  (META_CHANGE_MAX + META_READ_MAX) /* of one reply to a transaction */
#define TOKEN_MAX  4096u
#define EVENTS_MAX 100000u

/* ---- requests ---- */

static void
put_base64(struct json *j, const char *name, struct span a, struct span b)
{
    size_t len = a.len + b.len;
    char *raw, *text;

    assert(len > 0);
    raw = xmalloc(len);
    text = xmalloc(BASE64_LEN(len) + 1);
    if (a.len > 0)
        memcpy(raw, a.at, a.len);
    if (b.len > 0)
        memcpy(raw + a.len, b.at, b.len);
    base64_encode(raw, len, text);
    json_text(j, name, text);
    free(raw);
    free(text);
}

static void
put_number_text(struct json *j, const char *name, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, n);
    json_text(j, name, text);
}

/* The first key behind all keys that start with `prefix` and `more`. 0xff at the end is cut off; of 0xff alone no key is behind. */
static void
put_range_end(struct json *j, struct span prefix, struct span more)
{
    size_t len = prefix.len + more.len;
    char *end = xmalloc(len + 1);

    assert(prefix.len > 0);
    memcpy(end, prefix.at, prefix.len);
    if (more.len > 0)
        memcpy(end + prefix.len, more.at, more.len);
    while (len > 0 && (unsigned char)end[len - 1] == 0xff)
        len--;
    assert(len > 0); /* a prefix has letters */
    end[len - 1] = (char)((unsigned char)end[len - 1] + 1);
    put_base64(j, "range_end", (struct span){end, len}, (struct span){NULL, 0});
    free(end);
}

void
etcd_put_range(struct buf *out, struct span prefix, const struct meta_range *r,
               uint32_t limit, uint64_t revision)
{
    struct json j;

    assert(limit > 0);
    assert(prefix.len <= ETCD_PREFIX_MAX);
    json_begin(&j, out);
    json_open_object(&j, NULL);
    if (r->after.len > 0) { /* the smallest key behind it: a zero byte more */
        char *next = xmemdup0(r->after.at, r->after.len);

        put_base64(&j, "key", prefix, (struct span){next, r->after.len + 1});
        free(next);
    } else {
        put_base64(&j, "key", prefix, r->prefix);
    }
    put_range_end(&j, prefix, r->prefix);
    put_number_text(&j, "limit", limit);
    if (revision > 0)
        put_number_text(&j, "revision", revision);
    json_end(&j);
}

static void
put_read(struct json *j, struct span prefix, struct span key, bool keys_only)
{
    json_open_object(j, NULL);
    json_open_object(j, "request_range");
    put_base64(j, "key", prefix, key);
    if (keys_only)
        json_bool(j, "keys_only", true);
    json_end(j);
    json_end(j);
}

static void
put_compares(struct json *j, struct span prefix, const struct meta_txn *t)
{
    json_open_array(j, "compare");
    for (uint32_t i = 0; i < t->change_count; i++) {
        const struct meta_change *c = &t->changes[i];

        if (c->if_revision == META_ANY)
            continue;
        json_open_object(j, NULL);
        put_base64(j, "key", prefix, c->key);
        json_text(j, "target", "MOD");
        json_text(j, "result", "EQUAL");
        put_number_text(j, "mod_revision", c->if_revision);
        json_end(j);
    }
    json_end(j);
}

static void
put_success(struct json *j, struct span prefix, const struct meta_txn *t)
{
    json_open_array(j, "success");
    for (uint32_t i = 0; i < t->change_count; i++) {
        const struct meta_change *c = &t->changes[i];

        json_open_object(j, NULL);
        json_open_object(j, c->remove ? "request_delete_range" : "request_put");
        put_base64(j, "key", prefix, c->key);
        if (c->value.len > 0)
            put_base64(j, "value", c->value, (struct span){NULL, 0});
        json_end(j);
        json_end(j);
    }
    for (uint32_t i = 0; i < t->read_count; i++)
        put_read(j, prefix, t->reads[i], false);
    json_end(j);
}

void
etcd_put_txn(struct buf *out, struct span prefix, const struct meta_txn *t)
{
    struct json j;

    assert(t->change_count <= META_CHANGE_MAX);
    assert(t->read_count <= META_READ_MAX);
    assert(t->change_count + t->read_count > 0);
    json_begin(&j, out);
    json_open_object(&j, NULL);
    put_compares(&j, prefix, t);
    put_success(&j, prefix, t);
    json_open_array(&j, "failure");
    for (uint32_t i = 0; i < t->change_count; i++) {
        if (t->changes[i].if_revision != META_ANY)
            put_read(&j, prefix, t->changes[i].key, true);
    }
    for (uint32_t i = 0; i < t->read_count; i++)
        put_read(&j, prefix, t->reads[i], false);
    json_end(&j);
    json_end(&j);
}

void
etcd_put_watch(struct buf *out, struct span prefix, uint64_t revision)
{
    struct json j;

    assert(revision > 0);
    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_open_object(&j, "create_request");
    put_base64(&j, "key", prefix, (struct span){NULL, 0});
    put_range_end(&j, prefix, (struct span){NULL, 0});
    put_number_text(&j, "start_revision", revision);
    json_end(&j);
    json_end(&j);
}

void
etcd_put_login(struct buf *out, const char *user, const char *password)
{
    struct json j;

    assert(user != NULL);
    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_text(&j, "name", user);
    json_text(&j, "password", password != NULL ? password : "");
    json_end(&j);
}

/* ---- replies ---- */

static enum err
bad_reply(struct errbuf *eb, const char *what)
{
    return err_set(eb, ERR_BACKEND, "etcd's answer has %s", what);
}

static enum err
too_much(struct errbuf *eb)
{
    return err_set(eb, ERR_TOO_LARGE,
                   "etcd's answer does not fit into the memory of this request");
}

/* *root is NULL on error. */
static enum err
reply_open(struct span json, json_t **root, struct errbuf *eb)
{
    json_error_t e;

    *root = NULL;
    if (json.len > ETCD_REPLY_MAX)
        return err_set(eb, ERR_TOO_LARGE,
                       "an answer of etcd of %zu bytes, at most %u are read", json.len,
                       ETCD_REPLY_MAX);
    *root = json_loadb(json.len > 0 ? json.at : "", json.len, 0, &e);
    if (*root == NULL)
        return err_set(eb, ERR_BACKEND, "etcd's answer is not JSON: %s", e.text);
    if (json_is_object(*root))
        return ERR_OK;
    json_decref(*root);
    *root = NULL;
    return bad_reply(eb, "no object");
}

/* A text of digits, or a number; 0 where it is missing. */
static enum err
take_number(const json_t *o, const char *name, uint64_t *out, struct errbuf *eb)
{
    const json_t *v = json_object_get(o, name);
    const char *text = json_string_value(v);

    *out = 0;
    if (v == NULL)
        return ERR_OK;
    if (json_is_integer(v) && json_integer_value(v) >= 0) {
        *out = (uint64_t)json_integer_value(v);
        return ERR_OK;
    }
    if (text != NULL && num_u64(span_of(text), out) == ERR_OK)
        return ERR_OK;
    *out = 0;
    return bad_reply(eb, "a number that is none");
}

/* Base64 into the arena; empty where it is missing. */
static enum err
json_bytes(const json_t *o, const char *name, struct arena *a, struct span *out,
           struct errbuf *eb)
{
    const json_t *v = json_object_get(o, name);
    const char *text = json_string_value(v);
    size_t len = json_string_length(v);
    char *bytes;
    int n;

    *out = (struct span){"", 0};
    if (v == NULL || (text != NULL && len == 0))
        return ERR_OK;
    if (text == NULL)
        return bad_reply(eb, "a key or value that is no text");
    bytes = arena_try(a, len);
    if (bytes == NULL)
        return too_much(eb);
    n = base64_decode(text, len, bytes, len);
    if (n < 0)
        return bad_reply(eb, "a key or value that is not base64");
    *out = (struct span){bytes, (size_t)n};
    return ERR_OK;
}

static enum err
take_key(const json_t *kv, struct span prefix, struct arena *a, struct span *out,
         struct errbuf *eb)
{
    enum err rc = json_bytes(kv, "key", a, out, eb);

    if (rc != ERR_OK)
        return rc;
    if (out->len <= prefix.len || !span_starts(*out, prefix) ||
        out->len - prefix.len > META_KEY_MAX)
        return bad_reply(eb, "a key that was not asked for");
    *out = span_from(*out, prefix.len);
    return ERR_OK;
}

/* The key stays empty with `prefix` NULL: the caller knows it. */
static enum err
json_pair(const json_t *kv, const struct span *prefix, struct arena *a,
          struct meta_pair *out, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    *out = (struct meta_pair){0};
    if (!json_is_object(kv))
        return bad_reply(eb, "a pair that is no object");
    if (prefix != NULL)
        rc = take_key(kv, *prefix, a, &out->key, eb);
    if (rc == ERR_OK)
        rc = json_bytes(kv, "value", a, &out->value, eb);
    if (rc == ERR_OK)
        rc = take_number(kv, "mod_revision", &out->revision, eb);
    if (rc == ERR_OK && (out->revision == 0 || out->revision == META_ANY))
        rc = bad_reply(eb, "a pair without a revision");
    return rc;
}

static enum err
take_head(const json_t *root, uint64_t *cluster, uint64_t *revision, struct errbuf *eb)
{
    const json_t *head = json_object_get(root, "header");
    enum err rc;

    if (!json_is_object(head))
        return bad_reply(eb, "no header");
    rc = take_number(head, "cluster_id", cluster, eb);
    if (rc == ERR_OK)
        rc = take_number(head, "revision", revision, eb);
    return rc;
}

static enum err
json_pairs(const json_t *root, struct span prefix, struct arena *a,
           struct etcd_found *out, struct errbuf *eb)
{
    const json_t *kvs = json_object_get(root, "kvs");
    size_t count = json_array_size(kvs);

    if (kvs != NULL && !json_is_array(kvs))
        return bad_reply(eb, "pairs that are no list");
    if (count > META_PAGE_MAX)
        return bad_reply(eb, "more pairs than were asked for");
    out->pairs = arena_try(a, count * sizeof *out->pairs);
    if (out->pairs == NULL)
        return too_much(eb);
    for (size_t i = 0; i < count; i++) {
        enum err rc = json_pair(json_array_get(kvs, i), &prefix, a, &out->pairs[i], eb);

        if (rc != ERR_OK)
            return rc;
        if (i > 0 && span_cmp(out->pairs[i - 1].key, out->pairs[i].key) >= 0)
            return bad_reply(eb, "pairs out of order");
    }
    out->count = (uint32_t)count;
    out->more = json_is_true(json_object_get(root, "more"));
    return !out->more || count > 0 ? ERR_OK : bad_reply(eb, "no pair, but more of them");
}

enum err
etcd_found_parse(struct span json, struct span prefix, struct arena *a,
                 struct etcd_found *out, struct errbuf *eb)
{
    json_t *root;
    enum err rc = reply_open(json, &root, eb);

    *out = (struct etcd_found){0};
    if (rc == ERR_OK)
        rc = take_head(root, &out->cluster, &out->revision, eb);
    if (rc == ERR_OK)
        rc = json_pairs(root, prefix, a, out, eb);
    json_decref(root);
    return rc;
}

/* One element of "responses": a range adds to the reads; of a put or a removal nothing is wanted. */
static enum err
take_response(const json_t *one, struct arena *a, struct etcd_outcome *out,
              struct errbuf *eb)
{
    const json_t *range = json_object_get(one, "response_range"), *kvs;
    struct meta_pair *pair;
    size_t count;

    if (!json_is_object(one))
        return bad_reply(eb, "a response that is no object");
    if (range == NULL)
        return ERR_OK;
    kvs = json_object_get(range, "kvs");
    count = json_array_size(kvs);
    if (count > 1 || (kvs != NULL && !json_is_array(kvs)))
        return bad_reply(eb, "several pairs for one key");
    assert(out->read_count < READS_MAX);
    pair = &out->reads[out->read_count++];
    *pair = (struct meta_pair){0};
    return count == 0 ? ERR_OK : json_pair(json_array_get(kvs, 0), NULL, a, pair, eb);
}

static enum err
take_responses(const json_t *root, struct arena *a, struct etcd_outcome *out,
               struct errbuf *eb)
{
    const json_t *all = json_object_get(root, "responses");
    size_t count = json_array_size(all);

    if (all != NULL && !json_is_array(all))
        return bad_reply(eb, "responses that are no list");
    if (count > READS_MAX)
        return bad_reply(eb, "more responses than were asked for");
    out->reads = arena_try(a, READS_MAX * sizeof *out->reads);
    if (out->reads == NULL)
        return too_much(eb);
    for (size_t i = 0; i < count; i++) {
        enum err rc = take_response(json_array_get(all, i), a, out, eb);

        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

enum err
etcd_outcome_parse(struct span json, struct arena *a, struct etcd_outcome *out,
                   struct errbuf *eb)
{
    json_t *root;
    enum err rc = reply_open(json, &root, eb);

    *out = (struct etcd_outcome){0};
    if (rc == ERR_OK)
        rc = take_head(root, &out->cluster, &out->revision, eb);
    if (rc == ERR_OK && out->revision == 0)
        rc = bad_reply(eb, "no revision");
    if (rc == ERR_OK) {
        out->succeeded = json_is_true(json_object_get(root, "succeeded"));
        rc = take_responses(root, a, out, eb);
    }
    json_decref(root);
    return rc;
}

static enum err
take_events(const json_t *result, struct span prefix, struct arena *a,
            struct etcd_events *out, struct errbuf *eb)
{
    const json_t *events = json_object_get(result, "events");
    size_t count = json_array_size(events);

    if (count == 0)
        return ERR_OK;
    if (count > EVENTS_MAX)
        return too_much(eb);
    out->keys = arena_try(a, count * sizeof *out->keys);
    if (out->keys == NULL)
        return too_much(eb);
    for (size_t i = 0; i < count; i++) {
        const json_t *kv = json_object_get(json_array_get(events, i), "kv");
        enum err rc = take_key(kv, prefix, a, &out->keys[i], eb);

        if (rc != ERR_OK)
            return rc;
        out->count++;
    }
    return ERR_OK;
}

enum err
etcd_events_parse(struct span json, struct span prefix, struct arena *a,
                  struct etcd_events *out, struct errbuf *eb)
{
    const json_t *result;
    const char *why;
    json_t *root;
    enum err rc = reply_open(json, &root, eb);

    *out = (struct etcd_events){0};
    if (rc != ERR_OK)
        return rc;
    result = json_object_get(root, "result");
    rc = result != NULL ? take_head(result, &out->cluster, &out->revision, eb)
                        : bad_reply(eb, "no result");
    if (rc == ERR_OK)
        rc = take_number(result, "compact_revision", &out->compacted, eb);
    if (rc == ERR_OK) {
        out->created = json_is_true(json_object_get(result, "created"));
        out->canceled = json_is_true(json_object_get(result, "canceled"));
        why = json_string_value(json_object_get(result, "cancel_reason"));
        snprintf(out->why, sizeof out->why, "%s", why != NULL ? why : "");
        rc = take_events(result, prefix, a, out, eb);
    }
    json_decref(root);
    return rc;
}

enum err
etcd_token_parse(struct span json, char **token, struct errbuf *eb)
{
    const char *text;
    json_t *root;
    enum err rc = reply_open(json, &root, eb);

    *token = NULL;
    if (rc != ERR_OK)
        return rc;
    text = json_string_value(json_object_get(root, "token"));
    if (text == NULL || text[0] == '\0' || strlen(text) > TOKEN_MAX)
        rc = bad_reply(eb, "no token");
    for (const char *p = text; rc == ERR_OK && *p != '\0'; p++) {
        if (*p <= ' ' || *p >= 0x7f)
            rc = bad_reply(eb, "a token that is no word");
    }
    if (rc == ERR_OK)
        *token = xstrdup(text);
    json_decref(root);
    return rc;
}

unsigned
etcd_error_parse(struct span json, struct errbuf *why)
{
    const char *text;
    json_t *root;
    uint64_t code = 0;

    err_forget(why);
    if (json.len > KIB(64) || reply_open(json, &root, NULL) != ERR_OK)
        return 0;
    text = json_string_value(json_object_get(root, "message"));
    if (text == NULL)
        text = json_string_value(json_object_get(root, "error"));
    if (take_number(root, "code", &code, NULL) != ERR_OK || code > 16 || text == NULL)
        code = 0;
    else
        (void)err_set(why, ERR_BACKEND, "%s", text);
    json_decref(root);
    return (unsigned)code;
}
