/* hmac: SHA-256 and HMAC-SHA256 in plain memory: nothing is allocated, a state is copied
 * by assignment.
 *
 * SigV4 makes three or four HMACs a request with a key that rarely changes. A prepared
 * key holds the two states after the key blocks, so that an HMAC costs only the blocks of
 * its message and one more; OpenSSL's HMAC objects would allocate and look algorithms up.
 * The block function is OpenSSL's (SHA-NI where there is).
 *
 * Any thread; a state belongs to its owner.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define SHA256_LEN 32
#define SHA256_HEX 64

struct sha256 {
    uint64_t opaque[14]; /* OpenSSL's SHA256_CTX; its size is asserted in hmac.c */
};
void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_end(struct sha256 *s, unsigned char out[SHA256_LEN]);
void sha256_once(const void *data, size_t len, unsigned char out[SHA256_LEN]);

struct hmac_key {
    struct sha256 inner, outer;
};
void hmac_key_set(struct hmac_key *k, const void *key, size_t len);
void hmac_sha256(const struct hmac_key *k, const void *data, size_t len,
                 unsigned char out[SHA256_LEN]);

/* Compares without telling by its time where the difference is. */
bool secret_eq(const void *a, const void *b, size_t len);
/* Overwrites; the compiler can't drop it. */
void secret_wipe(void *at, size_t len);
