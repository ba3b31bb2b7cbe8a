/* libload: batches through libforebay, as fast as its caller may get them, beside which the Python package stands:
 *
 *     libload ENDPOINT BUCKET PREFIX COUNT ROUNDS
 *
 * Asks for PREFIX0000 ... in one batch, ROUNDS times, and reads a byte of each 4 KiB of every item. Prints, as JSON, seconds of the
 * best round, its processor time for a round, and bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "libforebay/forebay.h"

static double
seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double
one_round(struct forebay *f, const char *bucket, const struct forebay_wanted *w,
          uint64_t *bytes, unsigned *seen)
{
    double began = seconds_now(), took;
    struct forebay_batch *b = NULL;
    const struct forebay_part *parts;
    struct forebay_error e;
    const unsigned char *at;
    size_t count, len;

    if (forebay_get_batch(f, bucket, w, &b, &e) != FOREBAY_OK) {
        fprintf(stderr, "libload: %s\n", e.text);
        exit(1);
    }
    took = seconds_now() - began;
    at = forebay_batch_bytes(b, &len);
    parts = forebay_batch_parts(b, &count);
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        *bytes += parts[i].len;
        for (uint64_t k = 0; k < parts[i].len; k += 4096)
            *seen += at[parts[i].offset + k];
    }
    forebay_batch_free(&b);
    return took;
}

int
main(int argc, char **argv)
{
    int count = argc == 6 ? atoi(argv[4]) : 0, rounds = argc == 6 ? atoi(argv[5]) : 0;
    struct forebay_options o = {
        .size = sizeof o, .endpoint = argc == 6 ? argv[1] : NULL, .unsigned_requests = 1};
    struct forebay_wanted w = {.count = (size_t)count, .fail_on_missing = 1};
    struct forebay_error e;
    struct forebay *f;
    double best = 1e9;
    uint64_t bytes = 0;
    clock_t cpu;
    unsigned seen = 0;
    char **names;

    if (count <= 0 || rounds <= 0) {
        fprintf(stderr, "libload ENDPOINT BUCKET PREFIX COUNT ROUNDS\n");
        return 2;
    }
    if (forebay_open(&o, &f, &e) != FOREBAY_OK) {
        fprintf(stderr, "libload: %s\n", e.text);
        return 1;
    }
    names = calloc((size_t)count, sizeof *names);
    for (int i = 0; i < count; i++)
        if (asprintf(&names[i], "%s%04d", argv[3], i) < 0)
            return 1;
    w.objects = (const char *const *)names;
    cpu = clock();
    for (int r = 0; r < rounds; r++) {
        double took = one_round(f, argv[2], &w, &bytes, &seen);

        best = took < best ? took : best;
    }
    cpu = clock() - cpu;
    printf("{\"batch_s\": %.6f, \"cpu_s\": %.6f, \"bytes\": %llu, \"seen\": %u}\n", best,
           (double)cpu / CLOCKS_PER_SEC / rounds, (unsigned long long)bytes, seen);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    forebay_close(&f);
    return 0;
}
