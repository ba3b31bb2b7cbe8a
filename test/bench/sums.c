/* sums [LEN]: what comparing a body with its sums costs beside sending it, on one core. The bytes are in no cache before each
 * run, as after a disk's DMA, or in all: summed alone, copied alone (what send does), both, whole or piece after piece. LEN: 100000. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/hash.h"
#include "base/mem.h"

enum { BUFFERS = 64, ROUNDS = 200, BLOCK = 16 << 10, LINE = 64 };

static unsigned char *from[BUFFERS], *to[BUFFERS];
static size_t len = 100000;
static uint32_t sink;

static double
now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void
forget(const unsigned char *p)
{
#if defined(__x86_64__)
    for (size_t i = 0; i < len; i += LINE)
        _mm_clflush(p + i);
    _mm_mfence();
#else
    (void)p;
#endif
}

static void
sum(const unsigned char *p, size_t n)
{
    for (size_t at = 0; at < n; at += BLOCK)
        sink ^= hash_crc32c(sink, p + at, MIN(n - at, (size_t)BLOCK));
}

/* piece 0: the whole. */
static void
run(const unsigned char *p, unsigned char *out, bool sums, bool copies, size_t piece)
{
    size_t step = piece != 0 ? piece : len;

    for (size_t at = 0; at < len; at += step) {
        size_t n = MIN(len - at, step);

        if (sums)
            sum(p + at, n);
        if (copies)
            memcpy(out + at, p + at, n);
    }
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median_us(bool cold, bool sums, bool copies, size_t piece)
{
    static double all[ROUNDS];

    for (unsigned r = 0; r < ROUNDS; r++) {
        unsigned char *p = from[r % BUFFERS], *out = to[r % 4];
        double begun;

        if (cold)
            forget(p);
        else
            run(p, out, true, false, 0);
        begun = now_us();
        run(p, out, sums, copies, piece);
        all[r] = now_us() - begun;
    }
    qsort(all, ROUNDS, sizeof *all, by_value);
    return all[ROUNDS / 2];
}

static void
line(const char *what, bool sums, bool copies, size_t piece)
{
    double cold = median_us(true, sums, copies, piece),
           hot = median_us(false, sums, copies, piece);

    printf("%-34s %8.2f us %6.1f GB/s %8.2f us %6.1f GB/s\n", what, cold,
           (double)len / cold / 1e3, hot, (double)len / hot / 1e3);
}

int
main(int argc, char **argv)
{
    if (argc > 1)
        len = strtoul(argv[1], NULL, 10);
    for (unsigned i = 0; i < BUFFERS; i++) {
        from[i] = aligned_alloc(4096, (len + 8191) & ~(size_t)4095);
        to[i] = aligned_alloc(4096, (len + 8191) & ~(size_t)4095);
        if (from[i] == NULL || to[i] == NULL)
            abort();
        memset(from[i], (int)i + 1, len);
        memset(to[i], 1, len);
    }
    printf(
        "%zu bytes                           in no cache               in the caches\n",
        len);
    line("summed", true, false, 0);
    line("copied", false, true, 0);
    line("summed, then copied", true, true, 0);
    line("the same by pieces of 64 KiB", true, true, 64 << 10);
    line("the same by pieces of 32 KiB", true, true, 32 << 10);
    line("the same by pieces of 16 KiB", true, true, BLOCK);
    return (int)(sink & 0);
}
