#define OPENSSL_SUPPRESS_DEPRECATED /* RAND_set_rand_method: OpenSSL 3 has nothing simpler that repeats */
#include "rt/sim_engine.h"

#include <assert.h>
#include <openssl/rand.h>
#include <string.h>

/* SplitMix64: short, seeds of any kind are fine. */
uint64_t
sim_rng_next(struct sim_rng *r)
{
    uint64_t z = (r->state += 0x9E3779B97F4A7C15u);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void
sim_rng_bytes(struct sim_rng *r, void *out, size_t len)
{
    unsigned char *at = out;

    while (len > 0) {
        uint64_t bits = sim_rng_next(r);
        size_t n = MIN(len, sizeof bits);

        memcpy(at, &bits, n);
        at += n;
        len -= n;
    }
}

static struct sim_rng *openssl_rng;
static const RAND_METHOD *openssl_before;

static int
on_rand_bytes(unsigned char *buf, int num)
{
    assert(openssl_rng != NULL);
    sim_rng_bytes(openssl_rng, buf, (size_t)num);
    return 1;
}

static int
on_rand_status(void)
{
    return 1;
}

void
sim_openssl_begin(struct sim_rng *r)
{
    static const RAND_METHOD method = {
        .bytes = on_rand_bytes,
        .pseudorand = on_rand_bytes,
        .status = on_rand_status,
    };

    assert(openssl_rng == NULL);
    openssl_rng = r;
    openssl_before = RAND_get_rand_method();
    (void)RAND_set_rand_method(&method);
}

void
sim_openssl_end(void)
{
    (void)RAND_set_rand_method(openssl_before);
    openssl_rng = NULL;
}
