/* Records: what was written comes back, the same content has one form, nothing broken opens. */
#include "check.h"

#include "base/hash.h"
#include "base/mem.h"
#include "wire/record.h"

static struct errbuf eb;

static void
make(struct buf *b)
{
    struct record_writer w;

    buf_init(b, RECORD_MAX);
    record_begin(&w, b, 7, 2);
    record_put_u64(&w, 1, 0);
    record_put_u64(&w, 2, 255);
    record_put_u64(&w, 3, UINT64_MAX);
    record_put_span(&w, 9, SPAN("a key\0with zero"));
    record_put_span(&w, 9, SPAN(""));
    record_put_span(&w, 200, SPAN("unknown to old readers"));
    record_end(&w);
}

static void
test_bytes_are_as_documented(void)
{
    struct record_writer w;
    struct buf b;
    char hex[128];

    buf_init(&b, 1024);
    record_begin(&w, &b, 7, 2);
    record_put_u64(&w, 1, 258);
    record_put_span(&w, 2, SPAN("ab"));
    record_end(&w);
    hex_encode(b.at, b.len, hex);
    hex[2 * (b.len - 4)] = '\0'; /* the sum: below */
    CHECK_STR(hex, "4652"
                   "07"
                   "02"
                   "00000018"
                   "010000020102"
                   "020000026162");
    struct cursor c = cursor_of(b.at + b.len - 4, 4);
    CHECK_U64(take_be(&c, 4), hash_crc32c(0, b.at, b.len - 4));
    buf_fini(&b);
}

static void
test_what_was_put_comes_back(void)
{
    struct record r;
    struct span value;
    struct buf b;
    uint8_t id;
    uint64_t n;

    make(&b);
    size_t len = b.len;
    buf_puts(&b, "what follows is not looked at");
    REQUIRE(record_open(buf_span(&b), &r, &eb) == ERR_OK);
    CHECK(r.kind == 7 && r.version == 2);
    CHECK_U64(r.len, len);
    CHECK(record_next(&r, &id, &value) && id == 1);
    CHECK(record_u64(value, &n) == ERR_OK && n == 0);
    CHECK(record_next(&r, &id, &value) && id == 2);
    CHECK(record_u64(value, &n) == ERR_OK && n == 255);
    CHECK(record_find(&r, 1, &value) && value.len == 0); /* from the start again */
    CHECK(record_next(&r, &id, &value) && id == 3);
    CHECK(record_u64(value, &n) == ERR_OK && n == UINT64_MAX);
    CHECK(record_next(&r, &id, &value) && id == 9);
    CHECK(span_eq(value, SPAN("a key\0with zero")));
    CHECK(record_next(&r, &id, &value) && id == 9 && value.len == 0);
    CHECK(record_next(&r, &id, &value) && id == 200);
    CHECK(!record_next(&r, &id, &value));
    CHECK(record_find(&r, 200, &value) && span_is(value, "unknown to old readers"));
    CHECK(!record_find(&r, 4, &value));
    CHECK(!record_find(&r, 255, &value));
    buf_fini(&b);
}

/* Unknown fields included, a record written from what was read is the same bytes. */
static void
test_formats_back(void)
{
    struct record_writer w;
    struct record r;
    struct span value;
    struct buf b, again;
    uint8_t id;

    make(&b);
    buf_init(&again, RECORD_MAX);
    REQUIRE(record_open(buf_span(&b), &r, &eb) == ERR_OK);
    record_begin(&w, &again, r.kind, r.version);
    while (record_next(&r, &id, &value))
        record_put_span(&w, id, value);
    record_end(&w);
    CHECK(span_eq(buf_span(&b), buf_span(&again)));
    buf_fini(&b);
    buf_fini(&again);
}

static void
test_every_flipped_bit_is_seen(void)
{
    struct record r;
    struct buf b;

    make(&b);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.at[bit / 8] = (char)(b.at[bit / 8] ^ (1 << bit % 8));
        eb.text[0] = '\0';
        CHECK(record_open(buf_span(&b), &r, &eb) == ERR_CORRUPT);
        CHECK_SAYS(eb.text, "record: ");
        b.at[bit / 8] = (char)(b.at[bit / 8] ^ (1 << bit % 8));
    }
    for (size_t len = 0; len < b.len; len++)
        CHECK(record_open((struct span){b.at, len}, &r, &eb) == ERR_CORRUPT);
    buf_fini(&b);
}

/* Wrong although the sum is right. */
static void
test_structure(void)
{
    static const struct {
        const char *fields;
        size_t len;
        const char *says;
    } rows[] = {
        {"\0\0\0\0", 4, "field 0"},
        {"\2\0\0\0\1\0\0\0", 8, "field 1 follows field 2"},
        {"\1\0\0\5abcd", 8, "beyond"},
        {"\1\0\0", 3, "beyond"},
        {"\1\xff\xff\xff", 4, "beyond"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record r;
        struct buf b;

        buf_init(&b, 1024);
        buf_put(&b, "FR\1\1", 4);
        buf_be(&b, RECORD_OVERHEAD + rows[i].len, 4);
        buf_put(&b, rows[i].fields, rows[i].len);
        buf_be(&b, hash_crc32c(0, b.at, b.len), 4);
        CHECK(record_open(buf_span(&b), &r, &eb) == ERR_CORRUPT);
        CHECK_SAYS(eb.text, rows[i].says);
        buf_fini(&b);
    }
}

static void
test_numbers(void)
{
    uint64_t n;

    CHECK(record_u64(SPAN("\0\1"), &n) == ERR_CORRUPT); /* not the only form */
    CHECK(record_u64(SPAN("123456789"), &n) == ERR_CORRUPT);
    CHECK(record_u64(SPAN("\1\0"), &n) == ERR_OK && n == 256);
}

static void
test_limits(void)
{
    struct record_writer w;
    struct record r;
    struct buf b;

    buf_init(&b, 64); /* the buffer's limit */
    record_begin(&w, &b, 1, 1);
    for (unsigned i = 1; i < 20; i++)
        record_put_span(&w, (uint8_t)i, SPAN("12345678"));
    record_end(&w);
    CHECK(b.full);
    buf_fini(&b);

    buf_init(&b, (size_t)2 * RECORD_MAX); /* the record's */
    char *big = xcalloc(1, RECORD_MAX);
    record_begin(&w, &b, 1, 1);
    record_put_span(&w, 1, (struct span){big, RECORD_MAX - RECORD_OVERHEAD - 4});
    record_end(&w);
    CHECK(!b.full && b.len == RECORD_MAX);
    CHECK(record_open(buf_span(&b), &r, &eb) == ERR_OK);
    buf_clear(&b);
    record_begin(&w, &b, 1, 1);
    record_put_span(&w, 1, (struct span){big, RECORD_MAX - RECORD_OVERHEAD - 3});
    record_end(&w);
    CHECK(b.full);
    free(big);
    buf_fini(&b);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_bytes_are_as_documented);
    RUN(test_what_was_put_comes_back);
    RUN(test_formats_back);
    RUN(test_every_flipped_bit_is_seen);
    RUN(test_structure);
    RUN(test_numbers);
    RUN(test_limits);
    return check_done();
}
