#include "disk/recover.h"

#include <inttypes.h>

#include "base/log.h"
#include "disk/body.h"
#include "disk/index.h"
#include "disk/index_probe.h"
#include "disk/known.h"
#include "disk/log.h"
#include "disk/prepare.h"
#include "disk/recover_bodies.h"
#include "disk/replay.h"
#include "disk/segment.h"
#include "disk/segment_list.h"
#include "disk/space.h"
#include "disk/usage.h"
#include "rt/point.h"

/* ---- what files there are ---- */

static bool
refused(enum err rc)
{
    return rc == ERR_NOT_BUILT || rc == ERR_DENIED || rc == ERR_CANCELLED ||
           rc == ERR_BUSY;
}

/* Made and never used, or damaged: nothing in it is believed, nothing is deleted. */
static void
say_unusable(const struct errbuf *why)
{
    LOG(LOG_ERROR, "disk.segment_unusable", "left as it is", L_TEXT("error", why->text));
}

/* Logs whose header and first group are damaged: when all others are known. */
static enum err
open_headless(struct disk *d, const struct segment_list *l, struct errbuf *eb)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct segment *s = NULL;
        enum err rc = recover_lost_head(d, l->at[i].id, &s, eb);

        if (refused(rc))
            return rc;
        if (rc != ERR_OK)
            say_unusable(eb);
        segment_drop(&s);
    }
    return ERR_OK;
}

