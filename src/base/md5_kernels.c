/* The kernels of md5.h: sixteen lanes in 512 bits, eight in 256, four in what every compiler calls a vector of 128 bits
 * (SSE2, NEON, or plain words where there is neither); each also two vectors at a time. FB_PORTABLE leaves only the last. */
#include <string.h>

#include "base/md5.h"

#if defined(__x86_64__) && !defined(FB_PORTABLE)
#define MD5_X86 1
#include <immintrin.h>
#endif

/* RFC 1321, 3.4. */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613,
    0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193,
    0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d,
    0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
    0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122,
    0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
    0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244,
    0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb,
    0xeb86d391};
/* Function, roles of the four words, word of the block, rotation, constant. */
/* clang-format off */
#define MD5_STEPS(X) \
    X(F, a, b, c, d, 0, 7, 0) \
    X(F, d, a, b, c, 1, 12, 1) \
    X(F, c, d, a, b, 2, 17, 2) \
    X(F, b, c, d, a, 3, 22, 3) \
    X(F, a, b, c, d, 4, 7, 4) \
    X(F, d, a, b, c, 5, 12, 5) \
    X(F, c, d, a, b, 6, 17, 6) \
    X(F, b, c, d, a, 7, 22, 7) \
    X(F, a, b, c, d, 8, 7, 8) \
    X(F, d, a, b, c, 9, 12, 9) \
    X(F, c, d, a, b, 10, 17, 10) \
    X(F, b, c, d, a, 11, 22, 11) \
    X(F, a, b, c, d, 12, 7, 12) \
    X(F, d, a, b, c, 13, 12, 13) \
    X(F, c, d, a, b, 14, 17, 14) \
    X(F, b, c, d, a, 15, 22, 15) \
    X(G, a, b, c, d, 1, 5, 16) \
    X(G, d, a, b, c, 6, 9, 17) \
    X(G, c, d, a, b, 11, 14, 18) \
    X(G, b, c, d, a, 0, 20, 19) \
    X(G, a, b, c, d, 5, 5, 20) \
    X(G, d, a, b, c, 10, 9, 21) \
    X(G, c, d, a, b, 15, 14, 22) \
    X(G, b, c, d, a, 4, 20, 23) \
    X(G, a, b, c, d, 9, 5, 24) \
    X(G, d, a, b, c, 14, 9, 25) \
    X(G, c, d, a, b, 3, 14, 26) \
    X(G, b, c, d, a, 8, 20, 27) \
    X(G, a, b, c, d, 13, 5, 28) \
    X(G, d, a, b, c, 2, 9, 29) \
    X(G, c, d, a, b, 7, 14, 30) \
    X(G, b, c, d, a, 12, 20, 31) \
    X(H, a, b, c, d, 5, 4, 32) \
    X(H, d, a, b, c, 8, 11, 33) \
    X(H, c, d, a, b, 11, 16, 34) \
    X(H, b, c, d, a, 14, 23, 35) \
    X(H, a, b, c, d, 1, 4, 36) \
    X(H, d, a, b, c, 4, 11, 37) \
    X(H, c, d, a, b, 7, 16, 38) \
    X(H, b, c, d, a, 10, 23, 39) \
    X(H, a, b, c, d, 13, 4, 40) \
    X(H, d, a, b, c, 0, 11, 41) \
    X(H, c, d, a, b, 3, 16, 42) \
    X(H, b, c, d, a, 6, 23, 43) \
    X(H, a, b, c, d, 9, 4, 44) \
    X(H, d, a, b, c, 12, 11, 45) \
    X(H, c, d, a, b, 15, 16, 46) \
    X(H, b, c, d, a, 2, 23, 47) \
    X(I, a, b, c, d, 0, 6, 48) \
    X(I, d, a, b, c, 7, 10, 49) \
    X(I, c, d, a, b, 14, 15, 50) \
    X(I, b, c, d, a, 5, 21, 51) \
    X(I, a, b, c, d, 12, 6, 52) \
    X(I, d, a, b, c, 3, 10, 53) \
    X(I, c, d, a, b, 10, 15, 54) \
    X(I, b, c, d, a, 1, 21, 55) \
    X(I, a, b, c, d, 8, 6, 56) \
    X(I, d, a, b, c, 15, 10, 57) \
    X(I, c, d, a, b, 6, 15, 58) \
    X(I, b, c, d, a, 13, 21, 59) \
    X(I, a, b, c, d, 4, 6, 60) \
    X(I, d, a, b, c, 11, 10, 61) \
    X(I, c, d, a, b, 2, 15, 62) \
    X(I, b, c, d, a, 9, 21, 63)
