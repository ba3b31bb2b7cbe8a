/* reading: the bodies being read, so that hole punching spares them.
 *
 * Each loop has a list of its readers, which only that loop touches. Before the owner loop
 * punches a place or unlinks a file, it asks every loop in turn. A reader may begin after that
 * with an entry that was replaced in the meantime. It then finds a dead header, looks its key up
 * again and returns ERR_NOT_FOUND.
 */
#pragma once
#include "base/list.h"
#include "store/record/manifest.h"

struct store;

struct readings;                     /* one list per loop */
struct readings *readings_new(void); /* inside a runtime */
void readings_free(struct readings **rp);

/* Embedded in a reader; zeros: in no list. */
struct reading {
    struct list of_loop;
    uint32_t segment;
    uint64_t offset;
    const struct manifest
        *manifest; /* of a multipart object: all its parts are being read */
};
/* On the loop of the reader. */
void reading_begin(struct store *d, struct reading *r);
void reading_end(struct reading *r); /* idempotent */

struct reading_place {
    uint32_t segment;
    uint64_t offset; /* UINT64_MAX: anywhere in the segment */
    bool busy;       /* result */
};
/* Sets `busy` for places that are being read. ERR_BUSY: a loop did not answer, so any place may
 * be in use. Owner loop; switches. */
enum err readings_ask(struct store *d, struct reading_place *at,
                      uint32_t count) MUST_CHECK;
