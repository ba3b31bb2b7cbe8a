/* check: what the files of the check share. The check is a recovery onto a scratch index, beside the disk, in which
 * nothing is written and every finding is said; then the two indexes are compared, and what lives is read.
 * The call for the rooms above, disk_check(), stands in disk.h. One fiber on one loop.
 */
#pragma once
#include "disk/internal.h"
#include "disk/scan.h"

#define CHECK_SENTENCES_MAX 1000u /* what is found beyond is only counted */

struct check_log {
    struct segment *segment; /* a reference */
    uint64_t end;            /* behind the last good group that was read */
};
struct check_class {
    struct check_log *logs; /* owned; by first group */
    uint32_t count, at;     /* at: the one that is read */
    uint64_t next_group, epoch;
    struct log_scan scan;
    bool scanning;
};
/* A shared segment of bodies, and how far its chain of headers goes. */
struct check_chain {
    uint32_t segment;
    uint64_t end;
    bool said;
};
struct check {
    struct disk
        *disk; /* owned; never opened: folders, table of segments, tail, scratch index */
    struct index *real; /* owned; NULL: there is none to compare with */
    struct index_covered covered;
    struct rt_dir *scratch_parent, *scratch; /* owned */
    char scratch_name[48];
    struct check_class class[DISK_CLASSES_];
    struct check_chain *chains; /* owned */
    uint32_t chain_count;
    struct disk_checked *result;
    void (*say)(void *arg, bool fault, const char *sentence);
    void *arg;
};

void check_say(struct check *k, bool fault, const char *fmt, ...) PRINTF(3, 4);
#define check_fault(k, ...) check_say((k), true, __VA_ARGS__)
#define check_note(k, ...)  check_say((k), false, __VA_ARGS__)
/* A key for a sentence: printable, cut. */
#define CHECK_KEY_TEXT 200
const char *check_key(uint64_t bucket, struct span key, char out[CHECK_KEY_TEXT]);

/* Superblock, folders, headers of all segments, chains of bodies. ERR_OK unless nothing can be checked. */
enum err check_files(struct check *k, const char *path, struct errbuf *eb) MUST_CHECK;
/* The logs into the scratch index: up to what the real index covers; then the rest. */
enum err check_logs(struct check *k, bool up_to_index, struct errbuf *eb) MUST_CHECK;
void check_logs_end(struct check *k);
enum err check_index(struct check *k, struct errbuf *eb) MUST_CHECK;
enum err check_objects(struct check *k, struct errbuf *eb) MUST_CHECK;