static enum err
open_segments(struct disk *d, enum disk_class class, const struct segment_list *l,
              struct segment_list *headless, bool *unusable, struct errbuf *eb)
{
    *unusable = false;
    for (uint32_t i = 0; i < l->count; i++) {
        struct segment *s;
        enum err rc;

        if (l->at[i].id >= d->home.next_segment)
            d->home.next_segment = l->at[i].id + 1;
        if (l->at[i].kind == SEGMENT_ONE)
            continue;
        rc = segment_open(d, class, l->at[i].kind, l->at[i].id, &s, eb);
        if (refused(rc))
            return rc;
        if (rc == ERR_CORRUPT && class == DISK_NATIVE && l->at[i].kind == SEGMENT_LOG) {
            segment_list_add(headless, SEGMENT_LOG, l->at[i].id);
            continue;
        }
        if (rc != ERR_OK) {
            say_unusable(eb);
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
forget_gone(struct disk *d)
{
    const struct segment *oldest = replay_oldest_log(d, DISK_CACHED);

    if (oldest != NULL)
        retired_forget(&d->home.retired, DISK_CACHED, oldest->first_group);
}

/* ---- the index ---- */

/* Does the index's position lie in a log that is there? One that never covered anything fits while the log
 * begins at its first group. */
static bool
position_fits(struct disk *d, enum disk_class class, const struct log_position *p)
{
    struct segment *s;
    bool fits;

    if (p->segment == 0)
        return true;
    s = segment_pin(d, p->segment);
    fits = s != NULL && s->class == class && s->kind == SEGMENT_LOG &&
           s->generation == p->generation && p->offset % DISK_ALIGN == 0 &&
           p->offset <= s->home.size && p->group + 1 >= s->first_group;
    segment_drop(&s);
    return fits;
}

/* Does the index know of changes that the native log does not have, behind all that it has? Then a file of it is
 * gone, or cut: believing the rest would bring old versions back. An index that is only too old is another thing. */
static bool
log_is_lost(struct disk *d, const struct log_position *p)
{
    if (p->group == 0)
        return false;
    LIST_EACH(&d->home.segments_of[DISK_NATIVE], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind == SEGMENT_LOG && s->first_group > p->group)
            return false;
    }
    return !position_fits(d, DISK_NATIVE, p);
}

static enum err
judge_index(struct disk *d, struct index_covered *covered, struct errbuf *eb)
{
    const struct log_position *native = &covered->log[DISK_NATIVE];
    struct errbuf why = {.text = "it does not fit the logs"};
    enum err rc;

    if (log_is_lost(d, native)) {
        d->home.log_damaged = true;
        if (!d->o.rebuild)
            return err_set(eb, ERR_CORRUPT,
                           "the index knows changes up to group %" PRIu64
                           " of the native log, in native/log-%06" PRIu32
                           ".tar, which is not there, or shorter, or damaged where it "
                           "begins: put the file back, or "
                           "run forebay disk rebuild to go on with what is left",
                           native->group, native->segment);
    } else if (!d->o.rebuild && covered->generation <= d->generation &&
               position_fits(d, DISK_NATIVE, native) &&
               position_fits(d, DISK_CACHED, &covered->log[DISK_CACHED])) {
        rc = index_probe(d->index, &why);
        if (rc == ERR_OK)
            return ERR_OK;
        /* LMDB has more than one word for damage. */
        if (rc != ERR_CORRUPT && !index_is_bad(d->index))
            return err_set(eb, rc, "%s", why.text);
    }
    LOG(LOG_WARN, "disk.index_foreign", "the index is rebuilt from the logs",
        L_TEXT("disk", rt_dir_path(d->root)),
        L_TEXT("why", d->o.rebuild ? "asked for" : why.text));
    *covered = (struct index_covered){0};
    return index_reset(d->index, eb);
}

static enum err
open_index(struct disk *d, struct index_covered *covered, struct errbuf *eb)
{
    struct index_options o = {.dir = d->root,
                              .map_bytes = d->o.index_map_bytes,
                              .memory_bytes = d->o.index_memory_bytes,
                              .health = d->health,
                              .discard = d->again /* its damage ended the first try */};
    enum index_state state;
    enum err rc;

    memcpy(o.disk_id, d->disk_id, sizeof o.disk_id);
    rc = index_open(&o, &d->index, &state, covered, eb);
    if (rc != ERR_OK)
        return rc;
    if (state == INDEX_GOOD)
        return judge_index(d, covered, eb);
    if (!list_empty(&d->home.segments_of[DISK_NATIVE]) ||
        !list_empty(&d->home.segments_of[DISK_CACHED]))
        LOG(LOG_WARN, "disk.index_lost", "the index is rebuilt from the logs",
            L_TEXT("disk", rt_dir_path(d->root)),
            L_TEXT("why", state == INDEX_EMPTY ? "there was none" : "it was of no use"));
    *covered = (struct index_covered){0};
    return ERR_OK;
}

/* ---- logs that are damaged or gone ---- */

/* Is the first thing in the file a finished body of an earlier start? */
static enum err
has_old_body(struct disk *d, enum disk_class class, const char *name, bool *out,
             struct errbuf *eb)
{
    struct rt_file *f = NULL;
    struct iobuf *b = NULL;
    struct member m;
    uint32_t n = 0;
    size_t need;
    enum err rc = rt_open(d->dir[class], name, RT_O_DIRECT, 0, &f, eb);

    *out = false;
    if (rc == ERR_OK)
        rc = iobuf_get(BODY_HEAD, &b);
    if (rc == ERR_OK)
        rc = rt_read(f, DISK_ALIGN, b, 0, BODY_HEAD, RT_READ, DEADLINE_NEVER, &n, eb);
    if (rc == ERR_OK)
        *out = member_parse((struct span){b->at, n}, &m, &need, NULL) == MEMBER_GOOD &&
               m.kind == MEMBER_BODY && m.epoch < d->former_epoch;
    iobuf_drop(&b);
    rt_file_close(&f);
    return rc;
}

static uint64_t
log_bytes(struct disk *d, enum disk_class class, const struct log_position *from)
{
    uint64_t sum = 0;

    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind == SEGMENT_LOG && s->first_group > from->group)
            sum += s->home.size;
        else if (s->kind == SEGMENT_LOG && s->id == from->segment)
            sum += s->home.size - MIN(s->home.size, from->offset);
    }
    return sum;
}

