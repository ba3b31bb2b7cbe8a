/* version: versions of a key, deletes, and changes of metadata alone. Native buckets only: a remote manages its
 * own versions. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "object/put.h"
#include "rt/fiber.h"
#include "rt/time.h"
#include "wire/etag.h"

/* ---- ids ---- */

bool
object_version_parse(struct span text, struct object_version *out)
{
    unsigned char bytes[16];

    *out = (struct object_version){.null = span_is(text, "null")};
    if (out->null)
        return true;
    if (text.len != 2 * sizeof bytes ||
        hex_decode(text.at, text.len, bytes, sizeof bytes) != (int)sizeof bytes)
        return false;
    for (unsigned i = 0; i < 8; i++) {
        out->born.epoch = out->born.epoch << 8 | bytes[i];
        out->born.counter = out->born.counter << 8 | bytes[8 + i];
    }
    return out->born.epoch != 0;
}

void
object_version_text(const struct object_version *v, char out[OBJECT_VERSION_TEXT])
{
    unsigned char bytes[16];

    if (v->null) {
        memcpy(out, "null", 5);
        return;
    }
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(v->born.epoch >> (56 - 8 * i));
        bytes[8 + i] = (unsigned char)(v->born.counter >> (56 - 8 * i));
    }
    hex_encode(bytes, sizeof bytes, out);
}

void
version_of_entry(const struct entry *entry, struct object_version *out)
{
    *out = (struct object_version){.null = entry_is_null_version(entry),
                                   .born = entry_born(entry)};
}

/* ---- finding ---- */

static const struct version *
born_of(const struct object_version *v)
{
    return v->null ? NULL : &v->born;
}

static enum err
no_version(struct errbuf *eb)
{
    return err_set(eb, ERR_NOT_FOUND, "the specified version does not exist");
}

/* Finds out whether a delete marker is the reason that there is no object. */
static void
look_for_marker(struct object_service *s, const struct map_bucket *b, struct span key,
                struct arena *a, struct object_info *info)
{
    struct store_version *found;
    struct errbuf eb = {{0}};
    uint32_t count = 0;
    bool more;

    memset(info, 0, sizeof *info);
    if (b->cached || b->versioning == MAP_UNVERSIONED ||
        disks_version_list(s->options.disks, b->id, b->copies, key, true, NULL, 1, a,
                           &found, &count, &more, &eb) != ERR_OK ||
        count == 0 || !span_eq(found[0].key, key) ||
        (found[0].entry.flags & ENTRY_MARKER) == 0)
        return;
    info->is_marker = true;
    info->mtime_ms = found[0].entry.mtime_ms;
    version_of_entry(&found[0].entry, &info->version);
}

enum err
info_of_version(struct object_service *s, const struct map_bucket *b, struct span key,
                const struct object_version *v, struct arena *a, struct entry *entry,
                struct object_info *info, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    bool current;
    enum err rc;

    memset(info, 0, sizeof *info);
    if (b->cached)
        return v->null ? ERR_NOT_FOUND : no_version(eb);
    rc = disks_version_find(s->options.disks, &k, born_of(v), entry, &current, eb);
    if (rc == ERR_NOT_FOUND)
        return no_version(eb);
    if (rc == ERR_OK && (entry->flags & ENTRY_MARKER) != 0) {
        info->is_marker = true;
        info->mtime_ms = entry->mtime_ms;
        version_of_entry(entry, &info->version);
        return err_set(eb, ERR_NOT_FOUND, "the version is a delete marker");
    }
    return rc == ERR_OK ? info_from_entry(s, &k, entry, a, info, eb) : rc;
}

enum err
object_get_begin_version(struct object_service *s, const struct map_bucket *b,
                         struct span key, const struct object_version *v, struct arena *a,
                         struct object_info *info, struct object_get **out,
                         struct errbuf *eb)
{
    struct entry entry;
    enum err rc;

    *out = NULL;
    if (v == NULL || (b->cached && v->null)) {
        rc = object_get_begin(s, b, key, a, info, out, eb);
        if (rc == ERR_NOT_FOUND)
            look_for_marker(s, b, key, a, info);
        return rc;
    }
    rc = object_must_be_here(s, b, key, eb);
    if (rc == ERR_OK)
        rc = info_of_version(s, b, key, v, a, &entry, info, eb);
    if (rc == ERR_OK)
        *out = get_of_entry(s, b, key, &entry, a, info);
    return rc;
}

