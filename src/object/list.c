/* list: pages of keys and common prefixes in byte order. A native bucket is listed from the index, and common
 * prefixes are skipped by seeking. For a cached bucket this is the backend's page, or, while the backend is down,
 * the cached objects. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "object/list_prefetch.h"
#include "wire/etag.h"

#define ENTRIES_A_TIME 256
#define SCRATCH_BYTES  MIB(2) /* a batch of entries with keys of any length */
static_assert(SCRATCH_BYTES >= (ENTRIES_A_TIME + 1) *
                                   (STORE_KEY_MAX + 32 + sizeof(struct store_entry)),
              "a batch fits");

/* Where the next lookup starts. */
struct seek {
    struct span from;
    bool inclusive;
};

struct walk {
    struct object_service *s;
    const struct map_bucket *bucket;
    const struct object_list_options *o;
    struct arena *arena; /* of the page: owns the returned names */
    struct object_page *page;
    struct arena *scratch; /* owned: one batch of entries */
    struct seek next;      /* `from` points into from_bytes */
    char from_bytes[STORE_KEY_MAX];
    uint32_t
        batch; /* entries to ask for: one behind a common prefix, more while keys follow keys */
};

struct span
group_of(struct span prefix, struct span delimiter, struct span key)
{
    struct span rest = span_from(key, prefix.len);
    const char *at =
        delimiter.len > 0 ? memmem(rest.at, rest.len, delimiter.at, delimiter.len) : NULL;

    if (at == NULL)
        return (struct span){NULL, 0};
    return (struct span){key.at, (size_t)(at - key.at) + delimiter.len};
}

static void
list_seek(struct walk *w, struct span key, bool inclusive)
{
    assert(key.len <= sizeof w->from_bytes);
    if (key.len > 0)
        memmove(w->from_bytes, key.at, key.len);
    w->next = (struct seek){{w->from_bytes, key.len}, inclusive};
}

/* Seeks to the first key behind everything that starts with `group`; false: there is none. */
static bool
list_seek_behind(struct walk *w, struct span group)
{
    size_t len = group.len;

    assert(group.len <= sizeof w->from_bytes);
    while (len > 0 && (unsigned char)group.at[len - 1] == 0xff)
        len--;
    if (len == 0)
        return false;
    list_seek(w, (struct span){group.at, len}, true);
    w->from_bytes[len - 1]++;
    return true;
}

/* False: nothing can follow. */
static bool
list_first_seek(struct walk *w)
{
    const struct object_list_options *o = w->o;

    /* A marker that is a common prefix skips its keys. */
    if (o->after.len > o->prefix.len && span_starts(o->after, o->prefix) &&
        span_eq(group_of(o->prefix, o->delimiter, o->after), o->after))
        return list_seek_behind(w, o->after);
    if (span_cmp(o->after, o->prefix) < 0)
        list_seek(w, o->prefix, true);
    else
        list_seek(w, o->after, false);
    return true;
}

/* Few entries have an ETag that is no MD5, or represent chunks; the rest is in the object's metadata. */
static enum err
put_odd_etag(struct walk *w, const struct store_entry *e, struct object_entry *out,
             struct errbuf *eb)
{
    struct disks_key k = object_disk_key(w->bucket, e->key);
    struct object_meta meta = {0};
    char etag[160];
    enum err rc = disks_meta(w->s->options.disks, &k, &e->entry, w->scratch, &meta, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    /* Replaced meanwhile: list it without the text. */
    etag_of(e->entry.md5, e->entry.parts, meta.etag_text, etag);
    out->etag = arena_span(w->arena, span_of(etag));
    if (meta.whole_bytes > 0)
        out->size = meta.whole_bytes;
    return ERR_OK;
}

static enum err
list_add(struct walk *w, struct span name, const struct store_entry *key,
         struct errbuf *eb)
{
    struct object_entry *out = &w->page->entries[w->page->count];
    char *at = arena_try(w->arena, name.len + ETAG_TEXT_MAX);

