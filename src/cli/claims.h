/* claims: the target names of this run. Detects two sources with the same target name; on a case-insensitive file system also
 * names that differ in case only. Stores hashes, 16 bytes a name. One fiber. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

struct claims {
    bool folds; /* case-insensitive */
    uint64_t seed;
    uint64_t *at; /* owned; pairs of what is made and what it is made from; 0: free */
    size_t room, count;
};
enum claim { CLAIM_NEW, CLAIM_AGAIN, CLAIM_TAKEN };
/* `name` is made from `source`. CLAIM_AGAIN: already made from the same source, nothing to do. */
enum claim claims_take(struct claims *c, struct span name, struct span source);
bool claims_has(const struct claims *c, struct span name);
/* ERR_EXISTS, with the reason why `name` is not made. */
enum err claims_refuse(const struct claims *c, const char *name,
                       struct errbuf *eb) MUST_CHECK;
/* c->folds: does the folder tell case apart? Makes it, as a copy into it would, and in it a hidden file for a moment. What cannot
 * be written to says so later. May switch. */
enum err claims_probe(struct claims *c, const char *folder, struct errbuf *eb) MUST_CHECK;
void claims_fini(struct claims *c);
