/* Where a log does not go on as it should: damage in the native one, holes in the cached one (hole.h). */
#include "disk/replay.h"

#include "base/log.h"
#include "base/metrics.h"
#include "disk/hole.h"
#include "disk/log.h"
#include "disk/promised.h"
#include "disk/segment.h"

/* Groups of the native log are synced one by one: where a later one stands, this one was acknowledged. What it said
 * is lost; what follows is not. The check names it. */
static void
say_damaged(const struct replaying *r)
{
    metric_add(M_CHECKSUM_FAILURES, 0, 1);
    LOG(LOG_ERROR, "disk.log_damaged",
        "acknowledged changes can't be read; run forebay disk check",
        L_TEXT("disk", rt_dir_path(r->disk->root)), L_U64("segment", r->segment->id),
        L_U64("offset", r->scan.offset), L_U64("group", r->scan.group));
}

/* What is left of groups that are damaged. A record that can't be applied is said, and the rest goes on. */
static enum err
take_salvaged(void *arg, struct member *m)
{
    struct changes *c = arg;
    struct errbuf why = {0};
    enum err rc = c->class == DISK_CACHED ? replay_cached(c, m, &why)
                                          : changes_apply(c, m, NULL, &why);

    if (rc == ERR_OK) {
        replay_take_counters(c->disk, m);
        changes_publish(c);
        return ERR_OK;
    }
    changes_forget(c);
    LOG(LOG_ERROR, "disk.record_lost", "a record of a damaged group is of no use",
        L_U64("segment", m->segment), L_U64("offset", m->offset),
        L_TEXT("error", why.text));
    return rc == ERR_CORRUPT ? ERR_OK : rc;
}

static enum err
flush(void *arg, struct errbuf *eb)
{
    struct replaying *r = arg;
    enum err rc = beside_end(r->beside, eb);

    return rc == ERR_OK ? replay_flush(r->disk, r->segment, eb) : rc;
}

/* What a record of the cached log said is lost. The index covers nothing behind it before it knows that: a start that is
 * cut meanwhile comes here again. */
static enum err
distrust(struct replaying *r, struct errbuf *eb)
{
    struct disk *d = r->disk;
    enum err rc = replay_again(r, r->scan.offset, eb);

    d->home.retired.damaged = MAX(d->home.retired.damaged, r->scan.group);
    if (rc == ERR_OK)
        rc = retired_keep(d, eb);
    LOG(LOG_ERROR, "disk.cache_distrusted",
        "a change of the cached log is lost: what was cached before it is fetched anew",
        L_TEXT("disk", rt_dir_path(d->root)));
    if (rc == ERR_OK)
        rc = hole_distrust(d, r->changes, flush, r, eb);
    d->home.behind_hole = d->home.behind_damage = true;
    return rc;
}

/* Records in front of `to`, of groups below that one. */
static enum err
salvage(struct replaying *r, uint64_t to, uint64_t below, struct errbuf *eb)
{
    struct disk *d = r->disk;
    bool whole;
    enum err rc;

    say_damaged(r);
    rc = log_scan_salvage(&r->scan, to, below, take_salvaged, r->changes, &whole, eb);
    if (r->changes->class == DISK_NATIVE)
        d->home.log_damaged |= !whole;
    else if (rc == ERR_OK && !whole)
        rc = distrust(r, eb);
    return rc;
}

enum err
replay_last(struct replaying *r, struct errbuf *eb)
{
    struct log *log = &r->disk->home.log[r->changes->class];
    uint64_t there =
        r->changes->class == DISK_CACHED ? hole_lost_end(r->disk, log->next_group) : 0;
    enum err rc;

    if (there == 0)
        return ERR_OK;
    rc = salvage(r, r->segment->home.size, there + 1, eb);
    log->next_group = hole_number_behind(r->disk);
    r->cut_off = true;
    return rc;
}

/* The index covers what the new log begins behind: else each start would come here again. Without room for one it does, until
 * the first group makes it. */
enum err
replay_begin_anew(struct disk *d, struct errbuf *eb)
{
    struct log *log = &d->home.log[DISK_CACHED];
    enum err rc = log_room(d, DISK_CACHED, DISK_ALIGN, eb);

    if (rc != ERR_OK)
        return rc == ERR_NO_SPACE ? ERR_OK : rc;
    log->end = (struct log_position){.generation = log->now->generation,
                                     .segment = log->now->id,
                                     .offset = DISK_ALIGN,
                                     .group = log->next_group - 1};
    return flush_position(d, eb);
}

enum err
replay_gap(struct replaying *r, uint64_t below, struct errbuf *eb)
{
    return salvage(r, r->segment->home.size, below, eb);
}

static enum scanned
go_on(struct replaying *r, const struct log_behind *behind, struct errbuf *eb)
{
    log_scan_go(&r->scan, behind);
    return log_scan_next(&r->scan, eb);
}

static enum scanned
behind_native(struct replaying *r, struct errbuf *eb)
{
    struct log_behind behind;

    if (!log_scan_behind(&r->scan, replay_look_behind(r->disk), &behind))
        return SCAN_END;
    /* That one may be what is left of a group which is damaged itself: its members in front count. */
    if (salvage(r, behind.offset, behind.group + 1, eb) != ERR_OK)
        return SCAN_ERROR;
    return go_on(r, &behind, eb);
}

/* Found again, by who has another index to make, it is not to be taken for damage, whatever was synced since. */
static enum err
remember_cut(struct replaying *r, const struct log_behind *behind, struct errbuf *eb)
{
    struct disk *d = r->disk;
    struct retired *known = &d->home.retired;
    uint64_t first = r->scan.group, last = behind->group - 1;

    LOG(LOG_INFO, "disk.log_hole", "what a power cut took was promised to nobody",
        L_U64("segment", r->segment->id), L_U64("offset", r->scan.offset),
        L_U64("group", first), L_U64("behind", behind->group));
    d->home.behind_hole = true;
    if (retired_covers_cut(known, first, last))
        return ERR_OK;
    retired_add_cut(known, first, last);
    return retired_keep(d, eb);
}

static enum scanned
behind_cached(struct replaying *r, struct errbuf *eb)
{
    struct log_behind behind;
    enum hole hole = hole_look(r->disk, &r->scan, replay_look_behind(r->disk), &behind);
    enum scanned got;
    uint64_t before;
    enum err rc;

    if (hole == HOLE_END)
        return SCAN_END;
    rc = hole == HOLE_CUT ? remember_cut(r, &behind, eb)
                          : salvage(r, behind.offset, behind.group, eb);
    if (rc != ERR_OK)
        return SCAN_ERROR;
    before = r->scan.offset;
    got = go_on(r, &behind, eb);
    if (got == SCAN_END) /* what was promised ends there */
        replay_set_end(r, before);
    return got;
}

enum scanned
replay_behind(struct replaying *r, struct errbuf *eb)
{
    return r->changes->class == DISK_NATIVE ? behind_native(r, eb) : behind_cached(r, eb);
}
