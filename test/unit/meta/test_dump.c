/* The node's state as bytes: every pair comes back, in order; a changed byte does not pass. */
#include "check.h"

#include "base/mem.h"
#include "meta/dump.h"

static void
test_round(void)
{
    static const char *const pairs[][2] = {
        {"bucket/a", "record"}, {"bucket/b", ""}, {"next", "\x01\x02"}};
    struct span dump, key, value;
    struct errbuf eb = {{0}};
    struct buf out;
    const char *corpus = getenv("CORPUS");

    buf_init(&out, KIB(4));
    for (unsigned i = 0; i < ARRAY_LEN(pairs); i++)
        meta_dump_put(&out, span_of(pairs[i][0]), span_of(pairs[i][1]));
    dump = buf_span(&out);
    for (unsigned i = 0; i < ARRAY_LEN(pairs); i++) {
        REQUIRE(meta_dump_next(&dump, &key, &value, &eb) == ERR_OK);
        CHECK(span_is(key, pairs[i][0]) && span_is(value, pairs[i][1]));
    }
    CHECK(meta_dump_next(&dump, &key, &value, &eb) == ERR_NOT_FOUND);
    if (corpus != NULL) {
        char path[300];
        FILE *f;

        snprintf(path, sizeof path, "%s/meta_dump/three", corpus);
        f = fopen(path, "w");
        REQUIRE(f != NULL);
        CHECK_U64(fwrite(out.at, 1, out.len, f), out.len);
        fclose(f);
    }
    for (size_t at = 0; at < out.len; at++) {
        enum err rc;

        out.at[at] ^= 16;
        dump = buf_span(&out);
        do
            rc = meta_dump_next(&dump, &key, &value, &eb);
        while (rc == ERR_OK);
        CHECK(rc == ERR_CORRUPT);
        out.at[at] ^= 16;
    }
    buf_fini(&out);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_round);
    return check_done();
}
