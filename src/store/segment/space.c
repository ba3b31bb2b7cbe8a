#include "store/segment/space.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/record/format.h"
#include "store/segment/ballast.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_space.h"

#define BALLAST_SHARE 256u /* fraction of the disk */
#define BALLAST_LEAST MIB(8)
#define BALLAST_MOST  MIB(256)
#define TICK_MS       1000u
#define COUNT_TICKS   3u /* asks the index for live bytes every so many ticks */
/* Until then the start of the node may use what was released for it. */
#define START_TICKS 2u

struct space {
    struct store *disk; /* borrowed */
    struct list of_all; /* under spaces_lock */

    /* Any loop. */
    _Atomic bool full;
    _Atomic uint64_t total, free_bytes;   /* of the file system, a second old */
    _Atomic uint64_t inodes, free_inodes; /* both 0: inodes are not counted */
    /* Size of the ballast, existing or intended; and the free inodes beside it that are kept. */
    _Atomic uint64_t reserve, inode_reserve;
    /* As far as the index covers; some seconds old. */
    _Atomic int64_t living[STORE_CLASSES_];
    _Atomic uint64_t ahead[STORE_CLASSES_]; /* allocated and unused */
    _Atomic uint64_t appended[2], reclaimed[3];

    /* Owner loop. */
    struct {
        bool has_ballast, has_start_room; /* as large as they should be */
        bool has_some;                    /* of the ballast */
        unsigned ticks;
        struct rt_cond wake;
        struct rt_daemon daemon;
        bool stop;
    } owner;
};

static struct lock spaces_lock = LOCK_INIT(LOCK_SPACE);
static struct list spaces = {&spaces, &spaces};

/* ---- reading the file system ---- */

/* On an error the last values stay. */
static uint64_t
space_measure(struct space *s)
{
    struct rt_space now;

    if (rt_dir_space(s->disk->root, &now, NULL) == ERR_OK) {
        uint64_t reserve = MAX(now.total_bytes / BALLAST_SHARE, BALLAST_LEAST);

        atomic_store(&s->total, now.total_bytes);
        atomic_store(&s->free_bytes, now.free_bytes);
        atomic_store(&s->reserve, MIN(MIN(reserve, BALLAST_MOST),
                                      align_down(now.total_bytes / 8, STORE_ALIGN)));
        atomic_store(&s->inodes, now.inodes);
        atomic_store(&s->free_inodes, now.free_inodes);
        atomic_store(&s->inode_reserve, MIN(BALLAST_INODES, now.inodes / 16));
    }
    return atomic_load(&s->free_bytes);
}

static bool
lacks_inodes(const struct space *s, uint64_t more)
{
    return atomic_load(&s->inodes) > 0 &&
           atomic_load(&s->free_inodes) < atomic_load(&s->inode_reserve) + more;
}

static bool
is_short(const struct space *s)
{
    return atomic_load(&s->free_bytes) < atomic_load(&s->reserve) / 2 ||
           lacks_inodes(s, 0);
}

bool
space_is_full(const struct space *s)
{
    return s != NULL && atomic_load_explicit(&s->full, memory_order_relaxed);
}

bool
space_is_tight(const struct space *s)
{
    return space_is_full(s) || atomic_load(&s->free_bytes) < 2 * atomic_load(&s->reserve);
}

