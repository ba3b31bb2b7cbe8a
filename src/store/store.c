/* Opening, closing and counting one disk. */

#include "store/store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/gc/compact.h"
#include "store/gc/evict.h"
#include "store/gc/punch.h"
#include "store/health/health.h"
#include "store/index/index.h"
#include "store/index/key_filter.h"
#include "store/index/memtable.h"
#include "store/index/suspect.h"
#include "store/index/usage.h"
#include "store/record/format.h"
#include "store/record/superblock.h"
#include "store/recover/lost_keys.h"
#include "store/recover/recover.h"
#include "store/recover/recovery.h"
#include "store/scrub/scrub.h"
#include "store/segment/access_freq.h"
#include "store/segment/block_cache.h"
#include "store/segment/reading.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_block_cache.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/wal/commit.h"
#include "store/wal/flush.h"
#include "store/wal/prealloc.h"
#include "store/wal/prepared.h"
#include "store/wal/wal.h"

static const char *const class_names[STORE_CLASSES_] = {
    [STORE_NATIVE] = "native", [STORE_CACHED] = "cached"};

struct content_id
store_mint_id(struct store *d)
{
    return content_mint(d);
}

/* ---- folders ---- */

static enum err
make_dir(struct rt_dir *parent, const char *name, struct errbuf *eb)
{
    enum err rc = rt_dir_make(parent, name, 0700, eb);

    return rc == ERR_EXISTS ? ERR_OK : rc;
}

/* Opens `path`; creates its last component if it is missing. */
static enum err
open_root(const char *path, struct rt_dir **out, struct errbuf *eb)
{
    size_t len = strlen(path);
    struct rt_dir *parent = NULL;
    const char *name;
    char *copy;
    enum err rc = rt_dir_open(path, out, eb);

    if (rc != ERR_NOT_FOUND)
        return rc;
    while (len > 1 && path[len - 1] == '/')
        len--;
    copy = xmemdup0(path, len);
    rc = rt_dir_open_of(copy, &parent, &name, eb);
    if (rc == ERR_OK)
        rc = make_dir(parent, name, eb);
    if (rc == ERR_OK)
        rc = rt_dir_sync(parent, eb);
    rt_dir_close(&parent);
    free(copy);
    return rc == ERR_OK ? rt_dir_open(path, out, eb) : rc;
}

static enum err
open_dirs(struct store *d, const char *path, struct errbuf *eb)
{
    enum err rc = open_root(path, &d->root, eb);

    if (rc == ERR_OK)
        rt_dir_observe(d->root, health_observer(d->health));
    if (rc == ERR_OK)
        rc = make_dir(d->root, ".forebay", eb);
    if (rc == ERR_OK)
        rc = rt_dir_open_at(d->root, ".forebay", &d->state, eb);
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++) {
        rc = make_dir(d->root, class_names[c], eb);
        if (rc == ERR_OK)
            rc = rt_dir_open_at(d->root, class_names[c], &d->dir[c], eb);
    }
    return rc == ERR_OK ? rt_dir_sync(d->root, eb) : rc;
}

/* ---- superblock ---- */

static void
store_on_segment(const char *name, void *arg)
{
    enum segment_kind kind;
    uint32_t id;

    if (segment_name_parse(name, &kind, &id))
        *(bool *)arg = true;
}

/* A new disk, unless there are segments without a superblock. */
static enum err
new_superblock(struct store *d, struct superblock *s, struct errbuf *eb)
{
    bool segments = false;

    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        enum err rc = rt_dir_list(d->dir[c], store_on_segment, &segments, eb);

        if (rc != ERR_OK)
            return rc;
    }
    if (segments)
        return err_set(eb, ERR_CORRUPT, "there are segments but no superblock");
    *s = (struct superblock){.made_ms = (int64_t)(rt_wall_ns() / 1000000),
                             .flags = d->o.state_elsewhere ? 0 : SUPERBLOCK_NODE_STATE};
    memcpy(s->cluster_id, d->o.cluster_id, sizeof s->cluster_id);
    rt_random(s->disk_id, sizeof s->disk_id);
    return ERR_OK;
}

