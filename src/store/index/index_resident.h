/* index_resident: would a search wait for the disk? Follows the pages from the root to the leaf that LMDB will follow, and asks for each,
 * before it is touched, whether it is in memory. What it comes to is believed for nothing else: the entry is found by LMDB.
 *
 * Inside of index*.c; on a loop, under index_guard(), within a read transaction.
 */
#pragma once
#include "store/index/index_internal.h"

enum index_resident {
    INDEX_PAGE_RESIDENT, /* LMDB will touch nothing that is not in memory */
    INDEX_PAGE_ABSENT,   /* *page is not; more may follow */
    INDEX_PAGE_UNREADABLE, /* the pages are not what they should be: who may wait is to ask LMDB */
};
#define INDEX_NO_PAGE UINT64_MAX
/* One key of one table. *page: one that has just come, if any; and which one is away. */
enum index_resident index_resident(struct index *x, MDB_txn *txn, unsigned db,
                                   const MDB_val *key, uint64_t *page);
/* The same of what every transaction begins with; before there is one. */
enum index_resident index_resident_begin(struct index *x, uint64_t *page);
#ifdef FB_TEST_HOOKS
extern bool (*index_resident_hook)(uint64_t page); /* NULL: none is */
#endif
