#include "store/index/find.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/lookup_cache.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/index/suspect.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

/* A coded value, from wherever it is. From the index it lies in `bytes`. */
struct found {
    struct span value;
    bool in_index;
    unsigned char bytes[VALUE_CODED_MAX];
};

static enum err
find_or_not(struct memtable *t, struct index *x, const struct entry_key *where,
            struct index_want *want, struct found *out, struct errbuf *eb)
{
    size_t len;
    enum err rc;

    assert(where->table < TABLES_);
    out->in_index = false;
    switch (memtable_find(t, where->table, where->bucket, where->key, &out->value)) {
    case MEMTABLE_HIT:
        return ERR_OK;
    case MEMTABLE_DELETED:
        return ERR_NOT_FOUND;
    case MEMTABLE_MISS:
        break;
    }
    out->in_index = true;
    rc = index_find(x, where->table, where->bucket, where->key, want, out->bytes, &len,
                    eb);
    assert(rc != ERR_OK || (len > 0 && len <= sizeof out->bytes));
    out->value = (struct span){(char *)out->bytes, len};
    return rc;
}

static enum err
find(struct memtable *t, struct index *x, const struct entry_key *where,
     struct found *out, struct errbuf *eb)
{
    return find_or_not(t, x, where, NULL, out, eb);
}

static enum err
corrupt(struct index *x, const struct found *f, const struct entry_key *where,
        struct errbuf *eb)
{
    if (f->in_index)
        index_set_bad(x);
    metric_add(M_CHECKSUM_FAILURES, 0, 1);
    return err_set(eb, ERR_CORRUPT,
                   "the index entry of \"%.*s\" in the %s has a wrong sum",
                   (int)MIN(where->key.len, 100u), where->key.at,
                   f->in_index ? "index" : "memtable");
}

/* Past what loops remember. */
static enum err
look_up(struct memtable *t, struct index *x, const struct entry_key *where,
        bool with_tombstones, struct index_want *want, struct entry *out,
        struct errbuf *eb)
{
    struct found f;
    enum err rc = find_or_not(t, x, where, want, &f, eb);

    if (rc == ERR_OK && entry_decode(where, f.value, out) != ERR_OK)
        return corrupt(x, &f, where, eb);
    if (rc == ERR_OK && (out->flags & ENTRY_TOMBSTONE) != 0 && !with_tombstones)
        return ERR_NOT_FOUND;
    return rc;
}

/* An acknowledged change of the key may be lost: then what was found is an error, and no loop remembers it. */
static enum err
verify_found(struct index *x, const struct entry_key *where, enum err rc,
             const struct entry *found, struct errbuf *eb)
{
    const struct suspects *s = index_suspects(x);
    enum err verified;

    if (!suspects_any(s) || (rc != ERR_OK && rc != ERR_NOT_FOUND))
        return rc;
    verified = suspects_verify(s, run_key_hash(where->bucket, where->key),
                               rc == ERR_OK ? found : NULL, eb);
    return verified != ERR_OK ? verified : rc;
}

enum err
find_object_known(struct memtable *t, struct index *x, uint64_t bucket, struct span key,
                  bool with_tombstones, struct entry *out, struct errbuf *eb)
{
    struct entry_key where = {TABLE_OBJECTS, bucket, key};

    if (!suspects_any(index_suspects(x)))
        return find_object(t, x, bucket, key, with_tombstones, out, eb);
    return look_up(t, x, &where, with_tombstones, NULL, out, eb);
}

enum err
find_object(struct memtable *t, struct index *x, uint64_t bucket, struct span key,
            bool with_tombstones, struct entry *out, struct errbuf *eb)
{
    struct entry_key where = {TABLE_OBJECTS, bucket, key};
    struct lookup_cache_ticket look;
    enum err rc;

    if (lookup_cache_find(memtable_lookup_cache(t), bucket, key, &look, out))
        return ERR_OK;
    rc = look_up(t, x, &where, with_tombstones, NULL, out, eb);
    rc = verify_found(x, &where, rc, out, eb);
    if (rc == ERR_OK && (out->flags & ENTRY_TOMBSTONE) == 0 &&
        suspects_active(index_suspects(x)))
        lookup_cache_keep(memtable_lookup_cache(t), bucket, key, &look, out);
    return rc;
}

enum err
find_object_now(struct memtable *t, struct index *x, uint64_t bucket, struct span key,
                struct index_want *want, struct entry *out, struct errbuf *eb)
{
    struct entry_key where = {TABLE_OBJECTS, bucket, key};
    struct lookup_cache_ticket look;
    enum err rc;

    if (lookup_cache_small_find(memtable_lookup_cache(t), bucket, key, &look, out))
        return ERR_OK;
    rc = look_up(t, x, &where, false, want, out, eb);
    rc = verify_found(x, &where, rc, out, eb);
    if (rc == ERR_OK && !lookup_cache_small_keep(memtable_lookup_cache(t), &look, out))
        lookup_cache_keep(memtable_lookup_cache(t), bucket, key, &look, out);
    return rc;
}

