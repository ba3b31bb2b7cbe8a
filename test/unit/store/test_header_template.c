/* Headers that are filled in are the bytes that encoding makes, and the entry that reading them back gives: over keys, numbers,
 * sums and metadata that differ in what may differ. What differs in anything else is refused. */
#include "check.h"
#include "store/record/format.h"
#include "store/record/header_template.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "wire/tar.h"

struct sample {
    struct log_record m;
    struct object_meta meta;
    struct object_pair pair;
    char key[64];
};

static void
make(struct sample *s, unsigned n)
{
    *s = (struct sample){.m = {.kind = LOG_RECORD_PUT,
                               .segment = 17,
                               .generation = 3,
                               .offset = 70000 + 4096 * n,
                               .payload = 4096,
                               .epoch = 9,
                               .batch = 300 + n,
                               .bucket = 4,
                               .immutable_name = SPAN("photos"),
                               .version = {9, 1234 + n},
                               .size = 4096,
                               .block_sums = SPAN("\1\2\3\4")},
                         .meta = {.mtime_ms = 1700000000123 + 977 * (int64_t)n,
                                  .content_type = SPAN("image/jpeg"),
                                  .checksum_algorithm = 5,
                                  .checksum_type = 1,
                                  .checksum = SPAN("checksum")}};
    snprintf(s->key, sizeof s->key, "a/%06u.jpg", n);
    s->m.key = span_of(s->key);
    memset(s->m.content.bytes, (int)(n % 250) + 1, sizeof s->m.content.bytes);
    memset(s->meta.md5, (int)(n % 200) + 3, sizeof s->meta.md5);
    s->m.meta = &s->meta;
}

/* As the committer does it: encoded, read back, offered. */
static void
encode(struct header_templates *set, const struct log_record *given, struct buf *b,
       struct entry *entry)
{
    struct log_record m = *given, again;
    struct errbuf eb = {0};
    size_t need;

    buf_clear(b);
    log_record_encode(&m, 0, b);
    REQUIRE(log_record_parse(buf_span(b), &again, &need, &eb) == LOG_RECORD_OK);
    REQUIRE(record_entry(&again, STORE_NATIVE, entry, &eb) == ERR_OK);
    m.record = again.record;
    header_templates_keep(set, &m, buf_span(b), entry);
}

static bool
fill(struct header_templates *set, const struct log_record *given)
{
    static char out[HEAD_MAX];
    struct log_record m = *given, again;
    struct entry entry, encoded_entry;
    struct errbuf eb = {0};
    struct buf b;
    size_t need;

    if (!header_templates_fill(set, STORE_NATIVE, &m, out, &entry))
        return false;
    buf_init(&b, HEAD_MAX);
    m.head_len = 0;
    log_record_encode(&m, 0, &b);
    CHECK(memcmp(out, b.at, b.len) == 0);
    CHECK(log_record_parse((struct span){out, b.len}, &again, &need, &eb) ==
          LOG_RECORD_OK);
    CHECK(record_entry(&again, STORE_NATIVE, &encoded_entry, &eb) == ERR_OK);
    CHECK(memcmp(&entry, &encoded_entry, sizeof entry) == 0);
    CHECK(span_eq(again.key, given->key) && again.batch == given->batch);
    buf_fini(&b);
    return true;
}

static void
test_filled_in_as_encoded(void)
{
    struct header_templates *set = header_templates_new();
    struct sample s;
    struct buf b;
    struct entry entry;

    buf_init(&b, HEAD_MAX);
    make(&s, 0);
    CHECK(!fill(set, &s.m));
    encode(set, &s.m, &b, &entry);
    for (unsigned n = 0; n < 4000; n += 7) {
        make(&s, n);
        CHECK(fill(set, &s.m));
    }
    header_templates_free(&set);
    buf_fini(&b);
}

