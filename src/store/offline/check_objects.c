/* The check reads what lives, as a GET would: objects, and the parts of uploads in progress. */
#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/offline/check.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/store_read.h"
#include "store/wal/change.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define PAGE 200u

/* Bodies behind the end of their segment's chain would be lost with the logs. */
static void
check_in_chain(struct check *k, const struct entry *entry)
{
    if ((entry->flags & (ENTRY_INLINE | ENTRY_PARTS)) != 0)
        return;
    for (uint32_t i = 0; i < k->chain_count; i++) {
        struct check_chain *c = &k->chains[i];

        if (c->segment != entry->place.segment || entry->place.offset < c->end)
            continue;
        c->living = MAX(c->living, entry->place.offset);
        if (c->said)
            continue;
        c->said = true;
        check_fault(k,
                    "segment %06" PRIu32 ": the chain of bodies ends at %" PRIu64
                    ", a living one is at %" PRIu64,
                    c->segment, c->end, entry->place.offset);
    }
}

/* For a repair: the header of this body may be what is damaged, also where the segment is its own. */
static void
note_header(struct check *k, const struct entry *entry)
{
    if ((entry->flags & (ENTRY_INLINE | ENTRY_PARTS)) != 0)
        return;
    for (uint32_t i = 0; i < k->chain_count; i++) {
        if (k->chains[i].segment == entry->place.segment) {
            k->chains[i].living = MAX(k->chains[i].living, entry->place.offset);
            return;
        }
    }
    k->chains = xrealloc(k->chains, (k->chain_count + 1) * sizeof *k->chains);
    k->chains[k->chain_count++] = (struct check_chain){
        .class = (entry->flags & ENTRY_CACHED) != 0 ? STORE_CACHED : STORE_NATIVE,
        .segment = entry->place.segment,
        .end = UINT64_MAX,
        .living = entry->place.offset};
}

/* For a repair: an object whose bytes are gone. */
static void
note_lost(struct check *k, const struct store_key *key, const struct entry *entry)
{
    struct check_repair *r = &k->repair;

    assert(r->lost_count <= r->lost_room);
    assert(r->lost_count <= CHECK_LOST_MAX);
    if (r->lost_count == CHECK_LOST_MAX)
        return;
    if (r->lost_count == r->lost_room) {
        r->lost_room = MAX(64u, 2 * r->lost_room);
        r->lost = xrealloc(r->lost, r->lost_room * sizeof *r->lost);
    }
    r->lost[r->lost_count++] = (struct check_lost){
        .class = (entry->flags & ENTRY_CACHED) != 0 ? STORE_CACHED : STORE_NATIVE,
        .bucket = key->bucket,
        .key = xmemdup0(key->key.at, key->key.len),
        .key_len = key->key.len,
        .content = entry->content};
}

static enum err
read_all(struct check *k, const struct store_key *key, const struct entry *entry,
         struct errbuf *eb)
{
    struct store_reader *r;
    struct span piece = {"", 1};
    enum err rc = store_read_begin(k->disk, key, entry, 0, entry->size, &r, eb);

    while (rc == ERR_OK && piece.len > 0) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, eb);
        k->result->bytes += piece.len;
        if (k->progress != NULL && k->result->bytes - k->told >= MIB(16)) {
            k->told = k->result->bytes;
            k->progress(k->arg, "objects", k->told,
                        atomic_load(&k->disk->segments->used_bytes[STORE_NATIVE]));
        }
    }
    store_read_end(&r);
    return rc;
}

/* Metadata and every byte. Only what is not the object's fault ends the check. */
static enum err
check_body(struct check *k, const struct store_key *key, const struct entry *entry,
           bool with_meta, struct arena *a, const char *what, struct errbuf *eb)
{
    struct object_meta meta;
    struct errbuf why = {0};
    char text[CHECK_KEY_TEXT];
    enum err rc = ERR_OK;

    assert(what != NULL);
    check_in_chain(k, entry);
    if (with_meta)
        rc = store_meta(k->disk, key, entry, a, &meta, &why);
    if (rc == ERR_CORRUPT)
        note_header(k, entry);
    if (rc == ERR_OK)
        rc = read_all(k, key, entry, &why);
    if (rc == ERR_CANCELLED || rc == ERR_BUSY) {
        *eb = why;
        return rc;
    }
    if (rc != ERR_OK)
        check_fault(k, "%s %s, segment %06" PRIu32 " at %" PRIu64 ": %s", what,
                    check_key(key->bucket, key->key, text), entry->place.segment,
                    entry->place.offset, why.text);
    if (rc != ERR_OK && with_meta)
        note_lost(k, key, entry);
    return ERR_OK;
}

