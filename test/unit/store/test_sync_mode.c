/* Protects: a log finds out which way of making a batch durable is quicker here, goes that way, notices when that changes,
 * and keeps to it where both are alike. */
#include "check.h"
#include "store/wal/sync_mode.h"

/* So many batches; how many of them went as one operation. */
static unsigned
batches(struct sync_mode *d, unsigned count, uint64_t two_ns, uint64_t one_ns)
{
    unsigned ones = 0;

    for (unsigned i = 0; i < count; i++) {
        bool one = sync_mode_as_one(d);

        ones += one;
        sync_mode_took(d, one, one ? one_ns : two_ns);
    }
    return ones;
}

static void
test_the_quicker_way_is_found_and_left_again(void)
{
    struct sync_mode d = {0};

    CHECK_U64(batches(&d, 31, 300, 100), 0); /* as two until the first probe */
    (void)batches(&d, 1, 300, 100);
    CHECK(d.one);
    CHECK_U64(batches(&d, 3200, 300, 100),
              3100); /* each 32nd asks what the other would take */
    (void)batches(&d, 1000, 100, 300);
    CHECK(!d.one);
    CHECK_U64(batches(&d, 3200, 100, 300), 100);
}

static void
test_what_is_as_quick_stays(void)
{
    struct sync_mode d = {0};

    CHECK_U64(batches(&d, 3200, 100, 95), 100);
    (void)batches(&d, 3200, 100, 50);
    CHECK(d.one);
    (void)batches(&d, 3200, 95, 100);
    CHECK(d.one);
}

static void
test_one_stall_changes_nothing(void)
{
    struct sync_mode d = {0};

    (void)batches(&d, 3200, 300, 100);
    sync_mode_took(&d, true, 1000000000);
    CHECK(d.one);
    CHECK(d.usual_ns[true] < 150);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_the_quicker_way_is_found_and_left_again);
    RUN(test_what_is_as_quick_stays);
    RUN(test_one_stall_changes_nothing);
    return check_done();
}
