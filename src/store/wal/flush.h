/* flush: writes the memtable to the index in one durable commit per interval, after the replies.
 * Then it releases garbage. A fiber on the owner loop. */
#pragma once
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/memtable.h"
#include "store/store_entry.h"

struct garbage;

enum err flusher_start(struct store *d, struct errbuf *eb) MUST_CHECK;
void flusher_stop(struct store *d); /* after a final round. Switches. */
void flusher_free(struct flusher **fp);

/* Runs one round at once. Recovery calls it before the fiber runs. Owner loop; switches. */
enum err flush_round(struct store *d, struct errbuf *eb) MUST_CHECK;
/* The same round in two steps, for a replay that reads on in the meantime. flush_freeze()
 * atomically takes the memtable's rows and the log positions they cover; it returns false if
 * there are none. flush_frozen() writes them to the index and ends `f`; the memtable may grow
 * meanwhile. One round at a time. */
struct flush {
    struct frozen_runs batch;
    struct index_checkpoint checkpoint;
    uint64_t before[STORE_CLASSES_];
    struct garbage *garbage;
    uint32_t garbage_count;
};
bool flush_freeze(struct store *d, struct flush *f);
enum err flush_frozen(struct store *d, struct flush *f, struct errbuf *eb) MUST_CHECK;
/* Ends `f` without writing; the rows stay in the memtable. */
void flush_thaw(struct store *d, struct flush *f);
/* Waits until the rows now in the memtable are in the index. Owner loop; switches. */
enum err flush_wait(struct store *d, struct errbuf *eb) MUST_CHECK;
/* True if the memtable is so long that commits must wait. */
bool flush_is_behind(const struct store *d);
/* Writes the file of suspect keys (index/suspect.h) where they have changed: before the index covers the change. May switch. */
enum err suspects_persist(struct store *d, struct errbuf *eb) MUST_CHECK;