static enum err
check_bucket(struct check *k, uint64_t bucket, struct arena *a, struct errbuf *eb)
{
    char last[STORE_KEY_MAX];
    struct span after = {last, 0};
    struct version after_version;
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_version *entries;
        uint32_t count;

        arena_reset(a);
        rc = list_versions(k->disk->memtable, k->disk->index, bucket, after,
                           after.len == 0, after.len > 0 ? &after_version : NULL, PAGE, a,
                           &entries, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            struct store_key key = {.bucket = bucket, .key = entries[i].key};

            if (!entry_is_object(&entries[i].entry) ||
                check_is_dropped(k, &entries[i].entry))
                continue;
            k->result->objects++;
            rc = check_body(k, &key, &entries[i].entry, true, a,
                            entries[i].latest ? "object" : "older version of", eb);
        }
        if (rc == ERR_OK && count > 0) {
            after.len = entries[count - 1].key.len;
            memcpy(last, entries[count - 1].key.at, after.len);
            after_version = entry_born(&entries[count - 1].entry);
        }
    }
    return rc;
}

/* Parts of uploads in progress. */
struct check_parts {
    struct check *check;
    struct store_key key; /* of the upload at hand */
    struct arena *arena;
};

static enum err
check_part(void *arg, const struct list_part *p, struct errbuf *eb)
{
    const struct check_parts *c = arg;

    if (check_is_dropped(c->check, &p->part.entry))
        return ERR_OK;
    c->check->result->parts++;
    return check_body(c->check, &c->key, &p->part.entry, false, c->arena,
                      "part of an upload of", eb);
}

static enum err
check_upload(void *arg, const struct store_upload *u, struct errbuf *eb)
{
    struct check_parts *c = arg;
    struct store *d = c->check->disk;

    c->key.key = u->key;
    return list_each_part(d->memtable, d->index, &u->id, PAGE, check_part, arg, eb);
}

static enum err
check_uploads(struct check *k, uint64_t bucket, struct arena *a, struct errbuf *eb)
{
    struct check_parts c = {.check = k, .key.bucket = bucket, .arena = a};

    return list_each_upload(k->disk->memtable, k->disk->index, bucket, LIST_ALL, PAGE,
                            check_upload, &c, eb);
}

/* Prepared versions: what they become is the object or nothing, so they are read as objects. */
static enum err
check_prepared(struct check *k, struct arena *a, struct errbuf *eb)
{
    struct store *d = k->disk;
    struct content_id after;
    bool more = true, first = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_prepared *page;
        uint32_t count;

        arena_reset(a);
        rc = list_prepared(d->memtable, d->index, first ? NULL : &after, PAGE, a, &page,
                           &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            struct store_key key = {.bucket = page[i].bucket, .key = page[i].key};
            char name[STORE_KEY_MAX];
            struct prepared_entry p;

            after = page[i].content;
            rc = find_prepared(d->memtable, d->index, &after, name, &p, eb);
            if (rc == ERR_OK)
                rc = check_body(k, &key, &p.entry, true, a, "prepared version of", eb);
        }
        first = false;
    }
    return rc;
}

enum err
check_objects(struct check *k, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    uint64_t bucket = 0;
    enum err rc;

    for (rc = index_bucket(k->disk->index, 0, &bucket, eb); rc == ERR_OK;
         rc = index_bucket(k->disk->index, bucket, &bucket, eb)) {
        rc = check_bucket(k, bucket, a, eb);
        if (rc == ERR_OK)
            rc = check_uploads(k, bucket, a, eb);
        if (rc != ERR_OK || bucket++ == UINT64_MAX)
            break;
    }
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        rc = check_prepared(k, a, eb);
    arena_free(&a);
    return rc;
}
