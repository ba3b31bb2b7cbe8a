/* admission: which objects may enter a full cache.
 *
 * A cache that was never full admits every object. Below the high watermark an object is admitted at its second read.
 * When an admission would evict something, the object must have been read clearly more often than the coldest
 * segment: twice more than the average object of that segment, in the same span of time. So an epoch in random order
 * over more data than fits keeps a fixed part in place, which is optimal: each object is read once, and none is
 * clearly more wanted. A scan beside a working set evicts nothing of it. A working set that is read more enters
 * within a few rounds.
 *
 * Reads are counted in a count-min sketch: two generations of four rows of small counters; the smallest of a key's
 * four counters is its count. A generation ends after a window of reads. The older generation is then dropped,
 * together with the reads of segments counted before (store/access_freq.h). What was not read in two windows is cold,
 * however often it was read earlier.
 *
 * Any thread, no lock: counters are relaxed, and a lost count does no harm.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ADMISSION_ROWS  4u
#define ADMISSION_WIDTH (1u << 19) /* counters of an entry */
/* Access frequencies are in sixteenths of a read of each object. */
#define ACCESS_FREQ_ONE 16u

struct admission {
    _Atomic(uint8_t) *counts[2]; /* owned; ADMISSION_ROWS x ADMISSION_WIDTH each */
    _Atomic uint32_t now;        /* the index of the generation that counts */
    _Atomic uint32_t
        coldest;      /* access frequency of the segment that would be evicted next */
    _Atomic int room; /* enum admission_room */
};
enum admission_room {
    ROOM_NEW,  /* it was never full */
    ROOM_LEFT, /* below the high watermark */
    ROOM_NONE, /* an admission would evict something */
};
void admission_init(struct admission *a);
void admission_fini(struct admission *a);
/* Counts one more read of a key; returns how many reads the two windows had before it. */
uint32_t admission_count(struct admission *a, uint64_t key_hash);
/* The same without counting. */
uint32_t admission_seen(const struct admission *a, uint64_t key_hash);
bool admission_allows(const struct admission *a, uint32_t seen);
/* As if the admission had to evict something. */
bool admission_is_wanted(const struct admission *a, uint32_t seen);
/* Is this object read more than the average object of its segment? Then it stays when the segment is evicted. */
bool admission_stays(const struct admission *a, uint64_t key_hash, uint32_t access_freq);
/* The number of reads (hits and misses) in a window for a cache of so many objects: a few rounds over all of them,
 * but no more than the sketch can tell apart. */
uint64_t admission_window(uint64_t objects);
/* Ends a window. One caller at a time. */
void admission_rotate(struct admission *a);
