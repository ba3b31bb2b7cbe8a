/* list: pages of keys and common prefixes in byte order. A native bucket is the disk's order with groups skipped by
 * seeking; a cached bucket is the backend's page. */
#include <string.h>

#include "base/mem.h"
#include "object/internal.h"

#define ROWS_A_TIME 256

/* Where the next row is to be looked for. */
struct seek {
    struct span from;
    bool inclusive;
};

struct walk {
    struct object_service *s;
    const struct map_bucket *bucket;
    const struct object_list_options *o;
    struct arena *arena;
    struct object_page *page;
    struct seek next;
    struct span group; /* the common prefix that was given last; at NULL: none */
};

static const char *
find(struct span in, struct span what)
{
    return memmem(in.at, in.len, what.at, what.len);
}

/* The group a key falls into, or an empty span. */
static struct span
group_of(const struct object_list_options *o, struct span key)
{
    struct span rest = span_from(key, o->prefix.len);
    const char *at = o->delimiter.len > 0 ? find(rest, o->delimiter) : NULL;

    if (at == NULL)
        return (struct span){NULL, 0};
    return (struct span){key.at, (size_t)(at - key.at) + o->delimiter.len};
}

/* The first key behind everything that starts with `group`; false when there is none. */
static bool
behind_group(struct arena *a, struct span group, struct seek *out)
{
    char *p = arena_strdup(a, group);
    size_t len = group.len;

    while (len > 0 && (unsigned char)p[len - 1] == 0xff)
        len--;
    if (len == 0)
        return false;
    p[len - 1] = (char)((unsigned char)p[len - 1] + 1);
    *out = (struct seek){{p, len}, true};
    return true;
}

static struct seek
first_seek(const struct walk *w)
{
    const struct object_list_options *o = w->o;
    struct seek s = {o->after, false};

    /* A marker that is a common prefix skips its group. */
    if (o->after.len > o->prefix.len && span_starts(o->after, o->prefix) &&
        span_eq(group_of(o, o->after), o->after) && behind_group(w->arena, o->after, &s))
        return s;
    if (span_cmp(o->after, o->prefix) < 0)
        s = (struct seek){o->prefix, true};
    return s;
}

static void
add_key(struct walk *w, const struct disk_entry *e)
{
    struct object_entry *out = &w->page->entries[w->page->count++];

    *out = (struct object_entry){
        .name = e->key, .size = e->row.size, .mtime_ms = e->row.mtime_ms};
    etag_of(e->row.md5, e->row.parts, (struct span){NULL, 0}, out->etag);
}

/* Takes one row; false when the page is full and this row would be one more. */
static bool
take_row(struct walk *w, const struct disk_entry *e, bool *jump)
{
    struct span group = group_of(w->o, e->key);

    *jump = false;
    if (w->page->count == w->o->max) {
        w->page->truncated = true;
        return false;
    }
    if (group.len == 0) {
        add_key(w, e);
        w->next = (struct seek){e->key, false};
        return true;
    }
    w->page->entries[w->page->count++] =
        (struct object_entry){.name = group, .is_prefix = true};
    *jump = true;
    w->group = group;
    return true;
}

/* One batch of rows. *done: nothing can follow. */
static enum err
step(struct walk *w, bool *done, struct errbuf *eb)
{
    struct disk_entry *rows = NULL;
    uint32_t count = 0, want = MIN(w->o->max - w->page->count + 1, ROWS_A_TIME);
    bool more = false, jump = false;
    enum err rc = disk_list(w->s->options.disk, w->bucket->id, w->next.from,
                            w->next.inclusive, want, w->arena, &rows, &count, &more, eb);

    if (rc != ERR_OK)
        return rc;
    *done = !more;
    for (uint32_t i = 0; i < count; i++) {
        if (!span_starts(rows[i].key, w->o->prefix) || !take_row(w, &rows[i], &jump)) {
            *done = true;
            return ERR_OK;
        }
        if (jump) {
            *done = !behind_group(w->arena, w->group, &w->next);
            return ERR_OK;
        }
    }
    return ERR_OK;
}

static enum err
list_native(struct walk *w, struct errbuf *eb)
{
    bool done = false;
    enum err rc = ERR_OK;

    w->next = first_seek(w);
    while (rc == ERR_OK && !done)
        rc = step(w, &done, eb);
    return rc;
}

/* Behind all keys of a group, in characters every backend takes: U+10FFFF. */
#define LAST_CHARACTER "\xf4\x8f\xbf\xbf"

static enum err
list_cached(struct walk *w, struct errbuf *eb)
{
    const struct object_list_options *o = w->o;
    struct s3_list l = {.bucket = span_of(w->bucket->backend.bucket),
                        .prefix = o->prefix,
                        .delimiter = o->delimiter,
                        .start_after = o->after,
                        .max_keys = o->max};
    struct s3_list_page from;
    enum err rc;

    if (o->after.len > 0 && span_eq(group_of(o, o->after), o->after))
        l.start_after =
            span_of(arena_printf(w->arena, "%.*s" LAST_CHARACTER, SPAN_ARG(o->after)));
    rc = cloud_list(w->s->options.cloud, w->bucket, &l, w->arena, &from, eb);
    if (rc != ERR_OK)
        return rc;
    for (uint32_t i = 0; i < from.count && w->page->count < o->max; i++) {
        struct object_entry *e = &w->page->entries[w->page->count++];
        const uint8_t none[16] = {0};

        *e = (struct object_entry){.name = from.entries[i].key,
                                   .is_prefix = from.entries[i].is_prefix,
                                   .size = from.entries[i].size,
                                   .mtime_ms = from.entries[i].mtime_ms};
        etag_of(none, 0, from.entries[i].etag, e->etag);
    }
    w->page->truncated = from.truncated || w->page->count < from.count;
    return ERR_OK;
}

enum err
object_list(struct object_service *s, const struct map_bucket *b,
            const struct object_list_options *o, struct arena *a, struct object_page *out,
            struct errbuf *eb)
{
    struct walk w = {.s = s, .bucket = b, .o = o, .arena = a, .page = out};
    enum err rc;

    *out = (struct object_page){0};
    if (o->max == 0 || o->max > 1000)
        return err_set(eb, ERR_BAD_REQUEST, "a page of %u names, 1 to 1000 are possible",
                       o->max);
    out->entries = arena_alloc(a, o->max * sizeof *out->entries);
    rc = b->cached ? list_cached(&w, eb) : list_native(&w, eb);
    if (rc != ERR_OK)
        return rc;
    if (out->truncated && out->count > 0)
        out->next_after = out->entries[out->count - 1].name;
    else
        out->truncated = false;
    return ERR_OK;
}
