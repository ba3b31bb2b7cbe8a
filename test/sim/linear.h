/* linear: whether a history (history.h) is linearizable, key by key, and whether what was acknowledged is there at the end.
 *
 * Linearizable: there is one moment for each operation, between its begin and its end, such that all results are those of a
 * single register that does one operation after the other. The search goes through the events in order of time (Wing and Gong's
 * search in Lowe's just-in-time form). It keeps every *configuration*: which of the pending operations have taken effect, and
 * the value then. When an operation ends, configurations in which it has not taken effect are extended until it has, and what
 * cannot be is dropped. None left: not linearizable.
 *
 * Operations of unknown outcome stay pending for ever. A configuration that used more of them than another one, and is equal
 * otherwise, can do nothing that the other one cannot: it is dropped.
 */
#pragma once
#include <limits.h>

#include "sim/history.h"

#define LINEAR_PENDING_MAX 64u    /* at a time, of one key */
#define LINEAR_CONFIGS_MAX 50000u /* beyond: the key is too many orders */

enum linear_verdict { LINEAR_GOOD, LINEAR_BAD, LINEAR_TOO_MANY };

struct linear_config {
    uint64_t done; /* bits of slots */
    uint32_t value;
    uint32_t next; /* of its chain, from 1; 0: the last one */
    bool dropped;  /* another one can do the same, and used less */
};
/* A list, and a hash table over what two configurations must have in common to be compared. */
#define LINEAR_CHAINS 4096u
struct linear_configs {
    struct linear_config *at; /* owned */
    size_t count, room;
    uint32_t *chains; /* owned; from 1 */
};
struct linear {
    const struct history *history;
    size_t pending[LINEAR_PENDING_MAX]; /* operations */
    uint64_t used;                      /* slots */
    uint64_t unknown;                   /* of these: operations that never end */
    struct linear_configs now;
    bool full;
};

/* False: it can't take effect now. */
static inline bool
linear_apply(const struct history_op *op, uint32_t *value)
{
    bool refused = op->end == HISTORY_REFUSED, holds = true;

    switch (op->call) {
    case HISTORY_READ:
        return *value == op->value;
    case HISTORY_CREATE:
        holds = *value == 0;
        break;
    case HISTORY_SWAP:
        holds = *value == op->expected;
        break;
    case HISTORY_WRITE:
    case HISTORY_REMOVE:
        break;
    }
    if (refused)
        return !holds;
    if (holds)
        *value = op->call == HISTORY_REMOVE ? 0 : op->value;
    return holds;
}

static inline void
linear_free(struct linear_configs *c)
{
    free(c->at);
    free(c->chains);
    *c = (struct linear_configs){0};
}

/* Unless one of them can do the same. Those that can do no more than this one are dropped. */
static inline void
linear_add(struct linear *l, struct linear_configs *to, struct linear_config c)
{
    uint64_t known = c.done & ~l->unknown, mine = c.done & l->unknown;
    uint64_t hash = (known ^ (uint64_t)c.value << 32 ^ c.value) * 0x9e3779b97f4a7c15u;
    uint32_t *chain;

    if (to->chains == NULL)
        to->chains = xcalloc(LINEAR_CHAINS, sizeof *to->chains);
    chain = &to->chains[hash >> 52];
    for (uint32_t i = *chain; i != 0; i = to->at[i - 1].next) {
        struct linear_config *o = &to->at[i - 1];
        uint64_t theirs = o->done & l->unknown;

        if (o->dropped || o->value != c.value || (o->done & ~l->unknown) != known)
            continue;
        if ((theirs & ~mine) == 0)
            return;
        o->dropped = (mine & ~theirs) == 0;
    }
    if (to->count == LINEAR_CONFIGS_MAX) {
        l->full = true;
        return;
    }
    if (to->count == to->room) {
        to->room = to->room > 0 ? 2 * to->room : 64;
        to->at = xrealloc(to->at, to->room * sizeof *to->at);
    }
    c.next = *chain;
    c.dropped = false;
    to->at[to->count++] = c;
    *chain = (uint32_t)to->count;
}

