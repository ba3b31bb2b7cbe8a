/* Tar: heads of an exact length, read back by us and by GNU tar; tars of others. */
#include "check.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "wire/tar.h"

static struct errbuf eb;

static void
put_member(struct buf *b, const struct tar_member *m, size_t head_len,
           const char *payload)
{
    tar_put_head(b, m, head_len);
    buf_put(b, payload, (size_t)m->size);
    tar_put_padding(b, m->size);
}

/* ---- our heads ---- */

static void
test_heads_come_back(void)
{
    char long_path[TAR_PATH_MAX + 1], hundred[101];
    memset(long_path, 'd', TAR_PATH_MAX);
    for (size_t i = 200; i < TAR_PATH_MAX; i += 200)
        long_path[i] = '/';
    long_path[TAR_PATH_MAX] = '\0';
    memset(hundred, 'h', 100);
    hundred[100] = '\0';
    char all_bytes[256];
    for (size_t i = 0; i < 256; i++)
        all_bytes[i] = (char)i;

    const struct tar_member members[] = {
        {.path = SPAN("bucket/key"), .size = 5, .mtime_s = 1795219200},
        {.path = {hundred, 100}, .size = 0, .mtime_s = 0, .mode = 0600},
        {.path = {long_path, 101}, .size = 1},
        {.path = {long_path, TAR_PATH_MAX}, .size = 1},
        {.path = SPAN("\xc3\xa9/\xf0\x9f\x98\x80"), .size = 1},
        {.path = SPAN("d"), .type = TAR_DIR, .mode = 0755},
        {.path = SPAN("a"), .size = 1, .xattr = SPAN("FR")},
        {.path = SPAN("a"), .size = 1, .xattr = {all_bytes, 256}},
        {.path = SPAN("a"), .size = (UINT64_C(1) << 33) - 1},
        {.path = SPAN("a"), .size = UINT64_C(1) << 33},
        {.path = SPAN("a"),
         .size = UINT64_C(5) << 40,
         .mtime_s = INT64_C(1) << 40,
         .xattr = {all_bytes, 100}},
    };

    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const struct tar_member *m = &members[i];
        size_t shortest = tar_head_len(m);

        for (size_t len = shortest; len <= shortest + 5120; len += TAR_BLOCK) {
            struct tar_head h;
            struct buf b;

            if (!tar_head_len_ok(m, len)) {
                CHECK(shortest == TAR_BLOCK && len == 2 * TAR_BLOCK);
                continue;
            }
            buf_init(&b, 1 << 20);
            tar_put_head(&b, m, len);
            CHECK_U64(b.len, len);
            REQUIRE(tar_head_read(buf_span(&b), &h, &eb) == TAR_GOT_HEAD);
            CHECK_U64(h.head_len, len);
            CHECK(span_eq(h.path, m->path));
            CHECK(span_eq(h.xattr, m->xattr));
            CHECK_U64(h.size, m->size);
            CHECK_U64(h.mtime_s, m->mtime_s);
            CHECK_U64(h.mode, m->mode != 0 ? m->mode : 0644);
            CHECK(h.type == m->type);
            buf_fini(&b);
        }
        CHECK(!tar_head_len_ok(m, shortest - TAR_BLOCK));
        CHECK(!tar_head_len_ok(m, shortest + 100));
    }
}

/* A pax header that counts itself: around every power of ten. */
static void
test_every_length_of_a_record(void)
{
    char value[1200];

    memset(value, 'v', sizeof value);
    for (size_t len = 1; len < sizeof value; len++) {
        struct tar_member m = {.path = SPAN("a"), .xattr = {value, len}};
        struct tar_head h;
        struct buf b;

        buf_init(&b, 1 << 20);
        tar_put_head(&b, &m, 4096);
        REQUIRE(b.len == 4096);
        REQUIRE(tar_head_read(buf_span(&b), &h, &eb) == TAR_GOT_HEAD);
        CHECK_U64(h.xattr.len, len);
        CHECK_U64(h.head_len, 4096);
        buf_fini(&b);
    }
}

