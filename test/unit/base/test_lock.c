/* Ranks: the page and the code name the same locks in the same order; a wrong order stops
 * the process. */
#include "base/lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "check.h"

static void
test_page_and_code_agree(void)
{
    FILE *f = fopen("docs/locks.md", "r");
    char line[512], name[64];
    unsigned rank = 0;

    REQUIRE(f != NULL); /* tests run in the root of the source */
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "| `%63[^`]` |", name) != 1)
            continue;
        CHECK(rank < LOCK_COUNT_);
        if (rank < LOCK_COUNT_)
            CHECK_STR(lock_name((enum lock_rank)rank), name);
        rank++;
    }
    fclose(f);
    CHECK_U64(rank, LOCK_COUNT_);
}

static void
in_order(void)
{
    struct lock outer, inner;

    lock_init(&outer, LOCK_COLLECTORS);
    lock_init(&inner, LOCK_BLOCKS);
    lock_acquire(&outer);
    lock_acquire(&inner);
    lock_release(&outer); /* in any order */
    lock_release(&inner);
    lock_fini(&outer);
    lock_fini(&inner);
}

static void
wrong_order(void)
{
    struct lock outer = LOCK_INIT(LOCK_COLLECTORS), inner = LOCK_INIT(LOCK_BLOCKS);

    lock_acquire(&inner);
    lock_acquire(&outer);
}

static void
same_rank_twice(void)
{
    struct lock a = LOCK_INIT(LOCK_BLOCKS), b = LOCK_INIT(LOCK_BLOCKS);

    lock_acquire(&a);
    lock_acquire(&b);
}

static void
release_of_one_not_held(void)
{
    struct lock a = LOCK_INIT(LOCK_BLOCKS);

    lock_release(&a);
}

/* The signal that ended a child which ran fn, 0 when it ended by itself. */
static int
ended_by(void (*fn)(void))
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        close(STDERR_FILENO); /* the assert's text is expected */
        fn();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void
test_order_is_asserted(void)
{
    CHECK(ended_by(in_order) == 0);
    CHECK(ended_by(wrong_order) == SIGABRT);
    CHECK(ended_by(same_rank_twice) == SIGABRT);
    CHECK(ended_by(release_of_one_not_held) == SIGABRT);
}

static void
test_held(void)
{
    struct lock a = LOCK_INIT(LOCK_BLOCKS);

    CHECK(!lock_held(&a));
    lock_acquire(&a);
    CHECK(lock_held(&a));
    lock_release(&a);
    CHECK(!lock_held(&a));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_page_and_code_agree);
    RUN(test_order_is_asserted);
    RUN(test_held);
    return check_done();
}
