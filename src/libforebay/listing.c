/* listing: the objects of a bucket, page after page, as columns. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "libforebay/internal.h"
#include "wire/s3xml.h"

#define PAGE_KEYS      1000u
#define PAGE_ARENA     MIB(16)
#define KEYS_MOST      GIB(16) /* bytes of all keys of a listing */
#define LISTING_PARAMS 6u

/* The columns under construction. The public struct is first: its address is the caller's handle. */
struct listing {
    struct forebay_listing shown;
    struct buf keys, etags;
    uint64_t *sizes;
    int64_t *mtimes_ms;
    unsigned char *is_prefix;
    size_t room;
};

static void
listing_grow(struct listing *l, size_t more)
{
    size_t wanted = l->shown.count + more;

    if (wanted <= l->room)
        return;
    l->room = MAX(2 * l->room, MAX(wanted, 64u));
    l->sizes = xrealloc(l->sizes, l->room * sizeof *l->sizes);
    l->mtimes_ms = xrealloc(l->mtimes_ms, l->room * sizeof *l->mtimes_ms);
    l->is_prefix = xrealloc(l->is_prefix, l->room * sizeof *l->is_prefix);
}

/* Without the NUL that ends a column's text, a key with a NUL inside would be two. */
static enum err
listing_add(struct listing *l, const struct s3xml_list_entry *entry, struct errbuf *eb)
{
    size_t i = l->shown.count;

    if (span_find(entry->key, '\0') != NULL)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "the bucket has a key with a zero byte in it, which a C text "
                       "cannot hold");
    assert(i < l->room);
    buf_put_span(&l->keys, entry->key);
    buf_putc(&l->keys, '\0');
    buf_put_span(&l->etags, entry->etag);
    buf_putc(&l->etags, '\0');
    if (l->keys.full || l->etags.full)
        return err_set(eb, ERR_TOO_LARGE,
                       "the keys have over %" PRIu64 " bytes together: list by prefixes",
                       (uint64_t)KEYS_MOST);
    l->sizes[i] = entry->size;
    l->mtimes_ms[i] = entry->mtime_ms;
    l->is_prefix[i] = entry->is_prefix;
    l->shown.count++;
    return ERR_OK;
}

/* ---- a page ---- */

struct paging {
    const char *bucket, *prefix, *delimiter, *after;
    size_t limit;     /* 0: none */
    struct buf token; /* of the next page */
    bool more;
};

static void
paging_params(const struct paging *p, const struct listing *l, char number[24],
              struct param *out, unsigned *count)
{
    size_t left = p->limit > 0 ? p->limit - l->shown.count : PAGE_KEYS;

    *count = 0;
    out[(*count)++] = (struct param){SPAN("list-type"), SPAN("2")};
    snprintf(number, 24, "%zu", MIN(left, PAGE_KEYS));
    out[(*count)++] = (struct param){SPAN("max-keys"), span_of(number)};
    if (p->prefix != NULL && p->prefix[0] != '\0')
        out[(*count)++] = (struct param){SPAN("prefix"), span_of(p->prefix)};
    if (p->delimiter != NULL && p->delimiter[0] != '\0')
        out[(*count)++] = (struct param){SPAN("delimiter"), span_of(p->delimiter)};
    if (p->token.len > 0)
        out[(*count)++] = (struct param){SPAN("continuation-token"), buf_span(&p->token)};
    else if (p->after != NULL && p->after[0] != '\0')
        out[(*count)++] = (struct param){SPAN("start-after"), span_of(p->after)};
    out[(*count)++] = (struct param){SPAN("encoding-type"), SPAN("url")};
    assert(*count <= LISTING_PARAMS);
}

static enum err
paging_take(struct paging *p, struct listing *l, const struct s3xml_list *page,
            struct errbuf *eb)
{
    enum err rc = ERR_OK;

    listing_grow(l, page->count);
    for (size_t i = 0; rc == ERR_OK && i < page->count; i++)
        if (p->limit == 0 || l->shown.count < p->limit)
            rc = listing_add(l, &page->entries[i], eb);
    p->more = page->truncated;
    if (p->more &&
        (page->next_token.len == 0 || span_eq(page->next_token, buf_span(&p->token))))
        return err_set(eb, ERR_BACKEND,
                       "the server says that there is more, and not where it goes on");
    buf_clear(&p->token);
    buf_put_span(&p->token, page->next_token);
    return rc;
}

