/* index_resident: would a search wait for the disk? It follows the pages from the root to the leaf as LMDB will, and checks before each
 * touch that the page is in memory. The result serves no other purpose: LMDB finds the entry.
 *
 * Inside of index*.c; on a loop, under index_guard(), within a read transaction.
 */
#pragma once
#include "store/index/index_internal.h"

enum index_resident {
    INDEX_PAGE_RESIDENT,   /* all pages that LMDB will touch are in memory */
    INDEX_PAGE_ABSENT,     /* *page is not in memory; more may follow */
    INDEX_PAGE_UNREADABLE, /* the pages are damaged: ask LMDB on the pool */
};
#define INDEX_NO_PAGE UINT64_MAX
/* One key of one table. *page: in, a page that was just read, if any; out, the page that is not in memory. */
enum index_resident index_resident(struct index *x, MDB_txn *txn, unsigned db,
                                   const MDB_val *key, uint64_t *page);
/* The same for the meta pages, before a transaction begins. */
enum index_resident index_resident_begin(struct index *x, uint64_t *page);
#ifdef FB_TEST_HOOKS
extern bool (*index_resident_hook)(uint64_t page); /* true: not in memory; NULL is fine */
#endif
