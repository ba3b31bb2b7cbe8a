/* reading: which bodies are being read, so that their bytes are not given back under a reader.
 *
 * Each loop has a list of the readers that are on it; only that loop touches it. Before a place is punched, or a file
 * unlinked, the owner loop asks every loop in turn. A reader that begins after that, with an entry that was replaced in
 * between, finds a dead header, looks its key up again and says ERR_NOT_FOUND.
 */
#pragma once
#include "base/list.h"
#include "store/record/manifest.h"

struct store;

struct readings;                     /* one list a loop */
struct readings *readings_new(void); /* inside a runtime */
void readings_free(struct readings **rp);

/* Part of a reader; zeros: in no list. */
struct reading {
    struct list of_loop;
    uint32_t segment;
    uint64_t offset;
    const struct manifest
        *manifest; /* of an object of parts: all its parts are being read */
};
/* On the loop of the reader. */
void reading_begin(struct store *d, struct reading *r);
void reading_end(struct reading *r); /* twice is fine */

struct reading_place {
    uint32_t segment;
    uint64_t offset; /* UINT64_MAX: anywhere in the segment */
    bool busy;       /* the answer */
};
/* Sets `busy` for places that are being read. ERR_BUSY: a loop did not answer, so any may be. Owner loop; switches. */
enum err readings_ask(struct store *d, struct reading_place *at,
                      uint32_t count) MUST_CHECK;
