/* Rows come back as they went, and any other bytes, or the right ones in the wrong place, are refused. */
#include "base/hash.h"
#include "base/mem.h"
#include "check.h"
#include "store/index/entry.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

static uint64_t seed = 7;
static uint64_t
rnd64(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed ^ seed >> 29;
}

/* A number of any magnitude. */
static uint64_t
any(unsigned bits)
{
    return (rnd64() >> 3) & (((uint64_t)1 << rnd64() % (bits + 1)) - 1);
}

static struct entry
random_entry(bool modest)
{
    struct entry r = {
        .flags = (uint32_t)any(7),
        .parts = (uint32_t)any(modest ? 13 : 32),
        .version = {any(modest ? 28 : 47), any(modest ? 35 : 60)},
        .size = any(modest ? 42 : 60),
        .mtime_ms = (int64_t)any(modest ? 41 : 62),
        .place.segment = (uint32_t)any(modest ? 28 : 32),
        .place.offset = any(modest ? 35 : 60),
        .overwrites = (uint32_t)any(modest ? 20 : 32),
    };

    if (rnd64() % 2 == 0)
        r.content = content_id_of(r.version.epoch, (uint16_t)any(16), r.version.counter);
    else
        r.content = content_id_of(any(modest ? 28 : 48), (uint16_t)any(16),
                                  any(modest ? 35 : 60));
    if (rnd64() % 5 == 0)
        r.mtime_ms = -r.mtime_ms;
    if (!modest)
        r.flags |= (uint32_t)(any(6) << 8) & ~4096u; /* 128 and 4096 are the coding's */
    if (!modest && rnd64() % 3 == 0)
        r.born = (struct version){any(47), any(60)};
    if (r.born.epoch == r.version.epoch && r.born.counter == r.version.counter)
        r.born = (struct version){0};
    if ((r.flags & ENTRY_META_APART) != 0) {
        r.place.meta_segment = (uint32_t)any(32);
        r.place.meta_offset = any(60);
    }
    for (unsigned i = 0; i < sizeof r.md5; i++)
        r.md5[i] = (uint8_t)rnd64();
    return r;
}

static bool
same_entry(const struct entry *a, const struct entry *b)
{
    return a->flags == b->flags && a->parts == b->parts &&
           a->version.epoch == b->version.epoch &&
           a->version.counter == b->version.counter && a->size == b->size &&
           a->born.epoch == b->born.epoch && a->born.counter == b->born.counter &&
           a->place.meta_segment == b->place.meta_segment &&
           a->place.meta_offset == b->place.meta_offset && a->mtime_ms == b->mtime_ms &&
           a->place.segment == b->place.segment && a->place.offset == b->place.offset &&
           a->overwrites == b->overwrites &&
           memcmp(&a->content, &b->content, sizeof a->content) == 0 &&
           memcmp(a->md5, b->md5, sizeof a->md5) == 0;
}

static const struct entry_key where = {TABLE_OBJECTS, 77, {"some/key", 8}};

static void
test_round_trip(void)
{
    unsigned char out[VALUE_CODED_MAX];

    for (unsigned i = 0; i < 100000; i++) {
        struct entry entry = random_entry(i % 2 == 0), back;
        size_t len = entry_encode(&where, &entry, out);

        CHECK(len <= ENTRY_CODED_MAX);
        REQUIRE(entry_decode(&where, (struct span){(char *)out, len}, &back) == ERR_OK);
        CHECK(same_entry(&entry, &back));
        CHECK(entry_is_tombstone((struct span){(char *)out, len}) ==
              ((entry.flags & ENTRY_TOMBSTONE) != 0));
        CHECK(entry_is_marker((struct span){(char *)out, len}) ==
              ((entry.flags & ENTRY_MARKER) != 0));
    }
}

