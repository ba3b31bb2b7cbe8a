/* Headers of records: what is written reads back the same, one wrong bit anywhere is noticed, names are safe, batches can
 * be filled up; manifests and the superblock likewise. */
#include "base/hash.h"
#include "check.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/log_record_peek.h"
#include "store/record/manifest.h"
#include "store/record/superblock.h"
#include "store/store_entry.h"
#include "wire/tar.h"

static struct log_record
sample(struct object_meta *meta, struct object_pair *pairs)
{
    struct log_record m = {.kind = LOG_RECORD_PUT,
                           .segment = 17,
                           .generation = 3,
                           .offset = 40960,
                           .payload = 5,
                           .epoch = 9,
                           .batch = 77,
                           .bucket = 4,
                           .immutable_name = SPAN("photos"),
                           .key = SPAN("a/b.jpg"),
                           .version = {9, 1234},
                           .size = 5,
                           .block_sums = SPAN("\1\2\3\4")};

    memset(m.content.bytes, 0xab, sizeof m.content.bytes);
    pairs[0] = (struct object_pair){SPAN("colour"), SPAN("blue\0\xff")};
    pairs[1] = (struct object_pair){SPAN("colour"), SPAN("")};
    *meta = (struct object_meta){.mtime_ms = 1700000000123,
                                 .content_type = SPAN("image/jpeg"),
                                 .expires = SPAN("never"),
                                 .user = pairs,
                                 .user_count = 2,
                                 .parts = 3,
                                 .etag_text = SPAN("W/\"x\""),
                                 .checksum_algorithm = 2,
                                 .checksum_type = 1,
                                 .checksum = SPAN("sum!"),
                                 .storage_class = SPAN("COLD")};
    memset(meta->md5, 0x5d, sizeof meta->md5);
    m.meta = meta;
    return m;
}

/* Read as an object by who does not know of pieces it would be an empty one: a version of its own. */
static void
test_stands_for_pieces(void)
{
    struct object_meta meta, got;
    struct object_pair pairs[2];
    struct log_record m = sample(&meta, pairs), r;
    struct arena *a = arena_new(4096, 1 << 16);
    struct buf b;
    size_t need;
    struct errbuf eb = {0};
    struct record record;
    struct entry entry;

    meta.whole_bytes = 100ull << 30;
    meta.chunk_bytes = 16 << 20;
    m.size = m.payload = 0;
    m.block_sums = (struct span){"", 0};
    buf_init(&b, HEAD_MAX);
    log_record_encode(&m, 0, &b);
    REQUIRE(log_record_parse(buf_span(&b), &r, &need, &eb) == LOG_RECORD_OK);
    REQUIRE(record_open(r.record, &record, &eb) == ERR_OK);
    CHECK_U64(record.version, LOG_RECORD_VERSION_CHUNKS);
    REQUIRE(log_record_meta(&r, a, true, &got, &eb) == ERR_OK);
    CHECK(got.whole_bytes == 100ull << 30 && got.chunk_bytes == 16 << 20);
    REQUIRE(record_entry(&r, STORE_CACHED, &entry, &eb) == ERR_OK);
    CHECK_U64(entry.flags, ENTRY_CACHED | ENTRY_INLINE | ENTRY_ETAG_TEXT | ENTRY_CHUNKS);
    CHECK(entry.size == 0);
    buf_fini(&b);
    arena_free(&a);
}

