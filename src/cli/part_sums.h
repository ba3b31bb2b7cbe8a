/* part_sums: the ETag of an upload in parts, of parts that come side by side: each has an MD5 of its own, and those whose next bytes
 * are there are summed together, in lanes (base/md5.h). One thread at a time. */
#pragma once
#include "base/err.h"
#include "base/md5.h"
#include "cli/files.h"

#define PART_SUMS_LANES 16
struct part_sums {
    uint64_t size, part_bytes;
    uint32_t count, first; /* all before `first` are summed */
    struct part_sum *at;   /* owned */
    char *room;            /* owned */
};
struct part_sum {
    struct md5 md5;
    uint64_t done; /* bytes of the part */
    unsigned char sum[16];
};
/* Bytes of the object that are there from `at` on without a gap, up to `end`. */
typedef uint64_t part_sums_there(const void *arg, uint64_t at, uint64_t end);

void part_sums_init(struct part_sums *p, uint64_t size, uint64_t part_bytes);
/* Which parts have bytes to sum: `lanes` numbers of parts and how far each may go. Their count; 0: wait, or all is done. */
struct part_lane {
    uint32_t part;
    uint64_t end; /* within the part */
};
unsigned part_sums_next(const struct part_sums *p, part_sums_there *there,
                        const void *arg, struct part_lane lanes[PART_SUMS_LANES]);
/* On a worker: reads them from the file and sums them. */
enum err part_sums_run(struct part_sums *p, struct files_part *file,
                       const struct part_lane *lanes, unsigned count,
                       struct errbuf *eb) MUST_CHECK;
bool part_sums_done(const struct part_sums *p);
/* All are: is it that ETag? */
bool part_sums_match(const struct part_sums *p, const unsigned char etag_md5[16]);
void part_sums_fini(struct part_sums *p); /* twice is fine */
