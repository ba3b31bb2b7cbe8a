/* note: what an interrupted transfer left, so that the same command goes on: small files below XDG_STATE_HOME/forebay or
 * ~/.local/state/forebay, each named by a hash of what is transferred between where. Losing one costs time, never bytes: what
 * it says is verified. Fibers only; all may switch. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

struct note {
    uint64_t size;                 /* of the file or object */
    int64_t mtime_ns;              /* up: of the file */
    uint64_t part_bytes;           /* up: of a part; down: of what `have` counts */
    char id[512];                  /* up: the upload's; down: the object's ETag */
    unsigned char have[10000 / 8]; /* down: a bit for each `part_bytes` */
};
/* Owned by the caller; NULL when there is no place for notes. `parts` are joined: endpoint, object, file. */
char *note_path(const char *kind, const char *const *parts);
/* False when there is none, or it cannot be read: then it counts as none. */
bool note_load(const char *path, struct note *out);
bool note_parse(struct span text, struct note *out);
void note_save(const char *path, const struct note *n); /* best effort */
void note_drop(const char *path);
