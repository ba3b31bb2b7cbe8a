/* check: what the files of the check share. The check is a recovery onto a scratch index, beside the disk, in which
 * nothing is written and every finding is said; then the two indexes are compared, and what lives is read.
 * The call for the rooms above, store_check(), stands in store_health.h. One fiber on one loop.
 */
#pragma once
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/record/format.h"
#include "store/segment/scan.h"
#include "store/store_entry.h"

struct index;
struct segment;
struct store_checked;

#define CHECK_SENTENCES_MAX 1000u /* what is found beyond is only counted */

#define CHECK_CACHE_IS_DROPPED "; a rebuild of the index drops all cached objects"

/* A shared segment of bodies, and how far its chain of headers goes. */
struct check_chain {
    enum store_class class;
    uint32_t segment;
    uint64_t end;
    uint64_t living; /* the furthest living place behind the end; 0: none */
    bool said;
};
/* What a repair can do something about. */
struct check_header {
    enum store_class class;
    enum segment_kind kind;
    uint32_t id;
};
struct check_lost {
    enum store_class class;
    uint64_t bucket;
    char *key; /* owned */
    size_t key_len;
    struct content_id content;
};
#define CHECK_LOST_MAX 100000u /* remembered of one run; the next one finds the rest */
struct check_repair {
    bool superblock;              /* one copy of two */
    bool suspects;                /* keys of which changes are lost */
    bool index;                   /* differs from the logs, or is of no use */
    struct check_header *headers; /* owned: of segments */
    uint32_t header_count;
    struct check_lost *lost; /* owned: damaged objects */
    uint32_t lost_count, lost_room;
};
void check_repair_fini(struct check_repair *r);
struct check {
    struct store *
        disk; /* owned; never opened: folders, table of segments, memtable, scratch index */
    struct index *real; /* owned; NULL: there is none to compare with */
    struct index_checkpoint checkpoint;
    struct rt_dir *scratch_parent, *scratch; /* owned */
    char scratch_name[48];
    bool log_ended[STORE_CLASSES_]; /* check_logs() has met the end of that log */
    struct check_chain *chains;     /* owned */
    uint32_t chain_count;
    struct check_repair repair; /* found so far */
    struct content_id
        *dropped; /* owned; what a start has dropped of the class cached: check_index() */
    uint32_t dropped_count, dropped_room;
    struct store_checked *result;
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
    uint64_t told; /* bytes, for progress */
    bool as_start; /* what is read now of the logs is what a start would */
    void (*say)(void *arg, bool fault, const char *sentence);
    void *arg;
};

const char *check_class_name(enum store_class class); /* of its folder */
void check_report(struct check *k, bool fault, const char *fmt, ...) PRINTF(3, 4);
#define check_fault(k, ...) check_report((k), true, __VA_ARGS__)
#define check_note(k, ...)  check_report((k), false, __VA_ARGS__)
/* A key for a sentence: printable, cut. */
#define CHECK_KEY_TEXT 200
const char *check_key(uint64_t bucket, struct span key, char out[CHECK_KEY_TEXT]);

/* Superblock, folders, headers of all segments, chains of bodies. ERR_OK unless nothing can be checked. */
enum err check_files(struct check *k, const char *path, struct errbuf *eb) MUST_CHECK;
/* The logs into the scratch index: up to what the real index covers; then the rest. */
enum err check_logs(struct check *k, bool up_to_index, struct errbuf *eb) MUST_CHECK;
enum err check_index(struct check *k, struct errbuf *eb) MUST_CHECK;
bool check_is_dropped(const struct check *k, const struct entry *entry);
enum err check_objects(struct check *k, struct errbuf *eb) MUST_CHECK;
/* check_suspects.c: names the keys of which acknowledged changes are lost. */
enum err check_suspects(struct check *k, struct errbuf *eb) MUST_CHECK;

/* A disk that is not served, read only, its index rebuilt from the logs in a scratch folder: what check and export
 * work on. check_open() has files and scratch; check_logs() fills it. check_free() undoes whatever was done. */
struct check *check_new(void);
enum err check_open(struct check *k, const char *path, const char *scratch,
                    struct errbuf *eb) MUST_CHECK;
void check_free(struct check **kp);
/* Everything: what store_check() does. The findings stay in k->repair. */
enum err check_run(struct check *k, const char *path, const char *scratch,
                   struct errbuf *eb) MUST_CHECK;

/* check_chains.c: mends the chain of headers of a shared segment, on the open disk: headers of bodies from the records
 * of the logs, of anything else as dead. *mended counts them. */
enum err check_repair_chain(struct store *d, enum store_class class, uint32_t segment,
                            uint64_t living, uint64_t *mended,
                            struct errbuf *eb) MUST_CHECK;
