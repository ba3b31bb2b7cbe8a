/* build: a new version of a shard: the members that it has, then more. Readers see the old version until the commit; a commit fails with
 * ERR_PRECONDITION when another one came between, so no append is lost. So does the begin, when the members that it copies are replaced.
 *
 * Memory: the writer's. The new version is written as it comes; an abort leaves nothing. Fibers: one; everything may switch.
 */
#pragma once
#include "shard/member.h"
#include "shard/write.h"

enum shard_build_how {
    SHARD_BUILD_NEW,    /* replaces what is there */
    SHARD_BUILD_APPEND, /* ERR_NOT_FOUND: there is no such shard */
    SHARD_BUILD_EITHER, /* appends where there is one */
};
struct shard_build;
/* `ask` names the shard; it and its key are borrowed. On ERR_OK the caller ends *out by commit or abort. */
enum err shard_build_begin(struct shard_service *s, const struct shard_ask *ask,
                           enum shard_build_how how, struct shard_build **out,
                           struct errbuf *eb) MUST_CHECK;
/* A member, and then exactly its bytes. */
enum err shard_build_member(struct shard_build *b, struct span name, uint64_t size,
                            int64_t mtime_s, struct errbuf *eb) MUST_CHECK;
enum err shard_build_data(struct shard_build *b, struct span bytes,
                          struct errbuf *eb) MUST_CHECK;
/* An object as a member. ERR_NOT_FOUND: it is not there, and nothing was written. */
enum err shard_build_object(struct shard_build *b, const struct map_bucket *bucket,
                            struct span key, struct span name, uint64_t *bytes,
                            struct errbuf *eb) MUST_CHECK;
/* Both take it: *bp is NULL afterwards. */
enum err shard_build_commit(struct shard_build **bp, struct errbuf *eb) MUST_CHECK;
void shard_build_abort(struct shard_build **bp); /* NULL is fine */
