/* pace: what has come may have come, by a clock of the test's own. */
#include "base/pace.h"
#include "check.h"

#define SECOND 1000000000ull

static void
test_a_rate(void)
{
    struct pace *p = pace_new(1000);
    struct pace *other = pace_ref(p);
    uint64_t now = 5 * SECOND, came = 0;

    CHECK_U64(pace_spent(p, now, 500), now + SECOND / 2);
    /* Two fetches share it. */
    CHECK_U64(pace_spent(other, now, 500), now + SECOND);
    CHECK_U64(pace_due(p), now + SECOND);
    pace_drop(&other);
    /* A caller that waits each time gets the rate, in pieces of any size; idle time earns no credit. */
    now += 100 * SECOND;
    for (uint64_t begun = now; now < begun + 10 * SECOND; came += 7 * (came % 13 + 1))
        now = pace_spent(p, now, 7 * (came % 13 + 1));
    CHECK(came > 9900 && came < 10100);
    pace_drop(&p);
    CHECK(p == NULL);
}

static void
test_no_rate(void)
{
    struct pace *p = pace_new(0);

    CHECK_U64(pace_spent(p, SECOND, 1u << 30), 0);
    CHECK_U64(pace_due(p), 0);
    pace_drop(&p);
    pace_drop(&p);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_a_rate);
    RUN(test_no_rate);
    return check_done();
}