    assert(w->page->count < w->o->max);
    assert(name.len <= STORE_KEY_MAX);
    if (at == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u names", w->o->max);
    memcpy(at, name.at, name.len);
    *out = (struct object_entry){.name = {at, name.len}, .is_prefix = key == NULL};
    w->page->count++;
    if (key == NULL)
        return ERR_OK;
    out->size = key->entry.size;
    out->mtime_ms = key->entry.mtime_ms;
    if ((key->entry.flags & (ENTRY_ETAG_TEXT | ENTRY_CHUNKS)) != 0)
        return put_odd_etag(w, key, out, eb);
    out->etag = (struct span){at + name.len,
                              etag_text(key->entry.md5, key->entry.parts, at + name.len)};
    return ERR_OK;
}

/* Takes entries until the page is full, a common prefix begins, or they end. *done: nothing can follow. */
static enum err
list_add_entries(struct walk *w, const struct store_entry *entries, uint32_t count,
                 bool *done, struct errbuf *eb)
{
    for (uint32_t i = 0; i < count; i++) {
        struct span group = group_of(w->o->prefix, w->o->delimiter, entries[i].key);
        enum err rc;

        if (!span_starts(entries[i].key, w->o->prefix) || w->page->count == w->o->max) {
            w->page->truncated = span_starts(entries[i].key, w->o->prefix);
            *done = true;
            return ERR_OK;
        }
        if ((entries[i].entry.flags & ENTRY_IN_DOUBT) !=
            0) { /* the backend may have deleted it */
            list_seek(w, entries[i].key, false);
            continue;
        }
        rc = group.len > 0 ? list_add(w, group, NULL, eb)
                           : list_add(w, entries[i].key, &entries[i], eb);
        if (rc != ERR_OK)
            return rc;
        if (group.len > 0) {
            *done = !list_seek_behind(w, group);
            w->batch = 1;
            return ERR_OK;
        }
        list_seek(w, entries[i].key, false);
    }
    w->batch = MIN(w->batch * 4, ENTRIES_A_TIME);
    return ERR_OK;
}

static enum err
list_local(struct walk *w, struct errbuf *eb)
{
    bool done = !list_first_seek(w);
    enum err rc = ERR_OK;

    assert(w->o->max > 0);
    assert(w->scratch == NULL);
    w->scratch = arena_new(KIB(16), SCRATCH_BYTES);
    w->batch = w->o->delimiter.len > 0 ? 16 : ENTRIES_A_TIME;
    while (rc == ERR_OK && !done) {
        struct store_entry *entries = NULL;
        uint32_t count = 0, left = w->o->max - w->page->count + 1;
        bool more = false;

        assert(left > 0);
        assert(w->page->count <= w->o->max);
        arena_reset(w->scratch);
        rc = disks_list(w->s->options.disks, w->bucket->id, w->bucket->copies,
                        w->next.from, w->next.inclusive, MIN(left, w->batch), w->scratch,
                        &entries, &count, &more, eb);
        done = !more;
        if (rc == ERR_OK)
            rc = list_add_entries(w, entries, count, &done, eb);
    }
    arena_free(&w->scratch);
    return rc;
}

/* Sorts behind all keys of a common prefix, in a character that every backend accepts: U+10FFFF. */
#define LAST_CHARACTER "\xf4\x8f\xbf\xbf"

#define EMPTY_PAGES_MAX 1000 /* in a row, before the listing fails */

static void
on_token(void *arg, struct span token)
{
    list_follow_token(arg, token);
}

/* A page may be empty although more names follow: only its token tells. */
enum err
list_ask_backend(struct list_follow *f, struct span token, struct arena *a,
                 struct s3_list_page *out, bool *down, struct errbuf *eb)
{
    const struct object_list_options *o = f->o;
    struct cloud *cloud = f->s->options.cloud;
    struct s3_list l = {.bucket = span_of(f->bucket->backend.bucket),
                        .prefix = o->prefix,
                        .delimiter = o->delimiter,
                        .start_after = o->after,
                        .token = token,
                        .max_keys = o->max,
                        .on_token = on_token,
                        .arg = f};
    bool stale;
    enum err rc;

