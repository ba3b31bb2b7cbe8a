/* identity: who this node is, for ever: `.forebay/node/identity` (docs/formats.md, section "node state"). */
#pragma once
#include <stdint.h>

#include "base/err.h"
#include "rt/file.h"

struct identity {
    uint8_t cluster_id[16]; /* minted by the first start */
    uint16_t node;          /* 1 for the first */
    uint64_t starts;        /* counts starts: the epoch of this one */
    bool first;             /* minted just now */
};
/* Reads it, or mints it where the disk is new too, and counts this start; on stable storage when it returns. `dir` is
 * `.forebay/node`, `disk` the path of the disk. May switch. */
enum err identity_start(struct rt_dir *dir, const char *disk, struct identity *out,
                        struct errbuf *eb) MUST_CHECK;
/* Writes it as it is, on stable storage when it returns: for a state that is made from a copy. May switch. */
enum err identity_put(struct rt_dir *dir, const struct identity *id,
                      struct errbuf *eb) MUST_CHECK;
