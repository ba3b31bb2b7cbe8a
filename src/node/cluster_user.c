/* cluster_user: the first user of a cluster. Its keys are derived from the cluster's key, so that all nodes have the same
 * ones without a word between them: a client signs once and any node may verify it.
 *
 * A new node writes them as its `.forebay/credentials`. A node that ran alone has such a file with keys of its own, which
 * stay valid there and nowhere else: it gets a second file.
 */
#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "node/internal.h"

#define CLUSTER_CREDENTIALS "cluster-credentials"
#define FILE_MAX            KIB(64)
#define ID_LEN              16u
#define SECRET_LEN          40u

struct first_user {
    char id[2 + ID_LEN + 1], secret[SECRET_LEN + 1];
};

static void
derive_user(const struct node *n, struct first_user *out)
{
    static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    static const char any[] =
        "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789ABCDEFG";
    unsigned char bytes[ID_LEN + SECRET_LEN];

    static_assert(sizeof upper - 1 == 32 && sizeof any - 1 == 64, "six bits, five bits");
    cluster_key_derive(&n->key, "forebay cluster user", span_of(n->o->cluster.name),
                       bytes, sizeof bytes);
    memset(out, 0, sizeof *out);
    memcpy(out->id, "FB", 2);
    for (unsigned i = 0; i < ID_LEN; i++)
        out->id[2 + i] = upper[bytes[i] & 31];
    for (unsigned i = 0; i < SECRET_LEN; i++)
        out->secret[i] = any[bytes[ID_LEN + i] & 63];
    OPENSSL_cleanse(bytes, sizeof bytes);
}

static enum err
write_user(const struct node *n, const char *file, const char *profile,
           const struct first_user *u, struct errbuf *eb)
{
    char text[256];
    enum err rc;

    snprintf(text, sizeof text,
             "[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n", profile, u->id,
             u->secret);
    rc = rt_file_store(n->folders.dot, file, text, strlen(text), 0600, eb);
    OPENSSL_cleanse(text, sizeof text);
    return rc;
}

enum err
node_cluster_user(struct node *n, struct auth *a, struct errbuf *eb)
{
    struct first_user u;
    char *text = NULL;
    size_t len = 0;
    enum err rc =
        rt_file_load(n->folders.dot, NODE_CREDENTIALS, FILE_MAX, &text, &len, eb);

    derive_user(n, &u);
    if (rc == ERR_NOT_FOUND) {
        rc = write_user(n, NODE_CREDENTIALS, "default", &u, eb);
    } else if (rc == ERR_OK && strstr(text, u.id) == NULL) {
        rc = write_user(n, CLUSTER_CREDENTIALS, "cluster", &u, eb);
        if (rc == ERR_OK)
            rc = auth_load(a, n->folders.dot, CLUSTER_CREDENTIALS, eb);
    }
    if (text != NULL)
        OPENSSL_cleanse(text, len);
    free(text);
    OPENSSL_cleanse(&u, sizeof u);
    return rc;
}
