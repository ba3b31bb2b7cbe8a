/* sample: a sample of a shard as a record to sort: its key, where it came from, and where the bytes of its members lie. Pure.
 *
 * A sample is what members share the name of up to the first dot of its last component: shard_sample_key(). Records are ordered by key,
 * then by shard and place in it, so any two differ, and the order does not depend on how they were divided among runs.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define SAMPLE_KEY_MAX     4096u
#define SAMPLE_MEMBERS_MAX 1000000u
#define SAMPLE_BYTES_MAX   (16u << 20) /* of one record */

struct sample_member {
    uint64_t offset; /* of its bytes: in the shard, or in the copy of its members */
    uint64_t size;
    int64_t mtime_s;
    uint32_t crc; /* CRC-32C of a copy */
    struct span name;
};
struct sample {
    uint32_t input;  /* its shard */
    uint32_t number; /* in that shard */
    uint32_t count;  /* members */
    uint64_t bytes;  /* that it takes in a tar */
    struct span key, members;
};
/* Appends a member to the members of a sample. */
void sample_put_member(struct buf *members, const struct sample_member *m);
/* What a member takes in a tar. */
uint64_t sample_tar_bytes(uint64_t size);
/* Appends the record. */
void sample_encode(const struct sample *s, struct buf *out);
/* ERR_CORRUPT. The spans lie in `record`. */
enum err sample_parse(struct span record, struct sample *out,
                      struct errbuf *eb) MUST_CHECK;
/* Takes the next member of `members`. ERR_CORRUPT. */
enum err sample_next_member(struct span *members, struct sample_member *out,
                            struct errbuf *eb) MUST_CHECK;
int sample_cmp(const struct sample *a, const struct sample *b, bool descending);

/* Keys that sort as what they stand for. */
void sample_key_i64(struct buf *out, int64_t value);
void sample_key_f64(struct buf *out, double value); /* no NaN */
