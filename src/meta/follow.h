/* follow: keeps a snapshot in step with the keys under a prefix: the map and the users are published by it, and by nothing
 * else. So a change that another node made is seen in the same way as one of this node.
 *
 * A change of this node is visible when meta_follow_wait() for its revision has returned.
 * Loop 0 only.
 */
#pragma once
#include "meta/meta.h"

/* Reads the keys and publishes a snapshot of them; *revision is the one that it shows. Runs on a fiber of loop 0, one call
 * at a time. An error is tried again after a second; what was published before stays. May switch. */
typedef enum err meta_refresh_fn(void *arg, uint64_t *revision, struct errbuf *eb);

/* How a cluster makes one node's snapshots every node's. Set once, before the first follower starts. Loop 0; all may switch. */
struct meta_adoption {
    /* Before a refresh: what was changed earlier elsewhere in meta, and must not be seen later than this, is adopted. */
    enum err (*before)(void *arg, struct errbuf *eb);
    /* A snapshot of the keys under the follower's prefix shows this revision. */
    void (*published)(void *arg, struct span prefix, uint64_t revision);
    /* Until every live node has published it. Else the error of a change that is made all the same. */
    enum err (*wait)(void *arg, struct span prefix, uint64_t revision, struct errbuf *eb);
    void *arg;
};
void meta_adoption_set(struct meta *m, const struct meta_adoption *a);

struct meta_follower;
/* Calls `refresh` once before it returns; ERR_OK only when that one succeeded. May switch. */
enum err meta_follow_start(struct meta *m, struct span prefix, meta_refresh_fn *refresh,
                           void *arg, struct meta_follower **out,
                           struct errbuf *eb) MUST_CHECK;
/* What was changed at `revision` is published when this returns ERR_OK, in a cluster by all live nodes. Any other result: that of a refresh which failed
 * meanwhile, or ERR_CANCELLED; the change itself is made. May switch. */
enum err meta_follow_wait(struct meta_follower *f, uint64_t revision,
                          struct errbuf *eb) MUST_CHECK;
/* Refreshes now, whether or not a key has changed. May switch. */
enum err meta_follow_refresh(struct meta_follower *f, struct errbuf *eb) MUST_CHECK;
/* No call waits. NULL is fine. May switch. */
void meta_follow_stop(struct meta_follower **fp);
