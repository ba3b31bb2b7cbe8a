/* claims: names that this run makes, so that no two sources become the same one: neither by the same name, nor, on a file system
 * that does not tell upper from lower case, by two names that it takes for one. Holds hashes, 16 bytes a name. One fiber. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

struct claims {
    bool folds; /* case does not tell names apart */
    uint64_t seed;
    uint64_t *at; /* owned; pairs of what is made and what it is made from; 0: free */
    size_t room, count;
};
enum claim { CLAIM_NEW, CLAIM_AGAIN, CLAIM_TAKEN };
/* `name` is made from `source`. AGAIN: from the same one, so there is nothing to do. */
enum claim claims_take(struct claims *c, struct span name, struct span source);
bool claims_has(const struct claims *c, struct span name);
/* ERR_EXISTS, and why `name` is not made. */
enum err claims_refuse(const struct claims *c, const char *name,
                       struct errbuf *eb) MUST_CHECK;
/* c->folds: does the folder tell case apart? Makes it, as a copy into it would, and in it a hidden file for a moment. What cannot
 * be written to says so later. May switch. */
enum err claims_probe(struct claims *c, const char *folder, struct errbuf *eb) MUST_CHECK;
void claims_fini(struct claims *c);