/* clang-format on */

/* A compiler that knew the numbers would carry each from a general register, which costs a shuffle: from memory it is free. */
static inline const uint32_t *
hidden_sines(void)
{
    const uint32_t *s = sines;

    __asm__("" : "+r"(s));
    return s;
}

/* 4x4 within each 128 bits: LOAD of i = 0..3 becomes four words of all lanes; and back. */
#define TRANSPOSE(v0, v1, v2, v3)                                                        \
    do {                                                                                 \
        vec low01 = LOW32(v0, v1), high01 = HIGH32(v0, v1);                              \
        vec low23 = LOW32(v2, v3), high23 = HIGH32(v2, v3);                              \
                                                                                         \
        (v0) = LOW64(low01, low23);                                                      \
        (v1) = HIGH64(low01, low23);                                                     \
        (v2) = LOW64(high01, high23);                                                    \
        (v3) = HIGH64(high01, high23);                                                   \
    } while (0)

/* WORDS of a kernel by its LOAD: each line of the cache is touched four times. */
#define FROM_QUARTERS(p, off, m)                                                         \
    do {                                                                                 \
        FOUR_WORDS(p, off, m, 0);                                                        \
        FOUR_WORDS(p, off, m, 4);                                                        \
        FOUR_WORDS(p, off, m, 8);                                                        \
        FOUR_WORDS(p, off, m, 12);                                                       \
    } while (0)
#define FOUR_WORDS(p, off, m, w)                                                         \
    do {                                                                                 \
        (m)[w] = LOAD(p, 0, (off) + 4 * (w));                                            \
        (m)[(w) + 1] = LOAD(p, 1, (off) + 4 * (w));                                      \
        (m)[(w) + 2] = LOAD(p, 2, (off) + 4 * (w));                                      \
        (m)[(w) + 3] = LOAD(p, 3, (off) + 4 * (w));                                      \
        TRANSPOSE((m)[w], (m)[(w) + 1], (m)[(w) + 2], (m)[(w) + 3]);                     \
    } while (0)

/* ---- 128 bits, anywhere ---- */

#if defined(MD5_X86)
#define HOLD4(x) __asm__("" : "+x"(x))
#elif defined(__aarch64__)
#define HOLD4(x) __asm__("" : "+w"(x))
#else
#define HOLD4(x) ((void)0)
#endif

typedef uint32_t vec4 __attribute__((vector_size(16)));

static inline vec4
load4(const void *p)
{
    uint32_t w[4];

    memcpy(w, p, sizeof w);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "words of a message are little-endian: swap them here, but not those of the state"
#endif
    return (vec4){w[0], w[1], w[2], w[3]};
}

static inline void
store4(void *p, vec4 v)
{
    memcpy(p, &v, sizeof v);
}

#define MD5_NAME(x) x##_vec4
#define MD5_TARGET
#define MD5_WIDTH       4
#define vec             vec4
#define WORDS           FROM_QUARTERS
#define LOAD(p, i, off) load4((const unsigned char *)(p)[i] + (off))
#define STORE(p, i, v)  store4((p)[i], v)
#define LOW32(x, y)     __builtin_shufflevector(x, y, 0, 4, 1, 5)
#define HIGH32(x, y)    __builtin_shufflevector(x, y, 2, 6, 3, 7)
#define LOW64(x, y)     __builtin_shufflevector(x, y, 0, 1, 4, 5)
#define HIGH64(x, y)    __builtin_shufflevector(x, y, 2, 3, 6, 7)
#define HOLD(x)         HOLD4(x)
#define SPLAT(t)        ((vec4){t, t, t, t})
#define ADD(x, y)       ((x) + (y))
#define ROL(x, r)       ((x) << (r) | (x) >> (32 - (r)))
#define F(b, c, d)      ((((c) ^ (d)) & (b)) ^ (d))
#define G(b, c, d)      ((((b) ^ (c)) & (d)) ^ (c))
#define H(b, c, d)      (((c) ^ (d)) ^ (b))
#define I(b, c, d)      (((b) | ~(d)) ^ (c))
#include "base/md5_kernel.inc"

