/* Archives in memory: what the writer writes every reader reads, in each format; what lies about itself is an error that names
 * the member; bombs end at their limit; patterns match what they say and cost what they may. */
#include "check.h"

#include <zlib.h>

#include "base/hash.h"
#include "shard/internal.h"
#include "shard/write.h"

#define ARCHIVE_MAX (24u << 20)

static enum err
append(void *arg, struct span bytes, struct errbuf *eb)
{
    (void)eb;
    buf_put_span(arg, bytes);
    return ERR_OK;
}

/* Member i: a name and bytes that follow from i. */
static size_t
sample(unsigned i, char name[64], char *bytes)
{
    size_t len = i % 7 == 3 ? 0 : (size_t)i * 977 % 70000;

    snprintf(name, 64, "dir.%u/%06u.%s", i % 3, i / 2, i % 2 == 0 ? "jpg" : "seg.cls");
    for (size_t k = 0; k < len; k++)
        bytes[k] = (char)(k * 31 + i + (k >> 9) * (k >> 3));
    return len;
}

static void
write_samples(enum shard_format f, unsigned count, struct buf *out)
{
    static char bytes[70000];
    struct shard_writer *w;
    struct errbuf eb = {{0}};
    char name[64];

    REQUIRE(shard_writer_new(f, (struct shard_sink){append, out}, &w, &eb) == ERR_OK);
    for (unsigned i = 0; i < count; i++) {
        size_t len = sample(i, name, bytes), half = len / 2;

        CHECK(shard_writer_member(w, span_of(name), len, 1700000000, &eb) == ERR_OK);
        CHECK(shard_writer_data(w, (struct span){bytes, half}, &eb) == ERR_OK);
        if (i % 5 == 0)
            CHECK(shard_writer_flush(w, &eb) == ERR_OK);
        CHECK(shard_writer_data(w, (struct span){bytes + half, len - half}, &eb) ==
              ERR_OK);
    }
    CHECK(shard_writer_end(w, &eb) == ERR_OK);
    shard_writer_free(&w);
    CHECK(!out->full);
}

/* ---- reading ---- */

static void
check_stream(enum shard_format f, const struct buf *archive, unsigned count)
{
    static char bytes[70000];
    struct shard_memory m;
    struct shard_stream *s;
    struct shard_member member;
    struct errbuf eb = {{0}};
    struct span piece;
    char name[64];
    unsigned i = 0;
    bool end;

    shard_memory_init(&m, buf_span(archive));
    REQUIRE(shard_stream_open(&m.in, f, &s, &eb) == ERR_OK);
    for (;; i++) {
        size_t len = sample(i, name, bytes), at = 0;

        REQUIRE(shard_stream_next(s, &member, &end, &eb) == ERR_OK);
        if (end)
            break;
        CHECK(span_is(member.name, name) && member.size == len);
        CHECK_U64((uint64_t)member.mtime_s, 1700000000);
        if (i % 4 == 1)
            continue; /* skipped without reading */
        for (;;) {
            REQUIRE(shard_stream_data(s, &piece, &eb) == ERR_OK);
            if (piece.len == 0)
                break;
            CHECK(at + piece.len <= len && memcmp(piece.at, bytes + at, piece.len) == 0);
            at += piece.len;
        }
        CHECK_U64(at, len);
    }
    CHECK_U64(i, count);
    shard_stream_close(&s);
}

/* Reads a range of an entry, or says what is wrong. */
static enum err
read_entry(struct shard_input *in, const struct shard_index *x,
           const struct shard_entry *e, uint64_t first, uint64_t len, struct buf *out,
           struct errbuf *eb)
{
    struct shard_extract get;
    struct span piece = {"", 1};
    enum err rc = extract_begin(&get, in, x, e, first, len, eb);

    buf_clear(out);
    while (rc == ERR_OK && piece.len > 0) {
        rc = extract_next(&get, &piece, eb);
        buf_put_span(out, piece);
    }
    extract_end(&get);
    return rc;
}

