/* fit: what the options that say "auto" or 0 come to on a machine, and cuts of those that do not fit. Pure.
 * docs/sizing.md has the rules, test_fit has a table of machines. */
#pragma once
#include "node/node.h"

struct node_machine {
    uint64_t memory; /* of the machine or the control group */
    unsigned cpus;   /* usable */
};
struct node_fitted {
    uint64_t limit;   /* of the whole process */
    uint64_t clients; /* memory that clients may make it hold (base/account.h) */
    bool block_cache_fixed;
    bool cut; /* an option asked for more than fits */
    bool low; /* less memory than any node needs: it goes on as if there were enough */
};
void node_fit(struct node_options *o, const struct node_machine *m,
              struct node_fitted *out);
