#include "cli/part_sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/etag.h"

#define PIECE (32u << 10) /* of a lane: all of them stay in the caches */
#define AHEAD 64          /* parts behind the first one that are looked at */

static uint64_t
part_len(const struct part_sums *p, uint32_t i)
{
    return MIN(p->part_bytes, p->size - i * p->part_bytes);
}

void
part_sums_init(struct part_sums *p, uint64_t size, uint64_t part_bytes)
{
    *p = (struct part_sums){.size = size, .part_bytes = part_bytes};
    p->count = (uint32_t)((size + part_bytes - 1) / part_bytes);
    p->at = xcalloc(p->count, sizeof *p->at);
    p->room = xmalloc((size_t)PIECE * PART_SUMS_LANES);
    for (uint32_t i = 0; i < p->count; i++)
        md5_init(&p->at[i].md5);
}

unsigned
part_sums_next(const struct part_sums *p, part_sums_there *there, const void *arg,
               struct part_lane lanes[PART_SUMS_LANES])
{
    unsigned n = 0;

    for (uint32_t i = p->first;
         i < p->count && i - p->first < AHEAD && n < PART_SUMS_LANES; i++) {
        uint64_t begin = i * p->part_bytes, len = part_len(p, i), more;

        if (p->at[i].done == len)
            continue;
        more = there(arg, begin + p->at[i].done, begin + len);
        if (more > 0)
            lanes[n++] = (struct part_lane){i, p->at[i].done + more};
    }
    return n;
}

/* A piece of each lane that has more; their count. */
static enum err
read_pieces(struct part_sums *p, struct files_part *file, const struct part_lane *lanes,
            unsigned count, struct md5_job *jobs, unsigned *out, struct errbuf *eb)
{
    *out = 0;
    for (unsigned i = 0; i < count; i++) {
        struct part_sum *s = &p->at[lanes[i].part];
        char *to = p->room + (size_t)PIECE * i;
        size_t want = MIN(PIECE, lanes[i].end - s->done), n = 0;
        enum err rc;

        if (want == 0)
            continue;
        rc = files_part_read_now(file, lanes[i].part * p->part_bytes + s->done, to, want,
                                 &n, eb);
        if (rc == ERR_OK && n < want)
            rc = err_set(eb, ERR_IO, "the written data cannot be read back");
        if (rc != ERR_OK)
            return rc;
        s->done += n;
        jobs[*out] = (struct md5_job){
            .md5 = &s->md5,
            .data = (const unsigned char *)to,
            .len = n,
            .out = s->done == part_len(p, lanes[i].part) ? s->sum : NULL};
        if (*out > 0)
            jobs[*out - 1].next = &jobs[*out];
        (*out)++;
    }
    return ERR_OK;
}

enum err
part_sums_run(struct part_sums *p, struct files_part *file, const struct part_lane *lanes,
              unsigned count, struct errbuf *eb)
{
    struct md5_job jobs[PART_SUMS_LANES];
    unsigned n = 1;

    while (n > 0) {
        enum err rc = read_pieces(p, file, lanes, count, jobs, &n, eb);

        if (rc != ERR_OK)
            return rc;
        if (n > 0)
            md5_run(jobs);
    }
    while (p->first < p->count && p->at[p->first].done == part_len(p, p->first))
        p->first++;
    return ERR_OK;
}

bool
part_sums_done(const struct part_sums *p)
{
    return p->first == p->count;
}

bool
part_sums_match(const struct part_sums *p, const unsigned char etag_md5[16])
{
    struct etag_multipart all;
    unsigned char md5[DIGEST_MAX];
    char text[ETAG_TEXT_MAX];

    etag_multipart_init(&all);
    for (uint32_t i = 0; i < p->count; i++)
        etag_multipart_add(&all, p->at[i].sum);
    etag_multipart_end(&all, md5, text);
    return memcmp(md5, etag_md5, 16) == 0;
}

void
part_sums_fini(struct part_sums *p)
{
    free(p->at);
    free(p->room);
    *p = (struct part_sums){0};
}
