#include "store/recover/recover.h"

#include <assert.h>
#include <inttypes.h>

#include "base/log.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/key_filter.h"
#include "store/index/memtable.h"
#include "store/index/usage.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/recover/missing_logs.h"
#include "store/recover/recover_bodies.h"
#include "store/recover/recovery.h"
#include "store/recover/replay.h"
#include "store/segment/body.h"
#include "store/segment/segment.h"
#include "store/segment/segment_list.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/wal/prepared.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

/* ---- what files there are ---- */

static bool
is_fatal(enum err rc)
{
    return rc == ERR_NOT_IMPLEMENTED || rc == ERR_DENIED || rc == ERR_CANCELLED ||
           rc == ERR_BUSY;
}

/* Made and never used, or damaged: nothing in it is believed, nothing is deleted. */
static void
report_unusable(const struct errbuf *why)
{
    LOG(LOG_ERROR, "store.segment_unusable", "left as it is", L_TEXT("error", why->text));
}

/* Logs whose header and first batch are damaged: when all others are known. */
static enum err
open_damaged_logs(struct store *d, const struct segment_list *l, struct errbuf *eb)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct segment *s = NULL;
        enum err rc = recover_headless_wal(d, l->at[i].id, &s, eb);

        if (is_fatal(rc))
            return rc;
        if (rc != ERR_OK)
            report_unusable(eb);
        segment_drop(&s);
    }
    return ERR_OK;
}

static enum err
open_segments(struct store *d, enum store_class class, const struct segment_list *l,
              struct segment_list *headless, bool *unusable, struct errbuf *eb)
{
    assert(on_owner(d));
    *unusable = false;
    for (uint32_t i = 0; i < l->count; i++) {
        struct segment *s;
        enum err rc;

        if (l->at[i].id >= d->segments->next_id)
            d->segments->next_id = l->at[i].id + 1;
        if (l->at[i].kind == SEGMENT_ONE)
            continue;
        rc = segment_open(d, class, l->at[i].kind, l->at[i].id, &s, eb);
        if (is_fatal(rc))
            return rc;
        if (rc == ERR_CORRUPT && class == STORE_NATIVE && l->at[i].kind == SEGMENT_LOG) {
            segment_list_add(headless, SEGMENT_LOG, l->at[i].id);
            continue;
        }
        if (rc != ERR_OK) {
            report_unusable(eb);
            *unusable = true;
            continue;
        }
        if (segment_is_spare(s) && !d->read_only) { /* room, and nothing else */
            segment_drop(&s);
            rc = segment_remove(d, class, SEGMENT_LOG, l->at[i].id, eb);
            if (rc != ERR_OK)
                return rc;
        }
        segment_drop(&s);
    }
    return ERR_OK;
}

/* The list may still have holes of cached logs that went: it is saved before one goes, and forgets them after. */
static void
forget_removed_wals(struct store *d)
{
    const struct segment *oldest = replay_oldest_log(d, STORE_CACHED);

    if (oldest != NULL)
        truncated_forget(&d->wals->truncated, STORE_CACHED, oldest->first_batch);
}

/* A start has found the cached log damaged (log_gap.h): nothing of the class is believed. The list says so until the index,
 * which names what goes here, is thrown away too. */
static enum err
drop_cached(struct store *d, struct errbuf *eb)
{
    struct segment_list found = {0};
    enum err rc;

    assert(!d->read_only);
    assert(d->index == NULL);
    if (d->wals->truncated.damaged == 0)
        return ERR_OK;
    d->recovery->dropped_cached = true;
    log_set_forget_class(&d->wals->set, STORE_CACHED);
    rc = segment_list_read(&found, d->dir[STORE_CACHED], NULL, NULL, eb);
    for (uint32_t i = 0; rc == ERR_OK && i < found.count; i++) {
        rc = segment_remove(d, STORE_CACHED, found.at[i].kind, found.at[i].id, eb);
        d->segments->next_id = MAX(d->segments->next_id, found.at[i].id + 1);
    }
    segment_list_fini(&found);
    return rc == ERR_OK ? rt_dir_sync(d->dir[STORE_CACHED], eb) : rc;
}

static enum err
forget_dropped(struct store *d, struct errbuf *eb)
{
    struct truncated *t = &d->wals->truncated;

    assert(!d->read_only);
    if (!d->recovery->dropped_cached)
        return ERR_OK;
    truncated_forget(t, STORE_CACHED, UINT64_MAX);
    t->durable_mark = t->damaged = 0;
    return truncated_persist(d, eb);
}

/* ---- the index ---- */

