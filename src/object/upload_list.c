/* upload_list: pages of uploads in progress. A native bucket is listed from the index, and common prefixes are
 * skipped by seeking; for an attached bucket this is the remote's page. */
#include <string.h>

#include "base/mem.h"
#include "object/put.h"

#define SCRATCH_BYTES MIB(2)
#define AT_A_TIME     256u

struct uploads_walk {
    struct object_service *s;
    const struct map_bucket *bucket;
    const struct object_upload_list_options *o;
    struct arena *arena, *scratch;
    struct object_upload_page *page;
    char bytes[STORE_KEY_MAX + 1];
    struct span after; /* in `bytes` */
    struct upload_id id;
    bool within; /* behind `id` of that key, else behind all uploads of it */
};

static void
uploads_seek(struct uploads_walk *w, struct span key, const struct upload_id *id)
{
    if (key.len > 0)
        memmove(w->bytes, key.at, key.len);
    w->after = (struct span){w->bytes, key.len};
    w->within = id != NULL;
    if (id != NULL)
        w->id = *id;
}

/* Seeks directly before the first key with this prefix. Keys are UTF-8: none has a byte 0xff. */
static void
uploads_seek_before(struct uploads_walk *w, struct span prefix)
{
    size_t len = prefix.len;

    uploads_seek(w, prefix, NULL);
    if (len == 0)
        return;
    if (w->bytes[len - 1] == 0) {
        w->after.len--;
        return;
    }
    w->bytes[len - 1] = (char)((unsigned char)w->bytes[len - 1] - 1);
    if (len < STORE_KEY_MAX) {
        w->bytes[len] = (char)0xff;
        w->after.len++;
    }
}

/* Seeks behind all keys with this prefix: the prefix followed by 0xff sorts last. */
static void
uploads_seek_behind(struct uploads_walk *w, struct span group)
{
    uploads_seek(w, group, NULL);
    if (group.len < STORE_KEY_MAX) {
        w->bytes[group.len] = (char)0xff;
        w->after.len++;
    }
}

static void
uploads_first_seek(struct uploads_walk *w)
{
    const struct object_upload_list_options *o = w->o;
    struct upload_id id;

    if (o->after_key.len > o->prefix.len && span_starts(o->after_key, o->prefix) &&
        span_eq(group_of(o->prefix, o->delimiter, o->after_key), o->after_key))
        uploads_seek_behind(w, o->after_key);
    else if (span_cmp(o->after_key, o->prefix) < 0)
        uploads_seek_before(w, o->prefix);
    else if (o->after_id.len > 0 && native_id(o->after_id, &id))
        uploads_seek(w, o->after_key, &id);
    else
        uploads_seek(w, o->after_key, NULL);
}

static enum err
uploads_add(struct uploads_walk *w, const struct store_upload *u, struct span group,
            struct errbuf *eb)
{
    struct object_upload *out = &w->page->entries[w->page->count];
    struct span name = group.len > 0 ? group : u->key;
    char *at = arena_try(w->arena, name.len + 1);

    if (at == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u uploads", w->o->max);
    memcpy(at, name.at, name.len);
    *out = (struct object_upload){.key = {at, name.len}, .begun_ms = u->begun_ms};
    if (group.len == 0)
        out->upload_id = id_text(w->arena, &u->id);
    w->page->count++;
    return ERR_OK;
}

static enum err
uploads_add_all(struct uploads_walk *w, const struct store_upload *found, uint32_t count,
                bool *done, struct errbuf *eb)
{
    for (uint32_t i = 0; i < count; i++) {
        struct span group;
        enum err rc;

        if (!span_starts(found[i].key, w->o->prefix) || w->page->count == w->o->max) {
            w->page->truncated = span_starts(found[i].key, w->o->prefix);
            *done = true;
            return ERR_OK;
        }
        group = group_of(w->o->prefix, w->o->delimiter, found[i].key);
        rc = uploads_add(w, &found[i], group, eb);
        if (rc != ERR_OK)
            return rc;
        if (group.len > 0) {
            uploads_seek_behind(w, group);
            *done = false;
            return ERR_OK;
        }
        uploads_seek(w, found[i].key, &found[i].id);
    }
    return ERR_OK;
}

static enum err
uploads_list_local(struct uploads_walk *w, struct errbuf *eb)
{
    bool done = false;
    enum err rc = ERR_OK;

    uploads_first_seek(w);
    w->scratch = arena_new(KIB(16), SCRATCH_BYTES);
    while (rc == ERR_OK && !done) {
        uint32_t left = w->o->max - w->page->count + 1, count = 0;
        struct store_upload *found = NULL;
        bool more = false;

        arena_reset(w->scratch);
        rc = disks_upload_list(w->s->options.disks, w->bucket->id, w->bucket->copies,
                               w->after, w->within ? &w->id : NULL, MIN(left, AT_A_TIME),
                               w->scratch, &found, &count, &more, eb);
        done = !more;
        if (rc == ERR_OK)
            rc = uploads_add_all(w, found, count, &done, eb);
    }
    arena_free(&w->scratch);
    return rc;
}

static enum err
uploads_list_remote(struct uploads_walk *w, struct errbuf *eb)
{
    const struct object_upload_list_options *o = w->o;
    struct s3_upload_list l = {.prefix = o->prefix,
                               .delimiter = o->delimiter,
                               .key_marker = o->after_key,
                               .id_marker = o->after_id,
                               .max_uploads = o->max};
    struct s3_upload_page from;
    enum err rc =
        cloud_upload_list(w->s->options.cloud, w->bucket, &l, w->arena, &from, eb);

    if (rc != ERR_OK)
        return rc;
    for (uint32_t i = 0; i < from.count && w->page->count < o->max; i++)
        w->page->entries[w->page->count++] =
            (struct object_upload){.key = from.entries[i].key,
                                   .upload_id = from.entries[i].upload_id,
                                   .begun_ms = from.entries[i].begun_ms};
    w->page->truncated = from.truncated;
    return ERR_OK;
}

enum err
object_upload_list(struct object_service *s, const struct map_bucket *b,
                   const struct object_upload_list_options *o, struct arena *a,
                   struct object_upload_page *out, struct errbuf *eb)
{
    struct uploads_walk w = {.s = s, .bucket = b, .o = o, .arena = a, .page = out};

    *out = (struct object_upload_page){0};
    if (o->max == 0 || o->max > 1000 || o->prefix.len > STORE_KEY_MAX ||
        o->after_key.len > STORE_KEY_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a page of %u uploads, 1 to 1000 are possible, of keys of at most "
                       "%u bytes",
                       o->max, STORE_KEY_MAX);
    out->entries = arena_try(a, o->max * sizeof *out->entries);
    if (out->entries == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u uploads", o->max);
    return b->cached ? uploads_list_remote(&w, eb) : uploads_list_local(&w, eb);
}
