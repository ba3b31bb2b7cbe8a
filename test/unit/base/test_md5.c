/* MD5 in lanes: the vectors of RFC 1321, and every kernel of this CPU against OpenSSL's EVP: any number of streams, of any
 * lengths, cut anywhere. */
#include "base/md5.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "check.h"

enum { STREAMS_MAX = 80, BYTES = 1 << 20 };

static unsigned char *data;
static uint64_t seed = 1321;

static uint64_t
random_below(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

static void
by_openssl(const unsigned char *at, size_t len, unsigned char out[16])
{
    unsigned n = 0;

    REQUIRE(EVP_Digest(at, len, out, &n, EVP_md5(), NULL) == 1 && n == 16);
}

static void
check_sum(const unsigned char got[16], const char *want)
{
    char hex[33];

    hex_encode(got, 16, hex);
    CHECK_STR(hex, want);
}

static void
test_vectors_of_the_rfc(void)
{
    static const struct {
        const char *text, *sum;
    } rows[] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"1234567890123456789012345678901234567890123456789012345678901234567890123456789"
         "0",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };
    struct md5 m[ARRAY_LEN(rows)];
    struct md5_job jobs[ARRAY_LEN(rows)];
    unsigned char out[ARRAY_LEN(rows)][16], alone[16];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const unsigned char *text = (const unsigned char *)rows[i].text;

        md5_init(&m[i]);
        md5_add(&m[i], text, strlen(rows[i].text));
        md5_end(&m[i], alone);
        check_sum(alone, rows[i].sum);
        md5_init(&m[i]);
        jobs[i] = (struct md5_job){.next = i > 0 ? &jobs[i - 1] : NULL,
                                   .md5 = &m[i],
                                   .data = text,
                                   .len = strlen(rows[i].text),
                                   .out = out[i]};
    }
    md5_run(&jobs[ARRAY_LEN(rows) - 1]);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check_sum(out[i], rows[i].sum);
    md5_run(NULL);
}

/* A stream and how far it is. */
struct stream {
    struct md5 md5;
    const unsigned char *at;
    size_t len, done;
    bool over;
    unsigned char got[16];
};

static size_t
some_length(void)
{
    switch (random_below(4)) {
    case 0:
        return random_below(200); /* every place of the padding */
    case 1:
        return 64 * random_below(20);
    case 2:
        return random_below(5000);
    default:
        return random_below(70000);
    }
}

/* The next piece of each stream that is not over, all in one run; some end with their last piece, some with an empty one. */
static unsigned
run_pieces(struct stream *streams, unsigned count)
{
    static struct md5_job jobs[STREAMS_MAX];
    struct md5_job *list = NULL;
    unsigned n = 0;

    for (unsigned i = 0; i < count; i++) {
        struct stream *s = &streams[i];
        size_t left = s->len - s->done;
        size_t take = random_below(3) == 0 ? left : random_below(left + 1);

        if (s->over || random_below(5) == 0)
            continue;
        s->over = take == left && random_below(2) == 0;
        jobs[n] = (struct md5_job){.next = list,
                                   .md5 = &s->md5,
                                   .data = s->at + s->done,
                                   .len = take,
                                   .out = s->over ? s->got : NULL};
        s->done += take;
        list = &jobs[n++];
    }
    md5_run(list);
    n = 0;
    for (unsigned i = 0; i < count; i++)
        n += !streams[i].over;
    return n;
}

static void
many_streams(unsigned count)
{
    static struct stream streams[STREAMS_MAX];
    unsigned char want[16];

    for (unsigned i = 0; i < count; i++) {
        streams[i] = (struct stream){.len = some_length()};
        streams[i].at = data + random_below(BYTES - streams[i].len);
        md5_init(&streams[i].md5);
    }
    while (run_pieces(streams, count) > 0)
        ;
    for (unsigned i = 0; i < count; i++) {
        by_openssl(streams[i].at, streams[i].len, want);
        REQUIRE(memcmp(streams[i].got, want, 16) == 0);
    }
}

static void
test_every_kernel_agrees_with_openssl(void)
{
    unsigned kernels;
    const struct md5_kernel *const *all = md5_kernels(&kernels);
    const char *before = md5_used();

    CHECK_STR(before, all[0]->name);
    CHECK_STR(all[kernels - 1]->name, "vec4");
    for (unsigned k = 0; k < kernels; k++) {
        REQUIRE(md5_use(all[k]->name));
        CHECK_STR(md5_used(), all[k]->name);
        CHECK(all[k]->lanes >= 2 && all[k]->lanes <= MD5_LANES_MAX);
        printf("kernel %s\n", md5_used());
        for (unsigned count = 1; count <= STREAMS_MAX; count += count < 40 ? 1 : 13)
            many_streams(count);
    }
    CHECK(!md5_use("abacus"));
    CHECK(md5_use(before));
}

/* Streams that are equal but for their length: 0 to 200 bytes at once, so that lanes end at every block. */
static void
test_every_length_at_once(void)
{
    static struct md5 m[201];
    static struct md5_job jobs[201];
    static unsigned char out[201][16];
    unsigned char want[16];

    for (size_t i = 0; i <= 200; i++) {
        md5_init(&m[i]);
        jobs[i] = (struct md5_job){.next = i < 200 ? &jobs[i + 1] : NULL,
                                   .md5 = &m[i],
                                   .data = data + i,
                                   .len = i,
                                   .out = out[i]};
    }
    md5_run(jobs);
    for (size_t i = 0; i <= 200; i++) {
        by_openssl(data + i, i, want);
        REQUIRE(memcmp(out[i], want, 16) == 0);
    }
}

/* The length in the padding has 64 bits. */
static void
test_the_length_is_counted_in_64_bits(void)
{
    struct md5 m;
    unsigned char ours[16], want[16];
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    unsigned n;

    REQUIRE(c != NULL && EVP_DigestInit_ex(c, EVP_md5(), NULL) == 1);
    md5_init(&m);
    for (int i = 0; i < 600; i++) { /* 600 MiB are more than 2^32 bits */
        md5_add(&m, data, BYTES);
        REQUIRE(EVP_DigestUpdate(c, data, BYTES) == 1);
    }
    md5_end(&m, ours);
    REQUIRE(EVP_DigestFinal_ex(c, want, &n) == 1);
    CHECK(memcmp(ours, want, 16) == 0);
    EVP_MD_CTX_free(c);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    data = xmalloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (unsigned char)random_below(256);
    RUN(test_vectors_of_the_rfc);
    RUN(test_every_kernel_agrees_with_openssl);
    RUN(test_every_length_at_once);
    RUN(test_the_length_is_counted_in_64_bits);
    free(data);
    return check_done();
}
