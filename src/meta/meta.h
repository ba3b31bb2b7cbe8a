/* meta: the shared state of a cluster as a small key-value store (decision D6).
 *
 * A store has one revision, which only grows. Every change gets the next one, and a key remembers the revision of its
 * last change. A change is a transaction: conditions on revisions, puts and removals, and reads of the state behind it,
 * in one step. A watch reports changes under a prefix; it is the only way by which snapshots of this state are published
 * (follow.h), on one node too.
 *
 * Backends: `embedded` (one node: LMDB in `.forebay/node/meta`) and `etcd` (a cluster). A backend is a table of operations
 * (backend.h), and one suite of tests runs against both.
 * Fibers: any loop. Calls that say so may switch.
 */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "rt/file.h"

struct meta;

#define META_KEY_MAX       500
#define META_VALUE_MAX     (64u << 10)
#define META_CHANGE_MAX    64         /* keys of one transaction */
#define META_READ_MAX      64         /* reads of one transaction */
#define META_TXN_BYTES_MAX (1u << 20) /* keys and values of one transaction */
#define META_PAGE_MAX      1000u      /* pairs of one page */
#define META_PAGE_BYTES    (1u << 20) /* keys and values of one page; one pair always fits */

enum err meta_open_embedded(struct rt_dir *dir, struct meta **out,
                            struct errbuf *eb) MUST_CHECK; /* May switch. */

#define META_ENDPOINTS_MAX 16u
struct meta_etcd_options {
    /* "http://10.0.0.1:2379,https://etcd-2:2379": one cluster of etcd, all by http or all by https. */
    const char *endpoints;
    const char *prefix; /* of all keys, in etcd: "forebay/NAME/"; 1 to 128 bytes */
    const char *user;   /* NULL: without a password */
    const char *password;
    const char *ca_file; /* PEM, for https; NULL: the system's */
    uint64_t
        timeout_ms; /* of one call, with all its tries; 0: 10 s. The scope of the fiber may be shorter. */
};
/* Answers when etcd has answered one read. A change is made by etcd at most once: where an answer is lost, the same
 * conditions decide the next try, and the values that stand there afterwards tell whose change it was. So values of one
 * key must differ between writers; where that does not tell, `unknown` is set. Loop 0 only; may switch.
 * ERR_BAD_REQUEST: the options. ERR_DENIED: user or password. ERR_UNAVAILABLE, ERR_TIMEOUT: no endpoint answers. */
enum err meta_open_etcd(const struct meta_etcd_options *o, struct meta **out,
                        struct errbuf *eb) MUST_CHECK;
/* What etcd calls itself: equal for all endpoints of one etcd. 0: not etcd. */
uint64_t meta_cluster_id(const struct meta *m);
/* No watch and no call is left. NULL is fine. May switch. */
void meta_close(struct meta **mp);

/* ---- reading: may switch ---- */

struct meta_pair {
    struct span key, value; /* in the arena */
    uint64_t revision;      /* of the last change of this key; 0: there is no such key */
};
/* ERR_NOT_FOUND. */
enum err meta_get(struct meta *m, struct span key, struct arena *a, struct meta_pair *out,
                  struct errbuf *eb) MUST_CHECK;

struct meta_range {
    struct span prefix; /* empty: every key */
    struct span after;  /* keys behind this one; empty: from the first */
    uint32_t max;       /* pairs; 0: META_PAGE_MAX */
    /* As of this revision, that of an earlier page; 0: now. ERR_BUSY: it cannot be read any more. */
    uint64_t revision;
};
struct meta_page {
    struct meta_pair *pairs; /* in the arena, in byte order of keys */
    uint32_t count;
    bool more;         /* go on with `after` = the last key */
    uint64_t revision; /* of the store when the page was read */
};
/* One page, as of one revision: at most `max` pairs and META_PAGE_BYTES. */
enum err meta_page(struct meta *m, const struct meta_range *r, struct arena *a,
                   struct meta_page *out, struct errbuf *eb) MUST_CHECK;
/* All keys that start with `prefix`, in byte order, as of one revision, which is returned. Reads page by page, and begins
 * again when that revision is gone between two pages; ERR_BUSY after several of those. ERR_TOO_LARGE: they do not fit into
 * `a`. */
enum err meta_list(struct meta *m, struct span prefix, struct arena *a,
                   struct meta_pair **out, uint32_t *count, uint64_t *revision,
                   struct errbuf *eb) MUST_CHECK;

/* ---- changing: may switch ---- */

#define META_ANY UINT64_MAX /* whatever stands there */
struct meta_change {
    struct span key;
    struct span value;
    bool remove;
    uint64_t if_revision; /* the key's revision now; 0: it must not exist; META_ANY */
};
struct meta_txn {
    const struct meta_change *changes; /* at most one for each key */
    uint32_t change_count;             /* 0: only reads */
    const struct span *reads;          /* keys */
    uint32_t read_count;
};
struct meta_result {
    uint64_t revision; /* of the transaction; on ERR_PRECONDITION the store's */
    uint32_t
        failed; /* ERR_PRECONDITION: the first change whose condition does not hold */
    /* An error after which it is unknown whether the changes were made: read before the next try. */
    bool unknown;
    struct meta_pair
        *reads; /* one for each key of `reads`; NULL unless ERR_OK or ERR_PRECONDITION */
};
/* All or nothing, and on stable storage on ERR_OK. The reads show the state behind the changes; on ERR_PRECONDITION, which
 * changes nothing, the state that refused them. */
enum err meta_apply_txn(struct meta *m, const struct meta_txn *t, struct arena *a,
                        struct meta_result *out, struct errbuf *eb) MUST_CHECK;
/* The same without reads. */
enum err meta_apply(struct meta *m, const struct meta_change *changes, uint32_t count,
                    uint64_t *revision, struct errbuf *eb) MUST_CHECK;

/* ---- hearing of changes ---- */

/* Calls `fn` after each change that is on stable storage, before meta_apply() returns: on its fiber, may switch. Set-up
 * only. */
void meta_after(struct meta *m, void (*fn)(void *arg), void *arg);

struct meta_watch;
/* Calls `on_change` after changes of keys under `prefix`, in order, once for several that come close together: on the loop
 * that called meta_watch_start(), outside any fiber; it must not switch. Loop 0 only. ERR_BUSY beyond META_WATCHES_MAX. */
enum err meta_watch_start(struct meta *m, struct span prefix,
                          void (*on_change)(void *arg), void *arg,
                          struct meta_watch **out, struct errbuf *eb) MUST_CHECK;
/* `on_change` is not called from here on. Loop 0 only. NULL is fine. Does not wait. */
void meta_watch_stop(struct meta_watch **wp);
#define META_WATCHES_MAX 16

#ifdef FB_TEST_HOOKS
extern bool
    meta_lose_outcome; /* the next commit is made, and its outcome reported as unknown */
#endif
