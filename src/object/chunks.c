#include "object/chunks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "object/tier.h"
#include "rt/point.h"

static_assert(CHUNK_SUFFIX == 1 + 32 + 1 + 8, "what chunk_name() adds");
static_assert(CHUNKED_KEY_MAX + CHUNK_SUFFIX == STORE_KEY_MAX, "names of chunks fit");

#define PAGE 256u

/* ---- names ---- */

void
chunked_of(const struct entry *entry, const struct object_info *info, struct chunked *out)
{
    char text[sizeof out->etag + 64];
    int len;

    assert(info->chunk_bytes > 0);
    assert((entry->flags & ENTRY_CHUNKS) != 0);
    *out = (struct chunked){
        .size = info->size, .chunk_bytes = info->chunk_bytes, .content = entry->content};
    memcpy(out->etag, info->etag, sizeof out->etag);
    len = snprintf(text, sizeof text, "%s%c%llu/%u", out->etag, '\0',
                   (unsigned long long)out->size, out->chunk_bytes);
    for (unsigned i = 0; i < ARRAY_LEN(out->tag); i++)
        out->tag[i] = hash_xxh3(text, (size_t)len, i);
}

uint32_t
chunk_count(const struct chunked *c)
{
    assert(c->chunk_bytes > 0);
    return (uint32_t)((c->size + c->chunk_bytes - 1) / c->chunk_bytes);
}

uint32_t
chunk_len(const struct chunked *c, uint32_t number)
{
    uint64_t first = (uint64_t)number * c->chunk_bytes;

    assert(number < chunk_count(c));
    return (uint32_t)MIN(c->size - first, c->chunk_bytes);
}

static size_t
version_name(const struct chunked *c, struct span key, char out[STORE_KEY_MAX])
{
    assert(key.len <= CHUNKED_KEY_MAX);
    memcpy(out, key.at, key.len);
    return key.len + (size_t)snprintf(out + key.len, CHUNK_SUFFIX, "#%016llx%016llx",
                                      (unsigned long long)c->tag[0],
                                      (unsigned long long)c->tag[1]);
}

size_t
chunk_name(const struct chunked *c, struct span key, uint32_t number,
           char out[STORE_KEY_MAX])
{
    char digits[10];
    size_t len = version_name(c, key, out);

    snprintf(digits, sizeof digits, ".%08x", number);
    memcpy(out + len, digits, 9);
    return len + 9;
}

static bool
take_hex(const char *at, unsigned digits, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < digits; i++) {
        const char *set = "0123456789abcdef", *found = strchr(set, at[i]);

        if (at[i] == '\0' || found == NULL)
            return false;
        *out = *out << 4 | (uint64_t)(found - set);
    }
    return true;
}

bool
chunk_name_parse(struct span name, struct span *key, uint64_t tag[2], uint32_t *number)
{
    const char *at;
    uint64_t n;

    if (name.len <= CHUNK_SUFFIX)
        return false;
    *key = (struct span){name.at, name.len - CHUNK_SUFFIX};
    at = name.at + key->len;
    if (at[0] != '#' || at[33] != '.' || !take_hex(at + 1, 16, &tag[0]) ||
        !take_hex(at + 17, 16, &tag[1]) || !take_hex(at + 34, 8, &n))
        return false;
    *number = (uint32_t)n;
    return true;
}

struct disks_key
chunk_disk_key(const struct map_bucket *b, struct span name)
{
    struct disks_key k = object_disk_key(b, name);

    assert(chunk_owner(chunk_space(b->id)) == b->id);
    k.at.bucket = chunk_space(b->id);
    return k;
}

enum err
chunk_lookup(struct object_service *s, const struct map_bucket *b, struct span name,
             struct entry *out, struct errbuf *eb)
{
    struct disks_key k = chunk_disk_key(b, name);

    return disks_lookup(s->options.disks, &k, out, eb);
}

/* ---- which objects ---- */

bool
chunks_fit(const struct object_service *s, const struct map_bucket *b, struct span key,
           const struct s3_object_info *from, const struct object_info *info)
{
    uint64_t bytes = s->options.chunk_bytes;

    return from->size > s->options.large_bytes && from->size > bytes &&
           from->size / bytes < CHUNKS_MAX && key.len <= CHUNKED_KEY_MAX &&
           from->etag.len > 0 && span_is(from->etag, info->etag) &&
           (!b->backend.plain_http || from->ranges);
}

