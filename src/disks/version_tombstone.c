#include "disks/version_tombstone.h"

#include <assert.h>
#include <string.h>

#include "base/cursor.h"
#include "base/log.h"
#include "base/mem.h"
#include "rt/time.h"

#define BIRTH_BYTES 16u
#define AT_A_TIME   100u
#define SCRATCH_MAX MIB(1)
/* Replaces the first bit of an epoch, which is 0. */
#define OF_UPLOAD ((uint64_t)1 << 63)

/* Stands for the null versions of a key: all with a birth before the tombstone's version. */
static const struct version all_nulls = {UINT64_MAX, UINT64_MAX};

/* An upload id encoded as a birth that no version has. Its first bytes still hold the epoch. */
static struct version
upload_birth(const struct upload_id *u)
{
    struct cursor c = cursor_of(u->id.bytes, sizeof u->id.bytes);
    uint64_t first = take_be(&c, 8);

    return (struct version){first | OF_UPLOAD, take_be(&c, 8)};
}

/* True if the tombstone under this key is of an upload; false: of a version, or of null
 * versions. */
static bool
is_of_upload(struct span key, struct upload_id *u)
{
    struct cursor c = cursor_of(key.at, key.len);
    uint64_t first = take_be(&c, 8);

    if ((first & OF_UPLOAD) == 0 || first == all_nulls.epoch)
        return false;
    memcpy(u->id.bytes, key.at, BIRTH_BYTES);
    u->id.bytes[0] &= 0x7f;
    return true;
}

/* Builds the tombstone's key. A key that is too long with the birth in front is cut. Births are
 * unique, so the tombstone stays unambiguous, but only a pass that visits the key finds it. */
static struct store_key
mark_key(const struct store_key *k, const struct version *born, char room[STORE_KEY_MAX])
{
    size_t len = MIN(k->key.len, (size_t)STORE_KEY_MAX - BIRTH_BYTES);

    for (unsigned i = 0; i < 8; i++) {
        room[i] = (char)(born->epoch >> (56 - 8 * i));
        room[8 + i] = (char)(born->counter >> (56 - 8 * i));
    }
    memcpy(room + BIRTH_BYTES, k->key.at, len);
    return (struct store_key){.bucket = TOMBSTONE_BUCKETS | k->bucket,
                              .immutable_name = k->immutable_name,
                              .key = {room, BIRTH_BYTES + len}};
}

enum err
version_tombstone_put(struct disks *ds, const struct disks_key *k, const struct places *p,
                      const struct version *born, const struct version *as,
                      struct errbuf *eb)
{
    char room[STORE_KEY_MAX];
    struct store_key at = mark_key(&k->at, born, room);
    struct store_delete_options o = {.version = as,
                                     .keep_tombstone = true,
                                     .always = true,
                                     .now_ms = (int64_t)(rt_wall_ns() / 1000000u)};
    struct version decided;
    enum err rc = ERR_OK;
    unsigned marks = 0;

    assert(p->count <= DISKS_MAX);
    assert(born->epoch != 0);
    for (unsigned i = 0; i < p->count; i++) {
        struct store_deleted done;
        struct replica *d = replica_enter(ds, p->at[i]);
        enum err one;

        if (d == NULL)
            continue;
        one = replica_delete_with(d, &at, &o, &done, eb);
        replica_leave(d);
        if (one != ERR_OK) {
            rc = one;
            continue;
        }
        marks++;
        if (o.version == NULL) {
            decided = done.version;
            o.version = &decided;
        }
    }
    return marks > 0 ? ERR_OK : rc;
}

static bool
has_mark(struct disks *ds, unsigned slot, const struct store_key *at, struct version *as)
{
    struct replica *d = replica_enter(ds, slot);
    struct entry entry;
    enum err rc = d != NULL ? replica_lookup_any(d, at, &entry, NULL) : ERR_UNAVAILABLE;

    assert(slot < atomic_load(&ds->slot_count));
    replica_leave(d);
    if (rc != ERR_OK || (entry.flags & ENTRY_KEPT) == 0)
        return false;
    *as = entry.version;
    return true;
}

static bool
is_marked(struct disks *ds, const struct disks_key *k, const struct version *born,
          struct version *as)
{
    char room[STORE_KEY_MAX];
    struct store_key at = mark_key(&k->at, born, room);
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);
    struct version one;
    bool found = false;

    for (unsigned i = 0; i < n; i++) {
        if (!has_mark(ds, all[i], &at, &one) || (found && version_order(&one, as) <= 0))
            continue;
        *as = one;
        found = true;
    }
    return found;
}

enum err
upload_tombstone_put(struct disks *ds, const struct disks_key *k, const struct places *p,
                     const struct upload_id *u, struct errbuf *eb)
{
    struct version birth = upload_birth(u);

    return version_tombstone_put(ds, k, p, &birth, NULL, eb);
}

