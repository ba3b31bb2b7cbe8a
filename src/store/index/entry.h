/* entry: entries of memtable and index as bytes, each with a sum that binds it to its table, bucket and key.
 *
 * Numbers are varints (7 bits a byte, low first, shortest form), so an object's entry is 50 to 72 bytes. A entry
 * that was moved to another key, or of which a bit changed, is ERR_CORRUPT. docs/formats.md, section "entries".
 *
 * Pure functions: any thread.
 */
#pragma once
#include "store/record/keys.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

#define ENTRY_CODED_MAX                                                                  \
    152 /* whatever the numbers; 72 while epochs stay below 2^28 and counters below 2^35 */
#define VALUE_CODED_MAX                                                                  \
    (ENTRY_CODED_MAX + STORE_KEY_MAX + 128) /* the largest value of any table */

/* A content id is epoch (be48), node (be16), counter (be64). One that is minted with the epoch and counter of
 * its version costs nothing in the entry but its node. */

struct upload_entry {
    enum store_class class;
    int64_t begun_ms;
    uint32_t segment; /* place of the record of its begin, which holds the metadata */
    uint64_t offset;
    bool copy; /* of an object that another disk has: in no list of uploads */
};
struct part_entry {
    struct entry entry; /* place, size, md5, mtime, content of the part's body */
    uint8_t checksum_algorithm;
    uint8_t checksum_len; /* at most 64 */
    uint8_t checksum[64];
};
/* A completed upload, remembered for 7 days. */
struct done_entry {
    uint64_t bucket;
    struct span key; /* borrowed; reading: lies in the value given */
    int64_t completed_ms;
    struct entry entry;
};

/* A version that is prepared and not decided. Its entry's version is the one of the record that prepared it. */
struct prepared_entry {
    uint64_t bucket;
    struct span key;         /* borrowed; reading: lies in the value given */
    struct upload_id upload; /* zero: none is completed by it */
    struct entry entry;
};

/* Where a value stands: what its sum binds it to. */
struct entry_key {
    enum table table;
    uint64_t bucket; /* 0 for parts and completed uploads */
    struct span key; /* whole, not a layer of it */
};

/* Each writes at most VALUE_CODED_MAX bytes and returns how many. */
size_t entry_encode(const struct entry_key *where, const struct entry *entry,
                    unsigned char *out);
size_t upload_entry_encode(const struct entry_key *where, const struct upload_entry *u,
                           unsigned char *out);
size_t part_entry_encode(const struct entry_key *where, const struct part_entry *p,
                         unsigned char *out);
size_t done_entry_encode(const struct entry_key *where, const struct done_entry *d,
                         unsigned char *out);
size_t prepared_entry_encode(const struct entry_key *where,
                             const struct prepared_entry *p, unsigned char *out);

/* ERR_CORRUPT: wrong sum, unknown format, not the shortest form. */
enum err entry_decode(const struct entry_key *where, struct span value,
                      struct entry *out) MUST_CHECK;
/* Of bytes that this process has encoded and kept in its memory: the sum is not taken again. */
enum err entry_decode_own(struct span value, struct entry *out) MUST_CHECK;
enum err upload_entry_decode(const struct entry_key *where, struct span value,
                             struct upload_entry *out) MUST_CHECK;
enum err part_entry_decode(const struct entry_key *where, struct span value,
                           struct part_entry *out) MUST_CHECK;
enum err done_entry_decode(const struct entry_key *where, struct span value,
                           struct done_entry *out) MUST_CHECK;
enum err prepared_entry_decode(const struct entry_key *where, struct span value,
                               struct prepared_entry *out) MUST_CHECK;

/* What is counted as living in a segment for whatever names a place in it, never 0: a record of a log takes its header
 * too, about; a manifest 64 bytes a part. */
#define RECORD_WEIGHT INT64_C(1536)
int64_t segment_weight(bool in_log, uint64_t size);
int64_t entry_weight(const struct entry *entry);
/* Is there an object in it: no tombstone, not only a doubt? */
bool entry_has_object(const struct entry *entry);
/* Which of two values of one key is the newer? Objects: the higher version, of equals the second. Other tables:
 * the second. A value of length 0 says "gone". */
bool entry_is_newer(enum table table, struct span first, struct span second);
/* Of a coded object entry; its sum is not looked at. */
bool entry_is_tombstone(struct span value);
bool upload_entry_is_copy(struct span value); /* of a coded upload entry; the same */
bool entry_is_marker(struct span value);      /* a tombstone that S3 shows */
bool entry_is_kept(struct span value); /* a tombstone that other copies must hear of */
