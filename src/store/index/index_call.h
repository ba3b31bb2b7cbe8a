/* index_call: a read of the index gets to LMDB: on the loop while the index is resident, else where what it would wait for is in
 * memory (index_resident.h), else on the pool. Everything between begin and end of a transaction runs under the guard and never
 * switches.
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
    /* What run() would wait for; NULL: it is not known, so where the index is not resident it is for the pool. */
    enum index_resident (*look)(struct index_call *c, MDB_txn *txn, uint64_t *page);
    struct index_reader *mine;
    void *arg;
    int rc;
    enum index_resident seen; /* INDEX_PAGE_RESIDENT: it ran */
    uint64_t page;            /* INDEX_PAGE_ABSENT; and the one that came since */
    bool faulted;
    bool looks; /* on a loop that is not to wait */
};

/* Runs it, wherever that may be, and tells by `what` was asked what went wrong. May switch. */
enum err index_call(struct index_call *c, const char *what, struct errbuf *eb) MUST_CHECK;
/* The same without waiting: ERR_BUSY, and in *want the page that is not in memory where that is known. */
enum err index_call_now(struct index_call *c, struct index_want *want, const char *what,
                        struct errbuf *eb) MUST_CHECK;