enum difference {
    LONGER_KEY,
    UNSAFE_KEY,
    OTHER_BUCKET,
    OTHER_BIRTH_NAME,
    OTHER_SIZE,
    OTHER_SEGMENT,
    LONGER_OFFSET,
    LONGER_BATCH,
    LAST,
    UNSYNCED,
    OTHER_TYPE,
    PAIRS,
    VERSIONED,
    OTHER_CHECKSUM,
    NO_MD5,
    OF_PARTS,
    ANOTHER_KIND,
    DIFFERENCES_
};

static void
differ(struct sample *s, enum difference d)
{
    switch (d) {
    case LONGER_KEY:
        s->m.key = SPAN("a/0000001.jpg");
        break;
    case UNSAFE_KEY:
        s->m.key = SPAN("a/../01.jpgx");
        break;
    case OTHER_BUCKET:
        s->m.bucket++;
        break;
    case OTHER_BIRTH_NAME:
        s->m.immutable_name = SPAN("phones");
        break;
    case OTHER_SIZE:
        s->m.size = s->m.payload = 4097;
        break;
    case OTHER_SEGMENT:
        s->m.segment++;
        break;
    case LONGER_OFFSET:
        s->m.offset = 1u << 24;
        break;
    case LONGER_BATCH:
        s->m.batch = 70000;
        break;
    case LAST:
        s->m.last = true;
        break;
    case UNSYNCED:
        s->m.after_unsynced = true;
        break;
    case OTHER_TYPE:
        s->meta.content_type = SPAN("image/webp");
        break;
    case PAIRS:
        s->pair = (struct object_pair){SPAN("colour"), SPAN("blue")};
        s->meta.user = &s->pair;
        s->meta.user_count = 1;
        break;
    case VERSIONED:
        s->meta.versioning = STORE_VERSIONED;
        break;
    case OTHER_CHECKSUM:
        s->meta.checksum_algorithm = 1;
        break;
    case NO_MD5:
        memset(s->meta.md5, 0, sizeof s->meta.md5);
        break;
    case OF_PARTS:
        s->meta.parts = 2;
        break;
    case ANOTHER_KIND:
        s->m.kind = LOG_RECORD_PREPARE;
        break;
    case DIFFERENCES_:
        break;
    }
}

static void
test_refused(void)
{
    struct header_templates *set = header_templates_new();
    struct sample s;
    struct buf b;
    struct entry entry;

    buf_init(&b, HEAD_MAX);
    make(&s, 1);
    encode(set, &s.m, &b, &entry);
    for (enum difference d = 0; d <= DIFFERENCES_; d++) {
        make(&s, 2);
        differ(&s, d);
        if (fill(set, &s.m) != (d == DIFFERENCES_)) {
            fprintf(stderr, "difference %u\n", (unsigned)d);
            CHECK(false);
        }
    }
    header_templates_free(&set);
    buf_fini(&b);
}

/* A name that tar would not take, one that is too long for the header itself, records of other kinds: nothing is kept. */
static void
test_not_kept(void)
{
    struct header_templates *set = header_templates_new();
    struct sample s;
    char name[TAR_SHORT_PATH + 1];
    struct buf b;
    struct entry entry;

    buf_init(&b, HEAD_MAX);
    memset(name, 'n', sizeof name);
    for (unsigned i = 0; i < 3; i++) {
        make(&s, 1);
        if (i == 0)
            s.m.key = SPAN("a//b");
        if (i == 1)
            s.m.key = (struct span){name, sizeof name - sizeof "photos" + 1};
        if (i == 2)
            differ(&s, PAIRS);
        encode(set, &s.m, &b, &entry);
        CHECK(!fill(set, &s.m));
    }
    s.m.key = (struct span){name, TAR_SHORT_PATH - sizeof "photos"};
    differ(&s, DIFFERENCES_);
    s.meta.user_count = 0;
    encode(set, &s.m, &b, &entry);
    CHECK(fill(set, &s.m)); /* the longest that fits */
    header_templates_free(&set);
    buf_fini(&b);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_filled_in_as_encoded);
    RUN(test_refused);
    RUN(test_not_kept);
    return check_done();
}
