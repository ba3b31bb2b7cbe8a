/* recent: rows that a loop looked up lately, so that a key which is asked for again costs neither tail nor index.
 *
 * Each loop has rows of its own, direct mapped by the hash of the key. All share counters, one for many keys: odd
 * while a change of such a key is on its way into the tail, even otherwise. A row is given out only while its counter
 * stands where it stood, even, before the row was looked up; so nobody sees an old row after anybody saw the new one.
 *
 * Small plain objects have a table of their own.
 *
 * Changes: home loop only. Lookups: any loop; other threads find nothing.
 */
#pragma once
#include "disk/run.h"

struct recent;
struct recent *recent_new(void); /* inside a runtime: asks how many loops there are */
void recent_free(struct recent **rp);

/* Around making a run visible; it is not finished yet. */
void recent_change_begin(struct recent *r, const struct run *run);
void recent_change_end(struct recent *r, const struct run *run);

struct recent_look {
    uint32_t hash, stamp;
    bool usable;
};
/* True: *out is the current row of the key. Else the caller looks further, and hands what it found, and `look`, to
 * recent_keep(). */
bool recent_find(struct recent *r, uint64_t bucket, struct span key,
                 struct recent_look *look, struct row *out);
void recent_keep(struct recent *r, uint64_t bucket, struct span key,
                 const struct recent_look *look, const struct row *row);

/* Small plain objects, whose row is all there is to them, are remembered by a line of memory each, so
 * many more of them. The key is not: *out may be the row of another key with the same hash, so it is for who compares the
 * key that stands on the disk with his. Version, birth and overwrites are not known. */
bool recent_small_find(struct recent *r, uint64_t bucket, struct span key,
                       struct recent_look *look, struct row *out);
/* False: it is not such an object, or may not be kept. */
bool recent_small_keep(struct recent *r, const struct recent_look *look,
                       const struct row *row);

/* Where the counter of a key stands: `hash` and `stamp` of a look whose row this loop still remembers, and it is this
 * one. False: it remembers none or another, or a change began since. */
bool recent_stand(struct recent *r, uint64_t bucket, struct span key,
                  const struct row *row, uint32_t *hash, uint32_t *stamp);
void recent_ahead(const struct recent *r, uint32_t hash); /* asks for that memory */
/* Has no change of a key with this hash begun since? */
bool recent_stands(const struct recent *r, uint32_t hash, uint32_t stamp);
