/* seal: bytes under a passphrase: scrypt makes the key, AES-256-GCM seals. For backups of keys; docs/formats.md, section
 * "Archives". Pure, but slow on purpose (a tenth of a second, 32 MiB): not on a loop. Any thread.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define SEAL_PASSPHRASE_MIN 8
#define SEAL_PASSPHRASE_MAX 1024
#define SEAL_MAX            (16u << 20) /* bytes sealed */

/* Appends the sealed form. */
enum err seal(struct span passphrase, struct span plain, struct buf *out,
              struct errbuf *eb) MUST_CHECK;
/* Appends what was sealed. ERR_DENIED: another passphrase, or changed bytes; ERR_CORRUPT: not sealed by this. */
enum err unseal(struct span passphrase, struct span sealed, struct buf *out,
                struct errbuf *eb) MUST_CHECK;

/* The same under a key of ours, fast: AES-256-GCM. `about` (its name, say) is bound in: what was sealed under another name does not
 * open. docs/formats.md, section "Secrets of remotes". */
#define SEAL_KEY_LEN 32
struct seal_key {
    unsigned char bytes[SEAL_KEY_LEN];
};
enum err seal_under(const struct seal_key *k, struct span about, struct span plain,
                    struct buf *out, struct errbuf *eb) MUST_CHECK;
/* ERR_DENIED: under none of these, or changed, or about something else; ERR_CORRUPT: not sealed by this. *which: the key. */
enum err unseal_under(const struct seal_key *keys, unsigned count, struct span about,
                      struct span sealed, struct buf *out, unsigned *which,
                      struct errbuf *eb) MUST_CHECK;
bool seal_is_under(struct span bytes); /* does it look like that? */
