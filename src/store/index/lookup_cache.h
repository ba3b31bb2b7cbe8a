/* lookup_cache: entries that a loop looked up lately, so that a repeated lookup needs neither memtable nor index.
 *
 * Each loop has its own entries, direct-mapped by the hash of the key. All loops share counters, one for many keys: odd while a
 * change of such a key is being made visible, even otherwise. A cached entry is valid while its counter has the even value that it
 * had before the lookup; so no loop sees an old entry after any loop saw the new one.
 *
 * Small plain objects have a table of their own.
 *
 * Changes: owner loop only. Lookups: any loop; other threads find nothing.
 */
#pragma once
#include "store/index/run.h"

struct entry;
struct run;

struct lookup_cache;
struct lookup_cache *lookup_cache_new(
    void); /* inside a runtime: asks how many loops there are */
void lookup_cache_free(struct lookup_cache **rp);

/* Around making a run visible; it is not finished yet. */
void lookup_cache_change_begin(struct lookup_cache *r, const struct run *run);
void lookup_cache_change_end(struct lookup_cache *r, const struct run *run);

struct lookup_cache_ticket {
    uint32_t hash, stamp;
    bool usable;
};
/* True: *out is the current entry of the key. Else the caller looks further, and hands what it found, and `ticket`, to
 * lookup_cache_keep(). */
bool lookup_cache_find(struct lookup_cache *r, uint64_t bucket, struct span key,
                       struct lookup_cache_ticket *ticket, struct entry *out);
void lookup_cache_keep(struct lookup_cache *r, uint64_t bucket, struct span key,
                       const struct lookup_cache_ticket *ticket,
                       const struct entry *entry);

/* Small plain objects, whose entry is all there is to them, are remembered by a line of memory each, so
 * many more of them. The key is not: *out may be the entry of another key with the same hash, so it is for who compares the
 * key that stands on the disk with his. Version, birth and overwrites are not known. */
bool lookup_cache_small_find(struct lookup_cache *r, uint64_t bucket, struct span key,
                             struct lookup_cache_ticket *ticket, struct entry *out);
/* False: it is not such an object, or may not be kept. */
bool lookup_cache_small_keep(struct lookup_cache *r,
                             const struct lookup_cache_ticket *ticket,
                             const struct entry *entry);

/* Where the counter of a key stands: `hash` and `stamp` of a ticket whose entry this loop still remembers, and it is this
 * one. False: it remembers none or another, or a change began since. */
bool lookup_cache_stamp_of(struct lookup_cache *r, uint64_t bucket, struct span key,
                           const struct entry *entry, uint32_t *hash, uint32_t *stamp);
void lookup_cache_prefetch(const struct lookup_cache *r,
                           uint32_t hash); /* asks for that memory */
/* Has no change of a key with this hash begun since? */
bool lookup_cache_is_unchanged(const struct lookup_cache *r, uint32_t hash,
                               uint32_t stamp);
