/* row: rows of tail and index as bytes, each with a sum that binds it to its table, bucket and key.
 *
 * Numbers are varints (7 bits a byte, low first, shortest form), so an object's row is 50 to 72 bytes. A row
 * that was moved to another key, or of which a bit changed, is ERR_CORRUPT. docs/formats.md, section "rows".
 *
 * Pure functions: any thread.
 */
#pragma once
#include "disk/keys.h"

#define ROW_CODED_MAX                                                                    \
    152 /* whatever the numbers; 72 while epochs stay below 2^28 and counters below 2^35 */
#define VALUE_CODED_MAX                                                                  \
    (ROW_CODED_MAX + DISK_KEY_MAX + 128) /* the largest value of any table */

/* A content id is epoch (be48), node (be16), counter (be64). One that is minted with the epoch and counter of
 * its version costs nothing in the row but its node. */
struct content_id content_id_of(uint64_t epoch, uint16_t node, uint64_t counter);

struct upload_row {
    enum disk_class class;
    int64_t begun_ms;
    uint32_t segment; /* place of the record of its begin, which holds the metadata */
    uint64_t offset;
    bool copy; /* of an object that another disk has: in no list of uploads */
};
struct part_row {
    struct row row; /* place, size, md5, mtime, content of the part's body */
    uint8_t checksum_algorithm;
    uint8_t checksum_len; /* at most 64 */
    uint8_t checksum[64];
};
/* A completed upload, remembered for 7 days. */
struct done_row {
    uint64_t bucket;
    struct span key; /* borrowed; reading: lies in the value given */
    int64_t completed_ms;
    struct row row;
};

/* A version that is prepared and not decided. Its row's version is the one of the record that prepared it. */
struct prepared_row {
    uint64_t bucket;
    struct span key;         /* borrowed; reading: lies in the value given */
    struct upload_id upload; /* zero: none is completed by it */
    struct row row;
};

/* Where a value stands: what its sum binds it to. */
struct row_home {
    enum table table;
    uint64_t bucket; /* 0 for parts and completed uploads */
    struct span key; /* whole, not a layer of it */
};

/* Each writes at most VALUE_CODED_MAX bytes and returns how many. */
size_t row_encode(const struct row_home *home, const struct row *row, unsigned char *out);
size_t upload_row_encode(const struct row_home *home, const struct upload_row *u,
                         unsigned char *out);
size_t part_row_encode(const struct row_home *home, const struct part_row *p,
                       unsigned char *out);
size_t done_row_encode(const struct row_home *home, const struct done_row *d,
                       unsigned char *out);
size_t prepared_row_encode(const struct row_home *home, const struct prepared_row *p,
                           unsigned char *out);

/* ERR_CORRUPT: wrong sum, unknown format, not the shortest form. */
enum err row_decode(const struct row_home *home, struct span value,
                    struct row *out) MUST_CHECK;
/* Of bytes that this process has encoded and kept in its memory: the sum is not taken again. */
enum err row_decode_own(struct span value, struct row *out) MUST_CHECK;
enum err upload_row_decode(const struct row_home *home, struct span value,
                           struct upload_row *out) MUST_CHECK;
enum err part_row_decode(const struct row_home *home, struct span value,
                         struct part_row *out) MUST_CHECK;
enum err done_row_decode(const struct row_home *home, struct span value,
                         struct done_row *out) MUST_CHECK;
enum err prepared_row_decode(const struct row_home *home, struct span value,
                             struct prepared_row *out) MUST_CHECK;

/* What is counted as living in a segment for whatever names a place in it, never 0: a member of a log takes its header
 * too, about; a manifest 64 bytes a part. */
#define RECORD_WEIGHT INT64_C(1536)
int64_t segment_weight(bool in_log, uint64_t size);
int64_t row_weight(const struct row *row);
/* Is there an object in it: no tombstone, not only a doubt? */
bool row_has_object(const struct row *row);
/* Which of two values of one key is the newer? Objects: the higher version, of equals the second. Other tables:
 * the second. A value of length 0 says "gone". */
bool row_is_newer(enum table table, struct span first, struct span second);
/* Of a coded object row; its sum is not looked at. */
bool row_is_tombstone(struct span value);
bool upload_row_is_copy(struct span value); /* of a coded upload row; the same */
bool row_is_marker(struct span value);      /* a tombstone that S3 shows */
bool row_is_kept(struct span value); /* a tombstone that other copies must hear of */
