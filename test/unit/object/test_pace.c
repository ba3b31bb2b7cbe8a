/* pace: what has come may have come, by a clock of the test's own. */
#include "check.h"
#include "object/pace.h"

#define SECOND 1000000000ull

static void
test_a_rate(void)
{
    struct object_pace *p = object_pace_new(1000);
    struct object_pace *other = object_pace_ref(p);
    uint64_t now = 5 * SECOND, came = 0;

    CHECK_U64(object_pace_took(p, now, 500), now + SECOND / 2);
    /* Two fetches share it. */
    CHECK_U64(object_pace_took(other, now, 500), now + SECOND);
    CHECK_U64(object_pace_due(p), now + SECOND);
    object_pace_drop(&other);
    /* Whoever waits each time gets the rate, in pieces of any size; time when nothing came is not made up for. */
    now += 100 * SECOND;
    for (uint64_t begun = now; now < begun + 10 * SECOND; came += 7 * (came % 13 + 1))
        now = object_pace_took(p, now, 7 * (came % 13 + 1));
    CHECK(came > 9900 && came < 10100);
    object_pace_drop(&p);
    CHECK(p == NULL);
}

static void
test_no_rate(void)
{
    struct object_pace *p = object_pace_new(0);

    CHECK_U64(object_pace_took(p, SECOND, 1u << 30), 0);
    CHECK_U64(object_pace_due(p), 0);
    object_pace_drop(&p);
    object_pace_drop(&p);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_a_rate);
    RUN(test_no_rate);
    return check_done();
}