static enum err
space_refuse(const struct space *s, struct errbuf *eb)
{
    const struct index *x = s->disk->index;

    if (lacks_inodes(s, 1))
        return err_set(eb, ERR_NO_SPACE,
                       "the disk is full: %" PRIu64 " of %" PRIu64
                       " inodes (files) are free, %" PRIu64
                       " are kept for deletes; delete something or remove files from its "
                       "file system, and writes go on by themselves",
                       atomic_load(&s->free_inodes), atomic_load(&s->inodes),
                       atomic_load(&s->inode_reserve));
    if (x != NULL && index_trust(x) == STORE_INDEX_DAMAGED)
        return err_set(eb, ERR_NO_SPACE,
                       "the disk is full: %" PRIu64 " of %" PRIu64
                       " MiB are free, and its index is damaged: deletes give no room "
                       "before a restart, which rebuilds the index",
                       atomic_load(&s->free_bytes) >> 20, atomic_load(&s->total) >> 20);
    return err_set(eb, ERR_NO_SPACE,
                   "the disk is full: %" PRIu64 " of %" PRIu64 " MiB are free, %" PRIu64
                   " MiB are kept for deletes; delete something or free room on its "
                   "file system, and writes go on by themselves",
                   atomic_load(&s->free_bytes) >> 20, atomic_load(&s->total) >> 20,
                   atomic_load(&s->reserve) >> 20);
}

enum err
space_admit(const struct space *s, uint64_t size, struct errbuf *eb)
{
    uint64_t left;

    if (s == NULL)
        return ERR_OK;
    if (space_is_full(s))
        return space_refuse(s, eb);
    if (size == STORE_SIZE_UNKNOWN || size < BODY_OWN)
        return ERR_OK; /* an allocated segment may have space */
    left = atomic_load(&s->free_bytes);
    left -= MIN(left, atomic_load(&s->reserve) / 2);
    if (size <= left)
        return ERR_OK;
    return err_set(eb, ERR_NO_SPACE,
                   "an object of %" PRIu64 " MiB does not fit: the disk has room for "
                   "%" PRIu64 " MiB",
                   size >> 20, left >> 20);
}

enum err
space_leaves_reserve(struct space *s, uint64_t bytes, struct errbuf *eb)
{
    uint64_t keep;

    if (s == NULL)
        return ERR_OK;
    keep = atomic_load(&s->reserve) / 2;
    if (space_measure(s) >= bytes + keep)
        return lacks_inodes(s, 1) ? space_refuse(s, eb) : ERR_OK;
    return err_set(eb, ERR_NO_SPACE,
                   "%" PRIu64 " MiB do not fit: the disk has %" PRIu64
                   " MiB free, of which %" PRIu64 " MiB are kept for deletes",
                   bytes >> 20, atomic_load(&s->free_bytes) >> 20, keep >> 20);
}

void
space_ran_out(struct space *s, const char *what)
{
    if (s == NULL || atomic_exchange(&s->full, true))
        return;
    LOG(LOG_WARN, "store.full",
        "no object comes in until there is room; reads and deletes go on",
        L_TEXT("disk", rt_dir_path(s->disk->root)), L_TEXT("what", what),
        L_U64("free_bytes", atomic_load(&s->free_bytes)));
}

/* ---- the ballast ---- */

static enum err
make_ballast(struct space *s, struct errbuf *eb)
{
    enum err rc = ballast_make(s->disk->state, BALLAST_DELETES, atomic_load(&s->reserve),
                               atomic_load(&s->inodes) > 0 ? BALLAST_INODES : 1, eb);

    s->owner.has_ballast = s->owner.has_some = rc == ERR_OK;
    return rc;
}

/* The room of the next start. A full disk that has none of it gives a half of what is left. */
static void
make_start_room(struct space *s)
{
    uint64_t left = space_measure(s), bytes = BALLAST_START_BYTES;
    uint64_t inodes = atomic_load(&s->inodes), files = BALLAST_INODES;
    struct errbuf eb = {0};
    enum err rc;

    assert(on_owner(s->disk));
    assert(!s->owner.has_start_room);
    if (is_short(s)) {
        if (ballast_bytes(s->disk->state, BALLAST_START) > 0)
            return; /* later, when there is space */
        bytes = align_down(MIN(bytes, left / 2), STORE_ALIGN);
        files = MIN(files, MAX(atomic_load(&s->free_inodes) / 2, 1u));
    }
    if (bytes < BALLAST_LEAST_PIECE)
        return;
    rc = ballast_make(s->disk->state, BALLAST_START, bytes,
                      inodes == 0 ? 1 : (unsigned)files, &eb);
    s->owner.has_start_room = rc == ERR_OK && bytes == BALLAST_START_BYTES;
    if (rc != ERR_OK && rc != ERR_NO_SPACE)
        LOG(LOG_WARN, "store.no_start_room", "a full disk may not be able to start",
            L_TEXT("disk", rt_dir_path(s->disk->root)), L_TEXT("error", eb.text));
}

