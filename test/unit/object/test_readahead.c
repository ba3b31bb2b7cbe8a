/* Which names follow each other. */
#include "check.h"
#include "object/readahead.h"

static void
test_names(void)
{
    static const struct {
        const char *a, *b;
        bool follows;
        uint64_t from, to;
        size_t at, digits;
    } rows[] = {
        {"shard-000017.tar", "shard-000018.tar", true, 17, 18, 6, 6},
        {"part-9-of-40", "part-10-of-40", true, 9, 10, 5, 2},
        {"2026/a1", "2026/a2", true, 1, 2, 6, 1},
        {"7", "5", true, 7, 5, 0, 1},
        {"a1", "a1", false, 0, 0, 0, 0},
        {"a1b1", "a2b2", false, 0, 0, 0, 0},
        {"a1", "b1", false, 0, 0, 0, 0},
        {"a1", "a1b", false, 0, 0, 0, 0},
        {"a1", "a", false, 0, 0, 0, 0},
        {"a", "a1", false, 0, 0, 0, 0},
        {"", "", false, 0, 0, 0, 0},
        {"a1234567890123456789", "a1234567890123456788", false, 0, 0, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct readahead_step s;

        CHECK(readahead_compare(span_of(rows[i].a), span_of(rows[i].b), &s) ==
              rows[i].follows);
        if (rows[i].follows)
            CHECK(s.from == rows[i].from && s.to == rows[i].to && s.at == rows[i].at &&
                  s.digits == rows[i].digits);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_names);
    return check_done();
}
