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
