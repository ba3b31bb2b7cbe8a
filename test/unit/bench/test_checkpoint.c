/* Content of a checkpoint: whose it is and where it lies can be seen from any 256 KiB of it, in whatever pieces it comes. */
#include "bench/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "check.h"

#define BYTES MIB(1)

static struct checkpoint
content(void)
{
    struct checkpoint c = {.block = xmalloc(KIB(256))};

    for (size_t i = 0; i < KIB(256); i++)
        c.block[i] = (char)(i * 131 + i / 251);
    return c;
}

/* As a rank writes it. */
static char *
written(const struct checkpoint *c, unsigned number, unsigned rank, uint64_t offset,
        uint64_t len)
{
    char *out = xmalloc(len);

    for (uint64_t at = 0; at < len;)
        at += checkpoint_bytes(c, number, rank, offset + at, len - at, out + at);
    return out;
}

static void
test_pieces_of_any_size_are_known(void)
{
    struct checkpoint c = content();
    char *all = written(&c, 3, 7, 0, BYTES), *middle = written(&c, 3, 7, 1000, 300000);

    CHECK(memcmp(all + 1000, middle, 300000) == 0);
    for (uint64_t step = 1; step < BYTES; step = step * 3 + 1)
        for (uint64_t at = 0; at < BYTES; at += step * 7 + 1)
            CHECK(checkpoint_is(&c, 3, 7, at, all + at, MIN(step, BYTES - at)));
    free(all);
    free(middle);
    free(c.block);
}

static void
test_nothing_else_is_taken_for_it(void)
{
    struct checkpoint c = content();
    char *all = written(&c, 3, 7, 0, BYTES), *block = xmalloc(KIB(256));

    CHECK(!checkpoint_is(&c, 2, 7, 0, all, BYTES));           /* of another checkpoint */
    CHECK(!checkpoint_is(&c, 3, 6, 0, all, BYTES));           /* of another rank */
    CHECK(!checkpoint_is(&c, 3, 7, KIB(256), all, KIB(256))); /* from elsewhere */
    for (uint64_t at = 0; at < BYTES; at += 4099) {
        all[at] ^= 1;
        CHECK(!checkpoint_is(&c, 3, 7, 0, all, BYTES));
        all[at] ^= 1;
    }
    memcpy(block, all + KIB(256), KIB(256)); /* two that changed places */
    memcpy(all + KIB(256), all + KIB(512), KIB(256));
    memcpy(all + KIB(512), block, KIB(256));
    CHECK(!checkpoint_is(&c, 3, 7, 0, all, BYTES));
    free(all);
    free(block);
    free(c.block);
}

static void
test_models(void)
{
    const struct checkpoint_model *m = checkpoint_find("checkpoint-8b");

    REQUIRE(m != NULL);
    CHECK_U64(m->ranks, 8);
    CHECK_U64(m->bytes, 105000000000u);
    CHECK(checkpoint_find("checkpoint-9b") == NULL);
    for (unsigned i = 0; checkpoint_at(i) != NULL; i++)
        CHECK(checkpoint_find(checkpoint_at(i)->name) == checkpoint_at(i));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_pieces_of_any_size_are_known);
    RUN(test_nothing_else_is_taken_for_it);
    RUN(test_models);
    return check_done();
}
