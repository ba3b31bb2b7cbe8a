/* state_copy: the node's state as one file, `.forebay/node.copy`, for disks that do not hold it: docs/formats.md section 10.
 * Encoding only, no I/O. It contains pairs of meta/dump.h; keys "file:NAME" are files.
 */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define STATE_COPY_FILE      "node.copy"
#define STATE_COPY_BYTES_MAX (64u << 20)

struct state_copy {
    uint8_t cluster_id[16];
    uint16_t node;
    uint64_t starts,
        number;        /* the start that wrote it, and how many it had written before */
    struct span pairs; /* read: in the bytes given */
};

/* True if the first copy is newer. */
static inline bool
state_copy_newer(const struct state_copy *a, const struct state_copy *b)
{
    return a->starts != b->starts ? a->starts > b->starts : a->number > b->number;
}

/* Appends to `out`; out->full tells when it is too much. */
void state_copy_encode(const struct state_copy *c, struct buf *out);
/* ERR_CORRUPT with a sentence; then nothing in *out may be used. */
enum err state_copy_parse(struct span bytes, struct state_copy *out,
                          struct errbuf *eb) MUST_CHECK;
