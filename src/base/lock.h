/* lock: a mutex with a rank. Locks between threads are the exception here; all of them stand in one table. A thread
 * that holds a lock may acquire only locks further down the table, so no two threads can wait for each other.
 * lock_acquire() asserts it, in release builds too (a shift of a thread-local word). docs/locks.md says what each
 * lock protects; a test compares the two lists.
 *
 * Never held across anything that may switch fibers, and never for long: a loop may be waiting. */
#pragma once
#include <pthread.h>
#include <stdbool.h>

/* X(rank, name) from outermost to innermost. */
#define LOCK_TABLE(X)                                                                    \
    X(LOCK_LIBRARY, "libforebay.connections")                                            \
    X(LOCK_START, "rt.start")                                                            \
    X(LOCK_WORKERS, "rt.workers")                                                        \
    X(LOCK_KEYS, "disks.keys")                                                           \
    X(LOCK_SHARDS, "shard.indexes")                                                      \
    X(LOCK_SHARD_FILES, "shard.files")                                                   \
    X(LOCK_XACTS, "ais.jobs")                                                            \
    X(LOCK_SUMMARIES, "api.summaries")                                                   \
    X(LOCK_COLLECTORS, "metrics.collectors")                                             \
    X(LOCK_HEALTH, "store.health")                                                       \
    X(LOCK_SPACE, "store.space")                                                         \
    X(LOCK_INDEX_READAHEAD, "index.ahead")                                               \
    X(LOCK_BLOCKS, "metrics.blocks")

enum lock_rank {
#define X(rank, name) rank,
    LOCK_TABLE(X)
#undef X
        LOCK_COUNT_
};

struct lock {
    pthread_mutex_t mtx;
    enum lock_rank rank;
};
#define LOCK_INIT(r)                                                                     \
    {                                                                                    \
        .mtx = PTHREAD_MUTEX_INITIALIZER, .rank = (r)                                    \
    }

void lock_init(struct lock *l, enum lock_rank rank);
void lock_fini(struct lock *l);
void lock_acquire(struct lock *l);
void lock_release(struct lock *l);
/* Releases the lock while waiting, as pthread_cond_wait() does. */
void lock_wait(struct lock *l, pthread_cond_t *until);
/* Whether this thread holds a lock of that rank, for asserts. */
bool lock_held(const struct lock *l);
const char *lock_name(enum lock_rank rank);
