/* format: the numbers of the format on disk, and how ids and versions compare. docs/formats.md has every byte. Pure: any thread. */
#pragma once
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "store/store_entry.h"

#define FORMAT_VERSION  2 /* reads the one before, too */
#define STORE_ALIGN     4096u
#define BLOCK_BYTES     (16u << 10) /* of a block sum */
#define HEAD_MAX        (20u << 10) /* header of a record */
#define META_MAX        (8u << 10)  /* metadata fields of an object */
#define BATCH_MAX       ((4u << 20) - STORE_ALIGN)
#define BATCH_RECORDS   512
#define BODY_HEAD       STORE_ALIGN
#define SUMS_HEAD_ROOM  (12u << 10)
#define BODY_OWN        (16u << 20) /* from here on a body has a segment of its own */
#define BODY_STEP       (16u << 20) /* one of unknown length grows by this */
#define BODY_MAX        ((uint64_t)5 << 30)
#define BUCKET_NOTE_MAX (64u << 10)
#define PART_MAX        STORE_PARTS_MAX

static_assert(STORE_ALIGN % 512 == 0, "tar counts in blocks of 512");
static_assert(BLOCK_BYTES % STORE_ALIGN == 0, "blocks are whole pages");
static_assert(HEAD_MAX % STORE_ALIGN == 0, "headers are padded to pages");
static_assert(META_MAX + 2 * STORE_KEY_MAX < HEAD_MAX,
              "metadata and key fit in a header");
static_assert(BATCH_MAX % STORE_ALIGN == 0, "batches are whole pages");
static_assert(BATCH_RECORDS <= UINT16_MAX, "changes.slots counts them in 16 bits");
static_assert(STORE_INLINE_MAX % BLOCK_BYTES == 0, "a body in the log is whole blocks");
static_assert(STORE_INLINE_MAX + HEAD_MAX < BATCH_MAX,
              "a batch has room for the largest record");
static_assert(BODY_HEAD == STORE_ALIGN, "the payload of a body begins at a page");
static_assert(BODY_OWN > STORE_INLINE_MAX, "shared segments take what is between");
static_assert(BODY_STEP % STORE_ALIGN == 0, "a body grows by whole pages");
static_assert(BODY_MAX % BLOCK_BYTES == 0, "the largest body is whole blocks");

enum segment_kind { SEGMENT_LOG, SEGMENT_BODIES, SEGMENT_ONE };

/* The low `bytes` bytes of the number, the highest first. */
static inline void
format_put_be(char *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = bytes; i-- > 0; value >>= 8)
        out[i] = (char)value;
}
static inline bool
content_eq(const struct content_id *a, const struct content_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
static inline int
version_cmp(const struct version *a, const struct version *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return (a->counter > b->counter) - (a->counter < b->counter);
}
