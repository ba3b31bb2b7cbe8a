/* What the machine has: a number that is neither nothing nor everything. That a control group counts is shown end to end
 * (test_bounded.py). */
#include "check.h"
#include "rt/limits.h"

static void
test_there_is_a_limit(void)
{
    uint64_t memory = rt_memory_max();

    CHECK(memory > (16u << 20) && memory < UINT64_C(1) << 50);
    CHECK(rt_descriptors_max() >= 16);
    CHECK(rt_descriptors_open() >= 3 && rt_descriptors_open() < rt_descriptors_max());
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_there_is_a_limit);
    return check_done();
}
