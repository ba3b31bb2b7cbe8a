/* md5 [LEN]: GB/s of one core at MD5: OpenSSL's one stream, and every kernel of base/md5.h with 1 to 64 streams of LEN bytes (65536). */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/md5.h"
#include "base/mem.h"

enum { STREAMS_MAX = 64 };

static unsigned char *data;
static size_t len = 64 << 10;

static double
now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
openssl(unsigned streams)
{
    unsigned char out[EVP_MAX_MD_SIZE];

    for (unsigned i = 0; i < streams; i++)
        if (!EVP_Digest(data + i * len, len, out, NULL, EVP_md5(), NULL))
            abort();
}

static void
lanes(unsigned streams)
{
    static struct md5 m[STREAMS_MAX];
    static struct md5_job jobs[STREAMS_MAX];
    static unsigned char out[STREAMS_MAX][16];

    for (unsigned i = 0; i < streams; i++) {
        md5_init(&m[i]);
        jobs[i] = (struct md5_job){.next = i + 1 < streams ? &jobs[i + 1] : NULL,
                                   .md5 = &m[i],
                                   .data = data + i * len,
                                   .len = len,
                                   .out = out[i]};
    }
    md5_run(jobs);
}

/* Best of five: others on the machine only make it slower. */
static double
gigabytes_a_second(void (*hash)(unsigned streams), unsigned streams)
{
    size_t each = streams * len;
    int times = (int)(((size_t)32 << 20) / each) + 1;
    double best = 0;

    for (int round = 0; round < 5; round++) {
        double from = now_s(), rate;

        for (int i = 0; i < times; i++)
            hash(streams);
        rate = (double)times * (double)each / (now_s() - from) / 1e9;
        best = rate > best ? rate : best;
    }
    return best;
}

int
main(int argc, char **argv)
{
    static const unsigned streams[] = {1, 2, 3, 4, 8, 12, 16, 24, 32, 64};
    unsigned count;
    const struct md5_kernel *const *all = md5_kernels(&count);

    if (argc > 1)
        len = strtoul(argv[1], NULL, 10);
    if (len == 0 || len > 16 << 20) {
        fprintf(stderr, "md5: LEN is 1 to 16777216 bytes\n");
        return 2;
    }
    data = xmalloc(STREAMS_MAX * len);
    memset(data, 0x5a, STREAMS_MAX * len);
    printf("%zu bytes each, GB/s\nstreams ", len);
    for (size_t i = 0; i < ARRAY_LEN(streams); i++)
        printf("%7u", streams[i]);
    printf("\nopenssl  %6.2f\n", gigabytes_a_second(openssl, 16));
    for (unsigned k = 0; k < count; k++) {
        if (!md5_use(all[k]->name))
            abort();
        printf("%-8s", all[k]->name);
        for (size_t i = 0; i < ARRAY_LEN(streams); i++)
            printf(" %6.2f", gigabytes_a_second(lanes, streams[i]));
        printf("\n");
    }
    free(data);
    return 0;
}