/* Who does not know that it ends older null versions too must not read it: they came back. */
static void
test_ends_null_versions(void)
{
    static const struct {
        uint8_t versioning;
        unsigned version;
    } cases[] = {{STORE_UNVERSIONED, LOG_RECORD_VERSION},
                 {STORE_SUSPENDED, LOG_RECORD_VERSION_ENDS_NULL}};

    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        struct object_meta meta = {.versioning = cases[i].versioning};
        struct log_record r, m = {.kind = LOG_RECORD_VERSION_DELETE,
                                  .segment = 2,
                                  .generation = 1,
                                  .offset = 4096,
                                  .bucket = 7,
                                  .key = SPAN("k"),
                                  .version = {3, 9},
                                  .born = {3, 4},
                                  .meta = &meta};
        struct buf b;
        size_t need;
        struct errbuf eb = {0};
        struct record record;
        struct entry entry;

        buf_init(&b, HEAD_MAX);
        log_record_encode(&m, 0, &b);
        REQUIRE(log_record_parse(buf_span(&b), &r, &need, &eb) == LOG_RECORD_OK);
        REQUIRE(record_open(r.record, &record, &eb) == ERR_OK);
        CHECK_U64(record.version, cases[i].version);
        CHECK(version_cmp(&r.born, &m.born) == 0);
        REQUIRE(record_entry(&r, STORE_NATIVE, &entry, &eb) == ERR_OK);
        CHECK(((entry.flags & ENTRY_SUSPENDED) != 0) ==
              (cases[i].versioning == STORE_SUSPENDED));
        buf_fini(&b);
    }
}

static void
test_reads_back(void)
{
    struct object_meta meta, got;
    struct object_pair pairs[2];
    struct log_record m = sample(&meta, pairs), r;
    struct arena *a = arena_new(4096, 1 << 16);
    struct buf b;
    size_t need;
    struct errbuf eb = {0};
    struct entry entry;

    buf_init(&b, HEAD_MAX);
    log_record_encode(&m, 0, &b);
    REQUIRE(log_record_parse(buf_span(&b), &r, &need, &eb) == LOG_RECORD_OK);
    CHECK(log_record_is_at(&r, 17, 3, 40960) && !log_record_is_at(&r, 17, 2, 40960));
    CHECK(r.kind == LOG_RECORD_PUT && r.epoch == 9 && r.batch == 77 && r.bucket == 4 &&
          !r.last);
    CHECK(span_is(r.key, "a/b.jpg") && span_is(r.immutable_name, "photos"));
    CHECK(content_eq(&r.content, &m.content) && version_cmp(&r.version, &m.version) == 0);
    CHECK(r.size == 5 && r.payload == 5 && r.head_len == b.len &&
          span_eq(r.block_sums, m.block_sums));
    REQUIRE(log_record_meta(&r, a, true, &got, &eb) == ERR_OK);
    CHECK(got.mtime_ms == meta.mtime_ms && got.parts == 3 && got.user_count == 2);
    CHECK(span_eq(got.content_type, meta.content_type) &&
          span_eq(got.expires, meta.expires));
    CHECK(span_eq(got.etag_text, meta.etag_text) &&
          span_eq(got.storage_class, meta.storage_class));
    CHECK(got.checksum_algorithm == 2 && got.checksum_type == 1 &&
          span_is(got.checksum, "sum!"));
    CHECK(span_eq(got.user[0].name, pairs[0].name) &&
          span_eq(got.user[0].value, pairs[0].value));
    CHECK(memcmp(got.md5, meta.md5, 16) == 0);
    REQUIRE(record_entry(&r, STORE_NATIVE, &entry, &eb) == ERR_OK);
    CHECK_U64(entry.flags, ENTRY_INLINE | ENTRY_ETAG_TEXT);
    CHECK(entry.place.segment == 17 && entry.place.offset == 40960 && entry.parts == 3);
    buf_fini(&b);
    arena_free(&a);
}

