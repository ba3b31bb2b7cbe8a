/* Where a log does not go on as it should: damage in the native one, holes in the cached one (gap.h). */

#include <assert.h>

#include "base/log.h"
#include "base/metrics.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/recover/lost_keys.h"
#include "store/recover/recovery.h"
#include "store/recover/replay.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/flush.h"
#include "store/wal/log_gap.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"
#include "store/wal/watermark.h"
#include <assert.h>
#include <inttypes.h>

bool
replay_hides(const struct store *d, const struct log_record *m)
{
    return d->recovery->after_gap && m->kind == LOG_RECORD_IN_DOUBT_CLEAR;
}

enum err
replay_drop_cached(struct store *d, uint64_t batch, struct errbuf *eb)
{
    enum err rc;

    assert(batch > 0);
    d->recovery->drop_cached = true;
    if (d->read_only)
        return ERR_OK;
    d->wals->truncated.damaged = batch;
    rc = truncated_persist(d, eb);
    if (rc != ERR_OK)
        return rc;
    LOG(LOG_ERROR, "store.cache_dropped",
        "a change in the cached log is lost: everything that this disk has cached is "
        "dropped, and fetched again when it is read",
        L_TEXT("disk", rt_dir_path(d->root)), L_U64("batch", batch));
    return err_set(eb, ERR_CORRUPT, "commit batch %" PRIu64 " of the cached log is lost",
                   batch);
}

/* Groups of the native log are synced one by one: where a later one stands, this one was acknowledged. What it said
 * is lost; what follows is not. The check names it. */
static void
report_damage(const struct replaying *r)
{
    if (r->disk->recovery->visitor != NULL)
        return;
    metric_add(M_CHECKSUM_FAILURES, 0, 1);
    LOG(LOG_ERROR, "store.wal_damaged",
        "acknowledged changes can't be read; run forebay disk check",
        L_TEXT("disk", rt_dir_path(r->disk->root)), L_U64("segment", r->segment->id),
        L_U64("offset", r->scan.offset), L_U64("group", r->scan.batch));
}

/* What is left of batches that are damaged. A record that can't be applied is said, and the rest goes on. */
static enum err
apply_salvaged(void *arg, struct log_record *m)
{
    const struct replaying *r = arg;
    struct changes *c = r->changes;
    struct lost_keys *lost =
        c->class == STORE_NATIVE ? c->disk->recovery->lost_keys : NULL;
    struct errbuf why = {0};
    enum err rc;

    if (m->kind == LOG_RECORD_KEYS && lost != NULL) {
        lost_keys_saw(lost, m);
        return ERR_OK;
    }
    rc = c->class == STORE_CACHED ? replay_cached(c, m, &why)
                                  : changes_apply(c, m, NULL, &why);
    if (rc == ERR_OK) {
        if (lost != NULL)
            lost_keys_saw(lost, m);
        replay_advance_counters(c->disk, m);
        changes_publish(c);
        (void)replay_report(r,
                            (struct replay_seen){.event = REPLAY_SALVAGED, .record = m});
        return ERR_OK;
    }
    changes_forget(c);
    if (!replay_report(r, (struct replay_seen){
                              .event = REPLAY_BAD_RECORD, .record = m, .why = why.text}))
        LOG(LOG_ERROR, "store.record_lost",
            "a record of a damaged commit batch cannot be applied",
            L_U64("segment", m->segment), L_U64("offset", m->offset),
            L_TEXT("error", why.text));
    return rc == ERR_CORRUPT ? ERR_OK : rc;
}

/* The damage in which changes of keys may be lost: batches below `below` */
static struct lost_keys *
lost_keys_of(struct replaying *r, uint64_t below)
{
    struct recovery *v = r->disk->recovery;

    if (r->changes->class != STORE_NATIVE)
        return NULL;
    if (v->lost_keys == NULL)
        v->lost_keys = lost_keys_new();
    lost_keys_begin(v->lost_keys, r->scan.batch, below);
    return v->lost_keys;
}

