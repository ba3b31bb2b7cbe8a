/* stalls SECONDS: what the machine itself takes from a program that does nothing but look at the clock. Prints, as JSON, how long it
 * looked and each gap of 50 us and more, in microseconds: where this core was somebody else's, or nobody's. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LEAST_NS = 50000, GAPS_MAX = 65536 };

static uint64_t
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int
main(int argc, char **argv)
{
    static uint64_t gaps[GAPS_MAX];
    unsigned count = 0;
    uint64_t begun = now_ns(), last = begun, end;

    if (argc != 2) {
        fprintf(stderr, "stalls SECONDS\n");
        return 2;
    }
    end = begun + (uint64_t)(atof(argv[1]) * 1e9);
    while (last < end) {
        uint64_t now = now_ns();

        if (now - last >= LEAST_NS && count < GAPS_MAX)
            gaps[count++] = now - last;
        last = now;
    }
    printf("{\"seconds\":%.6f,\"gaps_us\":[", (double)(last - begun) / 1e9);
    for (unsigned i = 0; i < count; i++)
        printf("%s%.1f", i > 0 ? "," : "", (double)gaps[i] / 1e3);
    printf("]}\n");
    return 0;
}
