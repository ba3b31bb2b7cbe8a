/* shared_secrets: in a cluster the credential sets of remotes are in meta as well, under "secret/NAME", sealed with a key
 * that all nodes derive from the cluster's. A node keeps a file of each set that it has used, sealed with its own key. Names
 * are never used again, so a file is never out of date. */
#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>

#include "cloud/secrets.h"
#include "meta/meta.h"

#define KEY_TEXT_MAX 256u

static struct span
shared_key(const char *name, char out[KEY_TEXT_MAX])
{
    int n = snprintf(out, KEY_TEXT_MAX, "secret/%s", name);

    assert(n > 0 && n < (int)KEY_TEXT_MAX);
    return (struct span){out, (size_t)n};
}

enum err
shared_secrets_store(const struct shared_secrets *s, const char *name, struct span plain,
                     struct errbuf *eb)
{
    char text[KEY_TEXT_MAX];
    struct meta_change c = {.key = shared_key(name, text), .if_revision = META_ANY};
    struct buf sealed;
    enum err rc;

    buf_init(&sealed, META_VALUE_MAX);
    rc = seal_under(s->sealing, c.key, plain, &sealed, eb);
    c.value = buf_span(&sealed);
    if (rc == ERR_OK)
        rc = meta_apply(s->meta, &c, 1, NULL, eb);
    buf_fini(&sealed);
    return rc;
}

enum err
shared_secrets_load(const struct shared_secrets *s, const char *name, struct buf *out,
                    struct errbuf *eb)
{
    char text[KEY_TEXT_MAX];
    struct span key = shared_key(name, text);
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    struct meta_pair pair;
    unsigned which;
    enum err rc = meta_get(s->meta, key, a, &pair, eb);

    if (rc == ERR_OK)
        rc = unseal_under(s->sealing, 1, key, pair.value, out, &which, eb);
    arena_free(&a);
    return rc;
}

enum err
shared_secrets_remove(const struct shared_secrets *s, const char *name, struct errbuf *eb)
{
    char text[KEY_TEXT_MAX];
    struct meta_change c = {
        .key = shared_key(name, text), .remove = true, .if_revision = META_ANY};

    return meta_apply(s->meta, &c, 1, NULL, eb);
}
