/* The check reads the logs: a replay into the scratch index, which reports what it meets. */
#include <assert.h>
#include <inttypes.h>

#include "store/offline/check.h"
#include "store/recover/recovery.h"
#include "store/recover/replay.h"
#include "store/segment/segment.h"
#include "store/wal/wal.h"

/* What the next start drops: bodies of the class cached are not synced before a reply. */
static void
report_dropped(struct check *k, const struct log_record *m)
{
    char text[CHECK_KEY_TEXT];

    check_note(k,
               "%s, segment %06" PRIu32 " at %" PRIu64
               ": the cached copy is incomplete, as a power cut leaves it; the next "
               "start drops it, and the next read fetches it",
               check_key(m->bucket, m->key, text),
               m->place.segment != 0 ? m->place.segment : m->segment,
               m->place.segment != 0 ? m->place.offset : m->offset);
}

/* Where every header stands only bytes are damaged: check_objects() names those of objects that live. */
static void
report_damage(struct check *k, const struct replay_seen *seen)
{
    const struct wal_scan *scan = seen->scan;

    assert(seen->event == REPLAY_DAMAGE);
    assert(seen->next != NULL);
    check_report(k, !seen->whole,
                 "%s/log-%06" PRIu32 ".tar at %" PRIu64 ": commit batch %" PRIu64
                 " is damaged (%s); the next good one is at %" PRIu64 "%s",
                 check_class_name(seen->class), scan->source.segment, scan->offset,
                 scan->batch, seen->why[0] != '\0' ? seen->why : "zeros",
                 seen->next->offset,
                 seen->whole                   ? "; no record is lost"
                 : seen->class == STORE_CACHED ? CHECK_CACHE_IS_DROPPED
                                               : "");
}

/* A write that was cut off, or damage. */
static void
report_end(struct check *k, const struct replay_seen *seen)
{
    const struct wal_scan *scan = seen->scan;
    uint64_t covered = k->checkpoint.log[seen->class].batch;

    assert(seen->event == REPLAY_END);
    if (scan->batch <= covered)
        check_fault(k,
                    "the %s log ends before commit batch %" PRIu64
                    "; the index covers batches up to %" PRIu64,
                    check_class_name(seen->class), scan->batch, covered);
    else if (seen->why[0] != '\0')
        check_note(k,
                   "the %s log ends at %" PRIu64 " of segment %06" PRIu32
                   " with something that is no commit batch (%s): "
                   "a write that was cut off, if the last batch was not damaged",
                   check_class_name(seen->class), scan->offset, scan->source.segment,
                   seen->why);
}

static void
on_replay(void *arg, const struct replay_seen *seen)
{
    struct check *k = arg;
    const struct wal_scan *scan = seen->scan;

    switch (seen->event) {
    case REPLAY_BATCH:
        k->result->records += scan->count;
        break;
    case REPLAY_SALVAGED:
        k->result->records++;
        break;
    case REPLAY_BAD_RECORD:
        check_fault(k, "segment %06" PRIu32 " at %" PRIu64 ": %s", seen->record->segment,
                    seen->record->offset, seen->why);
        break;
    case REPLAY_DROPPED:
        report_dropped(k, seen->record);
        break;
    case REPLAY_DAMAGE:
        report_damage(k, seen);
        break;
    case REPLAY_MISSING_BATCH:
        check_fault(k,
                    "%s/log-%06" PRIu32 ".tar begins with commit batch %" PRIu64
                    ", wanted %" PRIu64,
                    check_class_name(seen->class), seen->segment->id,
                    seen->segment->first_batch, scan->batch);
        break;
    case REPLAY_LOST_END:
        k->log_ended[seen->class] = true;
        check_fault(k,
                    "%s/log-%06" PRIu32 ".tar ends at %" PRIu64
                    " before commit batch %" PRIu64 ", but batches up to %" PRIu64
                    " were synced%s",
                    check_class_name(seen->class), scan->source.segment, scan->offset,
                    scan->batch, seen->next->batch,
                    seen->class == STORE_CACHED ? CHECK_CACHE_IS_DROPPED : "");
        break;
    case REPLAY_END:
        k->log_ended[seen->class] = true;
        report_end(k, seen);
        break;
    }
}

static void
on_progress(void *arg, uint64_t done, uint64_t total)
{
    struct check *k = arg;

    if (k->progress != NULL)
        k->progress(k->arg, "logs", done, total);
}

static uint64_t
log_bytes(const struct store *d)
{
    uint64_t sum = 0;

    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        LIST_EACH(&d->segments->of_class[c], n)
        {
            const struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

            sum += s->kind == SEGMENT_LOG ? s->owner.size : 0;
        }
    }
    return sum;
}

enum err
check_logs(struct check *k, bool up_to_index, struct errbuf *eb)
{
    struct store *d = k->disk;
    struct replay_visitor v = {
        .visit = on_replay, .arg = k, .trust_cached = !k->as_start};
    enum err rc = ERR_OK;

    assert(d->read_only && d->recovery->visitor == NULL);
    d->o.on_replay = on_progress;
    d->o.on_replay_arg = k;
    d->recovery->to_replay = log_bytes(d);
    d->recovery->visitor = &v;
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++) {
        struct wal *log = &d->wals->of[c];
        struct wal_position from = log->end; /* where the former call ended */

        v.up_to[c] = up_to_index ? k->checkpoint.log[c].batch : UINT64_MAX;
        segment_drop(&log->now);
        if (!k->log_ended[c] && !(c == STORE_CACHED && d->recovery->drop_cached))
            rc = replay_class(d, (enum store_class)c, &from, eb);
    }
    d->recovery->visitor = NULL;
    return rc;
}