static inline bool
linear_call(struct linear *l, size_t op)
{
    for (unsigned slot = 0; slot < LINEAR_PENDING_MAX; slot++) {
        if ((l->used >> slot & 1) != 0)
            continue;
        l->pending[slot] = op;
        l->used |= UINT64_C(1) << slot;
        if (l->history->at[op].end == HISTORY_UNKNOWN)
            l->unknown |= UINT64_C(1) << slot;
        return true;
    }
    return false;
}

/* What one more operation makes of it: with `wanted` it is kept, else it goes on the list. */
static inline void
linear_extend(struct linear *l, struct linear_config from, unsigned wanted,
              struct linear_configs *kept)
{
    for (unsigned slot = 0; slot < LINEAR_PENDING_MAX; slot++) {
        struct linear_config c = from;

        if ((l->used >> slot & 1) == 0 || (c.done >> slot & 1) != 0 ||
            !linear_apply(&l->history->at[l->pending[slot]], &c.value))
            continue;
        if (slot != wanted)
            c.done |= UINT64_C(1) << slot;
        linear_add(l, slot == wanted ? kept : &l->now, c);
    }
}

/* Keeps the configurations in which the operation has taken effect, and forgets it. */
static inline void
linear_return(struct linear *l, size_t op)
{
    struct linear_configs kept = {0};
    unsigned slot = 0;

    while ((l->used >> slot & 1) == 0 || l->pending[slot] != op)
        slot++;
    for (size_t i = 0; i < l->now.count && !l->full; i++) { /* grows meanwhile */
        struct linear_config c = l->now.at[i];
        bool done = (c.done >> slot & 1) != 0;

        if (c.dropped)
            continue;
        c.done &= ~(UINT64_C(1) << slot);
        if (done)
            linear_add(l, &kept, c);
        else
            linear_extend(l, c, slot, &kept);
    }
    linear_free(&l->now);
    l->now = kept;
    l->used &= ~(UINT64_C(1) << slot);
}

/* *bad: the operation at whose end no order is left. */
static inline enum linear_verdict
linear_key(const struct history *h, unsigned key, size_t *bad)
{
    struct linear l = {.history = h};
    struct history_event *events;
    size_t n = history_events(h, key, &events);
    enum linear_verdict v = LINEAR_GOOD;

    linear_add(&l, &l.now, (struct linear_config){.done = 0});
    for (size_t i = 0; i < n && v == LINEAR_GOOD; i++) {
        const struct history_op *op = &h->at[events[i].op];

        if (op->end == HISTORY_NONE)
            continue;
        if (!events[i].is_end) {
            if (!linear_call(&l, events[i].op))
                v = LINEAR_TOO_MANY;
        } else if (op->end != HISTORY_UNKNOWN) {
            linear_return(&l, events[i].op);
            *bad = events[i].op;
            v = l.full ? LINEAR_TOO_MANY : l.now.count == 0 ? LINEAR_BAD : LINEAR_GOOD;
        }
    }
    free(events);
    linear_free(&l.now);
    return v;
}

/* Durability alone, without the search: a last read shows no write that was surely replaced, that is, behind whose end an
 * acknowledged one began and ended before the read. True: good. *bad: the read. */
static inline bool
linear_durable(const struct history *h, unsigned key, size_t *bad)
{
    for (size_t r = 0; r < h->count; r++) {
        const struct history_op *read = &h->at[r];
        uint64_t seen_ended = 0; /* the absence at the beginning */
        bool removed = false;    /* what makes it absent may be any of several */

        if (!read->last || read->key != key || read->end != HISTORY_OK)
            continue;
        *bad = r;
        for (size_t i = 0; i < h->count; i++) {
            const struct history_op *w = &h->at[i];

            if (w->key != key || w->call == HISTORY_READ || w->end == HISTORY_NONE ||
                w->end == HISTORY_REFUSED)
                continue;
            if (read->value == 0 ? w->call == HISTORY_REMOVE : w->value == read->value)
                seen_ended = MAX(seen_ended, w->ended_ns);
            removed = removed || w->call == HISTORY_REMOVE;
        }
        if (read->value != 0 && seen_ended == 0)
            return false; /* never written */
        for (size_t i = 0; i < h->count; i++) {
            const struct history_op *w = &h->at[i];

            if (w->key == key && w->call != HISTORY_READ && w->end == HISTORY_OK &&
                w->began_ns > seen_ended && w->ended_ns < read->began_ns)
                return false;
        }
    }
    return true;
}