enum err
object_head_version(struct object_service *s, const struct map_bucket *b, struct span key,
                    const struct object_version *v, struct arena *a,
                    struct object_info *info, struct errbuf *eb)
{
    struct entry entry;
    enum err rc = object_must_be_here(s, b, key, eb);

    if (rc != ERR_OK)
        return rc;
    if (v != NULL && !(b->cached && v->null))
        return info_of_version(s, b, key, v, a, &entry, info, eb);
    rc = object_head(s, b, key, a, info, eb);
    if (rc == ERR_NOT_FOUND)
        look_for_marker(s, b, key, a, info);
    return rc;
}

/* ---- deleting ---- */

static const struct store_condition *
condition_of(const struct object_condition *c)
{
    return c != NULL ? &c->disk : NULL;
}

static enum err
delete_version(struct object_service *s, const struct disks_key *k,
               const struct object_delete_options *o, struct object_deleted *out,
               struct errbuf *eb)
{
    struct entry was;
    enum err rc = disks_version_delete(s->options.disks, k, born_of(o->version),
                                       condition_of(o->condition), &was, eb);

    assert(o->version != NULL);
    out->named = true;
    out->version = *o->version;
    if (rc == ERR_OK)
        out->marker = (was.flags & ENTRY_MARKER) != 0;
    /* Deleting what does not exist succeeds. */
    return rc == ERR_NOT_FOUND && (o->condition == NULL || o->condition->disk.or_absent)
               ? ERR_OK
               : rc;
}

static enum err
delete_marked(struct object_service *s, const struct map_bucket *b,
              const struct disks_key *k, const struct object_delete_options *o,
              struct object_deleted *out, struct errbuf *eb)
{
    struct entry marker;
    enum err rc = disks_delete_mark(s->options.disks, k,
                                    b->versioning == MAP_VERSIONED ? STORE_VERSIONED
                                                                   : STORE_SUSPENDED,
                                    condition_of(o->condition), &marker, eb);

    assert(b->versioning != MAP_UNVERSIONED);
    if (rc != ERR_OK)
        return rc;
    out->marker = out->named = true;
    version_of_entry(&marker, &out->version);
    return ERR_OK;
}

static enum err
delete_of_kind(struct object_service *s, const struct map_bucket *b, struct span key,
               const struct object_delete_options *o, struct object_deleted *out,
               struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    bool existed;

    if (o->version != NULL && !o->version->null && b->cached)
        return ERR_OK; /* not an id of this node: like any version that does not exist */
    if (b->cached)
        return delete_write_through(s, b, key, o->condition, eb);
    if (o->version != NULL && (b->versioning != MAP_UNVERSIONED || !o->version->null))
        return delete_version(s, &k, o, out, eb);
    if (b->versioning != MAP_UNVERSIONED)
        return delete_marked(s, b, &k, o, out, eb);
    return disks_delete(s->options.disks, &k, STORE_NATIVE, condition_of(o->condition),
                        &existed, eb);
}

enum err
object_delete_with(struct object_service *s, const struct map_bucket *b, struct span key,
                   const struct object_delete_options *o, struct object_deleted *out,
                   struct errbuf *eb)
{
    enum err rc = object_must_be_here(s, b, key, eb);

    *out = (struct object_deleted){0};
    if (rc == ERR_OK)
        rc = delete_of_kind(s, b, key, o, out, eb);
    if (rc == ERR_OK)
        object_changed(s, b, key);
    return rc;
}

enum err
object_delete(struct object_service *s, const struct map_bucket *b, struct span key,
              struct errbuf *eb)
{
    struct object_delete_options o = {0};
    struct object_deleted out;

    return object_delete_with(s, b, key, &o, &out, eb);
}

/* ---- metadata alone ---- */

struct change {
    struct object_service *s;
    const struct map_bucket *bucket;
    struct disks_key key;
    const struct object_version *version; /* NULL: the current one */
    const struct object_condition *condition;
    object_edit *edit;
    void *arg;
    struct arena *arena;
    struct version seen; /* of the entry that the edit started from */
};

static enum err
find_changed(struct change *c, struct entry *entry, struct errbuf *eb)
{
    bool current;

    return c->version == NULL
               ? disks_lookup(c->s->options.disks, &c->key, entry, eb)
               : disks_version_find(c->s->options.disks, &c->key, born_of(c->version),
                                    entry, &current, eb);
}

