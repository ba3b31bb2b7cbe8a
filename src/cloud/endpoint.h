/* endpoint: what all loops of a node share of one remote: the bytes a second that may come from it, and whether it is down.
 *
 * Readers come first: what nobody waits for comes while no reader waits for the rate, or once a second. It is down from when some
 * loop's breaker opened until a call of any loop is answered, or nobody has asked for a while: then nobody knows. Any loop.
 */
#pragma once
#include <stdatomic.h>

#include "base/pace.h"
#include "rt/fiber.h"

#define ENDPOINT_LOOK_MS                                                                 \
    50 /* a transfer for which a reader came meanwhile is late by that much */
#define ENDPOINT_LAST_MS                                                                 \
    1000 /* what nobody waits for waits no longer for readers: its remote would end it */
#define ENDPOINT_DOWN_MS 60000 /* that is believed so long after the last call */

struct endpoint;
struct endpoints {
    struct endpoint *_Atomic first; /* owned */
    _Atomic unsigned down;          /* so many of them are */
};
struct endpoint {
    struct endpoints *all;
    char *name;               /* owned */
    struct pace *pace;        /* owned; of no rate: nobody ever waits */
    _Atomic unsigned readers; /* that wait */
    _Atomic uint64_t
        down_ns; /* of the last call that was not answered; 0: it is not down */
    struct endpoint *next;
};

/* The one of that name, made at `rate` where there is none. */
struct endpoint *endpoint_of(struct endpoints *all, const char *name, uint64_t rate);
void endpoints_fini(struct endpoints *all);
/* Until more may come. *urgent: a reader waits for it (NULL: one always does). ERR_CANCELLED, ERR_TIMEOUT. May switch. */
enum err endpoint_wait(struct endpoint *e, const bool *urgent) MUST_CHECK;
void endpoint_consumed(struct endpoint *e, uint64_t bytes);

/* A call was not answered, and the breaker is open; one was answered. */
void endpoint_mark_down(struct endpoint *e);
void endpoint_mark_up(struct endpoint *e);
static inline bool
endpoints_any_down(const struct endpoints *all)
{
    return atomic_load_explicit(&all->down, memory_order_relaxed) > 0;
}
bool endpoint_is_down(struct endpoints *all, const char *name);
