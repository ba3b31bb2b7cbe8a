/* Heads that go by reference: none is written over, and where the system does not take their pages back they are copied. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "check.h"
#include "rt/sendable.h"
#include "rt/syscall.h"

enum {
    HEAD = 1024,
    HEADS = 256,
    BODY = 40000
}; /* so many heads are all the room there is */

static char body[BODY];

static bool
front(struct sendable_pipe *p, unsigned n, struct iovec *out)
{
    char head[HEAD];

    memset(head, (int)(n % 251), sizeof head);
    return sendable_front(p, &(struct iovec){head, sizeof head}, 1,
                          &(struct iovec){body, sizeof body}, 1, SENDABLE_PORTION, out);
}

static bool
is_whole(const struct iovec *v, unsigned n)
{
    const unsigned char *at = v->iov_base;

    for (size_t i = 0; i < v->iov_len; i++)
        if (at[i] != n % 251)
            return false;
    return v->iov_len == HEAD;
}

static void
test_heads_are_not_written_over(void)
{
    struct sendable_pipe p = {0};
    static struct iovec all[HEADS];

    for (unsigned n = 0; n < HEADS; n++)
        REQUIRE(front(&p, n, &all[n]));
    for (unsigned n = 0; n < HEADS; n++)
        CHECK(is_whole(&all[n], n));
    for (unsigned n = HEADS; n < 3 * HEADS; n++) {
        REQUIRE(front(&p, n, &all[0]));
        CHECK(is_whole(&all[0], n));
    }
    sendable_pipe_free(&p);
}

/* A page that is locked is not taken back. */
static void
test_pages_that_stay_are_left_alone(void)
{
    struct sendable_pipe p = {0};
    struct iovec out;

    REQUIRE(front(&p, 0, &out));
    REQUIRE(syscall_raw(SYS_mlock, (long)(uintptr_t)p.fronts, SENDABLE_PAGE, 0, 0, 0,
                        0) == 0); /* the sanitizers' does nothing */
    for (unsigned n = 1; n < HEADS; n++)
        REQUIRE(front(&p, n, &out));
    CHECK(!front(&p, HEADS, &out) && p.fronts == NULL);
    for (unsigned n = 0; n < 2 * HEADS; n++) {
        REQUIRE(front(&p, n, &out));
        CHECK(is_whole(&out, n));
    }
    sendable_pipe_free(&p);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_heads_are_not_written_over);
    RUN(test_pages_that_stay_are_left_alone);
    return check_done();
}