/* Did the change fail because of a concurrent change, or because of the caller's condition? */
static bool
was_overtaken(struct change *c)
{
    struct errbuf eb = {{0}};
    struct entry entry;

    assert(c->seen.epoch != 0 || c->condition == NULL);
    return c->condition == NULL || find_changed(c, &entry, &eb) != ERR_OK ||
           entry.version.epoch != c->seen.epoch ||
           entry.version.counter != c->seen.counter;
}

static enum err
change_once(struct change *c, struct object_info *info, struct errbuf *eb)
{
    struct object_meta meta;
    struct store_condition as_seen = {0};
    struct version born;
    struct entry entry;
    enum err rc = find_changed(c, &entry, eb);

    memset(info, 0, sizeof *info);
    if (rc == ERR_OK && (entry.flags & ENTRY_MARKER) != 0) {
        info->is_marker = true;
        version_of_entry(&entry, &info->version);
        return err_set(eb, ERR_NOT_FOUND, "the version is a delete marker");
    }
    if (rc == ERR_OK)
        rc = disks_meta(c->s->options.disks, &c->key, &entry, c->arena, &meta, eb);
    if (rc == ERR_OK)
        rc = c->edit(&meta, c->arg, c->arena, eb);
    if (rc != ERR_OK)
        return rc;
    if (c->condition != NULL)
        as_seen = c->condition->disk;
    as_seen.if_version = true;
    as_seen.version = c->seen = entry.version;
    born = entry_born(&entry);
    rc = disks_set_meta(c->s->options.disks, &c->key, &born, &meta, &as_seen, &entry, eb);
    if (rc == ERR_OK)
        info_from_meta(&entry, &meta, info);
    return rc;
}

enum err
object_change_meta(struct object_service *s, const struct map_bucket *b, struct span key,
                   const struct object_version *v, const struct object_condition *cond,
                   object_edit *edit, void *arg, struct arena *a,
                   struct object_info *info, struct errbuf *eb)
{
    struct change c = {s, b, object_disk_key(b, key), v, cond, edit, arg, a, {0, 0}};
    struct rt_retries retries;
    bool overtaken;
    enum err rc;

    if (b->cached)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "metadata of an attached bucket's objects is changed at the "
                       "remote");
    rt_retries_begin(&retries);
    do {
        rc = change_once(&c, info, eb);
        overtaken = rc == ERR_PRECONDITION && was_overtaken(&c);
    } while (overtaken && rt_retry());
    rt_retries_end(&retries);
    if (rc == ERR_NOT_FOUND && v == NULL)
        look_for_marker(s, b, key, a, info);
    return overtaken ? object_busy(eb, "changed") : rc;
}

/* ---- tags at a remote ---- */

enum err
object_remote_tags(struct object_service *s, const struct map_bucket *b, struct span key,
                   struct arena *a, struct span *tags, struct errbuf *eb)
{
    return cloud_tags_get(s->options.cloud, b, key, a, tags, eb);
}

enum err
object_set_remote_tags(struct object_service *s, const struct map_bucket *b,
                       struct span key, struct span tags, struct errbuf *eb)
{
    return cloud_tags_set(s->options.cloud, b, key, tags, eb);
}

/* ---- listing ---- */

struct versions_walk {
    struct object_service *s;
    const struct map_bucket *bucket;
    const struct object_version_list *o;
    struct arena *arena, *scratch;
    struct object_version_page *page;
    char from_bytes[STORE_KEY_MAX + 1];
    struct span from;
    bool inclusive;
    const struct version *after;
    struct version after_bytes;
};

static void
versions_seek(struct versions_walk *w, struct span key, bool inclusive)
{
    if (key.len > 0)
        memmove(w->from_bytes, key.at, key.len);
    w->from = (struct span){w->from_bytes, key.len};
    w->inclusive = inclusive;
    w->after = NULL;
}

/* Seeks behind all keys with this prefix; false: no key can follow. */
static bool
versions_seek_behind(struct versions_walk *w, struct span group)
{
    size_t len = group.len;

    while (len > 0 && (unsigned char)group.at[len - 1] == 0xff)
        len--;
    if (len == 0)
        return false;
    versions_seek(w, (struct span){group.at, len}, true);
    w->from_bytes[len - 1]++;
    return true;
}

