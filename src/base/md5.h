/* md5: MD5 of many streams at once.
 *
 * MD5 is a chain of dependent steps: one stream leaves most of a core idle and still takes all of it, at 0.5 to 0.7 GB/s.
 * Vectors hold one stream an element ("lane"), so that sixteen take about the time of one. A stream alone goes through
 * OpenSSL's code, which is the best there is for one. docs/decisions/0006-md5-lanes.md has the figures.
 *
 * Any thread; a stream belongs to one thread at a time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A digest in progress: plain data, nothing to free. */
struct md5 {
    uint32_t state[4];
    uint64_t len;           /* bytes so far */
    unsigned char tail[64]; /* the last len % 64 of them */
};
void md5_init(struct md5 *m);
void md5_add(struct md5 *m, const void *data, size_t len);
void md5_end(struct md5 *m, unsigned char out[16]);

/* The next bytes of one stream. Two jobs of one run never name the same stream. */
struct md5_job {
    struct md5_job *next; /* of the list given to md5_run() */
    struct md5 *md5;
    const unsigned char *data; /* borrowed */
    size_t len;
    unsigned char *out; /* 16 bytes; NULL: more is to come */

    /* md5_run's own. */
    enum { MD5_BEGIN, MD5_BODY, MD5_REST, MD5_OVER } phase;
    unsigned char pad[128]; /* the end of the message: one block or two */
};
/* Does what each job says, in lanes where that is faster. */
void md5_run(struct md5_job *jobs);
unsigned md5_lanes(void); /* so many jobs at once, at most */

/* ---- for md5.c, its kernels and its tests ---- */

enum { MD5_BLOCK = 64, MD5_LANES_MAX = 32 };

struct md5_lane {
    uint32_t *state;
    const unsigned char *at;
};
struct md5_kernel {
    const char *name;
    unsigned lanes;
    /* `blocks` of each of `count` lanes, 1 to `lanes`; afterwards `at` has moved. */
    void (*run)(struct md5_lane *lanes, unsigned count, size_t blocks);
};
/* The kernels this CPU can run, best first; the last one runs everywhere. */
const struct md5_kernel *const *md5_kernels(unsigned *count);
/* For tests: from now on use the kernel of that name; false when this CPU cannot. Not while others hash. */
bool md5_use(const char *name);
const char *md5_used(void);
