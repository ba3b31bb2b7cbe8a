/* flush: brings the tail into the index, one durable commit an interval, behind the replies; then gives back what
 * died. A fiber on the home loop. */
#pragma once
#include "disk/internal.h"

enum err flusher_start(struct disk *d, struct errbuf *eb) MUST_CHECK;
void flusher_stop(struct disk *d); /* after a last round. Switches. */
void flusher_free(struct flusher **fp);

/* One round, at once: by recovery, before the fiber runs. Home; switches. */
enum err flush_round(struct disk *d, struct errbuf *eb) MUST_CHECK;
/* The same, and how far the logs reach is in the index too where nothing is in the tail. */
enum err flush_position(struct disk *d, struct errbuf *eb) MUST_CHECK;
/* The same in two steps, for a replay that reads on meanwhile. flush_freeze() takes what is in the tail, and how far it
 * reaches, in one moment; false: nothing. flush_frozen() brings it into the index, whatever was added to the tail
 * since, and ends `f`. One round at a time. */
struct flush {
    struct batch batch;
    struct index_covered covered;
    uint64_t before[DISK_CLASSES_];
    struct dying *dying;
    uint32_t dying_count;
};
bool flush_freeze(struct disk *d, struct flush *f);
enum err flush_frozen(struct disk *d, struct flush *f, struct errbuf *eb) MUST_CHECK;
void flush_thaw(struct disk *d, struct flush *f); /* instead: all stays as it was */
/* Waits until what is in the tail now is in the index. Home; switches. */
enum err flush_wait(struct disk *d, struct errbuf *eb) MUST_CHECK;
/* Is the tail so long that commits have to wait? */
bool flush_is_behind(const struct disk *d);
