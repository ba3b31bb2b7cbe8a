/* The CRCs of hash.h: slicing by eight as the portable twin, kernels in crc_x86.c and
 * crc_arm.c. No OpenSSL here, so that this file and its test run under qemu-user for
 * other CPUs. Tables are computed before main() and never change. */
#include "base/crc.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define POLY_CRC32     0xEDB88320u
#define POLY_CRC32C    0x82F63B78u
#define POLY_CRC64NVME 0x9A6C9329AC4BC9B5u

/* One polynomial: `poly` reflected; the register is the low `bits` bits. */
struct crc_model {
    uint64_t poly;
    unsigned bits;
    struct crc_fold fold;
};

static struct crc_model crc32_model = {.poly = POLY_CRC32, .bits = 32};
static struct crc_model crc32c_model = {.poly = POLY_CRC32C, .bits = 32};
static struct crc_model crc64_model = {.poly = POLY_CRC64NVME, .bits = 64};
static uint32_t crc32_table[8][256];
static uint32_t crc32c_table[8][256];
static uint64_t crc64_table[8][256];
static const struct crc_kernel *kernel;

/* ---- arithmetic modulo the polynomial, reflected: the top bit of the register is x^0
 * ---- */

static uint64_t
times_x(const struct crc_model *m, uint64_t a)
{
    return a >> 1 ^ (a & 1 ? m->poly : 0);
}

static uint64_t
crc_byte(const struct crc_model *m)
{
    return (uint64_t)1 << (m->bits - 1);
}

static uint64_t
crc_times(const struct crc_model *m, uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (uint64_t bit = crc_byte(m); bit != 0; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = times_x(m, b);
    }
    return product;
}

/* x^n, n > 0, by squaring. */
static uint64_t
x_to(const struct crc_model *m, uint64_t n)
{
    uint64_t result = crc_byte(m);
    uint64_t square = times_x(m, crc_byte(m));

    for (; n != 0; n >>= 1) {
        if (n & 1)
            result = crc_times(m, result, square);
        square = crc_times(m, square, square);
    }
    return result;
}

/* With init and xorout all ones: crc(A|B) = crc(A) * x^(8 len B) + crc(B). The bits of
 * len go one by one, so that 8 * len cannot overflow. */
static uint64_t
crc_combine(const struct crc_model *m, uint64_t a, uint64_t b, uint64_t len_b)
{
    uint64_t square = x_to(m, 8);

    for (; len_b != 0; len_b >>= 1) {
        if (len_b & 1)
            a = crc_times(m, a, square);
        square = crc_times(m, square, square);
    }
    return a ^ b;
}

/* ---- set-up ---- */

/* A carry-less product of reflected 64-bit halves lies one bit low in its 128-bit block:
 * hence the "- 1". */
static void
set_fold(const struct crc_model *m, uint64_t distance_bits, uint64_t k[2])
{
    unsigned up = 64 - m->bits;

    k[0] = x_to(m, distance_bits + 63) << up;
    k[1] = x_to(m, distance_bits - 1) << up;
}

static uint64_t
table_entry(const struct crc_model *m, unsigned byte)
{
    uint64_t r = byte;

    for (int i = 0; i < 8; i++)
        r = times_x(m, r);
    return r;
}

static void
set_tables(void)
{
    for (unsigned i = 0; i < 256; i++) {
        crc32_table[0][i] = (uint32_t)table_entry(&crc32_model, i);
        crc32c_table[0][i] = (uint32_t)table_entry(&crc32c_model, i);
        crc64_table[0][i] = table_entry(&crc64_model, i);
    }
    for (unsigned t = 1; t < 8; t++) {
        for (unsigned i = 0; i < 256; i++) {
            uint32_t a = crc32_table[t - 1][i];
            uint32_t b = crc32c_table[t - 1][i];
            uint64_t c = crc64_table[t - 1][i];

            crc32_table[t][i] = a >> 8 ^ crc32_table[0][a & 255];
            crc32c_table[t][i] = b >> 8 ^ crc32c_table[0][b & 255];
            crc64_table[t][i] = c >> 8 ^ crc64_table[0][c & 255];
        }
    }
}

__attribute__((constructor)) static void
crc_start(void)
{
    struct crc_model *models[] = {&crc32_model, &crc32c_model, &crc64_model};
    unsigned count;

    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        set_fold(models[i], 128, models[i]->fold.by128);
        set_fold(models[i], 512, models[i]->fold.by512);
        set_fold(models[i], 2048, models[i]->fold.by2048);
    }
    set_tables();
    kernel = crc_kernels(&count)[0];
}

