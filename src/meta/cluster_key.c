#include "meta/cluster_key.h"

#include <assert.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "rt/file.h"

#define KEY_FILE_MAX 4096u

enum err
cluster_key_parse(struct span text, struct cluster_key *out, struct errbuf *eb)
{
    while (text.len > 0 &&
           (text.at[text.len - 1] == '\n' || text.at[text.len - 1] == '\r' ||
            text.at[text.len - 1] == ' '))
        text.len--;
    if (text.len != 2 * CLUSTER_KEY_LEN ||
        hex_decode(text.at, text.len, out->bytes, CLUSTER_KEY_LEN) != CLUSTER_KEY_LEN)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a text of %zu characters: expected one line of %u hex digits in "
                       "lower case; forebay cluster key > FILE makes one",
                       text.len, 2 * CLUSTER_KEY_LEN);
    return ERR_OK;
}

enum err
cluster_key_load(const char *path, struct cluster_key *out, struct errbuf *eb)
{
    char *text = NULL;
    size_t len = 0;
    enum err rc = rt_private_load(path, KEY_FILE_MAX, &text, &len, eb);

    if (rc == ERR_OK)
        rc = cluster_key_parse((struct span){text, len}, out, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "the key of the cluster, %s", path);
    if (text != NULL)
        OPENSSL_cleanse(text, len);
    free(text);
    return rc;
}

void
cluster_key_text(const struct cluster_key *k, char out[CLUSTER_KEY_TEXT])
{
    hex_encode(k->bytes, CLUSTER_KEY_LEN, out);
    out[2 * CLUSTER_KEY_LEN] = '\n';
    out[2 * CLUSTER_KEY_LEN + 1] = '\0';
}

void
cluster_key_wipe(struct cluster_key *k)
{
    OPENSSL_cleanse(k, sizeof *k);
}

void
cluster_key_derive(const struct cluster_key *k, const char *label, struct span context,
                   unsigned char *out, size_t len)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
    char digest[] = "SHA256";
    OSSL_PARAM params[5], *p = params;

    assert(len > 0 && len <= 255 * 32u);
    assert(label[0] != '\0');
    *p++ = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0);
    *p++ = OSSL_PARAM_construct_octet_string(
        OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)k->bytes, CLUSTER_KEY_LEN);
    *p++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT,
                                             (void *)(uintptr_t)context.at, context.len);
    *p++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO,
                                             (void *)(uintptr_t)label, strlen(label));
    *p = OSSL_PARAM_construct_end();
    /* Without memory or without SHA-256 there is no way to go on. */
    assert(ctx != NULL);
    if (EVP_KDF_derive(ctx, out, len, params) != 1)
        abort();
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
}

void
cluster_key_seal(const struct cluster_key *k, struct seal_key *out)
{
    cluster_key_derive(k, "forebay cluster seal", SPAN(""), out->bytes,
                       sizeof out->bytes);
}
