/* breaker: circuit breaker. A backend that does not answer is not asked for a while: misses fail
 * at once instead of after all their retries, and the backend is not overloaded when it returns.
 *
 *     CLOSED --- BREAKER_FAILURES in a row, over BREAKER_SPAN_MS --> OPEN --- the wait ends --> TRIAL, one call
 *        ^                                                             ^                           |
 *        '------------------------- answered --------------------------|--- no: the wait doubles --'
 *
 * A refusal is an answer. Of one loop; pure, the caller passes the time.
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
    uint64_t until_ns; /* OPEN: no call before */
    bool trial;        /* the one call of TRIAL is in flight */
};
enum breaker_outcome { BREAKER_ANSWERED, BREAKER_NO_ANSWER, BREAKER_UNKNOWN };

/* May a call be made now? If not, *left_ms is the rest of the wait. A caller that may reports the outcome, once
 * for each call. */
bool breaker_allows(struct breaker *b, uint64_t now_ns, uint64_t *left_ms);
/* BREAKER_UNKNOWN: the call was cancelled. True: the breaker has just opened, or closed. */
bool breaker_report(struct breaker *b, enum breaker_outcome what, uint64_t now_ns);
static inline bool
breaker_is_open(const struct breaker *b)
{
    return b->wait_ms > 0;
}