static void
test_need_leads_to_the_head(void)
{
    char xattr[3000] = {1};
    struct tar_member m = {.path = SPAN("a"), .size = 9, .xattr = {xattr, sizeof xattr}};
    struct tar_head h;
    struct buf b;
    size_t have = 0;
    unsigned steps = 0;

    buf_init(&b, 1 << 20);
    tar_put_head(&b, &m, 0);
    while (tar_head_read((struct span){b.at, have}, &h, &eb) == TAR_GOT_MORE) {
        CHECK(h.need > have && h.need <= b.len);
        have = h.need;
        steps++;
    }
    CHECK_U64(have, b.len);
    CHECK(steps <= 4);
    buf_fini(&b);
}

static void
test_safe_paths(void)
{
    static const struct {
        const char *path;
        bool safe;
    } rows[] = {
        {"a", true},      {"a/b/c.jpg", true}, {"a b", true},
        {"...", true},    {"\xc3\xa9", true},  {"", false},
        {"/a", false},    {"a/", false},       {"a//b", false},
        {".", false},     {"..", false},       {"a/../b", false},
        {"a/.", false},   {"./a", false},      {"a\nb", false},
        {"a\x7f", false}, {"\xff", false},     {"\xed\xa0\x80", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_U64(tar_path_safe(span_of(rows[i].path)), rows[i].safe);
    char name[300];
    memset(name, 'n', sizeof name);
    CHECK(tar_path_safe((struct span){name, 255}));
    CHECK(!tar_path_safe((struct span){name, 256}));
    CHECK(!tar_path_safe(SPAN("a\0b")));
}

/* ---- damage ---- */

static void
put_octal_at(char *block, size_t at, const char *text)
{
    memcpy(block + at, text, strlen(text));
}

/* Sums again after a change. */
static void
sum(char *block)
{
    unsigned total = 0;
    char text[8];

    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++)
        total += (unsigned char)block[i];
    snprintf(text, sizeof text, "%06o", total);
    memcpy(block + 148, text, 7);
}

static void
test_flipped_bits(void)
{
    struct tar_member m = {.path = SPAN("bucket/key"), .size = 5, .xattr = SPAN("value")};
    struct tar_head h;
    struct buf b;

    buf_init(&b, 1 << 20);
    tar_put_head(&b, &m, 0);
    REQUIRE(b.len == 1536);
    for (size_t bit = 0; bit < 512 * 8; bit++) { /* of the last header */
        char *at = b.at + 1024 + bit / 8;

        *at = (char)(*at ^ (1 << bit % 8));
        enum tar_got got = tar_head_read(buf_span(&b), &h, &eb);
        /* A changed digit of the sum itself, or of its blanks, need not make it another
         * number; everything else must be seen. */
        bool in_sum = bit / 8 >= 148 && bit / 8 < 156;
        CHECK(got == TAR_GOT_BAD || in_sum);
        *at = (char)(*at ^ (1 << bit % 8));
    }
    CHECK(tar_head_read(buf_span(&b), &h, &eb) == TAR_GOT_HEAD);
    buf_fini(&b);
}

static void
test_bad_heads(void)
{
    static const struct {
        size_t at;
        const char *text;
        size_t len;
        const char *says;
    } rows[] = {
        {124, "00000000009\0", 12, "size"},
        {124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, "size"}, /* -1 */
        {124, "\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, "size"},
        {124, "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12, "size"},
        {156, "S", 1, "sparse"},
        {156, "M", 1, "sparse or continued"},
        {0, "\0", 1, "without a name"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tar_member m = {.path = SPAN("a"), .size = 5};
        struct tar_head h;
        struct buf b;

        buf_init(&b, 4096);
        tar_put_head(&b, &m, 0);
        memcpy(b.at + rows[i].at, rows[i].text, rows[i].len);
        sum(b.at);
        CHECK(tar_head_read(buf_span(&b), &h, &eb) == TAR_GOT_BAD);
        CHECK_SAYS(eb.text, rows[i].says);
        buf_fini(&b);
    }
}

/* An 'x' header with these records, and a member behind it. */
static void
make_pax(struct buf *b, const char *records, size_t len)
{
    struct tar_member m = {.path = SPAN("plain"), .size = 3, .mtime_s = 7};
    char size[24];

    buf_init(b, 1 << 20);
    tar_put_head(b, &m, 0);
    snprintf(size, sizeof size, "%011zo", len);
    put_octal_at(b->at, 124, size);
    b->at[156] = 'x';
    sum(b->at);
    buf_put(b, records, len);
    tar_put_padding(b, len);
    tar_put_head(b, &m, 0);
}

static void
test_pax_records(void)
{
    static const struct {
        const char *records, *path;
        uint64_t size;
        int64_t mtime_s;
        const char *says; /* NULL: good */
    } rows[] = {
        {"", "plain", 3, 7, NULL},
        {"10 path=b\n", "b", 3, 7, NULL},
        {"8 path=\n", "plain", 3, 7, NULL}, /* empty: as if absent */
        {"10 path=b\n10 path=c\n", "c", 3, 7, NULL},
        {"11 size=12\n", "plain", 12, 7, NULL},
        {"22 mtime=1700000000.5\n", "plain", 3, 1700000000, NULL},
        {"14 mtime=-1.5\n", "plain", 3, -2, NULL},
        {"16 uname=daemon\n", "plain", 3, 7, NULL},
        {"20 unknown.keyword=\n", "plain", 3, 7, NULL},
        {"8 path=b\n", NULL, 0, 0, "pax record"},
        {"11 path=b\n", NULL, 0, 0, "pax record"},
        {"x path=b\n", NULL, 0, 0, "pax record"},
        {"0 path=b\n", NULL, 0, 0, "pax record"},
        {" path=b\n", NULL, 0, 0, "pax record"},
        {"10 path_b\n", NULL, 0, 0, "without \"=\""},
        {"99999999999 path=b\n", NULL, 0, 0, "pax record"},
        {"11 size=-2\n", NULL, 0, 0, "pax size"},
        {"30 size=9999999999999999999999\n", NULL, 0, 0, "pax"},
        {"12 mtime=ab\n", NULL, 0, 0, "pax mtime"},
        {"22 GNU.sparse.major=1\n", NULL, 0, 0, "sparse"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tar_head h;
        struct buf b;

        make_pax(&b, rows[i].records, strlen(rows[i].records));
        enum tar_got got = tar_head_read(buf_span(&b), &h, &eb);
        CHECK_U64(got, rows[i].says != NULL ? TAR_GOT_BAD : TAR_GOT_HEAD);
        if (rows[i].says != NULL) {
            CHECK_SAYS(eb.text, rows[i].says);
        } else {
            CHECK(span_is(h.path, rows[i].path));
            CHECK_U64(h.size, rows[i].size);
            CHECK_U64(h.mtime_s, rows[i].mtime_s);
        }
        buf_fini(&b);
    }

    struct tar_head h;
    struct buf b;
    make_pax(&b, "11 path=\0x\n", 11);
    CHECK(tar_head_read(buf_span(&b), &h, &eb) == TAR_GOT_BAD);
    CHECK_SAYS(eb.text, "zero byte");
    /* An extended header with nothing behind it. */
    memset(b.at + 1024, 0, 512);
    buf_fini(&b);
    make_pax(&b, "10 path=b\n", 10);
    memset(b.at + 1024, 0, 512);
    CHECK(tar_head_read(buf_span(&b), &h, &eb) == TAR_GOT_BAD);
    CHECK_SAYS(eb.text, "without its member");
    buf_fini(&b);
}

/* ---- GNU tar reads ours, we read GNU tar's ---- */

/* Runs a command in `dir`; its output, or NULL when it failed. */
static char *
shell(const char *dir, const char *fmt, ...)
{
    char command[1024], full[2048];
    static char out[65536];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    snprintf(full, sizeof full, "cd '%s' && { %s; } 2>&1", dir, command);
    FILE *p = popen(full, "r");
    if (p == NULL)
        return NULL;
    size_t n = fread(out, 1, sizeof out - 1, p);
    out[n] = '\0';
    if (pclose(p) != 0) {
        fprintf(stderr, "%s: %s\n", command, out);
        return NULL;
    }
    return out;
}

static bool
write_file(const char *dir, const char *name, struct span data)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return false;
    bool good = fwrite(data.at, 1, data.len, f) == data.len;
    return fclose(f) == 0 && good;
}

static bool
read_into(const char *dir, const char *name, struct buf *out)
{
    char path[512], piece[4096];
    size_t n;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return false;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        buf_put(out, piece, n);
    return fclose(f) == 0 && !out->full;
}

static char *
make_dir(void)
{
    static char dir[64];

    snprintf(dir, sizeof dir, "/tmp/fb-test-tar-XXXXXX");
    return mkdtemp(dir);
}

static void
test_gnu_tar_reads_ours(void)
{
    char *dir = make_dir(), binary[256], name[] = "long/";
    char long_path[300] = "";
    struct buf b, back;

    REQUIRE(dir != NULL);
    for (unsigned i = 0; i < 50; i++)
        strcat(long_path, name);
    strcat(long_path, "end");
    for (size_t i = 0; i < sizeof binary; i++)
        binary[i] = (char)i;
    const struct tar_member one = {.path = SPAN("bucket/one.txt"),
                                   .size = 5,
                                   .mtime_s = 1795219200,
                                   .xattr = {binary, sizeof binary}};
    const struct tar_member two = {.path = span_of(long_path), .size = 3};
    const struct tar_member three = {
        .path = SPAN("bucket/\xc3\xa9"), .size = 0, .xattr = SPAN("x")};
    buf_init(&b, 1 << 20);
    put_member(&b, &one, 4096, "hello"); /* filled up */
    put_member(&b, &two, 0, "two");
    put_member(&b, &three, 0, "");
    tar_put_end(&b);
    REQUIRE(write_file(dir, "a.tar", buf_span(&b)));

    const char *out = shell(dir, "tar -tf a.tar --quoting-style=literal");
    REQUIRE(out != NULL);
    char want[512];
    snprintf(want, sizeof want, "bucket/one.txt\n%s\nbucket/\xc3\xa9\n", long_path);
    CHECK_STR(out, want); /* and not a word more: no warnings */
    out = shell(dir, "TZ=UTC tar -tvf a.tar bucket/one.txt");
    CHECK_SAYS(out != NULL ? out : "", "-rw-r--r-- ");
    CHECK_SAYS(out != NULL ? out : "", " 5 2026-11-21 00:00 bucket/one.txt");
    CHECK(shell(dir, "tar -xf a.tar") != NULL);
    buf_init(&back, 1 << 20);
    CHECK(read_into(dir, "bucket/one.txt", &back) && span_is(buf_span(&back), "hello"));
    buf_clear(&back);
    CHECK(read_into(dir, long_path, &back) && span_is(buf_span(&back), "two"));
    CHECK(shell(dir, "rm -r '%s'", dir) != NULL);
    buf_fini(&back);
    buf_fini(&b);
}

/* Reads an archive in pieces; a line per member. */
static void
list(struct span archive, size_t piece, struct buf *out, enum err *end)
{
    struct tar_reader r;
    enum tar_event event = TAR_MORE;

    tar_reader_init(&r);
    while (archive.len > 0 && event != TAR_BAD && event != TAR_END) {
        struct span in = {archive.at, MIN(piece, archive.len)}, data;

        archive = span_from(archive, in.len);
        do {
            event = tar_reader_next(&r, &in, &data, &eb);
            if (event == TAR_MEMBER)
                buf_printf(out, "%c %.*s %llu\n", "fdlho"[r.head.type],
                           SPAN_ARG(r.head.path), (unsigned long long)r.head.size);
            if (event == TAR_DATA)
                buf_put_span(out, data);
        } while (event == TAR_MEMBER || event == TAR_DATA);
    }
    if (event == TAR_BAD)
        buf_puts(out, "BAD");
    *end = tar_reader_finish(&r, &eb);
    tar_reader_fini(&r);
}

static void
test_we_read_gnu_tars(void)
{
    static const char *const formats[] = {"gnu", "ustar", "posix", "v7", "oldgnu"};
    static const size_t pieces[] = {1, 511, 512, 10240, 1 << 20};
    char *dir = make_dir();
    struct buf tar, out, first;

    REQUIRE(dir != NULL);
    buf_init(&tar, 4 << 20);
    buf_init(&out, 1 << 20);
    buf_init(&first, 1 << 20);
    REQUIRE(shell(dir,
                  "mkdir -p d/%s && printf 'one\\n' >d/a && printf 'two\\n' >d/%s/b && "
                  "ln -s a d/link && ln d/a d/zhard",
                  "e", "e") != NULL);
    for (size_t f = 0; f < ARRAY_LEN(formats); f++) {
        buf_clear(&tar);
        REQUIRE(shell(dir, "tar --sort=name --format=%s -cf t.tar d", formats[f]) !=
                NULL);
        REQUIRE(read_into(dir, "t.tar", &tar));
        for (size_t p = 0; p < ARRAY_LEN(pieces); p++) {
            enum err end;

            buf_clear(&out);
            list(buf_span(&tar), pieces[p], &out, &end);
            CHECK(end == ERR_OK);
            buf_putc(&out, '\0');
            CHECK_STR(out.at,
                      "d d/ 0\nf d/a 4\none\nd d/e/ 0\nf d/e/b 4\ntwo\nl d/link 0\n"
                      "h d/zhard 0\n");
        }
    }
    /* Long names: GNU's own way and pax, both to the same path. */
    char name[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    REQUIRE(shell(dir, "mkdir x && mkdir x/%s && printf long >x/%s/%s", name, name,
                  name) != NULL);
    for (unsigned f = 0; f < 2; f++) {
        enum err end;

        buf_clear(&tar);
        buf_clear(&out);
        REQUIRE(shell(dir, "tar --format=%s -cf t.tar x/%s/%s", f ? "gnu" : "posix", name,
                      name) != NULL);
        REQUIRE(read_into(dir, "t.tar", &tar));
        list(buf_span(&tar), 1000, f ? &out : &first, &end);
        CHECK(end == ERR_OK);
    }
    CHECK(first.len > 400 && span_eq(buf_span(&first), buf_span(&out)));
    CHECK(shell(dir, "rm -r '%s'", dir) != NULL);
    buf_fini(&tar);
    buf_fini(&out);
    buf_fini(&first);
}

static void
test_ends(void)
{
    struct tar_member m = {.path = SPAN("a"), .size = 600};
    char payload[600];
    struct buf b, out;
    enum err end;

    memset(payload, 'p', sizeof payload);
    buf_init(&b, 1 << 16);
    buf_init(&out, 1 << 16);
    put_member(&b, &m, 0, payload);
    for (size_t len = 1; len <= b.len; len++) { /* cut short: only between members */
        buf_clear(&out);
        list((struct span){b.at, len}, 100, &out, &end);
        CHECK((end == ERR_OK) == (len == b.len));
    }
    buf_zero(&b, 512); /* one block of zeros at the very end is taken */
    buf_clear(&out);
    list(buf_span(&b), 100, &out, &end);
    CHECK(end == ERR_OK);
    size_t lone = b.len;
    put_member(&b, &m, 0, payload); /* but not in the middle */
    buf_clear(&out);
    list(buf_span(&b), 100, &out, &end);
    CHECK(end != ERR_OK && span_eq(span_from(buf_span(&out), out.len - 3), SPAN("BAD")));
    b.len = lone;
    buf_zero(&b, 512);
    buf_puts(&b, "rubbish behind the end is not read");
    buf_clear(&out);
    list(buf_span(&b), 100, &out, &end);
    CHECK(end == ERR_OK);
    buf_fini(&b);
    buf_fini(&out);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_heads_come_back);
    RUN(test_every_length_of_a_record);
    RUN(test_need_leads_to_the_head);
    RUN(test_safe_paths);
    RUN(test_flipped_bits);
    RUN(test_bad_heads);
    RUN(test_pax_records);
    RUN(test_gnu_tar_reads_ours);
    RUN(test_we_read_gnu_tars);
    RUN(test_ends);
    return check_done();
}
