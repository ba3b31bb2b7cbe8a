/* hash: checksums and digests. The CRCs use the widest carry-less multiplication the CPU
 * has and have a portable twin (crc.h); MD5, SHA-1 and SHA-256 are OpenSSL's; xxh3 is
 * libxxhash's. Any thread.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CRCs chain: pass the former result, 0 first. Reflected, init and xorout all ones, as S3
 * names them. */
uint32_t hash_crc32c(uint32_t crc, const void *data, size_t len);
uint32_t hash_crc32c_portable(uint32_t crc, const void *data, size_t len);
uint32_t hash_crc32(uint32_t crc, const void *data, size_t len);     /* IEEE 802.3 */
uint64_t hash_crc64nvme(uint64_t crc, const void *data, size_t len); /* 0xAD93D235... */
/* The CRC of A|B from theirs and the length of B, by multiplication modulo the
 * polynomial. */
uint32_t hash_crc32_combine(uint32_t a, uint32_t b, uint64_t len_b);
uint32_t hash_crc32c_combine(uint32_t a, uint32_t b, uint64_t len_b);
uint64_t hash_crc64nvme_combine(uint64_t a, uint64_t b, uint64_t len_b);

uint64_t hash_xxh3(const void *data, size_t len, uint64_t seed);
uint64_t hash_xxh64(const void *data, size_t len, uint64_t seed);
/* The same in pieces, with seed 0: plain data. */
struct hash_xxh64 {
    uint64_t state[11];
};
void hash_xxh64_init(struct hash_xxh64 *h);
void hash_xxh64_add(struct hash_xxh64 *h, const void *data, size_t len);
uint64_t hash_xxh64_end(const struct hash_xxh64 *h);
/* False: bytes from outside that are no state; nothing may be added to it. */
bool hash_xxh64_is_state(const struct hash_xxh64 *h);

enum digest_kind { DIGEST_MD5, DIGEST_SHA1, DIGEST_SHA256, DIGEST_SHA512 };
#define DIGEST_MAX 64

/* A digest in progress; owns OpenSSL state. */
struct digest {
    void *ctx;
    enum digest_kind kind;
};
void digest_init(struct digest *d, enum digest_kind kind);
void digest_add(struct digest *d, const void *data, size_t len);
/* Returns 16, 20, 32 or 64; fini included. */
size_t digest_end(struct digest *d, unsigned char out[DIGEST_MAX]);
void digest_fini(struct digest *d); /* when abandoned; twice is fine */
size_t digest_oneshot(enum digest_kind kind, const void *data, size_t len,
                      unsigned char *out); /* of the digest's length */

/* HMAC-SHA256. */
void hash_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                      unsigned char out[32]);
/* HKDF with HMAC-SHA256 (RFC 5869), 32 bytes: one key for each `label` out of a secret. */
void hash_hkdf_sha256(const void *secret, size_t secret_len, const void *salt,
                      size_t salt_len, const char *label, unsigned char out[32]);
/* HMAC-SHA1: signatures of old forms only. */
void hash_hmac_sha1(const void *key, size_t key_len, const void *data, size_t len,
                    unsigned char out[20]);
/* HMAC-SHA256 with a key that is used often: half the work is done once. Plain data, but
 * secret: wipe it. */
struct hmac_key {
    uint32_t inner[8], outer[8]; /* SHA-256 states after the padded key */
};
void hmac_key_init(struct hmac_key *k, const void *key, size_t key_len);
void hmac_key_sign(const struct hmac_key *k, const void *data, size_t len,
                   unsigned char out[32]);

/* For texts that begin alike: the first `len` bytes (a multiple of 64) are taken once. As secret as the key. */
struct hmac_begun {
    struct hmac_key key;
    size_t len;
};
void hmac_begin(struct hmac_begun *b, const struct hmac_key *k, const void *text,
                size_t len);
void hmac_finish(const struct hmac_begun *b, const void *rest, size_t len,
                 unsigned char out[32]);

/* Takes the same time wherever two secrets differ. */
bool hash_same_secret(const void *a, const void *b, size_t len);
void hash_wipe(void *secret, size_t len); /* zeros that no optimiser leaves out */

/* Text forms. hex: lower case, 2 * len + 1 bytes with NUL. base64: standard alphabet,
 * padded. */
void hex_encode(const void *data, size_t len, char *out);
/* Returns bytes written, or -1 when it is not hex of exactly that form. */
int hex_decode(const char *text, size_t len, void *out, size_t room);
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)
/* Writes a NUL too; returns the length without it. */
size_t base64_encode(const void *data, size_t len, char *out);
/* Strict: returns bytes written, or -1 on anything odd. */
int base64_decode(const char *text, size_t len, void *out, size_t room);