/* A peek takes the same from the same bytes, and nothing from fewer. */
static void
test_peek(void)
{
    struct object_meta meta;
    struct object_pair pairs[2];
    char key[STORE_KEY_MAX];
    struct log_record m = sample(&meta, pairs);
    struct log_record_peek g;
    struct buf b;

    memset(key, 'k', sizeof key);
    for (unsigned i = 0; i < 4; i++) {
        m.key = (struct span){key, i == 0 ? 1 : i == 1 ? 99 : i == 2 ? 100 : sizeof key};
        m.meta = i % 2 == 0 ? &meta : NULL;
        m.payload = i == 3 ? 3 : UINT64_C(1) << 20 * i;
        buf_init(&b, 2 * HEAD_MAX);
        log_record_encode(&m, 0, &b);
        REQUIRE(log_record_peek(buf_span(&b), &g));
        CHECK(g.segment == 17 && g.generation == 3 && g.offset == 40960 && g.bucket == 4);
        CHECK(g.head_len == b.len && g.payload == m.payload && span_eq(g.key, m.key));
        CHECK(content_eq(&g.content, &m.content) && span_eq(g.block_sums, m.block_sums));
        for (size_t len = 0; len < b.len; len++) {
            char *part = xmalloc(len > 0 ? len : 1); /* its end is watched */

            memcpy(part, b.at, len);
            CHECK(!log_record_peek((struct span){part, len}, &g));
            free(part);
        }
        buf_fini(&b);
    }
}

static void
test_every_wrong_bit_is_noticed(void)
{
    struct object_meta meta;
    struct object_pair pairs[2];
    struct log_record m = sample(&meta, pairs), r;
    struct log_record_peek g;
    struct buf b;
    size_t need;

    buf_init(&b, HEAD_MAX);
    log_record_encode(&m, 0, &b);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.at[bit / 8] ^= (char)(1 << bit % 8);
        CHECK(log_record_parse(buf_span(&b), &r, &need, NULL) != LOG_RECORD_OK);
        CHECK(!log_record_peek(buf_span(&b), &g));
        b.at[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t len = 0; len < b.len; len += 7)
        CHECK(log_record_parse((struct span){b.at, len}, &r, &need, NULL) !=
              LOG_RECORD_OK);
    CHECK(log_record_parse(buf_span(&b), &r, &need, NULL) == LOG_RECORD_OK);
    buf_fini(&b);
}

static void
test_fills_to_any_length(void)
{
    struct object_meta meta;
    struct object_pair pairs[2];
    struct log_record m = sample(&meta, pairs), r;
    struct buf b;
    size_t need;
    uint32_t shortest;

    buf_init(&b, HEAD_MAX);
    log_record_encode(&m, 0, &b);
    shortest = m.head_len;
    for (uint32_t len = shortest; len <= shortest + 4096; len += 512) {
        buf_clear(&b);
        log_record_encode(&m, len, &b);
        CHECK_U64(b.len, len);
        CHECK(log_record_parse(buf_span(&b), &r, &need, NULL) == LOG_RECORD_OK &&
              r.head_len == len);
    }
    buf_fini(&b);
}

static const struct {
    const char *birth, *key, *path;
} names[] = {
    {"photos", "a/b.jpg", "photos/a/b.jpg"},
    {"photos", "\xc3\xa4", "photos/\xc3\xa4"},
    {"photos", "a//b", NULL},
    {"photos", "/a", NULL},
    {"photos", "a/", NULL},
    {"photos", "../a", NULL},
    {"photos", "a/./b", NULL},
    {"photos", "a\nb", NULL},
    {"photos", "\xff", NULL},
    {".forebay", "a", NULL},
    {"", "a", NULL},
    {"a/b", "c", NULL},
};

static void
test_names_in_tar(void)
{
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct log_record m = {.kind = LOG_RECORD_PUT,
                               .segment = 1,
                               .bucket = 1,
                               .immutable_name = span_of(names[i].birth),
                               .key = span_of(names[i].key),
                               .version = {1, 1}};
        struct tar_head head;
        struct buf b;
        struct errbuf eb = {0};
        char path[64];

        m.content.bytes[0] = 1;
        buf_init(&b, HEAD_MAX);
        log_record_encode(&m, 0, &b);
        CHECK(tar_head_read(buf_span(&b), &head, &eb) == TAR_GOT_HEAD);
        snprintf(path, sizeof path, "%.*s", SPAN_ARG(head.path));
        CHECK_STR(path, names[i].path != NULL
                            ? names[i].path
                            : ".forebay/id/01000000000000000000000000000000");
        buf_fini(&b);
    }
}

