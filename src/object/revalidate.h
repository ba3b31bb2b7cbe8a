/* revalidate: is a cached version still the remote's? In buckets with a time to live a read asks the remote again
 * when that time is over, and in a cluster a read of any cached version from before the latest change of its nodes, since
 * another node may have written the key: one HEAD for all waiting readers, on the owner loop of the key. When the ETag differs, the
 * cached version ends, durably, before any reader sees the new one.
 *
 * The time of the last revalidation is kept in memory only, in a lossy table: when it is lost the remote is asked
 * again, which is always correct.
 */
#pragma once
#include "object/internal.h"

struct revalidate_table; /* of a node; any loop, no lock */
struct revalidate_table *revalidate_new(bool in_cluster);
void revalidate_free(struct revalidate_table **tp); /* NULL is fine */

/* Before a request to the remote; what it answers holds while this stays the same. */
uint64_t revalidate_begin(const struct object_service *s);
/* This version was just fetched, or compared with the remote, by a request that began at `begun`. */
void revalidate_mark(struct object_service *s, const struct map_bucket *b,
                     struct span key, const struct entry *entry, uint64_t begun);
/* The time until the remote is asked again; 0: at the next read; -1: never. */
int64_t revalidate_left_ms(const struct object_service *s, const struct map_bucket *b,
                           struct span key, const struct entry *entry);
/* This version may be served without a request to the remote. Never switches. */
bool revalidate_is_fresh(const struct object_service *s, const struct map_bucket *b,
                         struct span key, const struct entry *entry);
enum revalidate_when {
    REVALIDATE_EXPIRED, /* only when it is not fresh */
    REVALIDATE_ALWAYS,  /* always, with a HEAD that starts now */
    REVALIDATE_SHARED,  /* always; a HEAD in flight is enough */
};
/* Checks a cached version. ERR_OK: serve it; `info->stale` is set when the remote could not be asked.
 * ERR_NOT_FOUND: the remote has another version, and the cached one has ended. ERR_BACKEND: the remote cannot be
 * asked, and the bucket forbids stale answers. A fiber that waits for the HEAD of another takes its result when
 * that is a failure or another version. May switch. */
enum err revalidate_check(struct object_service *s, const struct map_bucket *b,
                          struct span key, const struct entry *entry,
                          enum revalidate_when when, struct object_info *info,
                          struct errbuf *eb) MUST_CHECK;
