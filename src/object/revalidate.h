/* fresh: is a kept version still what the remote has? Buckets with a time to live ask again when it is over: one HEAD for all
 * who wait, on the key's owner loop. Another ETag ends the kept version, durably, before anybody is shown the new one.
 *
 * When a version was last asked for is known in memory only, in a table that forgets: then it is asked again, which is
 * always right.
 */
#pragma once
#include "object/internal.h"

struct revalidate_table; /* of a node; any loop, no lock */
struct revalidate_table *revalidate_new(void);
void revalidate_free(struct revalidate_table **tp); /* NULL is fine */

/* This version is the remote's at this moment: it was just fetched, or compared. */
void revalidate_mark(struct object_service *s, const struct map_bucket *b,
                     struct span key, const struct entry *entry);
/* Until the remote is asked for it again; 0: at the next read; -1: it never is. */
int64_t revalidate_left_ms(const struct object_service *s, const struct map_bucket *b,
                           struct span key, const struct entry *entry);
enum revalidate_when {
    REVALIDATE_EXPIRED, /* where its time to live is over */
    REVALIDATE_ALWAYS,  /* whatever that says; nothing that was asked before */
    REVALIDATE_SHARED,  /* whatever that says; what somebody is asking already will do */
};
/* A version that is here, with what is known of it. ERR_OK: serve it; `info->stale` says that the remote could not be asked.
 * ERR_NOT_FOUND: it is not the remote's any more, and gone. ERR_BACKEND: it cannot be asked, and the bucket wants no stale
 * answers. Who waits for another's question has its answer where that is a failure or another version. May switch. */
enum err revalidate_check(struct object_service *s, const struct map_bucket *b,
                          struct span key, const struct entry *entry,
                          enum revalidate_when when, struct object_info *info,
                          struct errbuf *eb) MUST_CHECK;
