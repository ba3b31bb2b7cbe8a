/* flush: brings the memtable into the index, one durable commit an interval, behind the replies; then gives back what
 * died. A fiber on the owner loop. */
#pragma once
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/memtable.h"
#include "store/store_entry.h"

struct garbage;

enum err flusher_start(struct store *d, struct errbuf *eb) MUST_CHECK;
void flusher_stop(struct store *d); /* after a last round. Switches. */
void flusher_free(struct flusher **fp);

/* One round, at once: by recovery, before the fiber runs. Owner loop; switches. */
enum err flush_round(struct store *d, struct errbuf *eb) MUST_CHECK;
/* The same in two steps, for a replay that reads on meanwhile. flush_freeze() takes what is in the memtable, and how far it
 * reaches, in one moment; false: nothing. flush_frozen() brings it into the index, whatever was added to the memtable
 * since, and ends `f`. One round at a time. */
struct flush {
    struct frozen_runs batch;
    struct index_checkpoint checkpoint;
    uint64_t before[STORE_CLASSES_];
    struct garbage *garbage;
    uint32_t garbage_count;
};
bool flush_freeze(struct store *d, struct flush *f);
enum err flush_frozen(struct store *d, struct flush *f, struct errbuf *eb) MUST_CHECK;
void flush_thaw(struct store *d, struct flush *f); /* instead: all stays as it was */
/* Waits until what is in the memtable now is in the index. Owner loop; switches. */
enum err flush_wait(struct store *d, struct errbuf *eb) MUST_CHECK;
/* Is the memtable so long that commits have to wait? */
bool flush_is_behind(const struct store *d);