static const struct md5_kernel vec4_kernel = {"vec4", 8, run_vec4};

#if defined(MD5_X86)

/* ---- AVX2 ---- */

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256i
load8(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                   _mm_loadu_si128(high), 1);
}

AVX2 static inline void
store8(void *low, void *high, __m256i v)
{
    _mm_storeu_si128(low, _mm256_castsi256_si128(v));
    _mm_storeu_si128(high, _mm256_extracti128_si256(v, 1));
}

#define MD5_NAME(x) x##_avx2
#define MD5_TARGET  AVX2
#define MD5_WIDTH   8
#define vec         __m256i
#define WORDS       FROM_QUARTERS
#define LOAD(p, i, off)                                                                  \
    load8((const unsigned char *)(p)[i] + (off),                                         \
          (const unsigned char *)(p)[(i) + 4] + (off))
#define STORE(p, i, v) store8((p)[i], (p)[(i) + 4], v)
#define LOW32          _mm256_unpacklo_epi32
#define HIGH32         _mm256_unpackhi_epi32
#define LOW64          _mm256_unpacklo_epi64
#define HIGH64         _mm256_unpackhi_epi64
#define HOLD(x)        __asm__("" : "+x"(x))
#define SPLAT(t)       _mm256_set1_epi32((int)(t))
#define ADD            _mm256_add_epi32
#define ROL(x, r)      _mm256_or_si256(_mm256_slli_epi32(x, r), _mm256_srli_epi32(x, 32 - (r)))
#define F(b, c, d)     _mm256_xor_si256(_mm256_and_si256(_mm256_xor_si256(c, d), b), d)
#define G(b, c, d)     _mm256_xor_si256(_mm256_and_si256(_mm256_xor_si256(b, c), d), c)
#define H(b, c, d)     _mm256_xor_si256(_mm256_xor_si256(c, d), b)
#define I(b, c, d)                                                                       \
    _mm256_xor_si256(_mm256_or_si256(b, _mm256_xor_si256(d, _mm256_set1_epi32(-1))), c)
#include "base/md5_kernel.inc"

static const struct md5_kernel avx2_kernel = {"avx2", 16, run_avx2};

/* ---- AVX-512: rotation and any function of three are one instruction each ---- */

#define AVX512 __attribute__((target("avx512f")))

AVX512 static inline __m512i
load16(const void *a, const void *b, const void *c, const void *d)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128(a));

    v = _mm512_mask_broadcast_i32x4(v, 0x00F0, _mm_loadu_si128(b));
    v = _mm512_mask_broadcast_i32x4(v, 0x0F00, _mm_loadu_si128(c));
    return _mm512_mask_broadcast_i32x4(v, 0xF000, _mm_loadu_si128(d));
}

