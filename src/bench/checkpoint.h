/* checkpoint: many ranks write their shares of a checkpoint at once, and read them back, as a training job does when it saves and resumes.
 *
 * A share is one object: a PUT, or an upload in parts where it is larger than one; a rank is done when the server has acknowledged the whole
 * of it, a checkpoint when all ranks are. Read back in ranges, and compared: each 256 KiB begin with the numbers of checkpoint and rank
 * and where they lie, and the rest is random, so nothing can be taken for anything else. Ranks are dealt out to loops. Fibers of loop 0.
 */
#pragma once
#include "bench/histogram.h"
#include "bench/made.h"

#define CHECKPOINT_PART_LEAST MIB(5) /* S3's own */
#define CHECKPOINT_PARTS_MOST 10000u
#define CHECKPOINT_TRIES_MOST 10u /* of one request */

/* The field's: how many bytes over how many ranks. */
struct checkpoint_model {
    const char *name;
    uint64_t bytes;
    unsigned ranks;
};
const struct checkpoint_model *checkpoint_at(unsigned i); /* NULL: there are fewer */
const struct checkpoint_model *checkpoint_find(const char *name); /* NULL: none */

/* All ranks once. On the heap; zeroed by the caller. */
struct checkpoint_pass {
    struct histogram took;  /* one PUT, part, or range */
    struct histogram share; /* one rank, to its last acknowledgement */
    uint64_t bytes, requests, errors;
    uint64_t in_flight_ns;
    double seconds; /* until the last rank was done */
    struct errbuf first_error;
};
struct checkpoint {
    struct made made; /* names below a prefix, to be removed */
    unsigned ranks, loops;
    unsigned concurrency; /* requests of each rank */
    uint64_t share_bytes, part_bytes;

    char *block;                   /* owned: what all content is made of */
    struct checkpoint_pass *lanes; /* owned: one a loop, touched there while ranks run */
};
/* `total`: how many checkpoints there will be. */
void checkpoint_init(struct checkpoint *c, struct session *s, const struct place *p,
                     unsigned total, uint64_t seed);
void checkpoint_fini(struct checkpoint *c);
/* *out is added to. A request that fails is sent again, later and later, where its answer says that this may help; CHECKPOINT_TRIES_MOST
 * end it, and so does content that came back otherwise: ERR_CORRUPT. May switch. */
enum err checkpoint_write(struct checkpoint *c, unsigned number,
                          struct checkpoint_pass *out, struct errbuf *eb) MUST_CHECK;
enum err checkpoint_read(struct checkpoint *c, unsigned number,
                         struct checkpoint_pass *out, struct errbuf *eb) MUST_CHECK;

/* Content, plain: what lies at `offset` of that share, for as far as one block goes; returns how much. */
uint64_t checkpoint_bytes(const struct checkpoint *c, unsigned number, unsigned rank,
                          uint64_t offset, uint64_t len, char *out);
/* Is it that? */
bool checkpoint_is(const struct checkpoint *c, unsigned number, unsigned rank,
                   uint64_t offset, const char *at, uint64_t len);
