/* The CRCs: published vectors, every kernel against a bit-by-bit CRC of this file's own,
 * chaining and combining at every cut. Free of OpenSSL so that it also runs under
 * qemu-user. */
#include "base/crc.h"

#include <time.h>

#include "base/hash.h"
#include "base/mem.h"
#include "check.h"

/* The definition: one bit at a time. */
static uint64_t
slow_crc(uint64_t poly, unsigned bits, const unsigned char *p, size_t len)
{
    uint64_t ones = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
    uint64_t crc = ones;

    for (size_t i = 0; i < len; i++) {
        crc ^= p[i];
        for (int b = 0; b < 8; b++)
            crc = crc & 1 ? crc >> 1 ^ poly : crc >> 1;
    }
    return crc ^ ones;
}

static void
fill(unsigned char *p, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        p[i] = (unsigned char)(seed >> 32);
    }
}

static void
test_published_values(void)
{
    static const struct {
        const char *text;
        uint32_t crc32, crc32c;
        uint64_t crc64nvme;
    } rows[] = {
        {"", 0, 0, 0},
        {"123456789", 0xCBF43926, 0xE3069283, 0xAE8B14860A799888},
        {"hello world", 0x0D4A1185, 0xC99465AA, 0x8D29D5C3F6EA8EBE},
    };
    unsigned char zeros[32] = {0};
    unsigned char ones[32];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].text);

        CHECK_U64(hash_crc32(0, rows[i].text, len), rows[i].crc32);
        CHECK_U64(hash_crc32c(0, rows[i].text, len), rows[i].crc32c);
        CHECK_U64(hash_crc32c_portable(0, rows[i].text, len), rows[i].crc32c);
        CHECK_U64(hash_crc64nvme(0, rows[i].text, len), rows[i].crc64nvme);
    }
    /* RFC 3720, B.4 */
    memset(ones, 0xFF, sizeof ones);
    CHECK_U64(hash_crc32c(0, zeros, sizeof zeros), 0x8A9136AA);
    CHECK_U64(hash_crc32c(0, ones, sizeof ones), 0x62A8AB43);
}

static void
each_kernel_at_every_length(void)
{
    static unsigned char data[1500];

    fill(data, sizeof data, 42);
    for (size_t len = 0; len <= 1400; len += len < 600 ? 1 : 37) {
        const unsigned char *p = data + len % 17; /* every alignment */

        REQUIRE(hash_crc32(0, p, len) == slow_crc(0xEDB88320, 32, p, len));
        REQUIRE(hash_crc32c(0, p, len) == slow_crc(0x82F63B78, 32, p, len));
        REQUIRE(hash_crc64nvme(0, p, len) == slow_crc(0x9A6C9329AC4BC9B5, 64, p, len));
    }
}

static void
test_every_kernel_agrees_with_the_definition(void)
{
    unsigned count;
    const struct crc_kernel *const *all = crc_kernels(&count);
    const char *before = crc_used();

    CHECK(count >= 1);
    CHECK_STR(all[count - 1]->name, "portable");
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(crc_use(all[i]->name));
        CHECK_STR(crc_used(), all[i]->name);
        printf("kernel %s\n", crc_used());
        each_kernel_at_every_length();
    }
    CHECK(!crc_use("abacus"));
    CHECK(crc_use(before));
}

