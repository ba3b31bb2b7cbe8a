/* meta: shared state of a cluster as a small key-value store (decision D6): get, compare-and-set, list, watch.
 *
 * With one node it is embedded: one LMDB environment in `.forebay/node/meta`. Every change has a revision that
 * only grows; a key remembers the revision of its last change. A change that returned ERR_OK is on stable storage.
 * Values are at most 64 KiB, keys at most 500 bytes, a change at most 64 keys. Any loop; calls may switch.
 */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "rt/file.h"

struct meta;

#define META_KEY_MAX    500
#define META_VALUE_MAX  (64u << 10)
#define META_CHANGE_MAX 64

enum err meta_open_embedded(struct rt_dir *dir, struct meta **out,
                            struct errbuf *eb) MUST_CHECK;
void meta_close(struct meta **mp);

struct meta_pair {
    struct span key, value; /* in the arena */
    uint64_t revision;      /* of the last change of this key */
};
/* ERR_NOT_FOUND. */
enum err meta_get(struct meta *m, struct span key, struct arena *a, struct meta_pair *out,
                  struct errbuf *eb) MUST_CHECK;
/* All keys that start with `prefix`, in byte order, as of one revision, which is returned. */
enum err meta_list(struct meta *m, struct span prefix, struct arena *a,
                   struct meta_pair **out, uint32_t *count, uint64_t *revision,
                   struct errbuf *eb) MUST_CHECK;

#define META_ANY UINT64_MAX /* whatever stands there */
struct meta_change {
    struct span key;
    struct span value;
    bool remove;
    uint64_t if_revision; /* the key's revision now; 0: it must not exist; META_ANY */
};
/* All or nothing. ERR_PRECONDITION when one `if_revision` does not hold. */
enum err meta_apply(struct meta *m, const struct meta_change *changes, uint32_t count,
                    uint64_t *revision, struct errbuf *eb) MUST_CHECK;
/* `fn` is called after each change that is on stable storage, before meta_apply() returns: on its fiber, may switch. Set-up
 * only. */
void meta_after(struct meta *m, void (*fn)(void *arg), void *arg);
/* `on_change` is called in order after each change of a key under `prefix`, on the loop that called meta_watch,
 * outside any fiber: it must not switch. */
enum err meta_watch(struct meta *m, struct span prefix, void (*on_change)(void *arg),
                    void *arg) MUST_CHECK; /* set-up only; ERR_BUSY beyond 16 */
