/* sim_image: the bytes of a simulated file in one state; sim_disk.h has the model. */
#pragma once
#include <stdint.h>

/* A growing mapping: untouched pages cost nothing and read as zeros. Small ones are kept for the files of later worlds: most of
 * what a world costs would else be pages that the kernel clears, takes back and clears again. */
struct sim_image {
    char *at;
    uint64_t room;
    uint64_t reached; /* behind it nobody has written */
    uint64_t size;
};

void sim_image_reach(struct sim_image *m, uint64_t end); /* room for bytes up to `end` */
void sim_image_zero(struct sim_image *m, uint64_t from, uint64_t to);
void sim_image_put(struct sim_image *m, uint64_t offset, const char *data, uint64_t len);
/* dst becomes what src is in [from, to). */
void sim_image_copy(struct sim_image *dst, const struct sim_image *src, uint64_t from,
                    uint64_t to);
void sim_image_set_size(struct sim_image *m,
                        uint64_t size); /* what is cut off becomes zeros */
void sim_image_fini(struct sim_image *m);