/* ---- the entry that stands for the chunks ---- */

static enum err
entry_of(struct object_service *s, const struct map_bucket *b, struct span key,
         struct entry *entry)
{
    struct disks_key k = object_disk_key(b, key);
    struct errbuf eb = {{0}};

    return disks_lookup(s->options.disks, &k, entry, &eb);
}

bool
chunks_are_of(struct object_service *s, const struct map_bucket *b, struct span key)
{
    struct entry entry;

    return entry_of(s, b, key, &entry) == ERR_OK && (entry.flags & ENTRY_CHUNKS) != 0;
}

static bool
is_entry_of(const struct entry *entry, const struct chunked *c)
{
    assert(c->chunk_bytes > 0);
    return (entry->flags & (ENTRY_CHUNKS | ENTRY_IN_DOUBT)) == ENTRY_CHUNKS &&
           memcmp(&entry->content, &c->content, sizeof entry->content) == 0;
}

bool
chunks_entry(struct object_service *s, const struct map_bucket *b, struct span key,
             const struct chunked *c, struct entry *entry)
{
    return entry_of(s, b, key, entry) == ERR_OK && is_entry_of(entry, c);
}

bool
chunks_stand(struct object_service *s, const struct map_bucket *b, struct span key,
             const struct chunked *c)
{
    struct entry entry;

    return chunks_entry(s, b, key, c, &entry);
}

void
chunks_outdated(struct object_service *s, const struct map_bucket *b, struct span key,
                const struct chunked *c)
{
    struct errbuf eb = {{0}};
    struct entry entry;

    if (entry_of(s, b, key, &entry) != ERR_OK || !is_entry_of(&entry, c))
        return;
    LOG(LOG_INFO, "tier.outdated", "a kept version is not the remote's any more",
        L_TEXT("bucket", b->name), L_SPAN("key", key));
    if (disks_evict_one(s->options.disks, b->id, key, &entry, &eb) != ERR_OK)
        LOG(LOG_WARN, "tier.outdated", eb.text, L_SPAN("key", key));
    POINT(CHUNKS_ENDED);
    tier_sweep(s);
}

/* ---- how much of it is here ---- */

/* Counts the chunks of one version, and their bytes. */
static enum err
count_chunks(struct object_service *s, const struct map_bucket *b, struct span key,
             const struct chunked *c, struct object_present *out, struct errbuf *eb)
{
    char after[STORE_KEY_MAX];
    struct span prefix = {after, version_name(c, key, after)};
    size_t len = prefix.len;
    struct arena *a = arena_new(KIB(64), MIB(4));
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_entry *entries = NULL;
        uint32_t count = 0, of_it = 0;

        arena_reset(a);
        rc =
            disks_list(s->options.disks, chunk_space(b->id), 1, (struct span){after, len},
                       false, PAGE, a, &entries, &count, &more, eb);
        while (rc == ERR_OK && of_it < count && span_starts(entries[of_it].key, prefix))
            out->here += entries[of_it++].entry.size;
        assert(of_it <= count);
        out->chunks_here += of_it;
        more = more && count > 0 && of_it == count;
        if (rc == ERR_OK && more) {
            len = entries[count - 1].key.len;
            memcpy(after, entries[count - 1].key.at, len);
        }
    }
    arena_free(&a);
    return rc;
}

enum err
object_present(struct object_service *s, const struct map_bucket *b, struct span key,
               struct object_present *out, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct object_info info;
    struct chunked c;
    struct entry entry;
    enum err rc = disks_lookup(s->options.disks, &k, &entry, eb);

    *out = (struct object_present){0};
    if (rc == ERR_OK && (entry.flags & ENTRY_IN_DOUBT) != 0)
        rc = err_set(eb, ERR_NOT_FOUND, "the object is in doubt");
    if (rc == ERR_OK)
        rc = info_from_entry(s, &k, &entry, a, &info, eb);
    if (rc == ERR_OK) {
        out->size = info.size;
        out->here = entry.size;
    }
    if (rc == ERR_OK && (entry.flags & ENTRY_CHUNKS) != 0) {
        chunked_of(&entry, &info, &c);
        out->chunks = chunk_count(&c);
        rc = count_chunks(s, b, key, &c, out, eb);
    }
    arena_free(&a);
    return rc;
}

/* ---- sweep: chunks without an entry ---- */

