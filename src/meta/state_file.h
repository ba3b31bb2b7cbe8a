/* state_file: one of the two LMDB files that hold the node's state (embedded.c). Each value has a
 * sum, and a record of the file, its *head*, has the revision, the number of pairs and the sum of
 * all of them: so an open notices a changed bit, a lost pair and a lost change.
 *
 * Worker threads only, under a guard (rt/fault.h): LMDB trusts its pages. An `int` is 0 or an error
 * of LMDB. docs/formats.md, section 10.
 */
#pragma once
#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define STATE_MAP_BYTES (256u << 20) /* sparse; bounds what all keys together may take */

struct state_head {
    uint64_t revision; /* of the last change */
    uint64_t count;    /* pairs */
    uint64_t sum;      /* of them, modulo 2^64 */
};

struct state_file {
    MDB_env *env; /* NULL: not open */
    MDB_dbi pairs, system;
    struct state_head head; /* as it was opened */
    bool fresh;             /* there was none, or it was just made */
    bool former;            /* of a program that wrote no sums; they are written now */
};

/* Opens a file of `as_found` bytes. On ERR_OK every pair was read and compared, or f->fresh: nothing
 * was ever written to it, and it is closed. ERR_CORRUPT: damaged, with a sentence; ERR_IO: LMDB
 * cannot open it. */
enum err state_file_open(struct state_file *f, const char *path, bool in_folder,
                         uint64_t as_found, struct errbuf *eb) MUST_CHECK;
/* Makes one, without pairs. */
enum err state_file_make(struct state_file *f, const char *path, bool in_folder,
                         struct errbuf *eb) MUST_CHECK;
void state_file_close(struct state_file *f);
/* Writes every pair of `from` to `to`, which is fresh, in one transaction. */
int state_file_copy(const struct state_file *from, struct state_file *to);

/* ---- inside a transaction ---- */

int state_head_get(const struct state_file *f, MDB_txn *txn, struct state_head *out);
int state_head_put(const struct state_file *f, MDB_txn *txn, const struct state_head *h);
/* MDB_CORRUPTED: the sum is wrong. */
int state_pair_decode(struct span key, const MDB_val *v, uint64_t *revision,
                      struct span *value);
/* *revision 0: there is no such key. */
int state_pair_get(const struct state_file *f, MDB_txn *txn, struct span key,
                   uint64_t *revision, struct span *value);
/* Also in `h`. Removing what is not there is no error. */
int state_pair_put(const struct state_file *f, MDB_txn *txn, struct span key,
                   uint64_t revision, struct span value, struct state_head *h);
int state_pair_remove(const struct state_file *f, MDB_txn *txn, struct span key,
                      struct state_head *h);
