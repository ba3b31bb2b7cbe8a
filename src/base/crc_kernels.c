/* Which kernels this CPU can run, and the kernels: carry-less multiplication of 128 or
 * 512 bits on x86, PMULL and the crc32 instructions on aarch64. FB_PORTABLE leaves only
 * the tables. */
#include "base/crc.h"

#include <string.h>

#if defined(__x86_64__) && !defined(FB_PORTABLE)
#define CRC_X86 1
#include <immintrin.h>
#elif defined(__aarch64__) && !defined(FB_PORTABLE)
#define CRC_ARM 1
#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

static const struct crc_kernel portable = {.name = "portable"};

#if defined(CRC_X86)

#define CLMUL __attribute__((target("pclmul,sse4.2")))
#define VCLMUL                                                                           \
    __attribute__((target("pclmul,sse4.2,avx512f,avx512vl,avx512bw,vpclmulqdq")))

CLMUL static inline __m128i
load(const unsigned char *p)
{
    return _mm_loadu_si128((const void *)p);
}

/* acc moved forward by the distance of k, plus the block that lies there. */
CLMUL static inline __m128i
fold(__m128i acc, __m128i k, __m128i block)
{
    __m128i low = _mm_clmulepi64_si128(acc, k, 0x00);
    __m128i high = _mm_clmulepi64_si128(acc, k, 0x11);

    return _mm_xor_si128(_mm_xor_si128(low, high), block);
}

CLMUL static void
fold_clmul(const struct crc_fold *f, uint64_t crc, const unsigned char *p, size_t len,
           unsigned char out[16])
{
    const __m128i k512 = load((const void *)f->by512);
    const __m128i k128 = load((const void *)f->by128);
    __m128i a = _mm_xor_si128(load(p), _mm_cvtsi64_si128((long long)crc));
    __m128i b = load(p + 16);
    __m128i c = load(p + 32);
    __m128i d = load(p + 48);

    for (p += 64, len -= 64; len > 0; p += 64, len -= 64) {
        a = fold(a, k512, load(p));
        b = fold(b, k512, load(p + 16));
        c = fold(c, k512, load(p + 32));
        d = fold(d, k512, load(p + 48));
    }
    d = fold(fold(fold(a, k128, b), k128, c), k128, d);
    _mm_storeu_si128((void *)out, d);
}

VCLMUL static inline __m512i
fold_wide(__m512i acc, __m512i k, __m512i block)
{
    __m512i low = _mm512_clmulepi64_epi128(acc, k, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(acc, k, 0x11);

    return _mm512_ternarylogic_epi64(low, high, block, 0x96); /* xor of three */
}

/* At least 256 bytes. */
VCLMUL static void
fold_long(const struct crc_fold *f, uint64_t crc, const unsigned char *p, size_t len,
          unsigned char out[16])
{
    const __m512i k2048 = _mm512_broadcast_i32x4(load((const void *)f->by2048));
    const __m512i k512 = _mm512_broadcast_i32x4(load((const void *)f->by512));
    const __m128i k128 = load((const void *)f->by128);
    __m512i a = _mm512_xor_si512(
        _mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi64_si128((long long)crc)));
    __m512i b = _mm512_loadu_si512(p + 64);
    __m512i c = _mm512_loadu_si512(p + 128);
    __m512i d = _mm512_loadu_si512(p + 192);
    __m128i x;

    for (p += 256, len -= 256; len >= 256; p += 256, len -= 256) {
        a = fold_wide(a, k2048, _mm512_loadu_si512(p));
        b = fold_wide(b, k2048, _mm512_loadu_si512(p + 64));
        c = fold_wide(c, k2048, _mm512_loadu_si512(p + 128));
        d = fold_wide(d, k2048, _mm512_loadu_si512(p + 192));
    }
    d = fold_wide(fold_wide(fold_wide(a, k512, b), k512, c), k512, d);
    for (; len > 0; p += 64, len -= 64)
        d = fold_wide(d, k512, _mm512_loadu_si512(p));
    x = fold(_mm512_extracti32x4_epi32(d, 0), k128, _mm512_extracti32x4_epi32(d, 1));
    x = fold(x, k128, _mm512_extracti32x4_epi32(d, 2));
    x = fold(x, k128, _mm512_extracti32x4_epi32(d, 3));
    _mm_storeu_si128((void *)out, x);
}

