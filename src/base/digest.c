/* Digests and HMAC by OpenSSL, xxh3 by libxxhash.
 *
 * struct digest goes through EVP with algorithms fetched once. HMAC with a prepared key
 * and SHA-256 of a short text are paid by every signed request, so they use SHA256_*
 * directly: 100 ns less a call, and the state after the padded key can be kept, which EVP
 * cannot without an allocation. OpenSSL calls those functions deprecated; they are there
 * in all of 3.x.
 */
#define OPENSSL_SUPPRESS_DEPRECATED 1

#include <assert.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* for the size of its state */
#include <xxhash.h>

#include "base/hash.h"
#include "base/mem.h"

static const struct {
    const char *name;
    size_t len;
} kinds[] = {
    [DIGEST_MD5] = {"MD5", 16},
    [DIGEST_SHA1] = {"SHA1", 20},
    [DIGEST_SHA256] = {"SHA256", 32},
    [DIGEST_SHA512] = {"SHA512", 64},
};

static EVP_MD *fetched[ARRAY_LEN(kinds)];
static pthread_once_t fetch_once = PTHREAD_ONCE_INIT;

/* A libcrypto without MD5 (a FIPS set-up) cannot make an ETag: stop at once, with a message. */
static void
digest_must(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "forebay: OpenSSL refuses: %s\n", what);
        abort();
    }
}

static void
digest_fetch(void)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        fetched[i] = EVP_MD_fetch(NULL, kinds[i].name, NULL);
        digest_must(fetched[i] != NULL, kinds[i].name);
    }
}

void
digest_init(struct digest *d, enum digest_kind kind)
{
    assert(kind < ARRAY_LEN(kinds));
    pthread_once(&fetch_once, digest_fetch);
    d->kind = kind;
    d->ctx = EVP_MD_CTX_new();
    digest_must(d->ctx != NULL && EVP_DigestInit_ex2(d->ctx, fetched[kind], NULL),
                "a new digest");
}

void
digest_add(struct digest *d, const void *data, size_t len)
{
    assert(d->ctx != NULL);
    if (len > 0)
        digest_must(EVP_DigestUpdate(d->ctx, data, len), "more bytes for a digest");
}

size_t
digest_end(struct digest *d, unsigned char out[DIGEST_MAX])
{
    unsigned len = 0;

    assert(d->ctx != NULL);
    digest_must(EVP_DigestFinal_ex(d->ctx, out, &len), "the end of a digest");
    assert(len == kinds[d->kind].len);
    digest_fini(d);
    return len;
}

void
digest_fini(struct digest *d)
{
    EVP_MD_CTX_free(d->ctx);
    d->ctx = NULL;
}

static void
sha256(const void *data, size_t len, unsigned char out[32])
{
    SHA256_CTX s;

    digest_must(SHA256_Init(&s) && SHA256_Update(&s, data, len) && SHA256_Final(out, &s),
                "SHA-256");
}

size_t
digest_oneshot(enum digest_kind kind, const void *data, size_t len, unsigned char *out)
{
    struct digest d;

    if (kind == DIGEST_SHA256) {
        sha256(data, len, out);
        return 32;
    }
    digest_init(&d, kind);
    digest_add(&d, data, len);
    return digest_end(&d, out);
}

/* ---- HMAC ---- */

/* The state after one block of the key, each byte xored with `pad`. */
static void
absorb_key(uint32_t state[8], const unsigned char key[64], unsigned char pad)
{
    unsigned char block[SHA256_CBLOCK];
    SHA256_CTX s;

    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ pad;
    digest_must(SHA256_Init(&s) && SHA256_Update(&s, block, sizeof block), "SHA-256");
    for (size_t i = 0; i < 8; i++)
        state[i] = s.h[i];
    OPENSSL_cleanse(block, sizeof block);
    OPENSSL_cleanse(&s, sizeof s);
}

/* Continues from such a state, which has taken `before` bytes: whole blocks. */
static void
digest_resume(SHA256_CTX *s, const uint32_t state[8], size_t before)
{
    digest_must(SHA256_Init(s), "SHA-256");
    for (size_t i = 0; i < 8; i++)
        s->h[i] = state[i];
    s->Nl = (SHA_LONG)(before * 8); /* in bits */
}

static void
finish_from(const uint32_t state[8], size_t before, const void *data, size_t len,
            unsigned char out[32])
{
    SHA256_CTX s;

    digest_resume(&s, state, before);
    digest_must(SHA256_Update(&s, data, len) && SHA256_Final(out, &s), "SHA-256");
}