enum err
find_version(struct memtable *t, struct index *x, uint64_t bucket, struct span key,
             const struct version *born, struct entry *out, struct errbuf *eb)
{
    unsigned char coded[KEY_UPLOAD_MAX];
    struct entry_key where = {
        TABLE_VERSIONS, bucket, {(char *)coded, key_version(key, born, coded)}};
    struct found f;
    enum err rc = find(t, x, &where, &f, eb);

    if (rc == ERR_OK && entry_decode(&where, f.value, out) != ERR_OK)
        return corrupt(x, &f, &where, eb);
    return rc;
}

enum err
find_null_version(struct memtable *t, struct index *x, uint64_t bucket, struct span key,
                  struct entry *out, struct errbuf *eb)
{
    struct version none = {0}, born;
    enum err rc = find_version(t, x, bucket, key, &none, out, eb);

    if (rc != ERR_OK)
        return rc;
    born = entry_born(out);
    return find_version(t, x, bucket, key, &born, out, eb);
}

enum err
find_content(struct memtable *t, struct index *x, uint64_t bucket, struct span key,
             const struct content_id *content, struct entry *out, struct errbuf *eb)
{
    struct arena *a;
    struct entry *entries;
    struct version after = {UINT64_MAX, UINT64_MAX};
    uint32_t count;
    bool more = true, found = false;
    enum err rc = find_object(t, x, bucket, key, true, out, eb);

    if (rc != ERR_OK || memcmp(&out->content, content, sizeof *content) == 0)
        return rc;
    if ((out->flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) == 0)
        return ERR_NOT_FOUND;
    a = arena_new(KIB(16), MIB(1));
    while (rc == ERR_OK && more && !found) {
        arena_reset(a);
        rc = list_older(t, x, bucket, key, &after, 100, a, &entries, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count && !found; i++) {
            after = entry_born(&entries[i]);
            found = memcmp(&entries[i].content, content, sizeof *content) == 0;
            *out = entries[i];
        }
        more = more && count > 0;
    }
    arena_free(&a);
    return rc == ERR_OK && !found ? ERR_NOT_FOUND : rc;
}

static enum err
no_upload(enum err rc, const struct upload_id *id, struct errbuf *eb)
{
    char hex[2 * sizeof id->id.bytes + 1];

    if (rc != ERR_NOT_FOUND)
        return rc;
    hex_encode(id->id.bytes, sizeof id->id.bytes, hex);
    return err_set(eb, ERR_NO_UPLOAD, "there is no upload \"%s\" of this key", hex);
}

enum err
find_upload(struct memtable *t, struct index *x, uint64_t bucket, struct span key,
            const struct upload_id *id, struct upload_entry *out, struct errbuf *eb)
{
    unsigned char coded[KEY_UPLOAD_MAX];
    struct entry_key where = {
        TABLE_UPLOADS, bucket, {(char *)coded, key_upload(key, id, coded)}};
    struct found f;
    enum err rc = find(t, x, &where, &f, eb);

    if (rc == ERR_OK && upload_entry_decode(&where, f.value, out) != ERR_OK)
        return corrupt(x, &f, &where, eb);
    if (suspects_any(index_suspects(x)) && (rc == ERR_OK || rc == ERR_NOT_FOUND)) {
        enum err verified =
            rc == ERR_OK && !suspects_has(index_suspects(x), suspect_upload_hash(id))
                ? ERR_OK
                : suspects_verify(index_suspects(x), suspect_upload_hash(id), NULL, eb);

        if (verified != ERR_OK)
            return verified;
    }
    return no_upload(rc, id, eb);
}

enum err
find_part(struct memtable *t, struct index *x, const struct upload_id *id,
          uint32_t number, struct part_entry *out, struct errbuf *eb)
{
    unsigned char coded[KEY_PART_BYTES];
    struct entry_key where = {TABLE_PARTS, 0, {(char *)coded, sizeof coded}};
    struct found f;
    enum err rc;

    key_part(id, number, coded);
    rc = find(t, x, &where, &f, eb);
    if (rc == ERR_OK && part_entry_decode(&where, f.value, out) != ERR_OK)
        return corrupt(x, &f, &where, eb);
    return no_upload(rc, id, eb);
}

enum err
find_done(struct memtable *t, struct index *x, const struct upload_id *id, char *key,
          struct done_entry *out, struct errbuf *eb)
{
    struct entry_key where = {
        TABLE_DONE, 0, {(const char *)id->id.bytes, sizeof id->id.bytes}};
    struct found f;
    enum err rc = find(t, x, &where, &f, eb);

    if (rc != ERR_OK)
        return no_upload(rc, id, eb);
    if (done_entry_decode(&where, f.value, out) != ERR_OK)
        return corrupt(x, &f, &where, eb);
    memcpy(key, out->key.at, out->key.len);
    out->key.at = key;
    return ERR_OK;
}

enum err
find_prepared(struct memtable *t, struct index *x, const struct content_id *content,
              char *key, struct prepared_entry *out, struct errbuf *eb)
{
    struct entry_key where = {
        TABLE_PREPARED, 0, {(const char *)content->bytes, sizeof content->bytes}};
    struct found f;
    enum err rc = find(t, x, &where, &f, eb);

    if (rc != ERR_OK)
        return rc;
    if (prepared_entry_decode(&where, f.value, out) != ERR_OK)
        return corrupt(x, &f, &where, eb);
    memcpy(key, out->key.at, out->key.len);
    out->key.at = key;
    return ERR_OK;
}