/* disk.md rule 7: at most 72 bytes. */
static void
test_a_entry_of_modest_numbers_has_72_bytes_at_most(void)
{
    unsigned char out[VALUE_CODED_MAX];
    size_t longest = 0;
    struct entry largest = {
        .flags = 127,
        .parts = 10000,
        .version = {((uint64_t)1 << 28) - 1, ((uint64_t)1 << 35) - 1},
        .size = ((uint64_t)1 << 49) - 1,
        .mtime_ms = (int64_t)1 << 40,
        .place.segment = UINT32_MAX,
        .place.offset = ((uint64_t)1 << 35) - 1,
        .content =
            content_id_of(((uint64_t)1 << 28) - 2, UINT16_MAX, ((uint64_t)1 << 35) - 2),
        .overwrites = (1u << 21) - 1,
    };

    CHECK_U64(entry_encode(&where, &largest, out), 72);
    for (unsigned i = 0; i < 10000; i++) {
        struct entry entry = random_entry(true);

        longest = MAX(longest, entry_encode(&where, &entry, out));
    }
    CHECK(longest <= 72);
}

static void
test_every_flipped_bit_is_noticed(void)
{
    unsigned char out[VALUE_CODED_MAX];
    struct entry entry = random_entry(true), back;
    size_t len = entry_encode(&where, &entry, out);

    for (size_t bit = 0; bit < 8 * len; bit++) {
        out[bit / 8] ^= (unsigned char)(1u << bit % 8);
        CHECK(entry_decode(&where, (struct span){(char *)out, len}, &back) ==
              ERR_CORRUPT);
        out[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut++)
        CHECK(entry_decode(&where, (struct span){(char *)out, cut}, &back) ==
              ERR_CORRUPT);
}

static void
test_a_entry_in_another_place_is_noticed(void)
{
    static const struct entry_key others[] = {
        {TABLE_OBJECTS, 78, {"some/key", 8}},
        {TABLE_OBJECTS, 77, {"some/kez", 8}},
        {TABLE_OBJECTS, 77, {"some/ke", 7}},
        {TABLE_PARTS, 77, {"some/key", 8}},
    };
    unsigned char out[VALUE_CODED_MAX];
    struct entry entry = random_entry(true), back;
    struct span value = {(char *)out, entry_encode(&where, &entry, out)};

    for (unsigned i = 0; i < ARRAY_LEN(others); i++)
        CHECK(entry_decode(&others[i], value, &back) == ERR_CORRUPT);
    CHECK(entry_decode(&where, value, &back) == ERR_OK);
}

static void
reseal(unsigned char *value, size_t len)
{
    unsigned char head[13] = {TABLE_OBJECTS, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 8};
    uint32_t crc =
        hash_crc32c(hash_crc32c(hash_crc32c(0, head, 13), "some/key", 8), value, len - 4);

    for (unsigned i = 0; i < 4; i++)
        value[len - 4 + i] = (unsigned char)(crc >> (24 - 8 * i));
}

/* Sealed rightly, but not what we would write. */
static void
test_other_forms_are_refused(void)
{
    unsigned char out[VALUE_CODED_MAX] = {0};
    struct entry entry = {.version = {1, 2}, .content = content_id_of(1, 3, 2)}, back;
    size_t len = entry_encode(&where, &entry, out);

    reseal(out, len);
    CHECK(entry_decode(&where, (struct span){(char *)out, len}, &back) == ERR_OK);
    out[0] = 2; /* an unknown format */
    reseal(out, len);
    CHECK(entry_decode(&where, (struct span){(char *)out, len}, &back) == ERR_CORRUPT);
    out[0] = 1;
    reseal(out, len + 1); /* a byte too much */
    CHECK(entry_decode(&where, (struct span){(char *)out, len + 1}, &back) ==
          ERR_CORRUPT);
    memmove(out + 3, out + 2, len); /* epoch 1 as 81 00: not the shortest */
    out[2] = 0x81, out[3] = 0x00;
    reseal(out, len + 1);
    CHECK(entry_decode(&where, (struct span){(char *)out, len + 1}, &back) ==
          ERR_CORRUPT);
}

static void
test_multipart_entries(void)
{
    unsigned char out[VALUE_CODED_MAX];
    struct entry_key uploads = {TABLE_UPLOADS, 5, {"k", 1}},
                     parts = {TABLE_PARTS, 0, {"p", 1}},
                     dones = {TABLE_DONE, 0, {"d", 1}},
                     prepared = {TABLE_PREPARED, 0, {"w", 1}};

    for (unsigned i = 0; i < 10000; i++) {
        struct upload_entry u = {(enum store_class)(rnd64() % 2), (int64_t)any(60),
                                 (uint32_t)any(32), any(60), rnd64() % 2 != 0},
                            u2;
        struct part_entry p = {.entry = random_entry(false),
                               .checksum_algorithm = (uint8_t)any(8)},
                          p2;
        static char key[STORE_KEY_MAX];
        struct done_entry d = {.bucket = any(60),
                               .key = {key, rnd64() % (sizeof key + 1)},
                               .completed_ms = (int64_t)any(50),
                               .entry = random_entry(false)},
                          d2;
        struct prepared_entry w = {.bucket = any(60),
                                   .key = d.key,
                                   .entry = random_entry(false)},
                              w2;
        struct span v = {(char *)out, upload_entry_encode(&uploads, &u, out)};

        REQUIRE(upload_entry_decode(&uploads, v, &u2) == ERR_OK);
        CHECK(u.class == u2.class && u.begun_ms == u2.begun_ms &&
              u.segment == u2.segment && u.offset == u2.offset && u.copy == u2.copy);
        CHECK(upload_entry_is_copy(v) == u.copy);

        p.checksum_len = (uint8_t)(rnd64() % 65);
        memset(p.checksum, (int)i, p.checksum_len);
        v.len = part_entry_encode(&parts, &p, out);
        REQUIRE(part_entry_decode(&parts, v, &p2) == ERR_OK);
        CHECK(same_entry(&p.entry, &p2.entry) && p.checksum_len == p2.checksum_len &&
              p.checksum_algorithm == p2.checksum_algorithm &&
              memcmp(p.checksum, p2.checksum, sizeof p.checksum) == 0);

        memset(key, (int)i, sizeof key);
        v.len = done_entry_encode(&dones, &d, out);
        CHECK(v.len <= VALUE_CODED_MAX);
        REQUIRE(done_entry_decode(&dones, v, &d2) == ERR_OK);
        CHECK(same_entry(&d.entry, &d2.entry) && d.bucket == d2.bucket &&
              span_eq(d.key, d2.key) && d.completed_ms == d2.completed_ms);

        w.upload.id.bytes[i % 16] = (uint8_t)i;
        if (i % 3 != 0)
            w.coordinator = (struct coordinator){(uint16_t)(1 + any(15)), any(63)};
        v.len = prepared_entry_encode(&prepared, &w, out);
        CHECK(v.len <= VALUE_CODED_MAX);
        REQUIRE(prepared_entry_decode(&prepared, v, &w2) == ERR_OK);
        CHECK(same_entry(&w.entry, &w2.entry) && w.bucket == w2.bucket &&
              span_eq(w.key, w2.key) && memcmp(&w.upload, &w2.upload, 16) == 0);
        CHECK(w.coordinator.node == w2.coordinator.node &&
              w.coordinator.epoch == w2.coordinator.epoch);
    }
}

static void
test_the_newer_version_wins(void)
{
    static const struct {
        struct version first, second;
        bool newer;
    } rows[] = {
        {{1, 1}, {1, 2}, true}, {{1, 2}, {1, 1}, false}, {{1, 2}, {1, 2}, true},
        {{1, 9}, {2, 1}, true}, {{2, 1}, {1, 9}, false},
    };
    unsigned char a[VALUE_CODED_MAX], b[VALUE_CODED_MAX];

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct span va = {
            (char *)a,
            entry_encode(&where, &(struct entry){.version = rows[i].first}, a)};
        struct span vb = {
            (char *)b,
            entry_encode(&where, &(struct entry){.version = rows[i].second}, b)};

        CHECK(entry_is_newer(TABLE_OBJECTS, va, vb) == rows[i].newer);
        CHECK(entry_is_newer(TABLE_PARTS, va, vb));
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_round_trip);
    RUN(test_a_entry_of_modest_numbers_has_72_bytes_at_most);
    RUN(test_every_flipped_bit_is_noticed);
    RUN(test_a_entry_in_another_place_is_noticed);
    RUN(test_other_forms_are_refused);
    RUN(test_multipart_entries);
    RUN(test_the_newer_version_wins);
    return check_done();
}
