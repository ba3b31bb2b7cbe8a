/* cap: bytes a second that come from one remote, whoever asks for them. Readers come first: what nobody waits for comes while no
 * reader waits for this cap, or once a second. Any loop; one for each remote of a node.
 */
#pragma once
#include <stdatomic.h>

#include "base/pace.h"
#include "rt/fiber.h"

#define CAP_LOOK_MS                                                                      \
    50 /* a transfer for which a reader came meanwhile is late by that much */
#define CAP_LAST_MS                                                                      \
    1000 /* what nobody waits for waits no longer for readers: its remote would end it */

struct cap {
    char *remote;             /* owned */
    struct pace *pace;        /* owned; of no rate: nobody ever waits */
    _Atomic unsigned readers; /* that wait */
    struct cap *next;
};

/* The cap of `remote`, made at `rate` where there is none; the list frees it. */
struct cap *cap_of(struct cap *_Atomic *list, const char *remote, uint64_t rate);
void cap_free_all(struct cap *_Atomic *list);
/* Until more may come. *hurried: a reader waits for it (NULL: one always does). ERR_CANCELLED, ERR_TIMEOUT. May switch. */
enum err cap_wait(struct cap *c, const bool *hurried) MUST_CHECK;
void cap_took(struct cap *c, uint64_t bytes);
