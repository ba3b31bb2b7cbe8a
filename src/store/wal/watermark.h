/* watermark: how far the native log is durable, known outside the log. docs/formats.md, section 6.
 *
 * After each sync that a reply waits for, the committer writes the number of the batch and the hashes of the keys
 * that the last batches changed into `.forebay/durable`. It does not sync that file: after a kill the kernel still has the
 * bytes; after a power cut the file may be older, which only shows less. So a start that finds the log ending before that
 * batch knows that acknowledged changes are lost, and mostly of which keys.
 *
 * Two slots in turn, each with a sum: a torn write leaves the other one. Owner loop. */
#pragma once
#include "base/buf.h"
#include "rt/file.h"
#include "store/store_entry.h"

#define WATERMARK_FILE "durable"
#define WATERMARK_SLOT 16384u
#define WATERMARK_KEYS 800u /* changes at most; those of one batch always fit */

struct store;

struct watermark_key {
    uint64_t batch, hash;
    uint32_t bucket;
};
struct watermark {
    uint64_t batch;         /* durable, with all before it; 0: none */
    uint64_t whole_from;    /* of this batch and later ones all keys are listed */
    struct version version; /* no version up to that batch is higher */
    struct watermark_key keys[WATERMARK_KEYS]; /* the oldest first */
    uint32_t count;

    struct rt_file *file; /* owned; NULL: not written */
    struct iobuf *buf;    /* owned */
    bool failed;          /* said once */
};
struct watermark *watermark_new(void);
void watermark_free(struct watermark **wp); /* NULL is fine */

/* One slot. Returns its length, a multiple of 512. */
size_t watermark_encode(const struct watermark *w, char out[WATERMARK_SLOT]);
bool watermark_decode(struct span bytes, struct watermark *out);

/* The later good slot, or batch 0. May switch. */
enum err watermark_load(struct rt_dir *state, struct watermark *out,
                        struct errbuf *eb) MUST_CHECK;
/* Opens the file for writing: from now on the log ends behind `batch`. May switch. */
enum err watermark_begin(struct store *d, uint64_t batch, struct errbuf *eb) MUST_CHECK;
/* A batch with these changes (suspect_put()) is appended. */
void watermark_add(struct watermark *w, uint64_t batch, struct span keys);
/* It is durable. An error is only logged. May switch. */
void watermark_write(struct store *d, uint64_t batch);
/* The keys of that batch are listed. */
bool watermark_knows(const struct watermark *w, uint64_t batch);
