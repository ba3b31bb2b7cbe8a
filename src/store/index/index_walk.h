/* index_walk: the pages of one state of the index, read as LMDB lays them out (index_page.h) and not through LMDB, which believes them. Inside of index*.c: index_verify.c reads all of them at once,
 * index_prove.c a few at a time.
 *
 * On a worker, under index_guard(): a page that is none may lead anywhere.
 */
#pragma once
#include "store/index/index_page.h"

enum { TREE_FREE = DBS_, TREE_MAIN, TREES_ };

enum index_walk_what {
    WALK_ALL,
    WALK_SKELETON, /* all that leads to entries, and the free pages: of pages with entries only their numbers */
    WALK_SOME,     /* `left` pages with entries, from `place` on, which moves */
};
struct index_walk {
    struct index *x;
    const _Atomic bool *stop; /* NULL is fine */
    enum index_walk_what what;
    struct index_place place; /* WALK_SOME */
    uint32_t left;
    bool full; /* `left` is used up */

    MDB_txn *txn;
    size_t page_bytes;
    struct index_lmdb lmdb;
    struct index_tree trees[TREES_];
    bool has[TREES_];
    struct index_meta meta;
    bool has_meta;
    unsigned now; /* the tree at hand */
    uint64_t entries;
    struct index_tally tally; /* of the pairs that were read */
    unsigned char *seen;      /* owned: a bit for each page; not of WALK_SOME */
    const char *wrong;        /* NULL: nothing so far */
    uint64_t at;              /* which page */
    bool stopped;
    bool gone; /* nothing was read: the index, or its disk, had ended before */
    int rc;    /* of LMDB, before a page was read */
};

/* A read transaction of the last state. False: w->rc, or what is wrong with it. */
bool index_walk_begin(struct index_walk *w);
/* False: what is wrong, stopped or full. TREE_MAIN comes first: it tells the roots of the others. */
bool index_walk_tree(struct index_walk *w, unsigned which);
void index_walk_end(struct index_walk *w);
/* The guard did not let it end: that is damage only where it faulted. */
void index_walk_refused(struct index_walk *w);
bool index_walk_wrong(struct index_walk *w, uint64_t page, const char *what);
/* ERR_CORRUPT, with the page and what is wrong. */
enum err index_walk_told(const struct index_walk *w, struct errbuf *eb);