static enum err
paging_receive(struct exchange *x, struct s3xml_list_reader *r, struct errbuf *eb)
{
    enum err rc = ERR_OK;
    size_t n = 1;

    while (rc == ERR_OK && n > 0) {
        size_t room = 0;
        char *at = s3xml_list_room(r, &room);

        rc = exchange_read(x, at, room, &n, eb);
        if (rc == ERR_OK && n > 0)
            rc = s3xml_list_feed(r, n, eb);
    }
    return rc;
}

static enum err
paging_attempt(struct forebay *f, struct paging *p, struct listing *l,
               struct failure *why, struct errbuf *eb)
{
    struct s3xml_list_reader *r = s3xml_list_begin();
    struct arena *a = arena_new(KIB(64), PAGE_ARENA);
    struct param params[LISTING_PARAMS + 1];
    struct call c = {.method = "GET", .bucket = span_of(p->bucket), .params = params};
    struct s3xml_list page;
    struct exchange x;
    char number[24];
    enum err rc;

    paging_params(p, l, number, params, &c.param_count);
    rc = exchange_begin(f, &c, &x, why, eb);
    if (rc == ERR_OK) {
        rc = paging_receive(&x, r, eb);
        why->retry = rc == ERR_INCOMPLETE || rc == ERR_CLOSED || rc == ERR_TIMEOUT;
        exchange_end(&x);
        if (rc == ERR_OK)
            rc = s3xml_list_end(r, a, &page, eb);
        if (rc == ERR_OK)
            rc = paging_take(p, l, &page, eb);
        if (rc == ERR_BAD_REQUEST)
            rc = ERR_BACKEND; /* the server's document, not the caller's mistake */
    }
    s3xml_list_free(&r);
    arena_free(&a);
    return rc;
}

int
forebay_list(struct forebay *f, const char *bucket, const char *prefix,
             const char *delimiter, const char *after, size_t limit,
             const struct forebay_listing **out, struct forebay_error *e)
{
    struct paging p = {.bucket = bucket,
                       .prefix = prefix,
                       .delimiter = delimiter,
                       .after = after,
                       .limit = limit,
                       .more = true};
    const struct forebay_listing *made;
    struct attempts tries = {0};
    struct failure why = {0};
    struct errbuf eb = {{0}};
    struct listing *l;
    enum err rc = ERR_OK;
    int result;

    *out = NULL;
    if (!check_names(bucket, NULL, e, &result))
        return result;
    l = xcalloc(1, sizeof *l);
    made = &l->shown;
    buf_init(&l->keys, KEYS_MOST);
    buf_init(&l->etags, KEYS_MOST);
    buf_init(&p.token, KIB(8));
    while (p.more && (limit == 0 || l->shown.count < limit)) {
        rc = paging_attempt(f, &p, l, &why, &eb);
        if (rc == ERR_OK)
            tries.failed = 0;
        else if (!attempts_go_on(f, &tries, rc, &why, &eb))
            break;
    }
    buf_fini(&p.token);
    if (rc != ERR_OK) {
        forebay_listing_free(&made);
        return result_of(rc, &why, &eb, e);
    }
    l->shown.keys = l->keys.at != NULL ? l->keys.at : "";
    l->shown.etags = l->etags.at != NULL ? l->etags.at : "";
    l->shown.keys_len = l->keys.len;
    l->shown.etags_len = l->etags.len;
    l->shown.sizes = l->sizes;
    l->shown.mtimes_ms = l->mtimes_ms;
    l->shown.is_prefix = l->is_prefix;
    l->shown.truncated = p.more;
    *out = made;
    return FOREBAY_OK;
}

void
forebay_listing_free(const struct forebay_listing **lp)
{
    struct listing *l;

    if (*lp == NULL)
        return;
    l = (struct listing *)(uintptr_t)*lp; /* made here, and not const there */
    *lp = NULL;
    buf_fini(&l->keys);
    buf_fini(&l->etags);
    free(l->sizes);
    free(l->mtimes_ms);
    free(l->is_prefix);
    free(l);
}
