/* secrets: keys of remotes as they lie on disk: each set a file of its own, sealed under the node's key (docs/formats.md, "Secrets of
 * remotes"). The key is a line of 64 hex digits in a file; the first line seals, the others only open, so a key is changed by
 * putting a new one in front, sealing anew, and taking the old ones out. What lies there in the clear, or under an older key, is
 * sealed at the start.
 *
 * Fibers of any loop; changes run on loop 0, one at a time. Everything may switch.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "rt/file.h"

struct secrets;

#define SECRETS_KEY_FILE "secrets.key" /* in the node's state, where no other is named */
#define SECRETS_KEYS_MAX 8

/* `dir`: the sets; `state`: where the key is made, unless `key_file` (a path) has it. Both folders are borrowed. What cannot be
 * opened stays as it is and is told in the log: only its bucket suffers. */
enum err secrets_open(struct rt_dir *dir, struct rt_dir *state, const char *key_file,
                      struct secrets **out, struct errbuf *eb) MUST_CHECK;
void secrets_close(struct secrets **sp); /* wipes */

enum err secrets_store(struct secrets *s, const char *name, struct span plain,
                       struct errbuf *eb) MUST_CHECK;
/* Into `out`, which the caller wipes. ERR_NOT_FOUND, ERR_DENIED: under another key. */
enum err secrets_load(struct secrets *s, const char *name, struct buf *out,
                      struct errbuf *eb) MUST_CHECK;
enum err secrets_remove(struct secrets *s, const char *name,
                        struct errbuf *eb) MUST_CHECK;
/* Each that opens, in the order of their names; `plain` is wiped afterwards. Stops at the first error. */
typedef enum err secrets_visit(void *arg, const char *name, struct span plain,
                               struct errbuf *eb);
enum err secrets_each(struct secrets *s, secrets_visit *visit, void *arg,
                      struct errbuf *eb) MUST_CHECK;
/* A new key in front, everything sealed under it, the old ones out. *count: how many sets. A crash in between is finished by the
 * next start. */
enum err secrets_rotate(struct secrets *s, unsigned *count, struct errbuf *eb) MUST_CHECK;
