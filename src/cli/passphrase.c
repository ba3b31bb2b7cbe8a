#include "cli/passphrase.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/file.h"

void
passphrase_wipe(struct passphrase *p)
{
    OPENSSL_cleanse(p, sizeof *p);
}

static enum err
passphrase_take_line(const char *path, const char *bytes, struct passphrase *out,
                     struct errbuf *eb)
{
    size_t n = strcspn(bytes, "\r\n");

    if (n < SEAL_PASSPHRASE_MIN || n > SEAL_PASSPHRASE_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"%s\": its first line has %zu bytes, a passphrase has %u to %u",
                       path, n, SEAL_PASSPHRASE_MIN, SEAL_PASSPHRASE_MAX);
    memcpy(out->text, bytes, n);
    out->len = n;
    return ERR_OK;
}

enum err
passphrase_load(const char *path, struct passphrase *out, struct errbuf *eb)
{
    char *bytes = NULL;
    size_t len = 0;
    enum err rc = rt_private_load(path, KIB(64), &bytes, &len, eb);

    *out = (struct passphrase){.len = 0};
    if (rc == ERR_OK)
        rc = passphrase_take_line(path, bytes, out, eb);
    if (bytes != NULL)
        OPENSSL_cleanse(bytes, len);
    free(bytes);
    return rc;
}