/* Does the index's position lie in a log that is there? One that never checkpoint anything fits while the log
 * begins at its first batch. */
static bool
position_fits(struct store *d, enum store_class class, const struct wal_position *p)
{
    struct segment *s;
    bool fits;

    assert(class < STORE_CLASSES_);
    if (p->segment == 0)
        return true;
    s = segment_pin(d, p->segment);
    fits = s != NULL && s->class == class && s->kind == SEGMENT_LOG &&
           s->generation == p->generation && p->offset % STORE_ALIGN == 0 &&
           p->offset <= s->owner.size && p->batch + 1 >= s->first_batch;
    segment_drop(&s);
    return fits;
}

/* Does the index know of changes that the native log does not have, behind all that it has? Then a file of it is
 * gone, or cut: believing the rest would bring old versions back. An index that is only too old is another thing. */
static bool
wal_is_lost(struct store *d, const struct wal_position *p)
{
    if (p->batch == 0)
        return false;
    LIST_EACH(&d->segments->of_class[STORE_NATIVE], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (s->kind == SEGMENT_LOG && s->first_batch > p->batch)
            return false;
    }
    return !position_fits(d, STORE_NATIVE, p);
}

static enum err
check_index_usable(struct store *d, struct index_checkpoint *checkpoint,
                   struct errbuf *eb)
{
    const struct wal_position *native = &checkpoint->log[STORE_NATIVE];
    struct errbuf why = {.text = "it does not fit the logs"};
    enum err rc;

    if (d->wals->missing > 0 && !d->o.rebuild && native->segment != 0 &&
        checkpoint->generation <= d->generation &&
        !position_fits(d, STORE_NATIVE, native) &&
        position_fits(d, STORE_CACHED, &checkpoint->log[STORE_CACHED]) &&
        index_probe(d->index, &why) == ERR_OK) {
        d->recovery->covered = native->batch;
        missing_logs_resume(d, &checkpoint->log[STORE_NATIVE]);
        return ERR_OK;
    }
    if (d->wals->missing == 0 && wal_is_lost(d, native)) {
        d->wals->damaged = true;
        if (!d->o.rebuild)
            return err_set(eb, ERR_CORRUPT,
                           "the index knows changes up to group %" PRIu64
                           " of the native log, in native/log-%06" PRIu32
                           ".tar, which is not there, or shorter, or damaged where it "
                           "begins: put the file back, or "
                           "run forebay disk rebuild to go on with what is left",
                           native->batch, native->segment);
    } else if (!d->o.rebuild && checkpoint->generation <= d->generation &&
               position_fits(d, STORE_NATIVE, native) &&
               position_fits(d, STORE_CACHED, &checkpoint->log[STORE_CACHED])) {
        rc = index_probe(d->index, &why);
        d->recovery->covered = native->batch;
        if (rc == ERR_OK)
            return ERR_OK;
        d->recovery->covered = 0;
        /* LMDB has more than one word for damage. */
        if (rc != ERR_CORRUPT && !index_is_bad(d->index))
            return err_set(eb, rc, "%s", why.text);
    }
    LOG(LOG_WARN, "store.index_foreign", "the index is rebuilt from the logs",
        L_TEXT("disk", rt_dir_path(d->root)),
        L_TEXT("why", d->o.rebuild ? "asked for" : why.text));
    *checkpoint = (struct index_checkpoint){0};
    return index_reset(d->index, eb);
}

static enum err
open_index(struct store *d, struct index_checkpoint *checkpoint, struct errbuf *eb)
{
    struct index_options o = {.dir = d->root,
                              .map_bytes = d->o.index_map_bytes,
                              .memory_bytes = d->o.index_memory_bytes,
                              .health = d->health,
                              .discard = d->again /* its damage ended the first try */ ||
                                         d->recovery->dropped_cached ||
                                         d->recovery->logs_are_back};
    enum index_state state;
    enum err rc;

    memcpy(o.disk_id, d->disk_id, sizeof o.disk_id);
    rc = index_open(&o, &d->index, &state, checkpoint, eb);
    if (rc != ERR_OK)
        return rc;
    if (state == INDEX_GOOD)
        return check_index_usable(d, checkpoint, eb);
    if (!list_empty(&d->segments->of_class[STORE_NATIVE]) ||
        !list_empty(&d->segments->of_class[STORE_CACHED]))
        LOG(LOG_WARN, "store.index_lost", "the index is rebuilt from the logs",
            L_TEXT("disk", rt_dir_path(d->root)),
            L_TEXT("why", state == INDEX_EMPTY ? "there was none" : "it was of no use"));
    *checkpoint = (struct index_checkpoint){0};
    return ERR_OK;
}