struct sweep {
    struct object_service *s;
    const struct map_bucket *bucket; /* one reference */
    struct arena *arena;             /* of a page */
    struct arena *scratch;           /* of one entry's metadata */
    char key[STORE_KEY_MAX];         /* of the last object looked up */
    size_t key_len;
    bool stands;  /* there is an entry with ENTRY_CHUNKS */
    bool unclear; /* it is in doubt, or cannot be read: keep all chunks */
    struct chunked of;
    uint64_t swept;
};

static void
look_at_owner(struct sweep *w, struct span key)
{
    struct disks_key k = object_disk_key(w->bucket, key);
    struct object_info info;
    struct errbuf eb = {{0}};
    struct entry entry = {0};
    enum err rc = disks_lookup(w->s->options.disks, &k, &entry, &eb);

    memcpy(w->key, key.at, key.len);
    w->key_len = key.len;
    w->unclear =
        (rc != ERR_OK && rc != ERR_NOT_FOUND) || (entry.flags & ENTRY_IN_DOUBT) != 0;
    w->stands = rc == ERR_OK && (entry.flags & ENTRY_CHUNKS) != 0;
    if (!w->stands || w->unclear)
        return;
    arena_reset(w->scratch);
    rc = info_from_entry(w->s, &k, &entry, w->scratch, &info, &eb);
    w->unclear = rc != ERR_OK;
    if (rc == ERR_OK)
        chunked_of(&entry, &info, &w->of);
}

static bool
belongs(struct sweep *w, struct span name)
{
    struct span key;
    uint64_t tag[2];
    uint32_t number;

    if (!chunk_name_parse(name, &key, tag, &number))
        return false;
    if (w->key_len != key.len || memcmp(w->key, key.at, key.len) != 0)
        look_at_owner(w, key);
    return w->unclear || (w->stands && tag[0] == w->of.tag[0] && tag[1] == w->of.tag[1]);
}

static enum err
sweep_bucket(struct sweep *w, const bool *stop, struct errbuf *eb)
{
    uint64_t space = chunk_space(w->bucket->id);
    char after[STORE_KEY_MAX];
    size_t len = 0;
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more && !*stop) {
        struct store_entry *entries = NULL;
        uint32_t count = 0;

        arena_reset(w->arena);
        rc = disks_list(w->s->options.disks, space, 1, (struct span){after, len}, false,
                        PAGE, w->arena, &entries, &count, &more, eb);
        assert(count <= PAGE);
        w->key_len = 0; /* look the owner up again for each page */
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            if (belongs(w, entries[i].key))
                continue;
            rc = disks_evict_one(w->s->options.disks, space, entries[i].key,
                                 &entries[i].entry, eb);
            w->swept++;
            POINT(CHUNK_SWEPT);
        }
        more = more && count > 0;
        if (rc == ERR_OK && more) {
            len = entries[count - 1].key.len;
            memcpy(after, entries[count - 1].key.at, len);
        }
    }
    return rc;
}

/* The attached bucket with the smallest id behind `after`; a reference, or NULL. */
static const struct map_bucket *
next_attached(struct object_service *s, uint64_t after)
{
    const struct map *m = map_now(s->options.map);
    const struct map_bucket *best = NULL;

    assert(m != NULL);
    for (uint32_t i = 0; i < map_bucket_count(m); i++) {
        const struct map_bucket *b = map_bucket_at(m, i);

        if (b->cached && b->id > after && (best == NULL || b->id < best->id))
            best = b;
    }
    return best != NULL ? map_bucket_ref(best) : NULL;
}

enum err
chunks_sweep(struct object_service *s, const bool *stop, struct errbuf *eb)
{
    struct sweep *w = xcalloc(1, sizeof *w);
    enum err rc = ERR_OK;
    uint64_t id = 0;

    w->s = s;
    w->arena = arena_new(KIB(64), MIB(4));
    w->scratch = arena_new(KIB(4), MIB(1));
    while (rc == ERR_OK && !*stop && (w->bucket = next_attached(s, id)) != NULL) {
        id = w->bucket->id;
        rc = sweep_bucket(w, stop, eb);
        map_bucket_drop(&w->bucket);
    }
    if (w->swept > 0)
        LOG(LOG_INFO, "tier.swept", "chunks of versions that ended went",
            L_U64("chunks", w->swept));
    arena_free(&w->arena);
    arena_free(&w->scratch);
    free(w);
    return rc;
}
