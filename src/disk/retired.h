/* retired: which commit groups are gone because compaction gave their logs back, or were never promised. docs/formats.md,
 * section 6.
 *
 * Logs are compacted in any order, so what is left of them may have gaps. The file `.forebay/retired` lists those, and
 * is on the disk before a log goes: a gap that it does not know is damage. In the middle of a cached log a power cut leaves
 * gaps too (hole.h): those are listed by the start that found them. Where a cached log ends it tells a cut from damage.
 *
 * Home loop, and before there is one. What it says of a disk is only believed to explain gaps.
 */
#pragma once
#include "base/buf.h"
#include "disk/disk_row.h"
#include "rt/file.h"

#define RETIRED_FILE "retired"

struct retired_range {
    uint64_t first, last; /* groups */
};
#define RETIRED_CUT                                                                      \
    DISK_CLASSES_ /* place in `of`: of the cached log, lost in a power cut */
#define RETIRED_LISTS (DISK_CLASSES_ + 1)
struct retired {
    struct {
        struct retired_range *at; /* owned; ascending, apart from each other */
        uint32_t count, room;
    } of[RETIRED_LISTS];
    /* The cached log was durable up to this group when a log of it went: what stood there, a log that is gone relied on. */
    uint64_t relied;
    /* A group of the cached log that was synced before a reply (promised.h). */
    uint64_t promised;
    /* A group of the cached log that is missing and was promised: of such holes the last one's first group. */
    uint64_t damaged;
};
void retired_fini(struct retired *r); /* twice is fine */

/* Are all of these groups gone for that reason? */
bool retired_covers(const struct retired *r, enum disk_class class, uint64_t first,
                    uint64_t last);
/* The first group behind `group` that was retired; 0: none. */
uint64_t retired_behind(const struct retired *r, enum disk_class class, uint64_t group);
void retired_add(struct retired *r, enum disk_class class, uint64_t first, uint64_t last);
/* Groups that a power cut took out of the cached log, and that nobody had promised. */
void retired_add_cut(struct retired *r, uint64_t first, uint64_t last);
bool retired_covers_cut(const struct retired *r, uint64_t first, uint64_t last);
/* Is a group up to that one damaged, or lost in a power cut? */
bool retired_hole_before(const struct retired *r, uint64_t group);
/* Up to this group all were on the disk, and are missed where they are not; 0: nobody knows of any. */
uint64_t retired_there(const struct retired *r);
/* Before the first group of the oldest log there is nothing to explain. */
void retired_forget(struct retired *r, enum disk_class class, uint64_t oldest);

/* The file's bytes. ERR_CORRUPT: *out is empty. */
void retired_encode(const struct retired *r, struct buf *out);
enum err retired_decode(struct span bytes, struct retired *out,
                        struct errbuf *eb) MUST_CHECK;
/* From and to the folder `.forebay`. One that is not there is empty; one that is damaged too, and that is said. One save
 * at a time: of an open disk by promised.h. May switch. */
enum err retired_load(struct rt_dir *state, struct retired *out,
                      struct errbuf *eb) MUST_CHECK;
enum err retired_save(struct rt_dir *state, const struct retired *r,
                      struct errbuf *eb) MUST_CHECK;
