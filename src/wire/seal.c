#include "wire/seal.h"

#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"

/* 8 magic, 1 log2 N, 1 r, 1 p, 1 zero, 16 salt, 12 nonce, the bytes, 16 tag. All before the bytes is authenticated. */
#define MAGIC     "FBSEAL1\n"
#define HEAD      40u
#define SALT_AT   12u
#define NONCE_AT  28u
#define NONCE_LEN 12u
#define TAG_LEN   16u
#define LOG_N     15u
#define LOG_N_MAX 20u
#define SCRYPT_R  8u
#define SCRYPT_P  1u

static bool
seal_make_key(struct span passphrase, const unsigned char head[HEAD],
              unsigned char key[32])
{
    uint64_t n = (uint64_t)1 << head[8];

    return EVP_PBE_scrypt(passphrase.at, passphrase.len, head + SALT_AT, 16, n, head[9],
                          head[10], (uint64_t)256 << 20, key, 32) == 1;
}

static enum err
check_passphrase(struct span p, struct errbuf *eb)
{
    if (p.len < SEAL_PASSPHRASE_MIN || p.len > SEAL_PASSPHRASE_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a passphrase of %zu bytes, from %u to %u",
                       p.len, SEAL_PASSPHRASE_MIN, SEAL_PASSPHRASE_MAX);
    return ERR_OK;
}

/* One pass of the cipher: from `in` to `to`. Sealing writes the tag, opening compares it. */
static bool
run_cipher(const unsigned char key[32], const unsigned char *nonce, struct span head,
           struct span about, struct span in, unsigned char *to,
           unsigned char tag[TAG_LEN], bool sealing)
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int n = 0, rest = 0;
    bool good = c != NULL &&
                EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce, sealing) == 1;

    good = good && EVP_CipherUpdate(c, NULL, &n, (const unsigned char *)head.at,
                                    (int)head.len) == 1;
    good = good && (about.len == 0 ||
                    EVP_CipherUpdate(c, NULL, &n, (const unsigned char *)about.at,
                                     (int)about.len) == 1);
    good = good &&
           (in.len == 0 ||
            EVP_CipherUpdate(c, to, &n, (const unsigned char *)in.at, (int)in.len) == 1);
    if (good && !sealing)
        good = EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, (int)TAG_LEN, tag) == 1;
    good = good && EVP_CipherFinal_ex(c, to + (in.len == 0 ? 0 : n), &rest) == 1;
    if (good && sealing)
        good = EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, (int)TAG_LEN, tag) == 1;
    EVP_CIPHER_CTX_free(c);
    return good;
}

enum err
seal(struct span passphrase, struct span plain, struct buf *out, struct errbuf *eb)
{
    unsigned char head[HEAD] = MAGIC, key[32], tag[TAG_LEN];
    struct span whole_head = {(const char *)head, HEAD};
    char *to;
    enum err rc = check_passphrase(passphrase, eb);

    if (rc != ERR_OK)
        return rc;
    if (plain.len > SEAL_MAX)
        return err_set(eb, ERR_TOO_LARGE, "%zu bytes to seal, at most %u", plain.len,
                       SEAL_MAX);
    head[8] = LOG_N;
    head[9] = SCRYPT_R;
    head[10] = SCRYPT_P;
    to = buf_reserve(out, HEAD + plain.len + TAG_LEN);
    if (to == NULL || RAND_bytes(head + SALT_AT, (int)(HEAD - SALT_AT)) != 1 ||
        !seal_make_key(passphrase, head, key))
        return err_set(eb, ERR_INTERNAL, "no key could be made of the passphrase");
    memcpy(to, head, HEAD);
    if (!run_cipher(key, head + NONCE_AT, whole_head, SPAN(""), plain,
                    (unsigned char *)to + HEAD, tag, true))
        rc = err_set(eb, ERR_INTERNAL, "sealing failed");
    memcpy(to + HEAD + plain.len, tag, TAG_LEN);
    OPENSSL_cleanse(key, sizeof key);
    if (rc == ERR_OK)
        out->len += HEAD + plain.len + TAG_LEN;
    return rc;
}

