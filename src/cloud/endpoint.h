/* endpoint: what all loops of a node share of one remote: its rate limit in bytes a second, and whether it is down.
 *
 * Readers come first: background transfers proceed while no reader waits for the rate, or once a second. An
 * endpoint is down from the moment a loop's breaker opens until a call of any loop is answered, or until no call
 * was made for a while. Any loop.
 */
#pragma once
#include <stdatomic.h>

#include "base/pace.h"
#include "rt/fiber.h"

#define ENDPOINT_LOOK_MS                                                                 \
    50 /* the delay of a transfer that a reader has joined meanwhile */
#define ENDPOINT_LAST_MS                                                                 \
    1000 /* the longest wait of a background transfer: its remote would close it */
#define ENDPOINT_DOWN_MS 60000 /* down is believed for so long after the last call */

struct endpoint;
struct endpoints {
    struct endpoint *_Atomic first; /* owned */
    _Atomic unsigned down;          /* how many of them are down */
};
struct endpoint {
    struct endpoints *all;
    char *name;               /* owned */
    struct pace *pace;        /* owned; without a rate it never waits */
    _Atomic unsigned readers; /* waiting for the rate */
    _Atomic uint64_t down_ns; /* time of the last call without an answer; 0: not down */
    struct endpoint *next;
};

/* The endpoint with this name; made with `rate` if it is missing. */
struct endpoint *endpoint_of(struct endpoints *all, const char *name, uint64_t rate);
void endpoints_fini(struct endpoints *all);
/* Waits until more bytes may be received. *urgent: a reader waits for them (NULL: always). ERR_CANCELLED,
 * ERR_TIMEOUT. May switch. */
enum err endpoint_wait(struct endpoint *e, const bool *urgent) MUST_CHECK;
void endpoint_consumed(struct endpoint *e, uint64_t bytes);

/* A call got no answer, and the breaker is open; a call was answered. */
void endpoint_mark_down(struct endpoint *e);
void endpoint_mark_up(struct endpoint *e);
static inline bool
endpoints_any_down(const struct endpoints *all)
{
    return atomic_load_explicit(&all->down, memory_order_relaxed) > 0;
}
bool endpoint_is_down(struct endpoints *all, const char *name);
