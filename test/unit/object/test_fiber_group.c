/* Background fibers end with their group: those that wait, those that have not begun, and none begins afterwards. */
#include "object/fiber_group.h"

#include "check.h"
#include "rt/fiber.h"
#include "rt/loop.h"
#include "rt/sync.h"

static struct fiber_group *group;
static unsigned begun, cancelled, refused;

static void
nothing(void *arg)
{
    (void)arg;
    begun++;
}

static void
wait_for_ever(void *arg)
{
    struct rt_cond never;

    (void)arg;
    begun++;
    rt_cond_init(&never);
    if (rt_cond_wait(&never, DEADLINE_NEVER) == ERR_CANCELLED)
        cancelled++;
    /* What ends looks at its group, and may want to begin another one. */
    if (group != NULL && fiber_group_is_ending(group) &&
        fiber_group_spawn(group, nothing, NULL) == ERR_CANCELLED)
        refused++;
}

static void
world(void *arg)
{
    (void)arg;
    group = fiber_group_new();
    CHECK(fiber_group_busy(group) == 0);
    CHECK(fiber_group_spawn(group, nothing, NULL) == ERR_OK);
    CHECK(fiber_group_busy(group) == 1);
    rt_yield();
    CHECK(fiber_group_busy(group) == 0);
    CHECK_U64(begun, 1);

    CHECK(fiber_group_spawn(group, wait_for_ever, NULL) == ERR_OK);
    CHECK(fiber_group_spawn(group, wait_for_ever, NULL) == ERR_OK);
    rt_yield();
    CHECK_U64(begun, 3);
    CHECK(fiber_group_spawn(group, wait_for_ever, NULL) == ERR_OK); /* begins too late */
    fiber_group_end(&group);
    CHECK(group == NULL);
    CHECK_U64(begun, 4);
    CHECK_U64(cancelled, 3);
    CHECK_U64(refused, 3);
    fiber_group_end(&group);
}

static void
test_all_end_with_it(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1, .workers = 1};
    struct errbuf eb = {{0}};

    CHECK(rt_run(&o, world, NULL, &eb) == ERR_OK);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_all_end_with_it);
    return check_done();
}