bool
space_give_ballast(struct space *s)
{
    struct errbuf eb = {0};
    enum err rc;

    assert(s == NULL || on_owner(s->disk));
    if (s == NULL || !s->owner.has_some)
        return false;
    s->owner.has_ballast = s->owner.has_some = false;
    space_ran_out(s, "the ballast was released");
    rc = ballast_release(s->disk->state, BALLAST_DELETES, &eb);
    if (rc != ERR_OK)
        LOG(LOG_ERROR, "store.ballast_stays", "no room could be made",
            L_TEXT("disk", rt_dir_path(s->disk->root)), L_TEXT("error", eb.text));
    (void)space_measure(s);
    return rc == ERR_OK;
}

/* Once a second: checks free space, and recreates the ballast if it fits. */
static void
space_look(struct space *s)
{
    struct errbuf eb = {0};
    uint64_t left = space_measure(s), reserve = atomic_load(&s->reserve);
    bool full = space_is_full(s);

    if (!s->owner.has_ballast && left >= reserve + reserve / 2 &&
        !lacks_inodes(s, BALLAST_INODES)) {
        enum err rc = make_ballast(s, &eb);

        if (rc != ERR_OK && rc != ERR_NO_SPACE)
            LOG(LOG_WARN, "store.no_ballast", "a full disk may not be able to delete",
                L_TEXT("disk", rt_dir_path(s->disk->root)), L_TEXT("error", eb.text));
        left = space_measure(s);
    }
    if (!s->owner.has_start_room && s->owner.ticks >= START_TICKS) {
        make_start_room(s);
        left = space_measure(s);
    }
    if (full && s->owner.has_ballast && !is_short(s)) {
        atomic_store(&s->full, false);
        LOG(LOG_INFO, "store.has_space", "objects come in again",
            L_TEXT("disk", rt_dir_path(s->disk->root)), L_U64("free_bytes", left));
    } else if (!full && is_short(s)) {
        space_ran_out(s, lacks_inodes(s, 0) ? "inodes are short"
                                            : "less than half the reserve is free");
    }
}

/* ---- live bytes, bytes allocated ahead ---- */

static void
count_prealloc(struct space *s)
{
    struct store *d = s->disk;

    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        uint64_t ahead =
            d->segments->spare[c] != NULL ? d->segments->spare[c]->owner.size : 0;

        LIST_EACH(&d->segments->of_class[c], n)
        {
            const struct segment *seg = LIST_ENTRY(n, struct segment, owner.of_class);

            if (seg->owner.current || seg == d->segments->bodies[c])
                ahead += seg->owner.size - MIN(seg->owner.size, seg->owner.used);
        }
        atomic_store(&s->ahead[c], ahead);
    }
}

struct sums_of_classes {
    int64_t living[STORE_CLASSES_];
};

static void
space_on_segment(void *arg, enum store_class class, uint32_t segment,
                 const struct index_segment *seen)
{
    struct sums_of_classes *sums = arg;

    (void)segment;
    sums->living[class] += MAX(seen->living, 0);
}

static void
count_living(struct space *s)
{
    struct sums_of_classes sums = {0};
    struct errbuf eb = {0};

    if (index_segments(s->disk->index, space_on_segment, &sums, &eb) != ERR_OK)
        return; /* logged where it was detected */
    for (unsigned c = 0; c < STORE_CLASSES_; c++)
        atomic_store(&s->living[c], sums.living[c]);
}

