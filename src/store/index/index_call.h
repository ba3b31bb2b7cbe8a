/* index_call: runs a read of the index: on the loop while the index is resident, or while all pages on its way are in memory
 * (index_resident.h); else on the pool. Everything between begin and end of a transaction runs under the guard and never switches.
 *
 * Inside of index*.c.
 */
#pragma once
#include "store/index/index_resident.h"

struct index;
struct index_reader;
struct index_want;

struct index_call {
    struct index *x;
    int (*run)(struct index_call *c, MDB_txn *txn); /* a code of LMDB */
    /* Which page would run() wait for? NULL: not known, so a read of a non-resident index goes to the pool. */
    enum index_resident (*look)(struct index_call *c, MDB_txn *txn, uint64_t *page);
    struct index_reader *mine;
    void *arg;
    int rc;
    enum index_resident seen; /* INDEX_PAGE_RESIDENT: it ran */
    uint64_t page;            /* INDEX_PAGE_ABSENT; and the one that came since */
    bool faulted;
    bool looks; /* on a loop that must not wait */
};

/* Runs it there. `what` names the operation in errors. May switch. */
enum err index_call(struct index_call *c, const char *what, struct errbuf *eb) MUST_CHECK;
/* The same without waiting: ERR_BUSY, and in *want the page that is not in memory, if known. */
enum err index_call_now(struct index_call *c, struct index_want *want, const char *what,
                        struct errbuf *eb) MUST_CHECK;