static void
test_largest_header(void)
{
    static char key[STORE_KEY_MAX], value[META_MAX - 256],
        sums[4 * STORE_INLINE_MAX / BLOCK_BYTES], name[255];
    struct object_pair pair = {SPAN("v"), {value, sizeof value}};
    struct object_meta meta = {.mtime_ms = 1, .user = &pair, .user_count = 1};
    struct log_record m = {.kind = LOG_RECORD_PUT,
                           .last = true,
                           .segment = UINT32_MAX,
                           .generation = UINT32_MAX,
                           .offset = INT64_MAX,
                           .payload = 1,
                           .epoch = UINT64_MAX,
                           .batch = UINT64_MAX,
                           .bucket = UINT64_MAX,
                           .immutable_name = {name, sizeof name},
                           .key = {key, sizeof key},
                           .version = {UINT64_MAX, UINT64_MAX},
                           .size = INT64_MAX,
                           .block_sums = {sums, sizeof sums},
                           .meta = &meta};
    struct log_record r;
    struct buf b;
    size_t need;

    memset(key, 'k', sizeof key);
    memset(name, 'n', sizeof name);
    memset(m.content.bytes, 0xff, sizeof m.content.bytes);
    CHECK(meta_check(&meta, NULL) == ERR_OK);
    pair.value.len = META_MAX;
    CHECK(meta_check(&meta, NULL) == ERR_BAD_REQUEST);
    pair.value.len = sizeof value;
    buf_init(&b, HEAD_MAX);
    log_record_encode(&m, 0, &b);
    CHECK(!b.full && b.len + STORE_ALIGN <= HEAD_MAX);
    CHECK(log_record_parse(buf_span(&b), &r, &need, NULL) == LOG_RECORD_OK);
    buf_fini(&b);
}

static void
test_unknown_versions_are_refused_in_words(void)
{
    struct buf record, b;
    struct record_writer w;
    struct log_record r;
    struct errbuf eb = {0};
    size_t need;
    static const struct {
        uint8_t kind, version;
        const char *says;
    } cases[] = {{2, 7, "version 7"}, {22, 1, "kind 22"}, {200, 1, "kind 200"}};

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tar_member t = {.path = SPAN("x"), .type = TAR_FILE};
        struct tar_head head;
        uint32_t sum;
        size_t at;

        buf_init(&record, HEAD_MAX);
        buf_init(&b, HEAD_MAX);
        record_begin(&w, &record, cases[i].kind, cases[i].version);
        record_put_u64(&w, FIELD_SEGMENT, 1);
        record_end(&w);
        buf_zero(&record, LOG_RECORD_HEAD_SUM);
        t.xattr = buf_span(&record);
        tar_put_head(&b, &t, 0);
        REQUIRE(tar_head_read(buf_span(&b), &head, &eb) == TAR_GOT_HEAD);
        at = (size_t)(head.xattr.at - b.at) + head.xattr.len - LOG_RECORD_HEAD_SUM;
        sum = log_record_head_sum(b.at, b.len, at);
        for (unsigned k = 0; k < 4; k++)
            b.at[at + k] = (char)(sum >> (24 - 8 * k));
        CHECK(log_record_parse(buf_span(&b), &r, &need, &eb) == LOG_RECORD_NEWER);
        CHECK_SAYS(eb.text, cases[i].says);
        buf_fini(&record);
        buf_fini(&b);
    }
}

