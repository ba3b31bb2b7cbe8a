/* meter: limits of a user in virtual time: what may come at once, what has to wait and how long, refunds, parts. */
#include "auth/meter.h"

#include "check.h"

#define S 1000000000ull

static void
test_requests(void)
{
    struct auth_meter m = {0};
    struct auth_limits l = {.requests = 10};
    struct auth_charge c;
    unsigned admitted = 0;

    while (auth_meter_begin(&m, &l, false, 0, 5 * S, &c) == AUTH_WITHIN) {
        admitted++;
        auth_meter_end(&c, 1000, 5 * S);
        REQUIRE(admitted < 100);
    }
    CHECK(admitted ==
          11); /* a second's worth, and the one that begins as it is used up */
    CHECK(auth_meter_begin(&m, &l, false, 0, 5 * S + S / 20, &c) == AUTH_OVER_REQUESTS);
    CHECK(auth_meter_begin(&m, &l, false, 0, 5 * S + S / 10, &c) == AUTH_WITHIN);
    CHECK(auth_meter_begin(&m, &l, false, 0, 5 * S + S / 10, &c) == AUTH_OVER_REQUESTS);
    CHECK(auth_meter_refused(AUTH_OVER_REQUESTS) >= 3);
}

static void
test_bytes(void)
{
    struct auth_meter m = {0};
    struct auth_limits l = {.bytes = 1000};
    struct auth_charge c, d;

    /* 5,000 that were announced stand in the way of others for four seconds. */
    CHECK(auth_meter_begin(&m, &l, false, 5000, 10 * S, &c) == AUTH_WITHIN);
    CHECK(auth_meter_begin(&m, &l, false, 0, 10 * S, &d) == AUTH_OVER_BYTES);
    CHECK(auth_meter_begin(&m, &l, false, 0, 13 * S, &d) == AUTH_OVER_BYTES);
    CHECK(auth_meter_begin(&m, &l, false, 0, 14 * S, &d) == AUTH_WITHIN);
    auth_meter_end(&d, 0, 14 * S);
    /* But 500 came: the rest is given back. */
    auth_meter_end(&c, 500, 14 * S);
    CHECK(auth_meter_begin(&m, &l, false, 0, 11 * S, &d) == AUTH_WITHIN);
    auth_meter_end(&d, 3000, 20 * S); /* an answer: known at its end */
    CHECK(auth_meter_begin(&m, &l, false, 0, 21 * S, &d) == AUTH_OVER_BYTES);
    CHECK(auth_meter_begin(&m, &l, false, 0, 22 * S, &d) == AUTH_WITHIN);
    auth_meter_end(&d, 0, 22 * S);
    auth_meter_end(&d, 100000, 22 * S); /* ended already */
    CHECK(auth_meter_begin(&m, &l, false, UINT64_MAX, 30 * S, &d) == AUTH_WITHIN);
    CHECK(auth_meter_begin(&m, &l, false, 0, 31 * S, &c) == AUTH_OVER_BYTES);
    auth_meter_end(&d, 1, 31 * S);
    CHECK(auth_meter_begin(&m, &l, false, 0, 32 * S, &c) == AUTH_WITHIN);
}

static void
test_parts(void)
{
    struct auth_meter m = {0};
    struct auth_limits l = {.parts = 2, .requests = 1};
    struct auth_charge c[4];

    CHECK(auth_meter_begin(&m, &l, true, 0, 1 * S, &c[0]) == AUTH_WITHIN);
    CHECK(auth_meter_begin(&m, &l, true, 0, 5 * S, &c[1]) == AUTH_WITHIN);
    CHECK(auth_meter_begin(&m, &l, true, 0, 9 * S, &c[2]) == AUTH_OVER_PARTS);
    CHECK(auth_meter_begin(&m, &l, false, 0, 9 * S, &c[2]) == AUTH_WITHIN); /* no part */
    auth_meter_end(&c[0], 0, 9 * S);
    CHECK(auth_meter_begin(&m, &l, true, 0, 13 * S, &c[3]) == AUTH_WITHIN);
    /* Refused for another reason: the part is not counted. */
    auth_meter_end(&c[3], 0, 13 * S);
    CHECK(auth_meter_begin(&m, &l, true, 0, 13 * S, &c[3]) == AUTH_WITHIN);
    CHECK(m.parts == 2);
    auth_meter_end(&c[3], 0, 13 * S);
    CHECK(auth_meter_begin(&m, &l, true, 0, 13 * S, &c[3]) == AUTH_OVER_REQUESTS);
    CHECK(m.parts == 1);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_requests);
    RUN(test_bytes);
    RUN(test_parts);
    return check_done();
}
