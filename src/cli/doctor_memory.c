/* doctor_memory: the block cache in a sentence: what it has, what it may have, and what more would gain. */
#include "cli/doctor_memory.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "wire/json_get.h"

#define FULL_PERCENT  90u /* of its target: less, and more memory would not be used */
#define WORTH_PERCENT 5u  /* of the reads: a smaller gain is not worth a change */

static double
percent(uint64_t part, uint64_t of)
{
    return of > 0 ? 100.0 * (double)part / (double)of : 0;
}

void
doctor_memory_text(const json_t *stat, char *out, size_t room)
{
    const json_t *c = json_object_get(stat, "block_cache");
    uint64_t held = json_get_u64(c, "held_bytes"),
             target = json_get_u64(c, "target_bytes"),
             hits = json_get_u64(c, "reads_memory"),
             reads = hits + json_get_u64(c, "reads_disk"),
             gain = json_get_u64(c, "rereads_twice");
    bool fixed = strcmp(json_get_text(c, "size", "auto"), "fixed") == 0;
    char has[NUM_SIZE_TEXT], may[NUM_SIZE_TEXT], most[NUM_SIZE_TEXT], more[256] = "";

    if (target == 0) {
        snprintf(out, room, "the block cache is off (memory.block_cache)");
        return;
    }
    if (held >= target / 100 * FULL_PERCENT && percent(gain, reads) >= WORTH_PERCENT)
        snprintf(more, sizeof more, "; twice the size would have had %.0f %% of them: %s",
                 MIN(percent(hits + gain, reads), 100.0),
                 fixed ? "set memory.block_cache to auto or to more"
                       : "this machine has no more to give; add memory, or a node");
    snprintf(out, room, "block cache %s of %s now (%s%s); %.0f %% of reads from it%s",
             num_size_text(held, has), num_size_text(target, may),
             fixed ? "fixed by memory.block_cache, " : "auto, at most ",
             fixed ? "not by the machine"
                   : num_size_text(json_get_u64(c, "most_bytes"), most),
             percent(hits, reads), more);
}
