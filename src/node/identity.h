/* identity: the permanent identity of this node: `.forebay/node/identity` (docs/formats.md, section "node state"). */
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
/* Reads the identity, or makes one for a new disk, and writes nothing. `dir` is `.forebay/node`, `disk` the path of the
 * disk. May switch. */
enum err identity_load(struct rt_dir *dir, const char *disk, struct identity *out,
                       struct errbuf *eb) MUST_CHECK;
/* Reads the identity, or creates it on a new disk, and counts this start; on stable storage when it returns. `dir` is
 * `.forebay/node`, `disk` the path of the disk. May switch. */
enum err identity_start(struct rt_dir *dir, const char *disk, struct identity *out,
                        struct errbuf *eb) MUST_CHECK;
/* Writes the identity unchanged, for a state restored from a copy; on stable storage when it returns. May switch. */
enum err identity_put(struct rt_dir *dir, const struct identity *id,
                      struct errbuf *eb) MUST_CHECK;