static enum err
take_superblock(struct store *d, struct errbuf *eb)
{
    struct superblock s;
    enum err rc = rt_open(d->state, "superblock", RT_O_WRITE | RT_O_CREATE | RT_O_DIRECT,
                          0600, &d->superblock, eb);
    uint64_t size = 0;

    if (rc == ERR_OK)
        rc = rt_file_lock(d->superblock, eb);
    if (rc == ERR_EXISTS)
        return err_set(eb, ERR_EXISTS, "another process serves this disk");
    if (rc == ERR_OK)
        rc = rt_file_size(d->superblock, &size, eb);
    if (rc == ERR_OK)
        rc = superblock_load(d->state, &s, eb);
    /* Just created, now or by a process that crashed midway: the disk holds nothing yet. */
    if (rc == ERR_CORRUPT || rc == ERR_NOT_FOUND) {
        struct errbuf first = *eb;

        rc = new_superblock(d, &s, eb);
        if (rc == ERR_CORRUPT)
            rc = err_set(eb, rc,
                         "%s, but there are segments: forebay disk rebuild makes a "
                         "superblock from what they say",
                         size > 0 ? first.text : "there is no superblock");
    }
    if (rc == ERR_OK && memcmp(s.cluster_id, d->o.cluster_id, sizeof s.cluster_id) != 0)
        rc = err_set(eb, ERR_DENIED, "the disk belongs to another cluster");
    if (rc == ERR_OK && (s.flags & SUPERBLOCK_REMOVED) != 0)
        rc = err_set(eb, ERR_DENIED,
                     "the disk was removed from its node, and what is on it is no longer "
                     "current; empty the folder to use it again");
    if (rc != ERR_OK)
        return rc;
    if (d->o.ids != NULL && d->o.epoch <= s.epoch && !d->again)
        return err_set(eb, ERR_DENIED,
                       "the disk was served at epoch %" PRIu64
                       ", this node is at %" PRIu64 ": restart the node with it",
                       s.epoch, d->o.epoch);
    if (d->o.ids != NULL && atomic_load(&d->ids->map_epoch) <= s.map_epoch && !d->again)
        return err_set(eb, ERR_DENIED,
                       "the disk has versions of map epoch %" PRIu64
                       ", this node is at %" PRIu64 ": restart the node with it",
                       s.map_epoch, atomic_load(&d->ids->map_epoch));
    s.generation++;
    if (!d->again) {
        d->former_epoch = s.epoch;
        s.epoch = MAX(d->o.epoch, s.epoch + 1);
        if (d->o.ids == NULL)
            s.map_epoch =
                MAX(d->o.map_epoch != 0 ? d->o.map_epoch : d->o.epoch, s.map_epoch + 1);
    }
    if (d->o.ids == NULL)
        atomic_store(&d->ids->map_epoch, s.map_epoch);
    else
        s.flags &= ~SUPERBLOCK_REBUILT; /* the node notes the generation from here on */
    s.map_epoch = MAX(s.map_epoch, atomic_load(&d->ids->map_epoch));
    rc = superblock_save(d->state, d->superblock, &s, eb);
    POINT(START_SUPERBLOCK);
    memcpy(d->disk_id, s.disk_id, sizeof d->disk_id);
    d->generation = s.generation;
    d->epoch = s.epoch;
    d->map_epoch = s.map_epoch;
    return rc;
}

enum err
store_identify(const char *path, struct store_identity *out, struct errbuf *eb)
{
    struct rt_dir *root = NULL, *state = NULL;
    struct superblock s;
    enum err rc = rt_dir_open(path, &root, eb);

    if (rc == ERR_OK)
        rc = rt_dir_open_at(root, ".forebay", &state, eb);
    if (rc == ERR_OK)
        rc = superblock_load(state, &s, eb);
    *out = (struct store_identity){0};
    if (rc == ERR_OK) {
        memcpy(out->cluster_id, s.cluster_id, sizeof out->cluster_id);
        memcpy(out->disk_id, s.disk_id, sizeof out->disk_id);
        out->epoch = s.epoch;
        out->map_epoch = s.map_epoch;
        out->generation = s.generation;
        out->node_state = (s.flags & SUPERBLOCK_NODE_STATE) != 0;
        out->removed = (s.flags & SUPERBLOCK_REMOVED) != 0;
        out->rebuilt = (s.flags & SUPERBLOCK_REBUILT) != 0;
    }
    rt_dir_close(&state);
    rt_dir_close(&root);
    return rc;
}

