/* The order of coded keys is the order of the names, and nothing is lost on the way. */
#include "base/mem.h"
#include "check.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

static uint64_t seed = 42;
static uint32_t
rnd(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* Few different bytes, so that prefixes are common and zeros too. */
static size_t
random_key(char *out, size_t max)
{
    static const char bytes[] = {0, 1, 'a', (char)0xFE, (char)0xFF};
    size_t len = rnd((uint32_t)max + 1);

    for (size_t i = 0; i < len; i++)
        out[i] = bytes[rnd(sizeof bytes)];
    return len;
}

static void
test_layers_at_the_edges(void)
{
    static const struct {
        size_t len;
        unsigned layers;
        size_t last;
    } rows[] = {{0, 1, 0},     {1, 1, 1},      {499, 1, 499},  {500, 1, 500},
                {501, 2, 1},   {999, 2, 499},  {1000, 2, 500}, {1001, 3, 1},
                {1024, 3, 24}, {1500, 3, 500}, {2066, 5, 66}};
    static char key[KEY_UPLOAD_MAX];

    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (char)rnd(256);
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct span whole = {key, rows[i].len};
        size_t sum = 0;

        CHECK_U64(key_layers(rows[i].len), rows[i].layers);
        for (unsigned k = 0; k < rows[i].layers; k++) {
            struct span part = key_layer(whole, k);

            CHECK(part.at == key + sum);
            CHECK(k + 1 == rows[i].layers || part.len == KEY_LAYER_BYTES);
            sum += part.len;
        }
        CHECK_U64(sum, rows[i].len);
        CHECK_U64(key_layer(whole, rows[i].layers - 1).len, rows[i].last);
    }
}

static void
test_space_stands_in_front(void)
{
    unsigned char out[KEY_CODED_MAX];

    CHECK_U64(key_code(0x01020304, SPAN("ab"), out), 6);
    CHECK(memcmp(out, "\1\2\3\4ab", 6) == 0);
}

static int
sign(int c)
{
    return (c > 0) - (c < 0);
}

static void
test_uploads_sort_by_key_then_id(void)
{
    unsigned char a[KEY_UPLOAD_MAX], b[KEY_UPLOAD_MAX];
    char ka[8], kb[8], back[STORE_KEY_MAX];

    for (unsigned i = 0; i < 200000; i++) {
        struct span sa = {ka, random_key(ka, 6)}, sb = {kb, random_key(kb, 6)};
        struct upload_id ia = {{{0}}}, ib = {{{0}}}, id;
        size_t la, lb, len;
        int want;

        ia.id.bytes[rnd(16)] = (uint8_t)rnd(3);
        ib.id.bytes[rnd(16)] = (uint8_t)rnd(3);
        la = key_upload(sa, &ia, a);
        lb = key_upload(sb, &ib, b);
        want = sign(span_cmp(sa, sb));
        if (want == 0)
            want = sign(memcmp(&ia, &ib, sizeof ia));
        CHECK(sign(span_cmp((struct span){(char *)a, la},
                            (struct span){(char *)b, lb})) == want);
        REQUIRE(key_upload_parse((struct span){(char *)a, la}, back, &len, &id));
        CHECK(span_eq((struct span){back, len}, sa));
        CHECK(memcmp(&id, &ia, sizeof id) == 0);
    }
}

static void
test_the_longest_upload_key_fits(void)
{
    static char key[STORE_KEY_MAX], back[STORE_KEY_MAX];
    unsigned char coded[KEY_UPLOAD_MAX];
    struct upload_id id = {{{7}}}, id_back;
    size_t len = key_upload((struct span){key, sizeof key}, &id, coded), back_len;

    CHECK_U64(len, KEY_UPLOAD_MAX);
    REQUIRE(
        key_upload_parse((struct span){(char *)coded, len}, back, &back_len, &id_back));
    CHECK_U64(back_len, sizeof key);
    CHECK(memcmp(key, back, sizeof key) == 0);
}

static void
test_what_is_no_upload_key_is_refused(void)
{
    static const struct span rows[] = {
        {"", 0},
        {"a", 1},
        {"a\0", 2},
        {"a\0\1aaaaaaaaaaaaaaaa", 19},
        {"a\0\0id", 5},
        {"\0\0", 2},
        {"a\0\0"
         "0123456789abcdefX",
         20},
        {"a\0\377", 3},
    };
    char key[STORE_KEY_MAX];
    struct upload_id id;
    size_t len;

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        CHECK(!key_upload_parse(rows[i], key, &len, &id));
}

static void
test_parts(void)
{
    struct upload_id id = {{{1, 2, 3}}}, back;
    unsigned char a[KEY_PART_BYTES], b[KEY_PART_BYTES];
    uint32_t number;

    key_part(&id, 9, a);
    key_part(&id, 10000, b);
    CHECK(memcmp(a, b, sizeof a) < 0);
    REQUIRE(key_part_parse((struct span){(char *)b, sizeof b}, &back, &number));
    CHECK_U64(number, 10000);
    CHECK(memcmp(&id, &back, sizeof id) == 0);
    CHECK(!key_part_parse((struct span){(char *)b, sizeof b - 1}, &back, &number));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_layers_at_the_edges);
    RUN(test_space_stands_in_front);
    RUN(test_uploads_sort_by_key_then_id);
    RUN(test_the_longest_upload_key_fits);
    RUN(test_what_is_no_upload_key_is_refused);
    RUN(test_parts);
    return check_done();
}