    assert(f->bucket->cached);
    assert(o->max > 0);
    if (o->after.len > 0 &&
        span_eq(group_of(o->prefix, o->delimiter, o->after), o->after))
        l.start_after =
            span_of(arena_printf(a, "%.*s" LAST_CHARACTER, SPAN_ARG(o->after)));
    rc = cloud_list(cloud, f->bucket, &l, a, out, down, eb);
    stale = rc == ERR_OK && out->stale;
    for (unsigned i = 0; rc == ERR_OK && out->count == 0 && out->truncated; i++) {
        if (i == EMPTY_PAGES_MAX || out->next_token.len == 0)
            return err_set(eb, ERR_BACKEND,
                           "the backend's listing has more names, and gives none");
        l.token = out->next_token;
        rc = cloud_list(cloud, f->bucket, &l, a, out, down, eb);
        stale = stale || (rc == ERR_OK && out->stale);
    }
    out->stale = stale; /* one stale empty page is enough: names may be missing from it */
    return rc;
}

/* A client that asks for the names behind the last one would get the same page forever. */
static enum err
check_progress(const struct walk *w, struct errbuf *eb)
{
    const struct object_page *p = w->page;

    if (!p->truncated || p->count == 0 ||
        !span_eq(p->entries[p->count - 1].name, w->o->after))
        return ERR_OK;
    return err_set(eb, ERR_BACKEND,
                   "the backend's listing does not go on behind \"%.*s\"",
                   SPAN_ARG(w->o->after));
}

/* Gets the page and requests the one that follows; for the first page of a listing only itself, because most
 * listings have one page. */
static enum err
find_page(struct walk *w, struct s3_list_page *out, bool *down, struct errbuf *eb)
{
    struct list_follow f = {
        .s = w->s, .bucket = w->bucket, .o = w->o, .wanted = w->o->after.len > 0};
    enum err rc;

    assert(w->bucket->cached);
    *down = false;
    if (list_prefetch_take(w->s, w->bucket, w->o, w->arena, out))
        return ERR_OK;
    rc = list_ask_backend(&f, (struct span){"", 0}, w->arena, out, down, eb);
    if (list_follow_end(&f, rc, out))
        rt_yield(); /* its request goes out before this page is written */
    return rc;
}

static enum err
list_cached(struct walk *w, struct errbuf *eb)
{
    const struct object_list_options *o = w->o;
    struct s3_list_page from;
    bool down;
    enum err rc = find_page(w, &from, &down, eb);

    if (rc == ERR_BACKEND && down) {
        LOG(LOG_WARN, "list.stale", eb->text, L_TEXT("bucket", w->bucket->name));
        w->page->stale = true;
        return list_local(w, eb);
    }
    if (rc != ERR_OK)
        return rc;
    w->page->stale = from.stale; /* the remote is a Forebay whose own remote is down */
    for (uint32_t i = 0; i < from.count && w->page->count < o->max; i++) {
        const struct s3xml_list_entry *e = &from.entries[i];

        w->page->entries[w->page->count++] =
            (struct object_entry){.name = e->key,
                                  .is_prefix = e->is_prefix,
                                  .size = e->size,
                                  .mtime_ms = e->mtime_ms,
                                  .etag = e->etag};
    }
    assert(w->page->count <= o->max);
    w->page->truncated = from.truncated || w->page->count < from.count;
    return check_progress(w, eb);
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
    if (o->prefix.len > STORE_KEY_MAX || o->after.len > STORE_KEY_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a prefix or marker of over %u bytes: no key is so long",
                       STORE_KEY_MAX);
    out->entries = arena_try(a, o->max * sizeof *out->entries);
    if (out->entries == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u names", o->max);
    rc = b->cached ? list_cached(&w, eb) : list_local(&w, eb);
    if (rc != ERR_OK)
        return rc;
    if (out->truncated && out->count > 0)
        out->next_after = out->entries[out->count - 1].name;
    else
        out->truncated = false;
    return ERR_OK;
}
