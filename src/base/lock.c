#include "base/lock.h"

#include <assert.h>
#include <stdint.h>

static const char *const names[LOCK_COUNT_] = {
#define X(rank, name) [rank] = name,
    LOCK_TABLE(X)
#undef X
};

static _Thread_local uint64_t held; /* bit per rank */

static_assert(LOCK_COUNT_ <= 64, "one bit for each rank");

static void
note_acquired(const struct lock *l)
{
    assert(held >> l->rank == 0); /* nothing of this rank or further in */
    held |= (uint64_t)1 << l->rank;
}

static void
note_released(const struct lock *l)
{
    assert(lock_held(l));
    held &= ~((uint64_t)1 << l->rank);
}

void
lock_init(struct lock *l, enum lock_rank rank)
{
    int rc = pthread_mutex_init(&l->mtx, NULL);

    assert(rc == 0);
    (void)rc;
    assert(rank < LOCK_COUNT_);
    l->rank = rank;
}

void
lock_fini(struct lock *l)
{
    int rc = pthread_mutex_destroy(&l->mtx);

    assert(rc == 0);
    (void)rc;
}

void
lock_acquire(struct lock *l)
{
    note_acquired(l); /* before it could block for ever */
    pthread_mutex_lock(&l->mtx);
}

void
lock_release(struct lock *l)
{
    note_released(l);
    pthread_mutex_unlock(&l->mtx);
}

void
lock_wait(struct lock *l, pthread_cond_t *until)
{
    note_released(l);
    assert(held >> l->rank ==
           0); /* waiting with an inner lock held would keep others out */
    pthread_cond_wait(until, &l->mtx);
    note_acquired(l);
}

bool
lock_held(const struct lock *l)
{
    return held >> l->rank & 1;
}

const char *
lock_name(enum lock_rank rank)
{
    assert(rank < LOCK_COUNT_);
    return names[rank];
}
