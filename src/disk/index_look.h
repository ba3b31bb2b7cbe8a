/* index_look: would a search wait for the disk? Follows the pages from the root to the leaf that LMDB will follow, and asks for each,
 * before it is touched, whether it is in memory. What it comes to is believed for nothing else: the row is found by LMDB.
 *
 * Inside of index*.c; on a loop, under index_guard(), within a read transaction.
 */
#pragma once
#include "disk/index_internal.h"

enum index_look {
    LOOK_HERE, /* LMDB will touch nothing that is not in memory */
    LOOK_AWAY, /* *page is not; more may follow */
    LOOK_NONE, /* the pages are not what they should be: who may wait is to ask LMDB */
};
#define INDEX_NO_PAGE UINT64_MAX
/* One key of one table. *page: one that has just come, if any; and which one is away. */
enum index_look index_look(struct index *x, MDB_txn *txn, unsigned db, const MDB_val *key,
                           uint64_t *page);
/* The same of what every transaction begins with; before there is one. */
enum index_look index_look_begin(struct index *x, uint64_t *page);
#ifdef FB_TEST_HOOKS
extern bool (*index_look_away)(uint64_t page); /* NULL: none is */
#endif