static void
test_chaining_and_combining_at_every_cut(void)
{
    static unsigned char data[900];
    size_t len = sizeof data;
    uint32_t a32, b32, whole32 = 0, whole32c = 0;
    uint64_t whole64 = 0;

    fill(data, len, 7);
    whole32 = hash_crc32(0, data, len);
    whole32c = hash_crc32c(0, data, len);
    whole64 = hash_crc64nvme(0, data, len);
    for (size_t cut = 0; cut <= len; cut++) {
        const unsigned char *rest = data + cut;
        size_t left = len - cut;

        a32 = hash_crc32(0, data, cut);
        b32 = hash_crc32(0, rest, left);
        REQUIRE(hash_crc32(a32, rest, left) == whole32);
        REQUIRE(hash_crc32_combine(a32, b32, left) == whole32);
        a32 = hash_crc32c(0, data, cut);
        b32 = hash_crc32c(0, rest, left);
        REQUIRE(hash_crc32c(a32, rest, left) == whole32c);
        REQUIRE(hash_crc32c_portable(a32, rest, left) == whole32c);
        REQUIRE(hash_crc32c_combine(a32, b32, left) == whole32c);
        REQUIRE(hash_crc64nvme(hash_crc64nvme(0, data, cut), rest, left) == whole64);
        REQUIRE(hash_crc64nvme_combine(hash_crc64nvme(0, data, cut),
                                       hash_crc64nvme(0, rest, left), left) == whole64);
    }
    /* Lengths whose count of bits does not fit in 64 bits must not wrap: two halves are
     * the whole. */
    a32 = hash_crc32_combine(hash_crc32_combine(whole32, 0, (uint64_t)1 << 62), 0,
                             (uint64_t)1 << 62);
    CHECK_U64(hash_crc32_combine(whole32, 0, (uint64_t)1 << 63), a32);
}

/* The multipart example: three parts of 5 MiB of A, B and C. */
static void
test_three_parts(void)
{
    enum { PART = 5 << 20 };
    static const uint32_t want[3] = {0x2514C2C9, 0x4286531A, 0x600823AB};
    unsigned char *part = malloc(PART);
    uint32_t full = 0, full_c = 0, chain_c = 0;
    uint64_t full64 = 0;

    REQUIRE(part != NULL);
    for (int i = 0; i < 3; i++) {
        uint32_t crc;

        memset(part, 'A' + i, PART);
        crc = hash_crc32(0, part, PART);
        CHECK_U64(crc, want[i]);
        full = hash_crc32_combine(full, crc, PART);
        full_c = hash_crc32c_combine(full_c, hash_crc32c(0, part, PART), PART);
        chain_c = hash_crc32c(chain_c, part, PART);
        full64 = hash_crc64nvme_combine(full64, hash_crc64nvme(0, part, PART), PART);
    }
    CHECK_U64(full, 0x5A00E105);           /* WgDhBQ== */
    CHECK_U64(full64, 0x8BEE8B474CB7785A); /* i+6LR0y3eFo= */
    CHECK_U64(full_c, chain_c);
    free(part);
}

static double
gigabytes_a_second(uint64_t (*run)(const void *, size_t), const void *data, size_t len)
{
    struct timespec a, b;
    uint64_t sum = 0;
    int rounds = (int)(((size_t)64 << 20) / len);

    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < rounds; i++)
        sum += run(data, len);
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (sum == 1)
        puts("the sum is used, so that the loop stays");
    return (double)len * rounds /
           ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec));
}

static uint64_t
run_crc32c(const void *p, size_t len)
{
    return hash_crc32c(0, p, len);
}
static uint64_t
run_crc32(const void *p, size_t len)
{
    return hash_crc32(0, p, len);
}
static uint64_t
run_crc64(const void *p, size_t len)
{
    return hash_crc64nvme(0, p, len);
}

/* Not a case: prints figures when asked for ("speed"). */
static void
speed(void)
{
    static unsigned char data[256 << 10];
    static const size_t lens[] = {64, 4096, sizeof data};
    unsigned count;
    const struct crc_kernel *const *all = crc_kernels(&count);

    for (unsigned i = 0; i < count && crc_use(all[i]->name); i++)
        for (size_t l = 0; l < ARRAY_LEN(lens); l++)
            printf("%-9s %7zu bytes: crc32c %6.1f  crc32 %6.1f  crc64nvme %6.1f GB/s\n",
                   crc_used(), lens[l], gigabytes_a_second(run_crc32c, data, lens[l]),
                   gigabytes_a_second(run_crc32, data, lens[l]),
                   gigabytes_a_second(run_crc64, data, lens[l]));
}

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "speed") == 0) {
        speed();
        return 0;
    }
    CHECK_MAIN(argc, argv);
    RUN(test_published_values);
    RUN(test_every_kernel_agrees_with_the_definition);
    RUN(test_chaining_and_combining_at_every_cut);
    RUN(test_three_parts);
    return check_done();
}
