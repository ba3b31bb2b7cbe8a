/* import: objects that come from an archive or a folder, written into a stopped node; of a backup their versions and
 * uploads in progress too. Small ones are committed
 * many at a time; what is there already, the same, is passed over, so that an import which was interrupted is begun again. One
 * fiber uses it. All may switch.
 */
#pragma once
#include "base/hash.h"
#include "node/offline.h"
#include "rt/fiber.h"
#include "rt/sync.h"
#include "store/store_exported.h"

#define IMPORT_AT_ONCE 64

/* A bucket of the source that becomes another one here. */
struct import_rename {
    struct span from, to;
};
struct import_options {
    struct span bucket,
        prefix; /* into this bucket, under this prefix; empty: as it was */
    const struct import_rename *renames; /* borrowed */
    size_t rename_count;
    bool exact_buckets;  /* buckets must be there: restore has made them */
    bool dry_run;        /* counts only */
    uint64_t body_most;  /* 0: 5 GiB; larger objects are written in parts ... */
    uint64_t part_bytes; /* ... of so many bytes; 0: 1 GiB */
    void (*say)(void *arg, const char *sentence);
    void (*progress)(void *arg, uint64_t bytes); /* more of them */
    void *arg;
};
struct imported {
    uint64_t objects, bytes;
    uint64_t older, markers, uploads, parts; /* restore only */
    uint64_t
        passed; /* no objects: older versions and so on, where only objects are taken */
    uint64_t same;    /* were there already */
    uint64_t refused; /* said: no key, wrong sum */
};
struct import {
    struct node_offline *node; /* borrowed */
    const struct import_options *o;
    struct imported result;

    char *refused_bucket; /* owned: the last one whose name cannot be; said once */

    /* The object at hand. */
    struct import_object *object;

    /* Commits under way. */
    struct rt_group group;
    struct rt_sem seats;
    enum err rc; /* the first that failed */
    struct errbuf eb;
};
/* A source of objects calls begin, data, end for each; import_finish() at the end, whatever happened. */
void import_start(struct import *i, struct node_offline *n,
                  const struct import_options *o);
/* `e` says all that is known: with `exact` it comes from an exported record, and its bytes must be what it says; else
 * bucket, key, size and mtime. Everything is copied. *wanted false: passed over, or it has no bytes (a delete marker, an upload;
 * parts come behind their upload); there is no data and no end. */
enum err import_begin(struct import *i, const struct exported *e, bool exact,
                      bool *wanted, struct errbuf *eb) MUST_CHECK;
enum err import_data(struct import *i, struct span piece, struct errbuf *eb) MUST_CHECK;
enum err import_end(struct import *i, struct errbuf *eb) MUST_CHECK;
enum err import_finish(struct import *i, struct errbuf *eb) MUST_CHECK;

/* Whole sources. `path` of a tar may be "-". */
enum err import_tar(struct import *i, const char *path, struct errbuf *eb) MUST_CHECK;
enum err import_folder(struct import *i, const char *path, struct errbuf *eb) MUST_CHECK;