enum err
unseal(struct span passphrase, struct span sealed, struct buf *out, struct errbuf *eb)
{
    unsigned char head[HEAD], key[32], tag[TAG_LEN];
    struct span whole_head = {(const char *)head, HEAD};
    struct span body;
    char *to;
    enum err rc = check_passphrase(passphrase, eb);

    if (rc != ERR_OK)
        return rc;
    if (sealed.len < HEAD + TAG_LEN || sealed.len > SEAL_MAX + HEAD + TAG_LEN ||
        memcmp(sealed.at, MAGIC, 8) != 0)
        return err_set(eb, ERR_CORRUPT, "%zu bytes that are not sealed keys", sealed.len);
    memcpy(head, sealed.at, HEAD);
    if (head[8] < 10 || head[8] > LOG_N_MAX || head[9] == 0 || head[9] > SCRYPT_R ||
        head[10] == 0 || head[10] > SCRYPT_P || head[11] != 0)
        return err_set(eb, ERR_CORRUPT,
                       "sealed keys of a kind this program does not open");
    body = (struct span){sealed.at + HEAD, sealed.len - HEAD - TAG_LEN};
    memcpy(tag, sealed.at + HEAD + body.len, TAG_LEN);
    to = buf_reserve(out, body.len + 1);
    if (to == NULL || !seal_make_key(passphrase, head, key))
        return err_set(eb, ERR_INTERNAL, "no key could be made of the passphrase");
    if (!run_cipher(key, head + NONCE_AT, whole_head, SPAN(""), body, (unsigned char *)to,
                    tag, false)) {
        OPENSSL_cleanse(to, body.len);
        rc = err_set(eb, ERR_DENIED,
                     "the passphrase is another one, or the sealed keys "
                     "were changed");
    }
    OPENSSL_cleanse(key, sizeof key);
    if (rc == ERR_OK)
        out->len += body.len;
    return rc;
}

/* ---- under a key ---- */

/* 8 magic, 12 nonce, the bytes, 16 tag. */
#define KEY_MAGIC "FBSEAL2\n"
#define KEY_HEAD  20u

enum err
seal_under(const struct seal_key *k, struct span about, struct span plain,
           struct buf *out, struct errbuf *eb)
{
    unsigned char *to =
        plain.len <= SEAL_MAX
            ? (unsigned char *)buf_reserve(out, KEY_HEAD + plain.len + TAG_LEN)
            : NULL;
    struct span head = {(const char *)to, KEY_HEAD};

    if (to == NULL)
        return err_set(eb, ERR_TOO_LARGE, "%zu bytes to seal, at most %u", plain.len,
                       SEAL_MAX);
    memcpy(to, KEY_MAGIC, 8);
    if (RAND_bytes(to + 8, (int)NONCE_LEN) != 1 ||
        !run_cipher(k->bytes, to + 8, head, about, plain, to + KEY_HEAD,
                    to + KEY_HEAD + plain.len, true))
        return err_set(eb, ERR_INTERNAL, "sealing failed");
    out->len += KEY_HEAD + plain.len + TAG_LEN;
    return ERR_OK;
}

bool
seal_is_under(struct span bytes)
{
    return bytes.len >= KEY_HEAD + TAG_LEN && memcmp(bytes.at, KEY_MAGIC, 8) == 0;
}

enum err
unseal_under(const struct seal_key *keys, unsigned count, struct span about,
             struct span sealed, struct buf *out, unsigned *which, struct errbuf *eb)
{
    unsigned char tag[TAG_LEN];
    struct span body, head = {sealed.at, KEY_HEAD};
    char *to;

    if (!seal_is_under(sealed) || sealed.len > SEAL_MAX + KEY_HEAD + TAG_LEN)
        return err_set(eb, ERR_CORRUPT, "%zu bytes that are not sealed", sealed.len);
    body = (struct span){sealed.at + KEY_HEAD, sealed.len - KEY_HEAD - TAG_LEN};
    to = buf_reserve(out, body.len + 1);
    if (to == NULL)
        return err_set(eb, ERR_TOO_LARGE, "%zu sealed bytes", body.len);
    for (unsigned i = 0; i < count; i++) {
        memcpy(tag, body.at + body.len, TAG_LEN);
        if (run_cipher(keys[i].bytes, (const unsigned char *)sealed.at + 8, head, about,
                       body, (unsigned char *)to, tag, false)) {
            *which = i;
            out->len += body.len;
            return ERR_OK;
        }
        OPENSSL_cleanse(to, body.len + 1);
    }
    return err_set(eb, ERR_DENIED,
                   "sealed under another key than the node's, or changed since");
}