static void
space_run(void *arg)
{
    struct space *s = arg;
    enum err rc = ERR_OK;

    while (!s->owner.stop && (rc == ERR_OK || rc == ERR_TIMEOUT)) {
        struct rt_shield shield;

        rt_shield_begin(&shield);
        space_look(s);
        count_prealloc(s);
        if (s->owner.ticks++ % COUNT_TICKS == 0)
            count_living(s);
        rt_shield_end(&shield);
        if (!s->owner.stop)
            rc = rt_cond_wait(&s->owner.wake, deadline_in_ms(TICK_MS));
    }
    rt_daemon_over(&s->owner.daemon);
}

/* ---- counting ---- */

void
space_appended(struct space *s, enum space_writer who, uint64_t bytes)
{
    metric_add(M_DISK_APPENDED, who, (int64_t)bytes);
    if (s != NULL)
        atomic_fetch_add_explicit(&s->appended[who], bytes, memory_order_relaxed);
}

void
space_reclaimed(struct space *s, enum space_way how, uint64_t bytes)
{
    metric_add(M_DISK_RECLAIMED, how, (int64_t)bytes);
    if (s != NULL)
        atomic_fetch_add_explicit(&s->reclaimed[how], bytes, memory_order_relaxed);
}

void
store_space(const struct store *d, struct store_space *out)
{
    const struct space *s = d->space;

    *out = (struct store_space){
        .total_bytes = atomic_load(&s->total),
        .free_bytes = atomic_load(&s->free_bytes),
        .reserve_bytes = atomic_load(&s->reserve),
        .full = space_is_full(s),
        .user_bytes = atomic_load(&s->appended[SPACE_USER]),
        .moved_bytes = atomic_load(&s->appended[SPACE_COMPACTION]),
        .unlinked_bytes = atomic_load(&s->reclaimed[SPACE_UNLINK]),
        .punched_bytes = atomic_load(&s->reclaimed[SPACE_PUNCH]),
        .compacted_bytes = atomic_load(&s->reclaimed[SPACE_COMPACT])};
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        uint64_t used = atomic_load(&d->segments->used_bytes[c]);

        out->living_bytes[c] = MIN((uint64_t)MAX(atomic_load(&s->living[c]), 0), used);
        out->dead_bytes[c] = used - out->living_bytes[c];
        out->prealloc_bytes += atomic_load(&s->ahead[c]);
    }
}

/* ---- the metrics page ---- */

static void
put_capacity(struct buf *out, const struct space *s)
{
    struct store_space now;
    const struct {
        const char *kind;
        uint64_t bytes;
    } kinds[] = {
        {"total", (store_space(s->disk, &now), now.total_bytes)},
        {"free", now.free_bytes},
        {"used", now.total_bytes - MIN(now.total_bytes, now.free_bytes)},
        {"living", now.living_bytes[STORE_NATIVE] + now.living_bytes[STORE_CACHED]},
        {"reclaimable", now.dead_bytes[STORE_NATIVE] + now.dead_bytes[STORE_CACHED]},
        {"reserve", now.reserve_bytes},
        {"ahead", now.prealloc_bytes},
    };

    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        buf_printf(out, "forebay_capacity_bytes{disk=\"");
        metrics_put_label(out, span_of(rt_dir_path(s->disk->root)));
        buf_printf(out, "\",kind=\"%s\"} %" PRIu64 "\n", kinds[i].kind, kinds[i].bytes);
    }
}

/* Space and write amplification: bytes on disk per live byte, and bytes written per byte that
 * users appended. 1 while there is no data. */
static void
put_ratio(struct buf *out, const struct space *s, const char *name, uint64_t all,
          uint64_t of)
{
    buf_printf(out, "%s{disk=\"", name);
    metrics_put_label(out, span_of(rt_dir_path(s->disk->root)));
    buf_printf(out, "\"} %.4f\n", of > 0 ? (double)all / (double)of : 1.0);
}

