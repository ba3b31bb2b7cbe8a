/* meter: rate limits of a user (promise S11), counted for the whole node: lock-free, any thread. A user without limits has no
 * meter and costs nothing. The burst is one second's allowance; beyond it requests are rejected until the debt is paid
 * off. A body of known length is charged at its begin, any other at its end.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct auth_limits {
    uint64_t requests; /* a second; 0: no limit, as below */
    uint64_t bytes;    /* of bodies, both ways, a second */
    uint32_t parts;    /* of uploads, under way at the same time */
};
#define AUTH_REQUESTS_MAX 1000000000ull
#define AUTH_BYTES_MAX    (1ull << 40)
#define AUTH_PARTS_MAX    1000000u

struct auth_meter {
    _Atomic uint64_t requests_ns, bytes_ns; /* the time until which usage is charged */
    _Atomic uint32_t parts;
    char *name; /* owned; the user's */
};
enum auth_over { AUTH_WITHIN, AUTH_OVER_REQUESTS, AUTH_OVER_BYTES, AUTH_OVER_PARTS };
/* The charge of one request, corrected at its end. */
struct auth_charge {
    struct auth_meter *meter; /* NULL: nothing to be ended */
    struct auth_limits limits;
    uint64_t bytes;
    bool part;
};
/* `bytes` of the expected body, 0 if unknown. AUTH_WITHIN: charged; the caller ends *out. */
enum auth_over auth_meter_begin(struct auth_meter *m, const struct auth_limits *l,
                                bool part, uint64_t bytes, uint64_t now_ns,
                                struct auth_charge *out);
/* Corrects the charge to the actual bytes; idempotent. */
void auth_meter_end(struct auth_charge *c, uint64_t bytes, uint64_t now_ns);
/* Rejections by this limit since the start. */
uint64_t auth_meter_refused(enum auth_over why);
