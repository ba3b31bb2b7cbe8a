/* admission: what may take a place in a full cache.
 *
 * Until it is full for the first time everything is kept. Then an object that is asked for the first time passes through; a
 * second time is enough while there is room; and where something would have to go for it, it must have been asked for
 * clearly more often: two times more than the coldest segment was read, an object of it on the average, in the same span
 * of time. So an epoch in random order over more than fits leaves a fixed part of it in place, which is the
 * best there is (each reads everything once: nothing is ever clearly more wanted), and a scan beside a block cache takes
 * nothing from it; a set that is really wanted more comes in within some rounds.
 *
 * Asked for: reads, counted in a sketch (two generations of four rows of small counters; a key is as often as the least
 * of its four says). A generation ends after a window of reads; then the older one is forgotten, and with it the reads of
 * segments before (access_freq, store/gc/access_freq.h): what was not read in two windows is cold, however often it was before.
 *
 * Any thread, no lock: counters are relaxed, a lost count changes nothing that matters.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ADMISSION_ROWS  4u
#define ADMISSION_WIDTH (1u << 19) /* counters of a entry */
/* Heats are in sixteenths of a read of each object. */
#define ACCESS_FREQ_ONE 16u

struct admission {
    _Atomic(uint8_t) *counts[2]; /* owned; ADMISSION_ROWS x ADMISSION_WIDTH each */
    _Atomic uint32_t now;        /* which of the two is counted in */
    _Atomic uint32_t coldest;    /* access_freq of what would go next */
    _Atomic int room;            /* enum admission_room */
};
enum admission_room {
    ROOM_NEW,  /* it was never full */
    ROOM_LEFT, /* below the high watermark */
    ROOM_NONE, /* something would have to go */
};
void admission_init(struct admission *a);
void admission_fini(struct admission *a);
/* One more read of a key; returns how many there were before, in two windows. */
uint32_t admission_count(struct admission *a, uint64_t key_hash);
/* The same without counting. */
uint32_t admission_seen(const struct admission *a, uint64_t key_hash);
bool admission_allows(const struct admission *a, uint32_t seen);
/* As if something had to go for it. */
bool admission_is_wanted(const struct admission *a, uint32_t seen);
/* Is this one read more than its segment, an object of it on the average? Then it stays when that one goes. */
bool admission_stays(const struct admission *a, uint64_t key_hash, uint32_t access_freq);
/* Reads (hits and misses) of a window, for a cache of so many objects: some rounds over it, and no more than the sketch
 * tells apart. */
uint64_t admission_window(uint64_t objects);
/* Ends a window. One caller at a time. */
void admission_rotate(struct admission *a);
