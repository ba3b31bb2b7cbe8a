#include "cli/here.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/uri.h"
#include "cli/admin.h"
#include "cli/names.h"
#include "wire/json_get.h"
#include "wire/query.h"

#define ANSWER_MAX MIB(16)

struct here {
    struct session *s;
    char *bucket;              /* owned; of the page */
    json_t *page;              /* owned; NULL: none yet */
    size_t at;                 /* of its keys */
    struct buf prefix;         /* of the page */
    struct buf key, last;      /* of the page: the one at hand, decoded; the last one */
    struct buf asked;          /* the key that was asked for last */
    struct here_chunks chunks; /* of it */
};

static enum err
here_ask_server(struct session *s, struct span bucket, struct span query, json_t **out,
                struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), ANSWER_MAX);
    struct s3_request r = {.method = "GET", .query = query};
    struct span answer;
    enum err rc;

    *out = NULL;
    r.path = span_of(arena_printf(a, "/_/buckets/%.*s/here", SPAN_ARG(bucket)));
    rc = admin_call(s, &r, a, &answer);
    if (rc == ERR_OK)
        *out = json_loadb(answer.at, answer.len, 0, NULL);
    if (rc == ERR_OK && !json_is_string(json_object_get(*out, "class"))) {
        json_decref(*out);
        *out = NULL;
        rc = ERR_NOT_IMPLEMENTED;
    }
    if (rc == ERR_BAD_REQUEST || rc == ERR_NOT_IMPLEMENTED)
        rc = err_set(eb, ERR_NOT_IMPLEMENTED,
                     "the server at %s does not report cached objects: it is no "
                     "Forebay, or an older version",
                     s->endpoint);
    arena_free(&a);
    return rc;
}

enum err
here_ask(struct session *s, struct span bucket, struct span key, json_t **out,
         struct errbuf *eb)
{
    struct buf query;
    enum err rc;

    buf_init(&query, KIB(8));
    query_put(&query, "key", key);
    rc = here_ask_server(s, bucket, buf_span(&query), out, eb);
    buf_fini(&query);
    return rc;
}

struct here *
here_new(struct session *s)
{
    struct here *h = xcalloc(1, sizeof *h);

    h->s = s;
    buf_init(&h->prefix, KIB(4));
    buf_init(&h->asked, KIB(4));
    buf_init(&h->key, KIB(4));
    buf_init(&h->last, KIB(4));
    return h;
}

void
here_free(struct here **hp)
{
    struct here *h = *hp;

    *hp = NULL;
    if (h == NULL)
        return;
    free(h->bucket);
    json_decref(h->page);
    buf_fini(&h->prefix);
    buf_fini(&h->asked);
    buf_fini(&h->key);
    buf_fini(&h->last);
    free(h);
}

static const json_t *
entry(const struct here *h, size_t i)
{
    return json_array_get(json_object_get(h->page, "keys"), i);
}

static enum err
here_take_key(const json_t *e, struct buf *out, struct errbuf *eb)
{
    struct span text = span_of(json_get_text(e, "key", ""));
    int len;

    buf_clear(out);
    buf_put_span(out, text);
    len = out->full ? -1 : uri_decode(text, out->at);
    if (len < 0)
        return err_set(eb, ERR_BACKEND, "the server's page of keys is not one");
    out->len = (size_t)len;
    return ERR_OK;
}

static void
here_keep(struct buf *to, struct span text)
{
    buf_clear(to);
    buf_put_span(to, text);
}

/* Keys from `from` on. */
static enum err
here_load(struct here *h, const struct place *p, struct span prefix, struct span from,
          struct errbuf *eb)
{
    struct buf query;
    size_t count;
    enum err rc;

    json_decref(h->page);
    h->page = NULL;
    buf_init(&query, KIB(8));
    query_put(&query, "encoding", SPAN("url"));
    query_put(&query, "from", from);
    query_put(&query, "prefix", prefix);
    rc = here_ask_server(h->s, p->bucket, buf_span(&query), &h->page, eb);
    buf_fini(&query);
    if (rc != ERR_OK)
        return rc;
    free(h->bucket);
    h->bucket = xmemdup0(p->bucket.at, p->bucket.len);
    here_keep(&h->prefix, prefix);
    h->at = 0;
    count = json_array_size(json_object_get(h->page, "keys"));
    return count > 0 ? here_take_key(entry(h, count - 1), &h->last, eb) : ERR_OK;
}

/* Does the page tell of this key, one way or the other? It begins where an earlier key was looked for. */
static bool
here_covers(const struct here *h, const struct place *p, struct span prefix,
            struct span key)
{
    if (h->page == NULL || !span_is(p->bucket, h->bucket) ||
        !span_eq(prefix, buf_span(&h->prefix)) || span_cmp(key, buf_span(&h->asked)) < 0)
        return false;
    return !json_is_true(json_object_get(h->page, "more")) ||
           span_cmp(key, buf_span(&h->last)) <= 0;
}

enum err
here_state(struct here *h, const struct place *p, struct span key, const char **out,
           struct errbuf *eb)
{
    struct span prefix = {p->key.at, glob_literal(p->key)};
    enum err rc = ERR_OK;

    *out = "-";
    h->chunks = (struct here_chunks){0};
    if (!here_covers(h, p, prefix, key))
        rc = here_load(h, p, prefix, key, eb);
    here_keep(&h->asked, key);
    while (rc == ERR_OK && entry(h, h->at) != NULL) {
        int way;

        rc = here_take_key(entry(h, h->at), &h->key, eb);
        if (rc != ERR_OK)
            break;
        way = span_cmp(buf_span(&h->key), key);
        if (way == 0) {
            *out = json_get_text(entry(h, h->at), "state", "-");
            h->chunks = (struct here_chunks){
                .count = json_get_u64(entry(h, h->at), "chunks"),
                .here = json_get_u64(entry(h, h->at), "chunks_here"),
                .bytes = json_get_u64(entry(h, h->at), "present_bytes")};
        }
        if (way >= 0)
            break;
        h->at++;
    }
    return rc;
}

struct here_chunks
here_chunks(const struct here *h)
{
    return h->chunks;
}
