/* Names of chunks: of one version each, found again, and none of what merely looks like one. */
#include <string.h>

#include "check.h"
#include "object/chunks.h"

static struct chunked
sample(uint64_t size, uint32_t bytes, const char *etag)
{
    struct object_info info = {.size = size, .chunk_bytes = bytes};
    struct entry entry = {.flags = ENTRY_CACHED | ENTRY_CHUNKS};
    struct chunked c;

    strcpy(info.etag, etag);
    chunked_of(&entry, &info, &c);
    return c;
}

static void
test_names_are_found_again(void)
{
    struct chunked c = sample(100, 16, "abc");
    char key_bytes[CHUNKED_KEY_MAX], name[STORE_KEY_MAX];
    struct span key = {key_bytes, sizeof key_bytes}, got;
    uint64_t tag[2];
    uint32_t number;
    size_t len;

    memset(key_bytes, '#', sizeof key_bytes);
    for (uint32_t n = 0; n < 7; n++) {
        len = chunk_name(&c, key, n * 0x1234567, name);
        CHECK_U64(len, STORE_KEY_MAX);
        REQUIRE(chunk_name_parse((struct span){name, len}, &got, tag, &number));
        CHECK(span_eq(got, key) && number == n * 0x1234567);
        CHECK(memcmp(tag, c.tag, sizeof tag) == 0);
    }
    name[len - 1] = 'g';
    CHECK(!chunk_name_parse((struct span){name, len}, &got, tag, &number));
    name[len - 1] = '0';
    name[len - 9] = '-';
    CHECK(!chunk_name_parse((struct span){name, len}, &got, tag, &number));
    CHECK(!chunk_name_parse((struct span){name, CHUNK_SUFFIX}, &got, tag, &number));
}

static void
test_a_name_is_of_one_version(void)
{
    struct chunked a = sample(100, 16, "abc"), others[] = {
                                                   sample(100, 16, "abd"),
                                                   sample(101, 16, "abc"),
                                                   sample(100, 17, "abc"),
                                               };

    for (unsigned i = 0; i < ARRAY_LEN(others); i++)
        CHECK(memcmp(a.tag, others[i].tag, sizeof a.tag) != 0);
}

static void
test_the_last_has_what_is_left(void)
{
    struct chunked c = sample(100, 16, "abc"), even = sample(96, 16, "abc");

    CHECK(chunk_count(&c) == 7 && chunk_len(&c, 5) == 16 && chunk_len(&c, 6) == 4);
    CHECK(chunk_count(&even) == 6 && chunk_len(&even, 5) == 16);
}

static void
test_spaces(void)
{
    CHECK(chunk_space(7) != 7 && chunk_owner(chunk_space(7)) == 7 && chunk_owner(7) == 7);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_names_are_found_again);
    RUN(test_a_name_is_of_one_version);
    RUN(test_the_last_has_what_is_left);
    RUN(test_spaces);
    return check_done();
}
