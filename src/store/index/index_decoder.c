#include "store/index/index_decoder.h"

#include <assert.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/mem.h"
#include "store/index/entry.h"
#include "store/index/run.h"
#include "store/record/keys.h"

#define SLICE                                                                            \
    256u /* entries: all slices lie in the cache that two threads of a core share */
#define SLICES     8u
#define WORTH_HELP 20000u

struct slice {
    uint32_t count; /* 0: the walk is over */
    struct decoded_entry at[SLICE];
};

struct index_decoder {
    /* Of the thread that fills a slice. */
    struct run_walk walk;
    struct slice *slices; /* owned; `room` of them, a ring */
    uint32_t room;

    /* Of the writer. */
    struct slice *now; /* being read; NULL: none */
    uint32_t next;

    /* Of both threads, holding the lock. */
    struct lock lock;
    pthread_cond_t changed;
    uint32_t filled, emptied; /* slices so far */
    bool filling;             /* one of the two fills the next slice */
    bool writer_waits;
    bool writing, ended, over; /* over: all is filled */
};

bool
index_decoder_is_worth_help(const struct frozen_runs *b)
{
    uint64_t entries = 0;

    for (uint32_t i = 0; i < b->count; i++)
        entries += run_count(b->runs[i]);
    return entries >= WORTH_HELP;
}

struct index_decoder *
index_decoder_new(const struct frozen_runs *b)
{
    struct index_decoder *a = xcalloc(1, sizeof *a);

    a->room = index_decoder_is_worth_help(b) ? SLICES : 1;
    a->slices = xmalloc(a->room * sizeof *a->slices);
    lock_init(&a->lock, LOCK_INDEX_READAHEAD);
    pthread_cond_init(&a->changed, NULL);
    run_walk_begin(&a->walk, b->runs, b->count, TABLE_OBJECTS, 0, SPAN(""));
    return a;
}

void
index_decoder_free(struct index_decoder **ap)
{
    struct index_decoder *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    assert(!a->filling);
    run_walk_end(&a->walk);
    pthread_cond_destroy(&a->changed);
    lock_fini(&a->lock);
    free(a->slices);
    free(a);
}

static void
decoder_fill(struct index_decoder *a, struct slice *s)
{
    s->count = 0;
    while (s->count < SLICE && run_walk_next(&a->walk, &s->at[s->count].e)) {
        struct decoded_entry *to = &s->at[s->count++];

        to->bad = to->e.table == TABLE_OBJECTS &&
                  entry_decode_own(to->e.value, &to->entry) != ERR_OK;
    }
}

/* Holding the lock; gives it up meanwhile. */
static void
decoder_fill_next(struct index_decoder *a)
{
    struct slice *s = &a->slices[a->filled % a->room];

    assert(!a->filling && !a->over);
    assert(a->filled - a->emptied < a->room);
    a->filling = true;
    lock_release(&a->lock);
    decoder_fill(a, s);
    lock_acquire(&a->lock);
    a->filling = false;
    a->over = s->count < SLICE;
    a->filled++;
    if (a->writer_waits)
        pthread_cond_broadcast(&a->changed);
}

void
index_decoder_help(struct index_decoder *a)
{
    lock_acquire(&a->lock);
    while (!a->ended && !a->over) {
        if (!a->filling && a->filled - a->emptied < a->room)
            decoder_fill_next(a);
        else if (!a->writing)
            break;
        else
            lock_wait(&a->lock, &a->changed); /* until there is room for several */
    }
    lock_release(&a->lock);
}

/* The next slice, or NULL. */
static struct slice *
decoder_take_slice(struct index_decoder *a)
{
    struct slice *s = NULL;

    lock_acquire(&a->lock);
    if (a->now != NULL) {
        a->emptied++;
        if (a->filled - a->emptied == a->room / 2)
            pthread_cond_broadcast(&a->changed);
    }
    while (a->filled == a->emptied && !a->over) {
        a->writer_waits = a->filling;
        if (a->filling)
            lock_wait(&a->lock, &a->changed);
        else
            decoder_fill_next(a);
    }
    assert(a->filled >= a->emptied && a->filled - a->emptied <= a->room);
    a->writer_waits = false;
    if (a->filled != a->emptied)
        s = &a->slices[a->emptied % a->room];
    lock_release(&a->lock);
    return s;
}

void
index_decoder_begin(struct index_decoder *a)
{
    lock_acquire(&a->lock);
    assert(!a->writing && !a->ended);
    a->writing = true;
    lock_release(&a->lock);
}

const struct decoded_entry *
index_decoder_next(struct index_decoder *a)
{
    if (a->now == NULL || a->next == a->now->count) {
        a->now = decoder_take_slice(a);
        a->next = 0;
        if (a->now == NULL || a->now->count == 0)
            return NULL;
    }
    return &a->now->at[a->next++];
}

void
index_decoder_end(struct index_decoder *a)
{
    lock_acquire(&a->lock);
    a->ended = true;
    pthread_cond_broadcast(&a->changed);
    lock_release(&a->lock);
}