static void
put_overhead(struct buf *out, const struct space *s)
{
    struct store_space now;
    uint64_t living;

    store_space(s->disk, &now);
    living = now.living_bytes[STORE_NATIVE] + now.living_bytes[STORE_CACHED];
    put_ratio(out, s, "forebay_space_overhead_ratio",
              living + now.dead_bytes[STORE_NATIVE] + now.dead_bytes[STORE_CACHED],
              living);
}

static void
put_amplification(struct buf *out, const struct space *s)
{
    struct store_space now;

    store_space(s->disk, &now);
    put_ratio(out, s, "forebay_write_amplification_ratio",
              now.user_bytes + now.moved_bytes, now.user_bytes);
}

static void
put_full(struct buf *out, const struct space *s)
{
    buf_printf(out, "forebay_disk_full{disk=\"");
    metrics_put_label(out, span_of(rt_dir_path(s->disk->root)));
    buf_printf(out, "\"} %d\n", space_is_full(s));
}

static void
space_family(struct buf *out, const char *name, const char *help,
             void (*put)(struct buf *out, const struct space *s))
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
    LIST_EACH(&spaces, n)
    put(out, LIST_ENTRY(n, struct space, of_all));
}

static void
space_collect(struct buf *out, void *arg)
{
    (void)arg;
    lock_acquire(&spaces_lock);
    if (!list_empty(&spaces)) {
        space_family(out, "forebay_capacity_bytes",
                     "room of a disk by what it is used for", put_capacity);
        space_family(out, "forebay_space_overhead_ratio",
                     "bytes of segments over those that live in them", put_overhead);
        space_family(
            out, "forebay_write_amplification_ratio",
            "bytes appended, by compaction too, over those for users, since the start",
            put_amplification);
        space_family(out, "forebay_disk_full",
                     "1 while a disk takes no objects for want of room", put_full);
    }
    lock_release(&spaces_lock);
}

/* ---- start and stop ---- */

struct space *
space_new(struct store *d)
{
    struct space *s = xcalloc(1, sizeof *s);

    assert(d != NULL);
    s->disk = d;
    list_init(&s->of_all);
    rt_cond_init(&s->owner.wake);
    return s;
}

void
space_free(struct space **sp)
{
    struct space *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    lock_acquire(&spaces_lock);
    list_remove(&s->of_all);
    lock_release(&spaces_lock);
    free(s);
}

enum err
space_open(struct space *s, struct errbuf *eb)
{
    uint64_t left = space_measure(s), reserve = atomic_load(&s->reserve);
    enum err rc = ERR_OK;

    s->owner.has_some = ballast_bytes(s->disk->state, BALLAST_DELETES) > 0;
    s->owner.has_ballast = ballast_bytes(s->disk->state, BALLAST_DELETES) >= reserve;
    s->owner.has_start_room =
        ballast_bytes(s->disk->state, BALLAST_START) >= BALLAST_START_BYTES;
    if (!s->owner.has_ballast && left >= reserve + reserve / 2 &&
        !lacks_inodes(s, BALLAST_INODES))
        rc = make_ballast(s, eb);
    if (rc == ERR_OK && !s->owner.has_start_room && s->owner.has_ballast && !is_short(s))
        make_start_room(s);
    if (is_short(s) ||
        !s->owner.has_ballast) /* no object slips in before the fiber looks */
        space_ran_out(s, "the disk was full at the start");
    return rc == ERR_NO_SPACE ? ERR_OK : rc; /* later, when there is space */
}

enum err
space_start(struct space *s, struct errbuf *eb)
{
    static _Atomic bool registered;
    enum err rc;

    if (!atomic_exchange(&registered, true))
        metrics_register(space_collect, &registered);
    lock_acquire(&spaces_lock);
    list_push_back(&spaces, &s->of_all);
    lock_release(&spaces_lock);
    rc = rt_daemon_start(&s->owner.daemon, space_run, s);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber to watch the room of a disk");
    return ERR_OK;
}

void
space_stop(struct space *s)
{
    if (s == NULL)
        return;
    s->owner.stop = true;
    rt_cond_signal(&s->owner.wake);
    rt_daemon_join(&s->owner.daemon);
}