static void
check_index(enum shard_format f, const struct buf *archive, unsigned count)
{
    static char bytes[70000];
    struct shard_memory m;
    struct shard_index *x;
    struct errbuf eb = {{0}};
    struct buf got;
    char name[64];

    buf_init(&got, sizeof bytes);
    shard_memory_init(&m, buf_span(archive));
    REQUIRE(shard_index_build(&m.in, f, &x, &eb) == ERR_OK);
    CHECK_U64(x->count, count);
    for (unsigned i = count; i-- > 0;) {
        size_t len = sample(i, name, bytes), first = len / 3, part = len / 2;
        const struct shard_entry *e = shard_index_find(x, span_of(name));

        REQUIRE(e != NULL && e->size == len);
        CHECK(read_entry(&m.in, x, e, 0, len, &got, &eb) == ERR_OK);
        CHECK(got.len == len && (len == 0 || memcmp(got.at, bytes, len) == 0));
        CHECK(read_entry(&m.in, x, e, first, part, &got, &eb) == ERR_OK);
        CHECK(got.len == part && (part == 0 || memcmp(got.at, bytes + first, part) == 0));
    }
    CHECK(shard_index_find(x, SPAN("dir.0/000000.jp")) == NULL);
    shard_index_drop(&x);
    buf_fini(&got);
}

static void
test_what_is_written_is_read(void)
{
    static const enum shard_format all[] = {SHARD_TAR, SHARD_TGZ, SHARD_TAR_LZ4,
                                            SHARD_ZIP};

    for (unsigned i = 0; i < ARRAY_LEN(all); i++) {
        struct buf archive;

        buf_init(&archive, ARCHIVE_MAX);
        write_samples(all[i], 200, &archive);
        if (shard_format_is_indexed(all[i]))
            check_index(all[i], &archive, 200);
        if (all[i] != SHARD_ZIP)
            check_stream(all[i], &archive, 200);
        buf_fini(&archive);
    }
}