static void
manifest_of(uint32_t n, uint8_t sum_len)
{
    struct manifest_entry *e = xcalloc(n, sizeof *e);
    struct manifest from = {.entries = e,
                            .count = n,
                            .sum_algorithm = sum_len > 0 ? 3 : 0,
                            .sum_len = sum_len};
    size_t len = manifest_len(n, sum_len);
    char *bytes = xmalloc(len);
    struct manifest m;
    struct errbuf eb = {0};

    if (sum_len > 0)
        from.sums = xcalloc(n, sum_len);
    for (size_t k = 0; k < (size_t)n * sum_len; k++)
        from.sums[k] = (char)(k * 11);

    for (uint32_t k = 0; k < n; k++)
        e[k] = (struct manifest_entry){.at = (uint64_t)k * 5,
                                       .size = 5,
                                       .number = (uint16_t)(k + 1),
                                       .segment = k,
                                       .offset = k * 7u,
                                       .in_log = k % 2};
    manifest_encode(&from, bytes);
    REQUIRE(manifest_decode((struct span){bytes, len}, &m, &eb) == ERR_OK);
    CHECK(m.count == n && memcmp(&m.entries[n - 1].md5, e[n - 1].md5, 16) == 0);
    CHECK(m.entries[n - 1].at == 5 * (uint64_t)(n - 1) &&
          m.entries[n - 1].segment == n - 1);
    CHECK(m.sum_len == sum_len && m.sum_algorithm == from.sum_algorithm);
    for (uint32_t k = 0; k < n; k++)
        CHECK(span_eq(manifest_sum(&m, k), manifest_sum(&from, k)));
    manifest_fini(&m);
    CHECK(manifest_decode((struct span){bytes, len - 1}, &m, &eb) == ERR_CORRUPT);
    if (sum_len > 0) {
        bytes[manifest_len(n, 0) + 9] ^= 1; /* the length of each */
        CHECK(manifest_decode((struct span){bytes, len}, &m, &eb) == ERR_CORRUPT);
        bytes[manifest_len(n, 0) + 9] ^= 1;
    }
    bytes[32 + 16 + 7] ^= 1; /* the first entry's offset in the object */
    CHECK(manifest_decode((struct span){bytes, len}, &m, &eb) == ERR_CORRUPT);
    free(bytes);
    manifest_fini(&from);
}

/* Without checksums it is what it was before there were any. */
static void
test_manifest(void)
{
    static const uint32_t counts[] = {1, 2, 999, 1000, 1001, 2000, 10000};
    static const uint8_t sum_lens[] = {0, 4, 8, 20, 32, MANIFEST_SUM_MAX};

    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (unsigned s = 0; s < sizeof sum_lens; s++)
            manifest_of(counts[i], sum_lens[s]);
}

static void
test_superblock(void)
{
    struct superblock s = {.generation = 5,
                           .epoch = 8,
                           .map_epoch = 11,
                           .made_ms = 99,
                           .flags = 1},
                      r;
    char bytes[SUPERBLOCK_BYTES];
    struct errbuf eb = {0};

    memset(s.cluster_id, 1, 16);
    memset(s.disk_id, 2, 16);
    superblock_encode(&s, bytes);
    CHECK(superblock_decode((struct span){bytes, sizeof bytes}, &r, &eb) == ERR_OK);
    CHECK(r.generation == 5 && r.epoch == 8 && r.map_epoch == 11 && r.made_ms == 99 &&
          r.flags == 1 && r.disk_id[15] == 2);
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        CHECK(superblock_decode((struct span){bytes, sizeof bytes}, &r, &eb) != ERR_OK);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_reads_back);
    RUN(test_ends_null_versions);
    RUN(test_stands_for_pieces);
    RUN(test_peek);
    RUN(test_every_wrong_bit_is_noticed);
    RUN(test_fills_to_any_length);
    RUN(test_names_in_tar);
    RUN(test_largest_header);
    RUN(test_unknown_versions_are_refused_in_words);
    RUN(test_manifest);
    RUN(test_superblock);
    return check_done();
}