/* Bodies without any log: at most those of one start that did not come to its first record. */
static enum err
check_for_logs(struct disk *d, const struct segment_list *l, struct errbuf *eb)
{
    if (replay_oldest_log(d, DISK_NATIVE) != NULL)
        return ERR_OK;
    for (uint32_t i = 0; i < l->count; i++) {
        char name[SEGMENT_NAME_ROOM];
        bool old = false;
        enum err rc = ERR_OK;

        segment_name(l->at[i].kind, l->at[i].id, name);
        if (l->at[i].kind != SEGMENT_LOG)
            rc = has_old_body(d, DISK_NATIVE, name, &old, eb);
        if (rc != ERR_OK)
            return rc;
        if (old && d->o.rebuild)
            d->home.log_damaged = true;
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
remember_damage(struct disk *d, bool before, struct errbuf *eb)
{
    static const char text[] =
        "Changes of the native log were lost. Bodies that no record names are kept.\n"
        "forebay disk rebuild --from-bodies brings them back; forebay disk check "
        "--repair --drop-damaged gives them up.\n";

    if (before || !d->home.log_damaged)
        return ERR_OK;
    return rt_file_store(d->state, RECOVER_ORPHANS, text, sizeof text - 1, 0600, eb);
}

/* Is the index empty, so that all it will have comes from this replay? */
static bool
covers_nothing(struct disk *d, const struct index_covered *covered)
{
    struct index_stat stat;

    index_stat(d->index, &stat);
    return stat.objects == 0 && covered->log[DISK_NATIVE].segment == 0 &&
           covered->log[DISK_CACHED].segment == 0;
}

/* A disk whose first two starts are cut before the first record would have a body of an earlier start and no log that says
 * whether it lives: the log comes before the first body. Where logs are lost none is made: nothing is to hide that. One
 * for which there is no room is made with the first record. It was written full of zeros, as those that follow are (ahead.h); where that
 * does not work it is made as it is. */
static enum err
make_first_log(struct disk *d, struct errbuf *eb)
{
    enum err rc;

    if (d->read_only || d->o.rebuild || d->home.log_damaged ||
        d->home.log[DISK_NATIVE].now != NULL)
        return ERR_OK;
    if (d->home.spare[DISK_NATIVE] == NULL && !space_is_tight(d->space) &&
        segment_make_spare(d, DISK_NATIVE, NULL, NULL) != ERR_OK)
        LOG0(LOG_DEBUG, "disk.no_log_ahead", "the first log is not written ahead");
    rc = log_room(d, DISK_NATIVE, DISK_ALIGN, eb);
    return rc == ERR_NO_SPACE ? ERR_OK : rc;
}

enum err
recover_disk(struct disk *d, struct errbuf *eb)
{
    struct segment_list found[DISK_CLASSES_] = {0}, headless = {0};
    struct index_covered covered = {0};
    unsigned mode;
    bool damaged = rt_dir_mode(d->state, RECOVER_ORPHANS, &mode, NULL) == ERR_OK;
    bool unusable[DISK_CLASSES_] = {0};
    enum err rc = ERR_OK;

    d->home.log_damaged = damaged;
    d->home.next_segment = 1;
    rc = retired_load(d->state, &d->home.retired, eb);
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++) {
        rc = segment_list_read(&found[c], d->dir[c], NULL, NULL, eb);
        if (rc == ERR_OK)
            rc = open_segments(d, (enum disk_class)c, &found[c], &headless, &unusable[c],
                               eb);
    }
    /* What can't be opened may be the oldest. */
    if (rc == ERR_OK && !unusable[DISK_CACHED])
        forget_gone(d);
    if (rc == ERR_OK)
        rc = open_headless(d, &headless, eb);
    segment_list_fini(&headless);
    if (rc == ERR_OK)
        rc = open_index(d, &covered, eb);
    if (rc == ERR_OK)
        rc = check_for_logs(d, &found[DISK_NATIVE], eb);
    if (rc == ERR_OK)
        rc = prepared_load(d, eb);
    if (rc == ERR_OK)
        rc = usage_load(d->usage, d->tail, d->index, eb);
    tail_replaying(d->tail, true);
    if (rc == ERR_OK)
        index_replaying(d->index, true);
    for (unsigned c = 0; c < DISK_CLASSES_; c++) {
        d->home.log[c].end = covered.log[c]; /* a flush in the middle covers no less */
        d->home.log[c].covered = covered.log[c];
        if (rc == ERR_OK)
            d->home.to_replay += log_bytes(d, (enum disk_class)c, &covered.log[c]);
    }
    d->home.known = known_new(d->home.to_replay);
    if (rc == ERR_OK && covers_nothing(d, &covered))
        known_complete(d->home.known);
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++)
        rc = replay_class(d, (enum disk_class)c, &covered.log[c], eb);
    tail_replaying(d->tail, false);
    if (d->index != NULL)
        index_replaying(d->index, false);
    POINT(START_REPLAYED);
    if (rc == ERR_OK)
        rc = remember_damage(d, damaged, eb);
    d->home.log_lost = d->home.log_damaged;
    d->home.log_damaged |=
        d->o.rebuild; /* nothing is given back before somebody has looked */
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++) {
        rc = recover_bodies(d, (enum disk_class)c, eb);
        recover_count_shared(d, (enum disk_class)c);
        if (rc == ERR_OK)
            rc = recover_single(d, (enum disk_class)c, &found[c], eb);
    }
    for (unsigned c = 0; c < DISK_CLASSES_; c++)
        segment_list_fini(&found[c]);
    if (rc == ERR_OK)
        rc = make_first_log(d, eb);
    if (rc == ERR_OK && d->home.given_back > 0)
        LOG(LOG_INFO, "disk.given_back", "places of bodies that were never committed",
            L_TEXT("disk", rt_dir_path(d->root)), L_U64("count", d->home.given_back));
    POINT(START_READY);
    return rc;
}