/* ---- logs that are damaged or gone ---- */

/* Is the first thing in the file a finished body of an earlier start? */
static enum err
has_old_body(struct store *d, enum store_class class, const char *name, bool *out,
             struct errbuf *eb)
{
    struct rt_file *f = NULL;
    struct iobuf *b = NULL;
    struct log_record m;
    uint32_t n = 0;
    size_t need;
    enum err rc = rt_open(d->dir[class], name, RT_O_DIRECT, 0, &f, eb);

    *out = false;
    if (rc == ERR_OK)
        rc = iobuf_get(BODY_HEAD, &b);
    if (rc == ERR_OK)
        rc = rt_read(f, STORE_ALIGN, b, 0, BODY_HEAD, RT_READ, DEADLINE_NEVER, &n, eb);
    if (rc == ERR_OK)
        *out =
            log_record_parse((struct span){b->at, n}, &m, &need, NULL) == LOG_RECORD_OK &&
            m.kind == LOG_RECORD_BODY && m.epoch < d->former_epoch;
    iobuf_drop(&b);
    rt_file_close(&f);
    return rc;
}

static uint64_t
log_bytes(struct store *d, enum store_class class, const struct wal_position *from)
{
    uint64_t sum = 0;

    assert(class < STORE_CLASSES_);
    LIST_EACH(&d->segments->of_class[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (s->kind == SEGMENT_LOG && s->first_batch > from->batch)
            sum += s->owner.size;
        else if (s->kind == SEGMENT_LOG && s->id == from->segment)
            sum += s->owner.size - MIN(s->owner.size, from->offset);
    }
    return sum;
}

/* Bodies without any log: at most those of one start that did not come to its first record. */
static enum err
check_for_logs(struct store *d, const struct segment_list *l, struct errbuf *eb)
{
    if (replay_oldest_log(d, STORE_NATIVE) != NULL)
        return ERR_OK;
    for (uint32_t i = 0; i < l->count; i++) {
        char name[SEGMENT_NAME_ROOM];
        bool old = false;
        enum err rc = ERR_OK;

        segment_name(l->at[i].kind, l->at[i].id, name);
        if (l->at[i].kind != SEGMENT_LOG)
            rc = has_old_body(d, STORE_NATIVE, name, &old, eb);
        if (rc != ERR_OK)
            return rc;
        if (old && d->o.rebuild)
            d->wals->damaged = true;
        else if (old)
            return err_set(eb, ERR_CORRUPT,
                           "there are bodies (native/%s), but no native log that says "
                           "which of them live: put the logs back, or run forebay disk "
                           "rebuild --from-bodies",
                           name);
    }
    return ERR_OK;
}

/* Remembered in a file, because the index will cover what was lost, and the next start sees nothing of it. */
static enum err
remember_damage(struct store *d, bool before, struct errbuf *eb)
{
    static const char text[] =
        "Changes of the native log were lost. Bodies that no record names are kept.\n"
        "forebay disk rebuild --from-bodies brings them back; forebay disk check "
        "--repair --drop-damaged gives them up.\n";

    if (before || !d->wals->damaged || d->wals->missing > 0) /* it may be put back */
        return ERR_OK;
    return rt_file_store(d->state, RECOVER_ORPHANS, text, sizeof text - 1, 0600, eb);
}

/* Is the index empty, so that all it will have comes from this replay? */
static bool
covers_nothing(struct store *d, const struct index_checkpoint *checkpoint)
{
    struct index_stat stat;

    index_stat(d->index, &stat);
    return stat.objects == 0 && checkpoint->log[STORE_NATIVE].segment == 0 &&
           checkpoint->log[STORE_CACHED].segment == 0;
}

/* A disk whose first two starts are cut before the first record would have a body of an earlier start and no log that says
 * whether it lives: the log comes before the first body. Where logs are lost none is made: nothing is to hide that. One
 * for which there is no room is made with the first record. It was written full of zeros, as those that follow are (ahead.h); where that
 * does not work it is made as it is. */
static enum err
make_first_log(struct store *d, struct errbuf *eb)
{
    enum err rc;

    assert(on_owner(d));
    if (d->read_only || d->o.rebuild || d->wals->damaged ||
        d->wals->of[STORE_NATIVE].now != NULL)
        return ERR_OK;
    if (d->segments->spare[STORE_NATIVE] == NULL && !space_is_tight(d->space) &&
        segment_make_spare(d, STORE_NATIVE, NULL, NULL) != ERR_OK)
        LOG0(LOG_DEBUG, "store.wal_prealloc_failed",
             "the first log is not written ahead");
    rc = wal_reserve(d, STORE_NATIVE, STORE_ALIGN, eb);
    return rc == ERR_NO_SPACE ? ERR_OK : rc;
}

/* All native logs behind the index's position may be missing: then there is nothing to read. */
static enum err
replay_present(struct store *d, enum store_class class, const struct wal_position *from,
               struct errbuf *eb)
{
    struct wal *log = &d->wals->of[class];

    if (class != STORE_NATIVE || !d->recovery->skip_native)
        return replay_class(d, class, from, eb);
    log->next_batch = from->batch + 1;
    log->synced_batch = from->batch;
    return ERR_OK;
}

enum err
recover_disk(struct store *d, struct errbuf *eb)
{
    struct segment_list found[STORE_CLASSES_] = {0}, headless = {0};
    struct index_checkpoint checkpoint = {0};
    unsigned mode;
    bool damaged = rt_dir_mode(d->state, RECOVER_ORPHANS, &mode, NULL) == ERR_OK;
    bool unusable[STORE_CLASSES_] = {0};
    enum err rc = ERR_OK;

    assert(on_owner(d));
    assert(d->index == NULL);
    assert(!d->open);
    d->wals->damaged = damaged;
    d->segments->next_id = 1;
    rc = truncated_load(d->state, &d->wals->truncated, eb);
    if (rc == ERR_OK)
        rc = missing_logs_load(d, eb);
    if (rc == ERR_OK)
        rc = drop_cached(d, eb);
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++) {
        rc = segment_list_read(&found[c], d->dir[c], NULL, NULL, eb);
        if (rc == ERR_OK)
            rc = open_segments(d, (enum store_class)c, &found[c], &headless, &unusable[c],
                               eb);
    }
    /* What can't be opened may be the oldest. */
    if (rc == ERR_OK && !unusable[STORE_CACHED])
        forget_removed_wals(d);
    if (rc == ERR_OK)
        rc = open_damaged_logs(d, &headless, eb);
    segment_list_fini(&headless);
    if (rc == ERR_OK)
        rc = missing_logs_find(d, eb);
    if (rc == ERR_OK)
        rc = open_index(d, &checkpoint, eb);
    if (rc == ERR_OK)
        rc = missing_logs_compare(d, eb);
    if (rc == ERR_OK)
        rc = forget_dropped(d, eb);
    if (rc == ERR_OK && d->wals->missing == 0)
        rc = check_for_logs(d, &found[STORE_NATIVE], eb);
    if (rc == ERR_OK)
        rc = prepared_load(d, eb);
    if (rc == ERR_OK)
        rc = usage_load(d->usage, d->memtable, d->index, eb);
    memtable_replaying(d->memtable, true);
    if (rc == ERR_OK)
        index_replaying(d->index, true);
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        d->wals->of[c].end = checkpoint.log[c]; /* a flush in the middle covers no less */
        d->wals->of[c].checkpoint = checkpoint.log[c];
        if (rc == ERR_OK)
            d->recovery->to_replay +=
                log_bytes(d, (enum store_class)c, &checkpoint.log[c]);
    }
    d->key_filter = key_filter_new(d->recovery->to_replay);
    if (rc == ERR_OK && covers_nothing(d, &checkpoint))
        key_filter_complete(d->key_filter);
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++)
        rc = replay_present(d, (enum store_class)c, &checkpoint.log[c], eb);
    memtable_replaying(d->memtable, false);
    if (d->index != NULL)
        index_replaying(d->index, false);
    POINT(START_REPLAYED);
    if (rc == ERR_OK)
        rc = remember_damage(d, damaged, eb);
    d->recovery->wal_lost = d->wals->damaged;
    d->wals->damaged |=
        d->o.rebuild; /* nothing is given back before an administrator has looked */
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++) {
        rc = recover_bodies(d, (enum store_class)c, eb);
        recover_count_shared(d, (enum store_class)c);
        if (rc == ERR_OK)
            rc = recover_single(d, (enum store_class)c, &found[c], eb);
    }
    for (unsigned c = 0; c < STORE_CLASSES_; c++)
        segment_list_fini(&found[c]);
    if (rc == ERR_OK)
        rc = make_first_log(d, eb);
    if (rc == ERR_OK)
        rc = missing_logs_end(d, eb);
    if (rc == ERR_OK && d->recovery->given_back > 0)
        LOG(LOG_INFO, "store.uncommitted_freed",
            "places of bodies that were never committed",
            L_TEXT("disk", rt_dir_path(d->root)),
            L_U64("count", d->recovery->given_back));
    POINT(START_READY);
    return rc;
}