void
hmac_key_init(struct hmac_key *k, const void *key, size_t key_len)
{
    unsigned char block[SHA256_CBLOCK] = {0};

    if (key_len > sizeof block)
        sha256(key, key_len, block);
    else if (key_len > 0)
        memcpy(block, key, key_len);
    absorb_key(k->inner, block, 0x36);
    absorb_key(k->outer, block, 0x5c);
    OPENSSL_cleanse(block, sizeof block);
}

void
hmac_key_sign(const struct hmac_key *k, const void *data, size_t len,
              unsigned char out[32])
{
    unsigned char inner[32];

    finish_from(k->inner, SHA256_CBLOCK, data, len, inner);
    finish_from(k->outer, SHA256_CBLOCK, inner, sizeof inner, out);
}

void
hmac_begin(struct hmac_begun *b, const struct hmac_key *k, const void *text, size_t len)
{
    SHA256_CTX s;

    assert(len % SHA256_CBLOCK == 0 && len < KIB(64));
    digest_resume(&s, k->inner, SHA256_CBLOCK);
    digest_must(SHA256_Update(&s, text, len), "SHA-256");
    *b = (struct hmac_begun){.key = *k, .len = len};
    for (size_t i = 0; i < 8; i++)
        b->key.inner[i] = s.h[i];
    OPENSSL_cleanse(&s, sizeof s);
}

void
hmac_finish(const struct hmac_begun *b, const void *rest, size_t len,
            unsigned char out[32])
{
    unsigned char inner[32];

    finish_from(b->key.inner, SHA256_CBLOCK + b->len, rest, len, inner);
    finish_from(b->key.outer, SHA256_CBLOCK, inner, sizeof inner, out);
}

void
hash_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                 unsigned char out[32])
{
    struct hmac_key k;

    hmac_key_init(&k, key, key_len);
    hmac_key_sign(&k, data, len, out);
    hash_wipe(&k, sizeof k);
}

void
hash_hkdf_sha256(const void *secret, size_t secret_len, const void *salt, size_t salt_len,
                 const char *label, unsigned char out[32])
{
    unsigned char extracted[32], info[65];
    size_t len = strlen(label);

    assert(len < sizeof info);
    hash_hmac_sha256(salt, salt_len, secret, secret_len, extracted);
    memcpy(info, label, len);
    info[len] = 1; /* the first and only block */
    hash_hmac_sha256(extracted, sizeof extracted, info, len + 1, out);
    hash_wipe(extracted, sizeof extracted);
}

void
hash_hmac_sha1(const void *key, size_t key_len, const void *data, size_t len,
               unsigned char out[20])
{
    unsigned got = 0;

    assert(key_len <= INT_MAX);
    pthread_once(&fetch_once, digest_fetch);
    digest_must(HMAC(fetched[DIGEST_SHA1], key_len > 0 ? key : "", (int)key_len, data,
                     len, out, &got) != NULL,
                "HMAC-SHA1");
    assert(got == kinds[DIGEST_SHA1].len);
}

bool
hash_same_secret(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void
hash_wipe(void *secret, size_t len)
{
    OPENSSL_cleanse(secret, len);
}

uint64_t
hash_xxh64(const void *data, size_t len, uint64_t seed)
{
    return XXH64(data, len, seed);
}

/* The library's state is plain data of a known size. */
static_assert(sizeof(struct hash_xxh64) >= sizeof(XXH64_state_t), "the state fits");

void
hash_xxh64_init(struct hash_xxh64 *h)
{
    XXH64_state_t state = {0};

    XXH64_reset(&state, 0);
    memset(h, 0, sizeof *h);
    memcpy(h->state, &state, sizeof state);
}

void
hash_xxh64_add(struct hash_xxh64 *h, const void *data, size_t len)
{
    XXH64_state_t state;

    memcpy(&state, h->state, sizeof state);
    XXH64_update(&state, data, len);
    memcpy(h->state, &state, sizeof state);
}

uint64_t
hash_xxh64_end(const struct hash_xxh64 *h)
{
    XXH64_state_t state;

    memcpy(&state, h->state, sizeof state);
    return XXH64_digest(&state);
}

bool
hash_xxh64_is_state(const struct hash_xxh64 *h)
{
    XXH64_state_t state;

    memcpy(&state, h->state, sizeof state);
    return state.memsize < sizeof state.mem64;
}

uint64_t
hash_xxh3(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}
