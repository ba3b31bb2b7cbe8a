/* meter: how much a user with limits has used of late (promise S11). Counted for the node, not for a loop: lock-free, any thread; a
 * user without limits has no meter and costs nothing. What is allowed a second may come at once; who takes more waits until it is
 * paid off. Bodies whose length is known count when they begin, all others when they end.
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
    _Atomic uint64_t requests_ns, bytes_ns; /* paid for until then */
    _Atomic uint32_t parts;
    char *name; /* owned; the user's */
};
enum auth_over { AUTH_WITHIN, AUTH_OVER_REQUESTS, AUTH_OVER_BYTES, AUTH_OVER_PARTS };
/* One request: what it took, for its end. */
struct auth_charge {
    struct auth_meter *meter; /* NULL: nothing to be ended */
    struct auth_limits limits;
    uint64_t bytes;
    bool part;
};
/* `bytes` of a body that is to come, 0 where the length is unknown. Within the limits: charged, *out is to be ended. */
enum auth_over auth_meter_begin(struct auth_meter *m, const struct auth_limits *l,
                                bool part, uint64_t bytes, uint64_t now_ns,
                                struct auth_charge *out);
/* So many bytes it was. Twice is fine. */
void auth_meter_end(struct auth_charge *c, uint64_t bytes, uint64_t now_ns);
/* How often a limit has refused since the start. */
uint64_t auth_meter_refused(enum auth_over why);
