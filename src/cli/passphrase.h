/* passphrase: the first line of a private file. */
#pragma once
#include "base/err.h"
#include "wire/seal.h"

struct passphrase {
    char text[SEAL_PASSPHRASE_MAX + 1];
    size_t len;
};
/* ERR_DENIED: group or others can read it. May switch. */
enum err passphrase_load(const char *path, struct passphrase *out,
                         struct errbuf *eb) MUST_CHECK;
void passphrase_wipe(struct passphrase *p);
