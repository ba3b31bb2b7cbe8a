/* scan: reading a log group by group, and a body segment place by place, believing nothing. Recovery uses it, and
 * the check, which has no open disk. Any loop; calls may switch. docs/formats.md, section 6.
 */
#pragma once
#include "disk/member.h"

/* Which segment is read, and what binds its bytes. */
struct scan_source {
    struct rt_file *file; /* borrowed */
    uint32_t segment, generation;
    uint64_t size;        /* of the file */
    uint32_t cluster_sum; /* crc32c of the cluster id */
};

enum scanned {
    SCAN_GROUP, /* a whole group, every sum right */
    SCAN_END,   /* no group stands here: the log ends, if nothing says otherwise */
    SCAN_NEWER, /* one of a version that this program does not know */
    SCAN_ERROR, /* the disk can't be read, or memory is out */
};

struct log_scan {
    struct scan_source source;
    uint64_t offset; /* of the next group */
    uint64_t group;  /* number of the next group; 0: any */
    uint64_t epoch;  /* of the last one: it never decreases */

    /* The group found: good until the next call. */
    struct member *members; /* owned; GROUP_MEMBERS */
    uint32_t count;

    /* What is in memory of the file; a sequential reader's next piece is on its way meanwhile. */
    struct iobuf *window; /* owned */
    uint64_t window_at, window_len;
    uint32_t window_from; /* of the window in its buffer */
    uint64_t moves; /* counts changes of the window: spans from before are no good */
    struct {
        struct rt_group group;
        struct iobuf *buf; /* owned */
        uint64_t from;
        uint32_t have;
        enum err rc;
        bool busy; /* begun, not taken */
    } ahead;
};
void log_scan_begin(struct log_scan *s, const struct scan_source *source, uint64_t offset,
                    uint64_t group, uint64_t epoch);
void log_scan_end(struct log_scan *s); /* twice is fine */
/* On SCAN_GROUP members[0, count) are the group, payloads in `body`, and offset, group, epoch are those of the next.
 * On SCAN_END the sentence says what stands there instead (a block of zeros: empty). */
enum scanned log_scan_next(struct log_scan *s, struct errbuf *eb);

/* After SCAN_END, in a log whose groups are synced one by one (native): does a later group stand behind, whole, so that
 * what stands here was acknowledged and is damaged? Looks `far` bytes ahead. False: none, the scan is as it was, and
 * *eb too. May switch. */
struct log_behind {
    uint64_t offset, group;
};
bool log_scan_behind(struct log_scan *s, uint64_t far, struct log_behind *out);
/* Reads what is left of damaged groups between here and `to`: members whose header is whole and belongs to a group
 * from the one wanted up to `below`, in their order. A payload that is not right has m->body_damaged set and no body;
 * fn may apply it all the same: a reader will find out. *whole: no header was missing, so that nothing
 * is lost but payloads. The scan stays where it is. */
typedef enum err log_salvage_fn(void *arg, struct member *m);
enum err log_scan_salvage(struct log_scan *s, uint64_t to, uint64_t below,
                          log_salvage_fn *fn, void *arg, bool *whole,
                          struct errbuf *eb) MUST_CHECK;
/* Goes on there. */
void log_scan_go(struct log_scan *s, const struct log_behind *to);

/* One place of a body segment. SCAN_GROUP: its header, judged, in *out (spans lie in `buf`, which the caller drops),
 * *next is where the next place stands. */
enum scanned place_scan(const struct scan_source *s, uint64_t offset, struct member *out,
                        struct iobuf **buf, uint64_t *next, struct errbuf *eb);
