/* entry: entries of memtable and index as bytes, each with a sum that binds it to its table, bucket and key.
 *
 * Numbers are varints (7 bits a byte, low first, shortest form), so an object's entry is 50 to 72 bytes. An entry
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

/* A prepared version (two-phase commit). The version in its entry is that of the prepare record. */
struct prepared_entry {
    uint64_t bucket;
    struct span key;         /* borrowed; reading: lies in the value given */
    struct upload_id upload; /* zero: none is completed by it */
    struct coordinator coordinator;
    struct entry entry;
};

/* The key of a value, to which its sum binds it. */
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
/* Of bytes that this process has encoded and kept in memory: does not check the sum. */
enum err entry_decode_own(struct span value, struct entry *out) MUST_CHECK;
enum err upload_entry_decode(const struct entry_key *where, struct span value,
                             struct upload_entry *out) MUST_CHECK;
enum err part_entry_decode(const struct entry_key *where, struct span value,
                           struct part_entry *out) MUST_CHECK;
enum err done_entry_decode(const struct entry_key *where, struct span value,
                           struct done_entry *out) MUST_CHECK;
enum err prepared_entry_decode(const struct entry_key *where, struct span value,
                               struct prepared_entry *out) MUST_CHECK;

/* Live bytes that an entry counts for in the segment it names, never 0: a log record includes its header, about; a manifest has 64
 * bytes a part. */
#define RECORD_WEIGHT INT64_C(1536)
int64_t segment_weight(bool in_log, uint64_t size);
int64_t entry_weight(const struct entry *entry);
/* Does it stand for an object: no tombstone, and not only an in-doubt write? */
bool entry_has_object(const struct entry *entry);
/* Is the second of two values of one key the newer? Objects: by version, the second of equals. Other tables: always. A value of length
 * 0 is a deletion. */
bool entry_is_newer(enum table table, struct span first, struct span second);
/* Of a coded object entry; does not check its sum. */
bool entry_is_tombstone(struct span value);
bool upload_entry_is_copy(struct span value); /* of a coded upload entry; the same */
bool entry_is_marker(struct span value);      /* a tombstone that S3 shows */
bool entry_is_kept(struct span value);        /* a tombstone that other replicas need */
