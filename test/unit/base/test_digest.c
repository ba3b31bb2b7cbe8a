/* Digests, HMAC and text forms against published values. */
#include "base/hash.h"

#include <time.h>

#include "base/mem.h"
#include "check.h"

static const char *
b64(enum digest_kind kind, const char *text)
{
    static char out[BASE64_LEN(DIGEST_MAX) + 1];
    unsigned char raw[DIGEST_MAX];

    base64_encode(raw, digest_oneshot(kind, text, strlen(text), raw), out);
    return out;
}

static const char *
hex(const void *data, size_t len)
{
    static char out[2 * 64 + 1];

    hex_encode(data, len, out);
    return out;
}

static void
test_published_digests(void)
{
    unsigned char raw[DIGEST_MAX];

    CHECK_STR(b64(DIGEST_SHA1, ""), "2jmj7l5rSw0yVb/vlWAYkK/YBwk=");
    CHECK_STR(b64(DIGEST_SHA256, ""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    CHECK_STR(b64(DIGEST_SHA1, "123456789"), "98O8HYCOBHMq32eZZczDTKeuNEE=");
    CHECK_STR(b64(DIGEST_SHA256, "123456789"),
              "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
    CHECK_STR(b64(DIGEST_SHA1, "hello world"), "Kq5sNclPz7QV2+lfQIuc6R7oRu0=");
    CHECK_STR(b64(DIGEST_SHA256, "hello world"),
              "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek=");
    CHECK_U64(digest_oneshot(DIGEST_MD5, "", 0, raw), 16);
    CHECK_STR(hex(raw, 16), "d41d8cd98f00b204e9800998ecf8427e"); /* RFC 1321, A.5 */
    digest_oneshot(DIGEST_MD5, "message digest", 14, raw);
    CHECK_STR(hex(raw, 16), "f96b697d7cb7938d525a2f31aaf161d0");
}

static void
test_pieces_make_the_same(void)
{
    static const char text[] =
        "the quick brown fox jumps over the lazy dog, and then over the next sixty-four";

    for (int kind = DIGEST_MD5; kind <= DIGEST_SHA256; kind++) {
        unsigned char whole[DIGEST_MAX], pieces[DIGEST_MAX];
        size_t len = digest_oneshot((enum digest_kind)kind, text, strlen(text), whole);

        for (size_t cut = 0; cut <= strlen(text); cut++) {
            struct digest d;

            digest_init(&d, (enum digest_kind)kind);
            digest_add(&d, text, cut);
            digest_add(&d, text + cut, strlen(text) - cut);
            CHECK_U64(digest_end(&d, pieces), len);
            REQUIRE(memcmp(whole, pieces, len) == 0);
            digest_fini(&d); /* twice is fine */
        }
    }
}

static void
test_an_abandoned_digest_leaks_nothing(void)
{
    struct digest d;

    digest_init(&d, DIGEST_MD5);
    digest_add(&d, "x", 1);
    digest_fini(&d);
    digest_fini(&d);
    CHECK(d.ctx == NULL);
}

/* The multipart example of S3: composite SHA-256 and ETag of three parts of 5 MiB. */
static void
test_three_parts(void)
{
    enum { PART = 5 << 20 };
    unsigned char *part = malloc(PART);
    unsigned char md5s[3 * 16], sha256s[3 * 32], out[DIGEST_MAX];
    char text[BASE64_LEN(32) + 1];

    REQUIRE(part != NULL);
    for (size_t i = 0; i < 3; i++) {
        memset(part, 'A' + (int)i, PART);
        digest_oneshot(DIGEST_MD5, part, PART, out);
        memcpy(md5s + i * 16, out, 16);
        digest_oneshot(DIGEST_SHA256, part, PART, out);
        memcpy(sha256s + i * 32, out, 32);
    }
    digest_oneshot(DIGEST_MD5, md5s, sizeof md5s, out);
    CHECK_STR(hex(out, 16), "b2add96cc9702bbf4efb0ccdfc6b7747");
    digest_oneshot(DIGEST_SHA256, sha256s, sizeof sha256s, out);
    base64_encode(out, 32, text);
    CHECK_STR(text, "uWBwpe1dxI4Vw8Gf0X9ynOdw/SS6VBzfWm9giiv1sf4=");
    free(part);
}

/* The composite CRC32 of the same: the CRC of the parts' CRCs, big-endian. */
static void
test_composite_crc(void)
{
    static const unsigned char crcs[] = {0x25, 0x14, 0xC2, 0xC9, 0x42, 0x86,
                                         0x53, 0x1A, 0x60, 0x08, 0x23, 0xAB};
    uint32_t crc = hash_crc32(0, crcs, sizeof crcs);
    unsigned char be[4] = {(unsigned char)(crc >> 24), (unsigned char)(crc >> 16),
                           (unsigned char)(crc >> 8), (unsigned char)crc};
    char text[BASE64_LEN(4) + 1];

    base64_encode(be, sizeof be, text);
    CHECK_STR(text, "Z+ry2Q==");
}

/* RFC 4231. */
/* A text taken in two parts, at every length of the first, is the text. */
static void
test_hmac_in_two_parts(void)
{
    unsigned char text[256], want[32], got[32];
    struct hmac_key k;
    struct hmac_begun b;

    for (unsigned i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 7);
    hmac_key_init(&k, "key", 3);
    for (size_t len = 0; len <= sizeof text; len++)
        for (size_t first = 0; first <= len; first += 64) {
            hmac_key_sign(&k, text, len, want);
            hmac_begin(&b, &k, text, first);
            hmac_finish(&b, text + first, len - first, got);
            CHECK(memcmp(want, got, sizeof want) == 0);
        }
}

static void
test_hmac(void)
{
    unsigned char key[131], data[64], out[32];
    struct hmac_key k;

    memset(key, 0x0b, 20);
    hash_hmac_sha256(key, 20, "Hi There", 8, out);
    CHECK_STR(hex(out, 32),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hash_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, out);
    CHECK_STR(hex(out, 32),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, 50);
    hash_hmac_sha256(key, 20, data, 50, out);
    CHECK_STR(hex(out, 32),
              "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    hmac_key_init(&k, key, 131); /* longer than a block: hashed first */
    for (int twice = 0; twice < 2; twice++) {
        hmac_key_sign(&k, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                      out);
        CHECK_STR(hex(out, 32),
                  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }
}

/* Vectors of RFC 2202. */
static void
test_hmac_sha1(void)
{
    unsigned char key[80], data[50], out[20];

    memset(key, 0x0b, 20);
    hash_hmac_sha1(key, 20, "Hi There", 8, out);
    CHECK_STR(hex(out, 20), "b617318655057264e28bc0b6fb378c8ef146be00");
    hash_hmac_sha1("Jefe", 4, "what do ya want for nothing?", 28, out);
    CHECK_STR(hex(out, 20), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    hash_hmac_sha1(key, 20, data, sizeof data, out);
    CHECK_STR(hex(out, 20), "125d7342b9ac11cd91a39af48aa17b4f63f175d3");
    hash_hmac_sha1(key, 80, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                   out);
    CHECK_STR(hex(out, 20), "aa4ae5e15272d00e95705637ce8a3b55ed402112");
}

static void
test_secrets(void)
{
    char secret[8] = "secret!";

    CHECK(hash_same_secret("abc", "abc", 3));
    CHECK(!hash_same_secret("abc", "abd", 3));
    hash_wipe(secret, sizeof secret);
    CHECK(memcmp(secret, "\0\0\0\0\0\0\0", 8) == 0);
}

static void
test_hex(void)
{
    unsigned char out[4];

    CHECK_STR(hex("\x00\xff\x5a", 3), "00ff5a");
    CHECK(hex_decode("00ff5A", 6, out, sizeof out) == 3 &&
          memcmp(out, "\x00\xff\x5a", 3) == 0);
    CHECK(hex_decode("", 0, out, sizeof out) == 0);
    CHECK(hex_decode("0", 1, out, sizeof out) == -1);
    CHECK(hex_decode("0g", 2, out, sizeof out) == -1);
    CHECK(hex_decode("0011223344", 10, out, sizeof out) == -1);
}

static void
test_base64_there_and_back(void)
{
    unsigned char data[64], back[64];
    char text[BASE64_LEN(64) + 1];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + 5);
    for (size_t len = 0; len <= sizeof data; len++) {
        CHECK_U64(base64_encode(data, len, text), BASE64_LEN(len));
        CHECK_U64(strlen(text), BASE64_LEN(len));
        REQUIRE(base64_decode(text, strlen(text), back, len) ==
                (int)len); /* exactly that room */
        REQUIRE(memcmp(data, back, len) == 0);
        CHECK(len == 0 || base64_decode(text, strlen(text), back, len - 1) == -1);
    }
}

static void
test_base64_is_strict(void)
{
    static const char *const bad[] = {"A",        "AA",   "AAA",   "AA=A", "=AAA",
                                      "A===",     "====", "AB==",  "AAB=", "AAA=A",
                                      "AA==AAAA", "AA A", "AAA\n", "AA-_"};
    unsigned char out[16];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (base64_decode(bad[i], strlen(bad[i]), out, sizeof out) != -1)
            fprintf(stderr, "taken: \"%s\"\n", bad[i]);
        CHECK(base64_decode(bad[i], strlen(bad[i]), out, sizeof out) == -1);
    }
    CHECK(base64_decode("AA==", 4, out, sizeof out) == 1);
    CHECK(base64_decode("", 0, out, sizeof out) == 0);
}

static void
test_xxh3(void)
{
    CHECK(hash_xxh3("", 0, 0) == 0x2D06800538D394C2u); /* of the specification */
    CHECK(hash_xxh3("a", 1, 0) != hash_xxh3("a", 1, 1));
}

/* Not a case: what a signed request costs. */
static void
speed(void)
{
    enum { ROUNDS = 300000 };
    static char canonical[500];
    struct timespec a, b;
    struct hmac_key k;
    unsigned char out[32];

    hmac_key_init(&k, "key", 3);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < ROUNDS; i++) {
        digest_oneshot(DIGEST_SHA256, canonical, sizeof canonical, out);
        hmac_key_sign(&k, canonical, 160, out);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("SHA-256 of 500 bytes and HMAC of 160: %.0f ns\n",
           ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) /
               ROUNDS);
}

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "speed") == 0) {
        speed();
        return 0;
    }
    CHECK_MAIN(argc, argv);
    RUN(test_published_digests);
    RUN(test_pieces_make_the_same);
    RUN(test_an_abandoned_digest_leaks_nothing);
    RUN(test_three_parts);
    RUN(test_composite_crc);
    RUN(test_hmac);
    RUN(test_hmac_sha1);
    RUN(test_hmac_in_two_parts);
    RUN(test_secrets);
    RUN(test_hex);
    RUN(test_base64_there_and_back);
    RUN(test_base64_is_strict);
    RUN(test_xxh3);
    return check_done();
}