static enum err
versions_add(struct versions_walk *w, struct span name, const struct store_version *v,
             struct errbuf *eb)
{
    struct object_version_entry *e = &w->page->entries[w->page->count];
    char *at = arena_try(w->arena, name.len + 1);

    if (at == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u versions", w->o->max);
    memcpy(at, name.at, name.len);
    *e = (struct object_version_entry){.name = {at, name.len}, .is_prefix = v == NULL};
    w->page->count++;
    if (v == NULL)
        return ERR_OK;
    e->is_marker = (v->entry.flags & ENTRY_MARKER) != 0;
    e->latest = v->latest;
    e->size = v->entry.size;
    e->mtime_ms = v->entry.mtime_ms;
    version_of_entry(&v->entry, &e->version);
    etag_of(v->entry.md5, v->entry.parts, (struct span){NULL, 0}, e->etag);
    return ERR_OK;
}

/* Takes versions until the page is full, a common prefix begins, or they end. */
static enum err
versions_add_all(struct versions_walk *w, const struct store_version *found,
                 uint32_t count, bool *done, struct errbuf *eb)
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
        rc = group.len > 0 ? versions_add(w, group, NULL, eb)
                           : versions_add(w, found[i].key, &found[i], eb);
        if (rc != ERR_OK)
            return rc;
        if (group.len > 0) {
            *done = !versions_seek_behind(w, group);
            return ERR_OK;
        }
        versions_seek(w, found[i].key, false);
        w->after_bytes = entry_born(&found[i].entry);
        w->after = &w->after_bytes;
    }
    return ERR_OK;
}

static bool
versions_first_seek(struct versions_walk *w)
{
    const struct object_version_list *o = w->o;

    if (o->after.len > o->prefix.len && span_starts(o->after, o->prefix) &&
        span_eq(group_of(o->prefix, o->delimiter, o->after), o->after))
        return versions_seek_behind(w, o->after);
    if (span_cmp(o->after, o->prefix) < 0) {
        versions_seek(w, o->prefix, true);
        return true;
    }
    versions_seek(w, o->after, false);
    if (o->after_version != NULL && o->after.len > 0) {
        w->after_bytes = o->after_version->born;
        w->after = &w->after_bytes;
    }
    return true;
}

/* The version marker "null" means the null version of the key, whatever its id. */
static enum err
resolve_null(struct versions_walk *w, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(w->bucket, w->o->after);
    struct entry entry;
    bool current;
    enum err rc;

    if (w->after == NULL || !w->o->after_version->null)
        return ERR_OK;
    rc = disks_version_find(w->s->options.disks, &k, NULL, &entry, &current, eb);
    if (rc == ERR_OK)
        w->after_bytes = entry_born(&entry);
    else if (rc == ERR_NOT_FOUND)
        w->after = NULL; /* removed meanwhile: continue with the next key */
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
object_version_list(struct object_service *s, const struct map_bucket *b,
                    const struct object_version_list *o, struct arena *a,
                    struct object_version_page *out, struct errbuf *eb)
{
    struct versions_walk w = {
        .s = s, .bucket = b, .o = o, .arena = a, .page = out, .inclusive = true};
    bool done;
    enum err rc;

    *out = (struct object_version_page){0};
    if (o->max == 0 || o->max > 1000 || o->prefix.len > STORE_KEY_MAX ||
        o->after.len > STORE_KEY_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a page of %u versions, 1 to 1000 are possible", o->max);
    out->entries = arena_try(a, o->max * sizeof *out->entries);
    if (out->entries == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u versions", o->max);
    done = !versions_first_seek(&w);
    rc = resolve_null(&w, eb);
    w.scratch = arena_new(KIB(16), MIB(4));
    while (rc == ERR_OK && !done) {
        uint32_t left = o->max - out->count + 1, count = 0;
        struct store_version *found;
        bool more = false;

        arena_reset(w.scratch);
        rc = disks_version_list(s->options.disks, b->id, b->copies, w.from, w.inclusive,
                                w.after, o->delimiter.len > 0 ? MIN(left, 16u) : left,
                                w.scratch, &found, &count, &more, eb);
        done = !more;
        if (rc == ERR_OK)
            rc = versions_add_all(&w, found, count, &done, eb);
    }
    arena_free(&w.scratch);
    return rc;
}