bool
crc_use(const char *name)
{
    unsigned count;
    const struct crc_kernel *const *all = crc_kernels(&count);

    for (unsigned i = 0; i < count; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            kernel = all[i];
            return true;
        }
    }
    return false;
}

const char *
crc_used(void)
{
    return kernel->name;
}

/* ---- slicing by eight; registers, not finished CRCs ---- */

static uint64_t
load_le64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

static uint32_t
crc_slice32(uint32_t table[8][256], uint32_t crc, const unsigned char *p, size_t len)
{
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t v = load_le64(p) ^ crc;

        crc = table[7][v & 255] ^ table[6][v >> 8 & 255] ^ table[5][v >> 16 & 255] ^
              table[4][v >> 24 & 255] ^ table[3][v >> 32 & 255] ^
              table[2][v >> 40 & 255] ^ table[1][v >> 48 & 255] ^ table[0][v >> 56];
    }
    for (; len > 0; p++, len--)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return crc;
}

static uint64_t
crc_slice64(uint64_t table[8][256], uint64_t crc, const unsigned char *p, size_t len)
{
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t v = load_le64(p) ^ crc;

        crc = table[7][v & 255] ^ table[6][v >> 8 & 255] ^ table[5][v >> 16 & 255] ^
              table[4][v >> 24 & 255] ^ table[3][v >> 32 & 255] ^
              table[2][v >> 40 & 255] ^ table[1][v >> 48 & 255] ^ table[0][v >> 56];
    }
    for (; len > 0; p++, len--)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return crc;
}

/* ---- the calls of hash.h ---- */

/* From how many bytes folding is faster: than the crc32 instruction, than the tables. */
enum { BEATS_STEP = 128, BEATS_TABLE = 64 };

typedef uint32_t crc32_step(uint32_t crc, const unsigned char *data, size_t len);

/* Folds what it can: moves *p and *len past it and leaves the sixteen bytes that stand
 * for it in out. */
static bool
fold_front(const struct crc_fold *f, uint64_t crc, size_t least, const unsigned char **p,
           size_t *len, unsigned char out[16])
{
    size_t whole = *len & ~(size_t)63;

    if (kernel->fold == NULL || *len < least)
        return false;
    kernel->fold(f, crc, *p, whole, out);
    *p += whole;
    *len -= whole;
    return true;
}

static uint32_t
crc_run32(const struct crc_model *m, uint32_t table[8][256], crc32_step *step,
          uint32_t crc, const unsigned char *p, size_t len)
{
    unsigned char folded[16];

    crc = ~crc;
    if (fold_front(&m->fold, crc, step != NULL ? BEATS_STEP : BEATS_TABLE, &p, &len,
                   folded)) {
        if (step != NULL)
            return ~step(step(0, folded, sizeof folded), p, len);
        crc = crc_slice32(table, 0, folded, sizeof folded);
    }
    return ~(step != NULL ? step(crc, p, len) : crc_slice32(table, crc, p, len));
}

uint32_t
hash_crc32c(uint32_t crc, const void *data, size_t len)
{
    if (len < BEATS_STEP && kernel->crc32c != NULL) /* most are of a few bytes */
        return ~kernel->crc32c(~crc, data, len);
    return crc_run32(&crc32c_model, crc32c_table, kernel->crc32c, crc, data, len);
}

uint32_t
hash_crc32c_portable(uint32_t crc, const void *data, size_t len)
{
    return ~crc_slice32(crc32c_table, ~crc, data, len);
}

uint32_t
hash_crc32(uint32_t crc, const void *data, size_t len)
{
    return crc_run32(&crc32_model, crc32_table, kernel->crc32, crc, data, len);
}

uint64_t
hash_crc64nvme(uint64_t crc, const void *data, size_t len)
{
    const unsigned char *p = data;
    unsigned char folded[16];

    crc = ~crc;
    if (fold_front(&crc64_model.fold, crc, BEATS_TABLE, &p, &len, folded))
        crc = crc_slice64(crc64_table, 0, folded, sizeof folded);
    return ~crc_slice64(crc64_table, crc, p, len);
}

uint32_t
hash_crc32_combine(uint32_t a, uint32_t b, uint64_t len_b)
{
    return (uint32_t)crc_combine(&crc32_model, a, b, len_b);
}

uint32_t
hash_crc32c_combine(uint32_t a, uint32_t b, uint64_t len_b)
{
    return (uint32_t)crc_combine(&crc32c_model, a, b, len_b);
}

uint64_t
hash_crc64nvme_combine(uint64_t a, uint64_t b, uint64_t len_b)
{
    return crc_combine(&crc64_model, a, b, len_b);
}