bool
upload_tombstone_find(struct disks *ds, const struct disks_key *k,
                      const struct upload_id *u)
{
    struct version birth = upload_birth(u), as;

    return !atomic_load_explicit(&ds->converged, memory_order_acquire) &&
           is_marked(ds, k, &birth, &as);
}

enum err
version_tombstone_put_nulls(struct disks *ds, const struct disks_key *k,
                            const struct places *p, const struct version *as,
                            struct errbuf *eb)
{
    return version_tombstone_put(ds, k, p, &all_nulls, as, eb);
}

void
version_tombstone_drop_nulls(struct disks *ds, const struct disks_key *k, unsigned slot,
                             const struct version *as)
{
    char room[STORE_KEY_MAX];
    struct store_key at = mark_key(&k->at, &all_nulls, room);
    struct replica *d = replica_enter(ds, slot);
    struct errbuf eb = {{0}};

    assert(slot < atomic_load(&ds->slot_count));
    if (d == NULL)
        return;
    if (replica_tombstone_drop(d, &at, as, &eb) != ERR_OK)
        LOG(LOG_WARN, "disks.tombstone", eb.text, L_SPAN("key", k->at.key));
    replica_leave(d);
}

bool
version_tombstone_find(struct disks *ds, const struct disks_key *k,
                       const struct entry *entry, struct version *as)
{
    struct version born = entry_born(entry);

    if (atomic_load_explicit(&ds->converged, memory_order_acquire))
        return false;
    if (is_marked(ds, k, &born, as))
        return true;
    return entry_is_null_version(entry) && is_marked(ds, k, &all_nulls, as) &&
           version_order(&born, as) < 0;
}

bool
version_tombstone_find_plain(struct disks *ds, const struct disks_key *k,
                             const struct entry *entry)
{
    struct version born = entry_born(entry), as;

    return !atomic_load_explicit(&ds->converged, memory_order_acquire) &&
           (entry->flags & (ENTRY_HISTORY | ENTRY_TOMBSTONE | ENTRY_CACHED)) == 0 &&
           is_marked(ds, k, &all_nulls, &as) && version_order(&born, &as) < 0;
}

/* ---- tombstones that every replica has ---- */

static enum err
tombstone_end(struct disks *ds, const struct store_key *at, const struct version *as,
              struct errbuf *eb)
{
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);
    enum err rc = ERR_OK;

    for (unsigned i = 0; rc == ERR_OK && i < n; i++) {
        struct replica *d = replica_enter(ds, all[i]);

        rc = replica_tombstone_drop(d, at, as, eb);
        replica_leave(d);
    }
    return rc;
}

enum err
version_tombstones_walk(struct disks *ds, const struct disks_bucket *b, unsigned slot,
                        version_tombstone_fn *on_mark, void *arg, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), SCRATCH_MAX);
    char last[STORE_KEY_MAX];
    struct span after = {last, 0};
    bool more = true;
    enum err rc = ERR_OK;

    assert(rt_loop_index() == 0);
    assert(slot < atomic_load(&ds->slot_count));
    while (rc == ERR_OK && more) {
        struct replica *d = replica_enter(ds, slot);
        struct store_entry *marks = NULL;
        uint32_t count = 0;

        if (d == NULL)
            break;
        arena_reset(a);
        rc = replica_list_any(d, TOMBSTONE_BUCKETS | b->id, after, false, AT_A_TIME, a,
                              &marks, &count, &more, eb);
        replica_leave(d);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            struct store_key at = {.bucket = TOMBSTONE_BUCKETS | b->id,
                                   .immutable_name = b->immutable_name,
                                   .key = marks[i].key};
            struct disks_key k = {
                .at = {.bucket = b->id, .immutable_name = b->immutable_name},
                .copies = b->copies};

            struct upload_id u;
            bool of_upload;

            if (at.key.len <= BIRTH_BYTES)
                continue;
            k.at.key = (struct span){at.key.at + BIRTH_BYTES, at.key.len - BIRTH_BYTES};
            of_upload = is_of_upload(at.key, &u);
            /* A cut key finds no upload: the tombstone stays for the pass that visits the
             * upload. */
            if (of_upload && at.key.len == STORE_KEY_MAX)
                continue;
            /* A replica that is away may return with it. */
            if (on_mark(arg, &k, of_upload ? &u : NULL) && !any_replica_unreachable(ds))
                rc = tombstone_end(ds, &at, &marks[i].entry.version, eb);
        }
        if (count > 0) {
            after.len = marks[count - 1].key.len;
            memcpy(last, marks[count - 1].key.at, after.len);
        }
    }
    arena_free(&a);
    return rc;
}
