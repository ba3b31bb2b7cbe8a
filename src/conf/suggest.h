/* suggest: "did you mean". Offer every name there is; best is the nearest, or NULL when
 * none is near. */
#pragma once
#include "base/span.h"

struct suggest {
    struct span word;
    unsigned distance; /* of best; at first the most that counts as near */
    const char *best;  /* borrowed */
};
void suggest_begin(struct suggest *s, struct span word);
void suggest_offer(struct suggest *s, const char *name);
