/* breaker: a backend that does not answer is left alone for a while, so that a miss fails at once instead of after all its
 * tries, and the backend is not trampled when it comes back (circuit breaker).
 *
 *     CLOSED --- BREAKER_FAILURES in a row, over BREAKER_SPAN_MS --> OPEN --- the wait is over --> TRIAL, one call
 *        ^                                                             ^                             |
 *        '------------------------- it answered -----------------------|---- not: the wait doubles --'
 *
 * An answer that refuses is an answer. Of one loop; pure but for its caller's clock.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define BREAKER_FAILURES    10
#define BREAKER_SPAN_MS     2000
#define BREAKER_WAIT_MS     1000
#define BREAKER_WAIT_MAX_MS 30000

struct breaker {
    unsigned failures; /* in a row */
    uint64_t first_ns; /* of them */
    uint64_t wait_ms;  /* 0: CLOSED */
    uint64_t until_ns; /* OPEN: nobody asks before */
    bool trial;        /* the one call of TRIAL is under way */
};
enum breaker_outcome { BREAKER_ANSWERED, BREAKER_NO_ANSWER, BREAKER_UNKNOWN };

/* May a call be made now? *left_ms: of the wait, otherwise. Who may tells what came of it, once for each call. */
bool breaker_allows(struct breaker *b, uint64_t now_ns, uint64_t *left_ms);
/* BREAKER_UNKNOWN: it was given up before anybody could tell. True: it has just opened, or closed. */
bool breaker_report(struct breaker *b, enum breaker_outcome what, uint64_t now_ns);
static inline bool
breaker_is_open(const struct breaker *b)
{
    return b->wait_ms > 0;
}