AVX512 static inline void
store16(void *a, void *b, void *c, void *d, __m512i v)
{
    _mm_storeu_si128(a, _mm512_castsi512_si128(v));
    _mm_storeu_si128(b, _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128(c, _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128(d, _mm512_extracti32x4_epi32(v, 3));
}

#define MD5_NAME(x) x##_avx512
#define MD5_TARGET  AVX512
#define MD5_WIDTH   16
#define vec         __m512i
#define WORDS       words16
#define LOAD(p, i, off)                                                                  \
    load16((const unsigned char *)(p)[i] + (off),                                        \
           (const unsigned char *)(p)[(i) + 4] + (off),                                  \
           (const unsigned char *)(p)[(i) + 8] + (off),                                  \
           (const unsigned char *)(p)[(i) + 12] + (off))
#define STORE(p, i, v) store16((p)[i], (p)[(i) + 4], (p)[(i) + 8], (p)[(i) + 12], v)
#define LOW32          _mm512_unpacklo_epi32
#define HIGH32         _mm512_unpackhi_epi32
#define LOW64          _mm512_unpacklo_epi64
#define HIGH64         _mm512_unpackhi_epi64
#define HOLD(x)        __asm__("" : "+v"(x))
#define SPLAT(t)       _mm512_set1_epi32((int)(t))
#define ADD            _mm512_add_epi32
#define ROL            _mm512_rol_epi32
/* Bit 4*b + 2*c + d of the number is the result. */
#define F(b, c, d) _mm512_ternarylogic_epi32(b, c, d, 0xCA)
#define G(b, c, d) _mm512_ternarylogic_epi32(b, c, d, 0xE4)
#define H(b, c, d) _mm512_ternarylogic_epi32(b, c, d, 0x96)
#define I(b, c, d) _mm512_ternarylogic_epi32(b, c, d, 0x39)

/* Bodies often lie a multiple of 4 KiB apart, so that sixteen lanes ask for more lines of one set of the cache than it has: each
 * line is loaded once, as a whole. First 4x4 words within 128 bits, then 4x4 of those. */
#define ROWS(p, off, v, i)                                                               \
    do {                                                                                 \
        (v)[i] = _mm512_loadu_si512((p)[i] + (off));                                     \
        (v)[(i) + 1] = _mm512_loadu_si512((p)[(i) + 1] + (off));                         \
        (v)[(i) + 2] = _mm512_loadu_si512((p)[(i) + 2] + (off));                         \
        (v)[(i) + 3] = _mm512_loadu_si512((p)[(i) + 3] + (off));                         \
        TRANSPOSE((v)[i], (v)[(i) + 1], (v)[(i) + 2], (v)[(i) + 3]);                     \
    } while (0)
#define COLUMNS(v, m, j)                                                                 \
    do {                                                                                 \
        __m512i even01 = _mm512_shuffle_i32x4((v)[j], (v)[4 + (j)], 0x88);               \
        __m512i odd01 = _mm512_shuffle_i32x4((v)[j], (v)[4 + (j)], 0xDD);                \
        __m512i even23 = _mm512_shuffle_i32x4((v)[8 + (j)], (v)[12 + (j)], 0x88);        \
        __m512i odd23 = _mm512_shuffle_i32x4((v)[8 + (j)], (v)[12 + (j)], 0xDD);         \
                                                                                         \
        (m)[j] = _mm512_shuffle_i32x4(even01, even23, 0x88);                             \
        (m)[4 + (j)] = _mm512_shuffle_i32x4(odd01, odd23, 0x88);                         \
        (m)[8 + (j)] = _mm512_shuffle_i32x4(even01, even23, 0xDD);                       \
        (m)[12 + (j)] = _mm512_shuffle_i32x4(odd01, odd23, 0xDD);                        \
    } while (0)

AVX512 static inline __attribute__((always_inline)) void
words16(const unsigned char *const *p, size_t off, __m512i m[16])
{
    __m512i v[16];

    ROWS(p, off, v, 0);
    ROWS(p, off, v, 4);
    ROWS(p, off, v, 8);
    ROWS(p, off, v, 12);
    COLUMNS(v, m, 0);
    COLUMNS(v, m, 1);
    COLUMNS(v, m, 2);
    COLUMNS(v, m, 3);
}
#include "base/md5_kernel.inc"

static const struct md5_kernel avx512_kernel = {"avx512", 32, run_avx512};

#endif

const struct md5_kernel *const *
md5_kernels(unsigned *count)
{
    static const struct md5_kernel *usable[3];
    unsigned n = 0;

#if defined(MD5_X86)
    __builtin_cpu_init(); /* this may run before the constructor that does it */
    if (__builtin_cpu_supports("avx512f"))
        usable[n++] = &avx512_kernel;
    if (__builtin_cpu_supports("avx2"))
        usable[n++] = &avx2_kernel;
#endif
    usable[n++] = &vec4_kernel;
    *count = n;
    return usable;
}