static void
test_an_empty_archive(void)
{
    struct shard_memory m;
    struct shard_index *x;
    struct errbuf eb = {{0}};
    struct buf b;

    buf_init(&b, 4096);
    write_samples(SHARD_ZIP, 0, &b);
    shard_memory_init(&m, buf_span(&b));
    REQUIRE(shard_index_build(&m.in, SHARD_ZIP, &x, &eb) == ERR_OK);
    CHECK(x->count == 0 && shard_index_find(x, SPAN("a")) == NULL);
    shard_index_drop(&x);
    shard_memory_init(&m, SPAN(""));
    REQUIRE(shard_index_build(&m.in, SHARD_TAR, &x, &eb) == ERR_OK);
    CHECK_U64(x->count, 0);
    shard_index_drop(&x);
    CHECK(shard_index_build(&m.in, SHARD_ZIP, &x, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "no end record");
    buf_fini(&b);
}

/* Large payloads are jumped over, and the first of two members of one name counts. */
static void
test_jumps_and_doubles(void)
{
    enum { BIG = 3 << 20 };
    char *big = xcalloc(1, BIG);
    struct shard_writer *w;
    struct shard_memory m;
    struct shard_index *x;
    struct errbuf eb = {{0}};
    struct buf b;

    buf_init(&b, ARCHIVE_MAX);
    REQUIRE(shard_writer_new(SHARD_TAR, (struct shard_sink){append, &b}, &w, &eb) ==
            ERR_OK);
    for (int i = 0; i < 4; i++) {
        CHECK(shard_writer_member(w, SPAN("big"), BIG, 0, &eb) == ERR_OK);
        CHECK(shard_writer_data(w, (struct span){big, BIG}, &eb) == ERR_OK);
    }
    CHECK(shard_writer_end(w, &eb) == ERR_OK);
    shard_writer_free(&w);
    shard_memory_init(&m, buf_span(&b));
    REQUIRE(shard_index_build(&m.in, SHARD_TAR, &x, &eb) == ERR_OK);
    CHECK_U64(x->count, 4);
    CHECK_U64(shard_index_find(x, SPAN("big"))->offset, 512);
    CHECK_U64(x->entries[3].offset, 4 * 512 + 3 * (uint64_t)BIG);
    shard_index_drop(&x);
    buf_fini(&b);
    free(big);
}

/* ---- lies ---- */

static enum err
index_of(enum shard_format f, const struct buf *b, struct errbuf *eb)
{
    struct shard_memory m;
    struct shard_index *x;
    enum err rc;

    shard_memory_init(&m, buf_span(b));
    rc = shard_index_build(&m.in, f, &x, eb);
    shard_index_drop(&x);
    return rc;
}

static void
test_a_tar_that_lies(void)
{
    struct errbuf eb = {{0}};
    struct buf b;

    buf_init(&b, ARCHIVE_MAX);
    write_samples(SHARD_TAR, 6, &b);
    b.len -= 40000; /* member 5 is 4,885 bytes: the end is inside an earlier one */
    b.len = 512 + 512 + 1024 + 512 + 100;
    CHECK(index_of(SHARD_TAR, &b, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "000001.jpg");
    CHECK_SAYS(eb.text, "missing");
    b.len = 700;
    CHECK(index_of(SHARD_TAR, &b, &eb) == ERR_BAD_REQUEST);
    b.at[150] ^= 1;
    CHECK(index_of(SHARD_TAR, &b, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "checksum");
    buf_fini(&b);
}

/* Where the directory's entry for member `i` begins. */
static size_t
zip_entry_at(const struct buf *b, unsigned i)
{
    for (size_t at = 0; at + 4 < b->len; at++)
        if (memcmp(b->at + at, "PK\1\2", 4) == 0 && i-- == 0)
            return at;
    return 0;
}

static void
test_a_zip_that_lies(void)
{
    static const struct {
        unsigned offset; /* in its entry */
        char value;
        const char *says;
    } rows[] = {
        {8, 9, "encrypted"},    {10, 12, "compression method 12"},
        {20, 99, "impossible"}, {44, 127, "impossible"},
        {28, 100, "zip:"},
    };
    struct errbuf eb = {{0}};
    struct shard_memory m;
    struct shard_index *x;
    struct buf b, got;

    buf_init(&got, ARCHIVE_MAX);
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        buf_init(&b, ARCHIVE_MAX);
        write_samples(SHARD_ZIP, 5, &b);
        b.at[zip_entry_at(&b, 4) + rows[i].offset] = rows[i].value;
        CHECK(index_of(SHARD_ZIP, &b, &eb) == ERR_BAD_REQUEST);
        CHECK_SAYS(eb.text, rows[i].says);
        buf_fini(&b);
    }
    buf_init(&b, ARCHIVE_MAX);
    write_samples(SHARD_ZIP, 5, &b);
    b.at[zip_entry_at(&b, 4) + 16] ^= 1; /* its CRC */
    b.at[zip_entry_at(&b, 2) + 42] ^= 4; /* its place */
    shard_memory_init(&m, buf_span(&b));
    REQUIRE(shard_index_build(&m.in, SHARD_ZIP, &x, &eb) == ERR_OK);
    CHECK(read_entry(&m.in, x, &x->entries[4], 0, x->entries[4].size, &got, &eb) ==
          ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "CRC-32");
    CHECK_SAYS(eb.text, "000002.jpg");
    CHECK(read_entry(&m.in, x, &x->entries[2], 0, x->entries[2].size, &got, &eb) ==
          ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "lies where it does not");
    shard_index_drop(&x);
    b.len -= 30;
    CHECK(index_of(SHARD_ZIP, &b, &eb) == ERR_BAD_REQUEST);
    buf_fini(&b);
    buf_fini(&got);
}

/* Zeros, packed as tight as gzip can. */
static void
gzip_zeros(uint64_t size, struct buf *out)
{
    char *room = xcalloc(1, 1u << 20);
    struct buf head;
    z_stream z = {0};

    buf_init(&head, 4096);
    tar_put_head(&head, &(struct tar_member){.path = SPAN("zeros"), .size = size}, 0);
    REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK);
    z.next_out = (Bytef *)buf_reserve(out, 1u << 20);
    z.avail_out = 1u << 20;
    z.next_in = (Bytef *)head.at;
    z.avail_in = (uInt)head.len;
    CHECK(deflate(&z, Z_NO_FLUSH) == Z_OK);
    for (uint64_t at = 0; at <= size; at += 1u << 20) {
        z.next_in = (Bytef *)room;
        z.avail_in = 1u << 20;
        deflate(&z, at == size ? Z_FINISH : Z_NO_FLUSH);
    }
    out->len = (1u << 20) - z.avail_out;
    deflateEnd(&z);
    buf_fini(&head);
    free(room);
}

static void
test_bombs(void)
{
    struct shard_stream *s;
    struct shard_member m;
    struct shard_memory in;
    struct errbuf eb = {{0}};
    struct buf b;
    bool end;

    buf_init(&b, ARCHIVE_MAX);
    gzip_zeros(64u << 20, &b);
    shard_memory_init(&in, buf_span(&b));
    REQUIRE(shard_stream_open(&in.in, SHARD_TGZ, &s, &eb) == ERR_OK);
    CHECK(shard_stream_next(s, &m, &end, &eb) == ERR_OK);
    CHECK(shard_stream_next(s, &m, &end, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "limit of 400 times");
    shard_stream_close(&s);
    buf_fini(&b);
}

static void
test_damaged_frames(void)
{
    static const enum shard_format packed[] = {SHARD_TGZ, SHARD_TAR_LZ4};

    for (unsigned i = 0; i < ARRAY_LEN(packed); i++) {
        for (unsigned cut = 0; cut < 2; cut++) {
            struct shard_memory in;
            struct shard_stream *s;
            struct shard_member m;
            struct errbuf eb = {{0}};
            struct buf b;
            bool end = false;
            enum err rc;

            buf_init(&b, ARCHIVE_MAX);
            write_samples(packed[i], 50, &b);
            if (cut == 1)
                b.len = b.len / 2;
            else
                memset(b.at + b.len / 2, 0xff, 64);
            shard_memory_init(&in, buf_span(&b));
            rc = shard_stream_open(&in.in, packed[i], &s, &eb);
            while (rc == ERR_OK && !end)
                rc = shard_stream_next(s, &m, &end, &eb);
            CHECK(rc == ERR_BAD_REQUEST || rc == ERR_INCOMPLETE);
            CHECK(eb.text[0] != '\0');
            shard_stream_close(&s);
            buf_fini(&b);
        }
    }
}

/* ---- names ---- */

static void
test_matches(void)
{
    static const struct {
        enum shard_match_kind kind;
        const char *pattern, *name;
        bool yes;
    } rows[] = {
        {SHARD_MATCH_PREFIX, "", "a", true},
        {SHARD_MATCH_PREFIX, "*", "a", true},
        {SHARD_MATCH_PREFIX, "di", "dir/a", true},
        {SHARD_MATCH_PREFIX, "ir", "dir/a", false},
        {SHARD_MATCH_SUFFIX, ".jpg", "dir/a.jpg", true},
        {SHARD_MATCH_SUFFIX, ".jpg", "jpg", false},
        {SHARD_MATCH_PART, "r/a", "dir/a.jpg", true},
        {SHARD_MATCH_PART, "r/b", "dir/a.jpg", false},
        {SHARD_MATCH_SAMPLE, "d.x/a", "d.x/a.seg.png", true},
        {SHARD_MATCH_SAMPLE, "d.x/a.seg", "d.x/a.seg.png", false},
        {SHARD_MATCH_SAMPLE, "d", "d.x/a", false},
        {SHARD_MATCH_REGEXP, "^dir/[a-c]+\\.(jpg|png)$", "dir/abc.png", true},
        {SHARD_MATCH_REGEXP, "^dir/[a-c]+\\.(jpg|png)$", "dir/abd.png", false},
        {SHARD_MATCH_REGEXP, "a", "bab", true},
        {SHARD_MATCH_EXACT, "a", "a", true},
        {SHARD_MATCH_EXACT, "a", "ab", false},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct shard_match *m;
        struct errbuf eb = {{0}};
        bool yes = !rows[i].yes;

        REQUIRE(shard_match_new(rows[i].kind, span_of(rows[i].pattern), &m, &eb) ==
                ERR_OK);
        CHECK(shard_match_test(m, span_of(rows[i].name), &yes, &eb) == ERR_OK);
        if (yes != rows[i].yes)
            fprintf(stderr, "row %u: %s on %s\n", i, rows[i].pattern, rows[i].name);
        CHECK(yes == rows[i].yes);
        shard_match_free(&m);
    }
}

/* Patterns for which a backtracking matcher takes for ever; they end, with an answer or an error. */
static void
test_patterns_that_explode(void)
{
    static const char *const patterns[] = {"^(a+)+$", "^(a|a?)+$", "(.*a){30}b",
                                           "^(([a-z])+.)+[A-Z]([a-z])+$"};
    char name[2001];
    struct errbuf eb = {{0}};
    struct shard_match *m;
    bool yes;

    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    name[1999] = '!';
    for (unsigned i = 0; i < ARRAY_LEN(patterns); i++) {
        enum err rc;

        REQUIRE(shard_match_new(SHARD_MATCH_REGEXP, span_of(patterns[i]), &m, &eb) ==
                ERR_OK);
        rc = shard_match_test(m, span_of(name), &yes, &eb);
        CHECK(rc == ERR_BAD_REQUEST || !yes);
        shard_match_free(&m);
    }
    CHECK(shard_match_new(SHARD_MATCH_REGEXP, SPAN("a(b"), &m, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "regular expression \"a(b\"");
    memset(name, '(', 1100);
    name[1100] = '\0';
    CHECK(shard_match_new(SHARD_MATCH_REGEXP, span_of(name), &m, &eb) == ERR_BAD_REQUEST);
    CHECK(shard_match_new(SHARD_MATCH_REGEXP, SPAN("((((a{1,65535}){1,65535}){9})"), &m,
                          &eb) == ERR_BAD_REQUEST);
}

static void
test_names_of_archives(void)
{
    static const struct {
        const char *path, *key, *member;
    } rows[] = {
        {"s/x.tar/a/b", "s/x.tar", "a/b"},
        {"x.tgz/a.tar/b", "x.tgz", "a.tar/b"},
        {"a.tar.gz/b", "a.tar.gz", "b"},
        {"a/b", NULL, NULL},
        {"a.tar", NULL, NULL},
        {"a.tar/", NULL, NULL},
        {"d/.tar/x", NULL, NULL},
        {".tar/x.zip/y", ".tar/x.zip", "y"},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct span key, member;
        bool is = shard_path_split(span_of(rows[i].path), &key, &member);

        CHECK(is == (rows[i].key != NULL));
        if (is)
            CHECK(span_is(key, rows[i].key) && span_is(member, rows[i].member));
    }
    CHECK(shard_format_of_name(SPAN("a.tar.lz4")) == SHARD_TAR_LZ4);
    CHECK(shard_format_of_name(SPAN(".zip")) == SHARD_NONE);
    CHECK(shard_format_of_mime(SPAN("tgz")) == SHARD_TGZ);
    CHECK(shard_format_of_mime(SPAN("application/zip")) == SHARD_ZIP);
    CHECK(shard_format_of_mime(SPAN("text/plain")) == SHARD_NONE);
}

static void
test_the_cache_keeps_one_version(void)
{
    struct shard_cache *c = shard_cache_new(1u << 20);
    struct shard_version v = {.size = 1}, other = {.size = 2};
    struct shard_cache_stats stats;
    struct shard_memory m;
    struct shard_index *x, *found;
    struct errbuf eb = {{0}};
    struct buf b;

    buf_init(&b, ARCHIVE_MAX);
    write_samples(SHARD_TAR, 9, &b);
    shard_memory_init(&m, buf_span(&b));
    REQUIRE(shard_index_build(&m.in, SHARD_TAR, &x, &eb) == ERR_OK);
    CHECK(shard_cache_find(c, 1, SPAN("k"), &v) == NULL);
    shard_cache_keep(c, 1, SPAN("k"), &v, x);
    found = shard_cache_find(c, 1, SPAN("k"), &v);
    CHECK(found == x);
    shard_index_drop(&found);
    CHECK(shard_cache_find(c, 1, SPAN("k"), &other) == NULL);
    CHECK(shard_cache_find(c, 2, SPAN("k"), &v) == NULL);
    shard_cache_keep(c, 1, SPAN("k"), &other, x);
    CHECK(shard_cache_find(c, 1, SPAN("k"), &v) == NULL);
    for (unsigned i = 0; i < 2000; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%u", i);
        shard_cache_keep(c, 1, span_of(key), &v, x);
    }
    shard_cache_stats(c, &stats);
    CHECK(stats.bytes <= 1u << 20 && stats.count > 10 && stats.count < 2000);
    found = shard_cache_find(c, 1, SPAN("k1999"), &v);
    CHECK(found == x);
    shard_index_drop(&found);
    CHECK(shard_cache_find(c, 1, SPAN("k0"), &v) == NULL);
    shard_index_drop(&x);
    shard_cache_free(&c);
    buf_fini(&b);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_what_is_written_is_read);
    RUN(test_an_empty_archive);
    RUN(test_jumps_and_doubles);
    RUN(test_a_tar_that_lies);
    RUN(test_a_zip_that_lies);
    RUN(test_bombs);
    RUN(test_damaged_frames);
    RUN(test_matches);
    RUN(test_patterns_that_explode);
    RUN(test_names_of_archives);
    RUN(test_the_cache_keeps_one_version);
    return check_done();
}