enum err
replay_keys_of_batch(struct replaying *r, struct errbuf *eb)
{
    struct store *d = r->disk;
    struct lost_keys *lost = d->recovery->lost_keys;
    const struct wal_scan *scan = &r->scan;
    const struct log_record *last = &scan->records[scan->count - 1];
    struct version bound = {UINT64_MAX, UINT64_MAX};
    bool lists = last->kind == LOG_RECORD_KEYS;

    assert(scan->count > 0);
    wal_set_digest_before(d, lists ? last->keys : (struct span){"", 0});
    if (lost == NULL || !lost_keys_is_open(lost))
        return ERR_OK;
    if (lists) {
        bound = last->version;
        lost_keys_saw(lost, last);
    }
    return lost_keys_end(lost, d, &bound, eb);
}

/* Records in front of `to`, of batches below that one. `lost`: of these batches changes may be lost. */
static enum err
replay_salvage(struct replaying *r, uint64_t to, uint64_t below, uint64_t lost_below,
               struct replay_seen seen, struct errbuf *eb)
{
    struct store *d = r->disk;
    struct errbuf why = *eb; /* what stands instead of the batch */
    bool whole = false, opened = d->recovery->lost_keys == NULL ||
                                 !lost_keys_is_open(d->recovery->lost_keys);
    struct lost_keys *lost = lost_keys_of(r, lost_below);
    enum err rc;

    assert(to <= r->segment->owner.size);
    assert(below > r->scan.batch);
    report_damage(r);
    rc = wal_scan_salvage(&r->scan, to, below, apply_salvaged, r, &whole, eb);
    seen.whole = whole;
    seen.why = why.text;
    if (rc == ERR_OK && replay_report(r, seen))
        err_forget(eb);
    if (whole && opened && lost != NULL)
        lost_keys_cancel(lost);
    if (r->changes->class == STORE_NATIVE)
        d->wals->damaged |= !whole;
    else if (rc == ERR_OK && !whole)
        rc = replay_drop_cached(d, r->scan.batch, eb);
    return rc;
}

/* The lists of the last batches, from outside the log. */
static void
list_from_watermark(struct lost_keys *lost, const struct watermark *w, uint64_t first)
{
    for (uint64_t batch = MAX(first, w->whole_from); batch <= w->batch; batch++) {
        char keys[BATCH_RECORDS * SUSPECT_ENTRY_BYTES];
        size_t len = 0;

        for (uint32_t i = 0; i < w->count; i++) {
            if (w->keys[i].batch != batch)
                continue;
            suspect_put(keys + len, w->keys[i].hash, w->keys[i].bucket);
            len += SUSPECT_ENTRY_BYTES;
            assert(len <= sizeof keys);
        }
        lost_keys_list(lost, batch, (struct span){keys, len});
    }
}

/* Batches of the native log up to the watermark were durable, and the log ends before them. What is left of them counts; nothing is
 * written over it: the next batch makes a new log. */
static enum err
lost_native_end(struct replaying *r, uint64_t wanted, struct errbuf *eb)
{
    struct store *d = r->disk;
    struct wal *log = &d->wals->of[STORE_NATIVE];
    const struct watermark *w = d->wals->mark;
    struct wal_scan_next_batch last = {.batch = w->batch};
    enum err rc;

    assert(w->batch >= wanted);
    rc =
        replay_salvage(r, r->segment->owner.size, w->batch + 1, w->batch + 1,
                       (struct replay_seen){.event = REPLAY_LOST_END, .next = &last}, eb);
    if (rc != ERR_OK)
        return rc;
    d->wals->damaged = true;
    d->recovery->lost_end = true;
    if (lost_keys_is_open(d->recovery->lost_keys)) {
        list_from_watermark(d->recovery->lost_keys, w, wanted);
        rc = lost_keys_end(d->recovery->lost_keys, d, &w->version, eb);
    }
    log->next_batch = w->batch + 1;
    return rc;
}

