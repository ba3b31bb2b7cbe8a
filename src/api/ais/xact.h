/* xact: jobs of AIS that live in memory: requests that are shown as jobs while they run (get-batch), and those that are done at once
 * here (rebalance on one node, ...). Jobs that outlive a request are of the room job. Ended ones are kept for a while, so that clients
 * that poll see their end.
 *
 * Any thread; a lock, held for a look. Nothing switches.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "wire/json.h"

#define XACT_ID_TEXT 20
#define XACTS_MAX    1024u /* kept; the oldest ended ones leave first */

struct xacts;
struct xact; /* one that runs */
struct xacts *xacts_new(void);
void xacts_free(struct xacts **xp);

/* `bucket` may be empty: "PROVIDER/NAME". NULL: too many are running. */
struct xact *xact_begin(struct xacts *xs, const char *kind, struct span provider,
                        struct span bucket, const char *prefix);
const char *xact_id(const struct xact *x);
bool xact_is_aborted(const struct xact *x);
void xact_count(struct xact *x, uint64_t objects, uint64_t bytes);
/* `error` NULL or a text. *xp is NULL afterwards. */
void xact_end(struct xacts *xs, struct xact **xp, const char *error);
/* By id, or of a kind. The number of those that were running. */
unsigned xacts_abort(struct xacts *xs, struct span id, struct span kind);

/* A copy of one, for documents. */
struct xact_view {
    char id[XACT_ID_TEXT], kind[32], provider[16], bucket[72], error[200];
    int64_t begun_ms, ended_ms; /* 0: it runs */
    uint64_t objects, bytes;
    bool aborted;
};
/* Number `index`, the newest first; false: no more. */
bool xacts_view(struct xacts *xs, unsigned index, struct xact_view *out);
