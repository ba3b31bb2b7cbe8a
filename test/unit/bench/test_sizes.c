/* sizes: what --size may say, and that a mix is one. */
#include "bench/sizes.h"

#include "base/mem.h"
#include "check.h"

static void
test_texts(void)
{
    static const struct {
        const char *text, *says; /* NULL: it is fine */
    } rows[] = {
        {"4KiB", NULL},
        {"1KiB-1MiB", NULL},
        {"1KiB:70,1MiB-2MiB:30", NULL},
        {"", "--size"},
        {"2KiB-1KiB", "smaller"},
        {"1KiB:0", "weight"},
        {"10GiB", "at most"},
        {"1KiB,", NULL},
        {"x", "--size"},
        {"1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "more than 16"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct errbuf eb = {{0}};
        struct sizes s;
        enum err rc = sizes_parse(rows[i].text, GIB(5), &s, &eb);

        CHECK((rc == ERR_OK) == (rows[i].says == NULL));
        if (rows[i].says != NULL)
            CHECK_SAYS(eb.text, rows[i].says);
    }
}

static void
test_a_mix(void)
{
    struct errbuf eb = {{0}};
    struct sizes s;
    unsigned small = 0, low = 0, large = 0;

    REQUIRE(sizes_parse("1KiB:70,1MiB-16MiB:30", GIB(5), &s, &eb) == ERR_OK);
    for (uint64_t n = 0; n < 10000; n++) {
        uint64_t size = sizes_of(&s, n);

        CHECK(size == sizes_of(&s, n));
        small += size == KIB(1);
        large += size >= MIB(1) && size <= MIB(16);
        low += size >= MIB(1) && size < MIB(4);
    }
    CHECK(small + large == 10000);
    CHECK(small > 6700 && small < 7300);
    CHECK(low * 2 > large * 9 / 10 &&
          low * 2 < large * 11 / 10); /* two of four doublings */
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_texts);
    RUN(test_a_mix);
    return check_done();
}