void
store_id(const struct store *d, uint8_t out[16])
{
    memcpy(out, d->disk_id, sizeof d->disk_id);
}

uint64_t
store_generation(const struct store *d)
{
    return d->generation;
}

struct mark_job {
    struct store *disk;
    uint32_t set, clear; /* flags */
    uint64_t map_epoch;  /* at least */
    struct errbuf *eb;
    enum err rc;
};

static void
mark_on_owner(void *arg)
{
    struct mark_job *j = arg;
    struct store *d = j->disk;
    struct superblock s;

    j->rc = superblock_load(d->state, &s, j->eb);
    if (j->rc != ERR_OK)
        return;
    s.flags = (s.flags & ~j->clear) | j->set;
    s.map_epoch = MAX(s.map_epoch, j->map_epoch);
    s.generation++;
    j->rc = superblock_save(d->state, d->superblock, &s, j->eb);
    if (j->rc == ERR_OK) {
        d->map_epoch = s.map_epoch;
        d->generation = s.generation;
    }
}

static enum err
store_set_flags(struct store *d, uint32_t set, uint32_t clear, struct errbuf *eb)
{
    struct mark_job j = {
        .disk = d, .set = set, .clear = clear, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = on_owner_loop(d, mark_on_owner, &j);

    return rc == ERR_OK ? j.rc : rc;
}

enum err
store_raise_map_epoch(struct store *d, uint64_t epoch, struct errbuf *eb)
{
    struct mark_job j = {.disk = d, .map_epoch = epoch, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = on_owner_loop(d, mark_on_owner, &j);

    assert(epoch > 0);
    return rc == ERR_OK ? j.rc : rc;
}

enum err
store_mark_removed(struct store *d, struct errbuf *eb)
{
    return store_set_flags(d, SUPERBLOCK_REMOVED, 0, eb);
}

enum err
store_mark_state(struct store *d, bool holds, struct errbuf *eb)
{
    return store_set_flags(d, holds ? SUPERBLOCK_NODE_STATE : 0,
                           holds ? 0 : SUPERBLOCK_NODE_STATE, eb);
}

void
store_invariants(const struct store *d)
{
    segments_check(d);
    wals_check(d);
    puncher_check(d->puncher);
    evictor_check(d->evictor);
    if (d->compactor != NULL)
        compactor_check(d->compactor);
    if (d->health != NULL)
        health_check(d->health);
}

/* ---- open ---- */

struct store *
store_new(const struct store_options *o, bool read_only)
{
    struct store *d = xcalloc(1, sizeof *d);

    d->o = *o;
    d->read_only = read_only;
    d->ids = o->ids != NULL ? o->ids : &d->own_ids;
    if (d->o.segment_bytes == 0)
        d->o.segment_bytes = GIB(1);
    if (d->o.memtable_bytes == 0)
        d->o.memtable_bytes = MIB(64);
    if (d->o.prepared_max == 0)
        d->o.prepared_max = 65536;
    if (d->o.index_interval_ms == 0)
        d->o.index_interval_ms = 1000;
    if (d->o.durable_mark_interval_ms == 0)
        d->o.durable_mark_interval_ms = 10000;
    d->o.segment_bytes = align_up(d->o.segment_bytes, STORE_ALIGN);
    d->cluster_sum = hash_crc32c(0, o->cluster_id, sizeof o->cluster_id);
    d->memtable = memtable_new();
    d->prepared = prepared_new();
    d->usage = usage_new();
    d->readings = readings_new();
    d->puncher = puncher_new(d);
    d->access_freq = access_freq_new();
    d->evictor = evictor_new();
    d->block_cache =
        o->block_cache != NULL ? o->block_cache : block_cache_new(o->block_cache_bytes);
    d->segments = segments_new();
    d->wals = wals_new();
    d->suspects = suspects_new();
    d->wals->on_garbage = read_only ? NULL : puncher_on_garbage;
    d->recovery = xcalloc(1, sizeof *d->recovery);
    return d;
}

void
store_free(struct store **dp)
{
    struct store *d = *dp;

    *dp = NULL;
    if (d == NULL)
        return;
    for (unsigned c = 0; c < STORE_CLASSES_; c++)
        committer_free(&d->committer[c]);
    flusher_free(&d->flusher);
    compactor_free(&d->compactor);
    wals_free(&d->wals);
    segments_free(&d->segments);
    index_close(&d->index);
    memtable_free(&d->memtable);
    key_filter_free(&d->key_filter);
    prepared_free(&d->prepared);
    usage_free(&d->usage);
    readings_free(&d->readings);
    puncher_free(&d->puncher);
    access_freq_free(&d->access_freq);
    evictor_free(&d->evictor);
    prealloc_free(&d->prealloc);
    space_free(&d->space);
    if (d->o.block_cache == NULL)
        block_cache_free(&d->block_cache);
    for (unsigned c = 0; c < STORE_CLASSES_; c++)
        rt_dir_close(&d->dir[c]);
    rt_dir_close(&d->state);
    rt_dir_close(&d->root);
    rt_file_close(&d->superblock); /* the lock goes last */
    health_free(&d->health);
    scrub_free(&d->scrub);
    suspects_free(&d->suspects);
    lost_keys_free(&d->recovery->lost_keys);
    free(d->recovery);
    free(d);
}

struct open_job {
    struct store *disk;
    const char *path;
    struct errbuf *eb;
    enum err rc;
};

static void
stop_fibers(struct store *d)
{
    d->open = false;
    if (d->index != NULL)
        index_will_close(d->index);
    scrub_stop(d);
    compactor_stop(d);
    space_stop(d->space);
    for (unsigned c = 0; c < STORE_CLASSES_; c++)
        committer_stop(d, (enum store_class)c);
    prealloc_stop(d);
    flusher_stop(d);
    health_stop(d->health);
    if (d->index != NULL)
        index_end_populating(d->index);
}

/* No writes until the next start: a change would hide what the missing log says. */
static void
report_missing(struct store *d)
{
    char name[96];

    log_set_name_missing(&d->wals->set, name, sizeof name);
    health_log_missing(d->health, name);
}

static void
open_on_owner(void *arg)
{
    struct open_job *j = arg;
    struct store *d = j->disk;
    struct errbuf *eb = j->eb;
    enum err rc = open_dirs(d, j->path, eb);

    if (rc == ERR_OK)
        rc = take_superblock(d, eb);
    if (rc == ERR_OK) {
        d->space = space_new(d);
        rc = space_open(d->space, eb);
    }
    if (rc == ERR_OK)
        rc = recover_disk(d, eb);
    /* A rebuilt superblock knew less than the logs. */
    if (rc == ERR_OK && atomic_load(&d->ids->map_epoch) > d->map_epoch)
        rc = store_raise_map_epoch(d, atomic_load(&d->ids->map_epoch), eb);
    if (rc == ERR_OK)
        rc = health_start(d->health, d->disk_id, eb);
    if (rc == ERR_OK && d->wals->missing > 0)
        report_missing(d);
    if (rc == ERR_OK)
        rc = flusher_start(d, eb);
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++)
        rc = committer_start(d, (enum store_class)c, eb);
    if (rc == ERR_OK)
        rc = prealloc_start(d, eb);
    if (rc == ERR_OK)
        rc = scrub_start(d, eb);
    if (rc == ERR_OK)
        rc = space_start(d->space, eb);
    if (rc == ERR_OK)
        rc = compactor_start(d, eb);
    d->open = rc == ERR_OK;
    if (rc != ERR_OK) {
        stop_fibers(d);
        err_prefix(eb, "disk \"%s\"", j->path);
    }
    j->rc = rc;
}

/* State that the second try of an open takes from the first. */
struct first_try {
    bool goes_again; /* it found damage that a second try handles */
    uint64_t former_epoch;
};

/* `again`: the second try, which continues with *first. */
static enum err
try_open(const char *path, const struct store_options *o, bool again,
         struct first_try *first, struct store **out, struct errbuf *eb)
{
    struct open_job j = {.path = path, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc;

    *out = NULL;
    j.disk = store_new(o, false);
    j.disk->health = health_new(path, &o->limits);
    j.disk->again = again;
    j.disk->former_epoch = again ? first->former_epoch : 0;
    rc = on_owner_loop(j.disk, open_on_owner, &j);
    if (rc == ERR_OK)
        rc = j.rc;
    first->goes_again =
        rc != ERR_OK && (j.disk->recovery->drop_cached ||
                         (j.disk->index != NULL && index_is_bad(j.disk->index)));
    first->former_epoch = j.disk->former_epoch;
    if (rc == ERR_OK)
        *out = j.disk;
    else
        store_free(&j.disk);
    return rc;
}

enum err
store_open(const char *path, const struct store_options *o, struct store **out,
           struct errbuf *eb)
{
    struct errbuf unused = {0};
    struct first_try first;
    enum err rc;

    eb = eb != NULL ? eb : &unused;
    rc = try_open(path, o, false, &first, out, eb);
    if (rc != ERR_OK && first.goes_again) {
        LOG(LOG_WARN, "store.open_retried",
            "the replay met damage: the index is rebuilt from the logs",
            L_TEXT("disk", path), L_TEXT("error", eb->text));
        *eb = (struct errbuf){0};
        rc = try_open(path, o, true, &first, out, eb);
    }
    if (rc != ERR_OK)
        return rc;
    LOG(LOG_INFO, "store.opened", "ready", L_TEXT("disk", path),
        L_U64("epoch", (*out)->epoch), L_U64("generation", (*out)->generation));
    return ERR_OK;
}

static void
close_on_owner(void *arg)
{
    struct store **dp = arg;

    stop_fibers(*dp);
    store_free(dp);
}

void
store_close(struct store **dp)
{
    struct rt_shield shield;

    if (*dp == NULL)
        return;
    rt_shield_begin(&shield);
    if (on_owner_loop(*dp, close_on_owner, dp) != ERR_OK)
        LOG0(LOG_ERROR, "store.not_closed", "no fiber to close a disk with");
    rt_shield_end(&shield);
    *dp = NULL;
}

void
store_stat(const struct store *d, struct store_stat *out)
{
    struct index_stat x;
    struct usage_totals used;
    struct rt_space space;

    *out = (struct store_stat){0};
    if (rt_dir_space(d->root, &space, NULL) == ERR_OK) {
        out->total_bytes =
            space.total_bytes; /* else unknown: the disk may be unreachable */
        out->free_bytes = space.free_bytes;
    }
    out->filesystem = rt_dir_filesystem(d->root);
    usage_total(d->usage, &used);
    out->objects = used.objects;
    out->older = used.older;
    out->open_parts = used.parts;
    out->open_bytes = used.part_bytes;
    out->native_bytes = atomic_load(&d->segments->used_bytes[STORE_NATIVE]);
    out->cached_bytes = store_cached_bytes(d);
    out->memtable_bytes = memtable_bytes(d->memtable);
    out->block_cache_bytes = block_cache_bytes(d->block_cache);
    out->prepared = prepared_count(d->prepared);
    index_stat(d->index, &x);
    out->index = index_trust(d->index);
    if (x.pages_to_prove > 0)
        out->index_percent =
            (unsigned)MIN(x.pages_proven * 100 / x.pages_to_prove, UINT64_C(100));
}

uint64_t
store_cached_bytes(const struct store *d)
{
    return atomic_load(&d->segments->used_bytes[STORE_CACHED]);
}

void
store_health(const struct store *d, struct store_health *out)
{
    health_read(d->health, out);
    /* A failed sync of a body is known here before the health observer reports it. */
    if (out->state < STORE_READ_ONLY && atomic_load(&d->failed))
        out->state = STORE_READ_ONLY;
}

bool
store_has_left(const struct store *d)
{
    return health_gone(d->health);
}

bool
store_accepts_writes(const struct store *d)
{
    return !atomic_load(&d->failed) && health_may_write(d->health, NULL) == ERR_OK;
}

const char *
store_path(const struct store *d)
{
    return rt_dir_path(d->root);
}
