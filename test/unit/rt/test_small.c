/* What is handed out is all zeros, whatever stood there before, of any size, and may be given back anywhere. */
#include <string.h>

#include "base/mem.h"
#include "check.h"
#include "engines.h"
#include "rt/small.h"

#define SIZES 1100u
#define MANY  100u /* more than a loop keeps of a size */

static bool
is_zero(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (at[i] != 0)
            return false;
    return true;
}

static void
take_and_give_back(void)
{
    char *taken[MANY];

    for (size_t size = 1; size < SIZES; size += 7) {
        for (unsigned i = 0; i < MANY; i++) {
            taken[i] = small_get(size);
            CHECK(is_zero(taken[i], size));
            memset(taken[i], 0xa5, size);
        }
        for (unsigned i = 0; i < MANY; i++)
            small_put(taken[i], size);
    }
    small_put(NULL, 8);
}

struct handed {
    char *at;
    size_t size;
};

static void
on_worker(void *arg)
{
    struct handed *h = arg;

    small_put(h->at, h->size);
    h->at = small_get(h->size);
}

static void
on_a_loop(void *arg)
{
    struct handed h = {small_get(300), 300};

    (void)arg;
    take_and_give_back();
    take_and_give_back();
    memset(h.at, 1, h.size);
    CHECK(rt_blocking(on_worker, &h, DEADLINE_NEVER) == ERR_OK);
    CHECK(is_zero(h.at, h.size));
    small_put(h.at, h.size);
}
CASE(test_pieces_of_a_loop_are_zero, 1, on_a_loop)

static void
test_pieces_of_no_loop_are_zero(void)
{
    take_and_give_back();
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_pieces_of_a_loop_are_zero);
    RUN(test_pieces_of_no_loop_are_zero);
    return check_done();
}
