/* secrets: the credentials of remotes on disk: each set is a file, sealed with the node's key (docs/formats.md,
 * "Secrets of remotes"). The key file has lines of 64 hex digits. The first line seals, the others only open: to
 * change the key, put a new line in front, seal all sets again, and remove the old lines. Sets that are not
 * encrypted, or sealed with an older key, are sealed at the start.
 *
 * Fibers of any loop; changes run on loop 0, one at a time. Everything may switch.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "meta/meta.h"
#include "rt/file.h"
#include "wire/seal.h"

struct secrets;
/* Where the nodes of a cluster share them: shared_secrets.c. Both borrowed; meta NULL: this node is alone. */
struct shared_secrets {
    struct meta *meta;
    const struct seal_key *sealing;
};
enum err shared_secrets_store(const struct shared_secrets *s, const char *name,
                              struct span plain, struct errbuf *eb) MUST_CHECK;
enum err shared_secrets_load(const struct shared_secrets *s, const char *name,
                             struct buf *out, struct errbuf *eb) MUST_CHECK;
enum err shared_secrets_remove(const struct shared_secrets *s, const char *name,
                               struct errbuf *eb) MUST_CHECK;

#define SECRETS_KEY_FILE                                                                 \
    "secrets.key" /* in the node's state, unless another file is given */
#define SECRETS_KEYS_MAX 8

/* `dir`: the sets; `state`: where the key is made, unless `key_file` (a path) has it. Both folders are borrowed. A
 * set that cannot be opened is left alone and logged: only its bucket fails. */
enum err secrets_open(struct rt_dir *dir, struct rt_dir *state, const char *key_file,
                      struct secrets **out, struct errbuf *eb) MUST_CHECK;
void secrets_close(struct secrets **sp); /* wipes */
/* From here on sets are shared with the other nodes. Set-up only. */
void secrets_share(struct secrets *s, const struct shared_secrets *with);

enum err secrets_store(struct secrets *s, const char *name, struct span plain,
                       struct errbuf *eb) MUST_CHECK;
/* Reads a set into `out`, which the caller wipes. ERR_NOT_FOUND; ERR_DENIED: sealed with another key. */
enum err secrets_load(struct secrets *s, const char *name, struct buf *out,
                      struct errbuf *eb) MUST_CHECK;
enum err secrets_remove(struct secrets *s, const char *name,
                        struct errbuf *eb) MUST_CHECK;
/* Visits every set that opens, by name; `plain` is wiped afterwards. Stops at the first error. */
typedef enum err secrets_visit(void *arg, const char *name, struct span plain,
                               struct errbuf *eb);
enum err secrets_each(struct secrets *s, secrets_visit *visit, void *arg,
                      struct errbuf *eb) MUST_CHECK;
/* Puts a new key in front, seals everything with it, and removes the old keys. *count: the number of sets. The
 * next start completes an interrupted rotation. */
enum err secrets_rotate(struct secrets *s, unsigned *count, struct errbuf *eb) MUST_CHECK;