enum err
replay_lost_end(struct replaying *r, struct errbuf *eb)
{
    struct store *d = r->disk;
    bool native = r->changes->class == STORE_NATIVE;
    uint64_t wanted = d->wals->of[r->changes->class].next_batch;
    struct wal_scan_next_batch last = {.batch = d->wals->truncated.durable_mark};

    if (native && d->wals->mark->batch >= wanted && d->wals->missing == 0)
        return lost_native_end(r, wanted, eb);
    if (native || last.batch < wanted) {
        (void)replay_report(r,
                            (struct replay_seen){.event = REPLAY_END, .why = eb->text});
        return ERR_OK;
    }
    report_damage(r);
    (void)replay_report(r, (struct replay_seen){.event = REPLAY_LOST_END, .next = &last});
    return replay_drop_cached(d, wanted, eb);
}

enum err
replay_missing_wals(struct replaying *r, const struct segment *next, struct errbuf *eb)
{
    assert(next->first_batch > r->scan.batch);
    return replay_salvage(
        r, r->segment->owner.size, next->first_batch, next->first_batch,
        (struct replay_seen){.event = REPLAY_MISSING_BATCH, .segment = next}, eb);
}

static enum scanned
resume_scan(struct replaying *r, const struct wal_scan_next_batch *behind,
            struct errbuf *eb)
{
    wal_scan_resume(&r->scan, behind);
    return wal_scan_next(&r->scan, eb);
}

static enum scanned
after_gap_native(struct replaying *r, struct errbuf *eb)
{
    struct wal_scan_next_batch behind;

    if (!wal_scan_find_next(&r->scan, replay_search_bytes(r->disk), &behind))
        return SCAN_END;
    /* That one may be what is left of a batch which is damaged itself: its records in front count. */
    if (replay_salvage(r, behind.offset, behind.batch + 1, behind.batch,
                       (struct replay_seen){.event = REPLAY_DAMAGE, .next = &behind},
                       eb) != ERR_OK)
        return SCAN_ERROR;
    return resume_scan(r, &behind, eb);
}

/* Found again, by who has another index to make, it is not to be taken for damage, whatever was synced since. */
static enum err
record_lost_groups(struct replaying *r, const struct wal_scan_next_batch *behind,
                   struct errbuf *eb)
{
    struct store *d = r->disk;
    struct truncated *known = &d->wals->truncated;
    uint64_t first = r->scan.batch, last = behind->batch - 1;

    assert(r->changes->class == STORE_CACHED);
    assert(last >= first);
    d->recovery->after_gap = true;
    if (!d->read_only)
        LOG(LOG_INFO, "store.wal_gap",
            "a power cut took commit batches that no reply had waited for",
            L_U64("segment", r->segment->id), L_U64("offset", r->scan.offset),
            L_U64("batch", first), L_U64("next", behind->batch));
    if (truncated_covers_lost(known, first, last))
        return ERR_OK;
    truncated_add_lost(known, first, last);
    return d->read_only ? ERR_OK : truncated_persist(d, eb);
}

static enum scanned
after_gap_cached(struct replaying *r, struct errbuf *eb)
{
    struct wal_scan_next_batch behind;
    enum log_gap gap =
        log_gap_find(r->disk, &r->scan, replay_search_bytes(r->disk), &behind);
    enum err rc;

    if (gap == LOG_GAP_NONE)
        return SCAN_END;
    rc = gap == LOG_GAP_LOST
             ? record_lost_groups(r, &behind, eb)
             : replay_salvage(
                   r, behind.offset, behind.batch, behind.batch,
                   (struct replay_seen){.event = REPLAY_DAMAGE, .next = &behind}, eb);
    if (rc != ERR_OK)
        return SCAN_ERROR;
    return r->disk->recovery->drop_cached ? SCAN_END : resume_scan(r, &behind, eb);
}

enum scanned
replay_after_gap(struct replaying *r, struct errbuf *eb)
{
    return r->changes->class == STORE_NATIVE ? after_gap_native(r, eb)
                                             : after_gap_cached(r, eb);
}