static void
fold_vclmul(const struct crc_fold *f, uint64_t crc, const unsigned char *p, size_t len,
            unsigned char out[16])
{
    if (len < 256) {
        fold_clmul(f, crc, p, len, out);
        return;
    }
    fold_long(f, crc, p, len, out);
}

/* For what is too short to fold, and for the end. */
CLMUL static uint32_t
crc32c_sse42(uint32_t crc, const unsigned char *p, size_t len)
{
    uint64_t r = crc;
    uint64_t v;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&v, p, sizeof v);
        r = _mm_crc32_u64(r, v);
    }
    for (; len > 0; p++, len--)
        r = _mm_crc32_u8((uint32_t)r, *p);
    return (uint32_t)r;
}

static const struct crc_kernel clmul = {"clmul", fold_clmul, NULL, crc32c_sse42};
static const struct crc_kernel vclmul = {"vclmul", fold_vclmul, NULL, crc32c_sse42};

#elif defined(CRC_ARM)

#define PMULL __attribute__((target("+crypto+crc")))

PMULL static inline uint64x2_t
load(const unsigned char *p)
{
    return vreinterpretq_u64_u8(vld1q_u8(p));
}

PMULL static inline uint64x2_t
fold(uint64x2_t acc, uint64x2_t k, uint64x2_t block)
{
    uint64x2_t low = vreinterpretq_u64_p128(
        vmull_p64((poly64_t)vgetq_lane_u64(acc, 0), (poly64_t)vgetq_lane_u64(k, 0)));
    uint64x2_t high = vreinterpretq_u64_p128(
        vmull_p64((poly64_t)vgetq_lane_u64(acc, 1), (poly64_t)vgetq_lane_u64(k, 1)));

    return veorq_u64(veorq_u64(low, high), block);
}

PMULL static void
fold_pmull(const struct crc_fold *f, uint64_t crc, const unsigned char *p, size_t len,
           unsigned char out[16])
{
    const uint64x2_t k512 = vld1q_u64(f->by512);
    const uint64x2_t k128 = vld1q_u64(f->by128);
    uint64x2_t a = veorq_u64(load(p), vsetq_lane_u64(crc, vdupq_n_u64(0), 0));
    uint64x2_t b = load(p + 16);
    uint64x2_t c = load(p + 32);
    uint64x2_t d = load(p + 48);

    for (p += 64, len -= 64; len > 0; p += 64, len -= 64) {
        a = fold(a, k512, load(p));
        b = fold(b, k512, load(p + 16));
        c = fold(c, k512, load(p + 32));
        d = fold(d, k512, load(p + 48));
    }
    d = fold(fold(fold(a, k128, b), k128, c), k128, d);
    vst1q_u8(out, vreinterpretq_u8_u64(d));
}

PMULL static uint32_t
crc32c_armv8(uint32_t crc, const unsigned char *p, size_t len)
{
    uint64_t v;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&v, p, sizeof v);
        crc = __crc32cd(crc, v);
    }
    for (; len > 0; p++, len--)
        crc = __crc32cb(crc, *p);
    return crc;
}

PMULL static uint32_t
crc32_armv8(uint32_t crc, const unsigned char *p, size_t len)
{
    uint64_t v;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&v, p, sizeof v);
        crc = __crc32d(crc, v);
    }
    for (; len > 0; p++, len--)
        crc = __crc32b(crc, *p);
    return crc;
}

static const struct crc_kernel pmull = {"pmull", fold_pmull, crc32_armv8, crc32c_armv8};
static const struct crc_kernel armv8 = {"armv8", NULL, crc32_armv8, crc32c_armv8};

#endif

const struct crc_kernel *const *
crc_kernels(unsigned *count)
{
    static const struct crc_kernel *usable[4];
    unsigned n = 0;

#if defined(CRC_X86)
    __builtin_cpu_init(); /* this may run before the constructor that does it */
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("vpclmulqdq"))
        usable[n++] = &vclmul;
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2"))
        usable[n++] = &clmul;
#elif defined(CRC_ARM)
    unsigned long have = getauxval(AT_HWCAP);

    if ((have & HWCAP_CRC32) && (have & HWCAP_PMULL))
        usable[n++] = &pmull;
    if (have & HWCAP_CRC32)
        usable[n++] = &armv8;
#endif
    usable[n++] = &portable;
    *count = n;
    return usable;
}
