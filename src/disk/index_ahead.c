#include "disk/index_ahead.h"

#include <stdlib.h>

#include "base/lock.h"
#include "base/mem.h"

#define SLICE                                                                            \
    256u /* entries: all slices lie in the cache that two threads of a core share */
#define SLICES     8u
#define WORTH_HELP 20000u

struct slice {
    uint32_t count; /* 0: the walk is over */
    struct ahead_entry at[SLICE];
};

struct index_ahead {
    /* Whoever fills a slice. */
    struct run_walk walk;
    struct slice *slices; /* owned; `room` of them, a ring */
    uint32_t room;

    /* Whoever asks. */
    struct slice *now; /* being given out; NULL: none */
    uint32_t next;

    /* Any of the two, holding the lock. */
    struct lock lock;
    pthread_cond_t changed;
    uint32_t filled, emptied; /* slices so far */
    bool filling;             /* one of the two fills the next slice */
    bool asker_waits;
    bool asking, ended, over; /* over: all is filled */
};

bool
index_ahead_is_worth_help(const struct batch *b)
{
    uint64_t entries = 0;

    for (uint32_t i = 0; i < b->count; i++)
        entries += run_count(b->runs[i]);
    return entries >= WORTH_HELP;
}

struct index_ahead *
index_ahead_new(const struct batch *b)
{
    struct index_ahead *a = xcalloc(1, sizeof *a);

    a->room = index_ahead_is_worth_help(b) ? SLICES : 1;
    a->slices = xmalloc(a->room * sizeof *a->slices);
    lock_init(&a->lock, LOCK_AHEAD);
    pthread_cond_init(&a->changed, NULL);
    run_walk_begin(&a->walk, b->runs, b->count, TABLE_OBJECTS, 0, SPAN(""));
    return a;
}

void
index_ahead_free(struct index_ahead **ap)
{
    struct index_ahead *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    run_walk_end(&a->walk);
    pthread_cond_destroy(&a->changed);
    lock_fini(&a->lock);
    free(a->slices);
    free(a);
}

static void
fill(struct index_ahead *a, struct slice *s)
{
    s->count = 0;
    while (s->count < SLICE && run_walk_next(&a->walk, &s->at[s->count].e)) {
        struct ahead_entry *to = &s->at[s->count++];

        to->bad = to->e.table == TABLE_OBJECTS &&
                  row_decode_own(to->e.value, &to->row) != ERR_OK;
    }
}

/* Holding the lock; gives it up meanwhile. */
static void
fill_next(struct index_ahead *a)
{
    struct slice *s = &a->slices[a->filled % a->room];

    a->filling = true;
    lock_release(&a->lock);
    fill(a, s);
    lock_take(&a->lock);
    a->filling = false;
    a->over = s->count < SLICE;
    a->filled++;
    if (a->asker_waits)
        pthread_cond_broadcast(&a->changed);
}

void
index_ahead_help(struct index_ahead *a)
{
    lock_take(&a->lock);
    while (!a->ended && !a->over) {
        if (!a->filling && a->filled - a->emptied < a->room)
            fill_next(a);
        else if (!a->asking)
            break;
        else
            lock_wait(&a->lock, &a->changed); /* until there is room for several */
    }
    lock_release(&a->lock);
}

/* The next slice, or NULL. */
static struct slice *
take_slice(struct index_ahead *a)
{
    struct slice *s = NULL;

    lock_take(&a->lock);
    if (a->now != NULL) {
        a->emptied++;
        if (a->filled - a->emptied == a->room / 2)
            pthread_cond_broadcast(&a->changed);
    }
    while (a->filled == a->emptied && !a->over) {
        a->asker_waits = a->filling;
        if (a->filling)
            lock_wait(&a->lock, &a->changed);
        else
            fill_next(a);
    }
    a->asker_waits = false;
    if (a->filled != a->emptied)
        s = &a->slices[a->emptied % a->room];
    lock_release(&a->lock);
    return s;
}

void
index_ahead_begin(struct index_ahead *a)
{
    lock_take(&a->lock);
    a->asking = true;
    lock_release(&a->lock);
}

const struct ahead_entry *
index_ahead_next(struct index_ahead *a)
{
    if (a->now == NULL || a->next == a->now->count) {
        a->now = take_slice(a);
        a->next = 0;
        if (a->now == NULL || a->now->count == 0)
            return NULL;
    }
    return &a->now->at[a->next++];
}

void
index_ahead_end(struct index_ahead *a)
{
    lock_take(&a->lock);
    a->ended = true;
    pthread_cond_broadcast(&a->changed);
    lock_release(&a->lock);
}
