/* dataset: the files that emulated accelerators read: made for the purpose, listed, or named in a file. Fibers of one loop. */
#pragma once
#include "bench/accelerator.h"
#include "bench/made.h"
#include "bench/profile.h"

struct dataset {
    struct span bucket;
    struct train_file *files; /* owned, with their keys */
    uint32_t count, room;
    uint64_t bytes, samples;
    struct made made; /* what dataset_make() made */
};
/* As many files as fit into so many bytes, at least one. */
enum err dataset_make(struct dataset *d, struct session *s, const struct place *p,
                      const struct profile *profile, uint64_t bytes,
                      uint64_t seed) MUST_CHECK;
/* What is under the place. ERR_NOT_FOUND: nothing. `most`: at most so many. */
enum err dataset_list(struct dataset *d, struct session *s, const struct place *p,
                      const struct profile *profile, uint32_t most) MUST_CHECK;
/* A name below the place a line; sizes are asked for (HEAD): for servers that list nothing. */
enum err dataset_read(struct dataset *d, struct session *s, const struct place *p,
                      const struct profile *profile, const char *path,
                      uint32_t most) MUST_CHECK;
void dataset_fini(struct dataset *d);
