/* Bodies after the replay: those without a record are given back, and where the next one goes. */

#include <assert.h>

#include "store/recover/recover_bodies.h"

#include "rt/point.h"
#include "store/core/core.h"
#include "store/gc/punch.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/recover/recovery.h"
#include "store/recover/replay.h"
#include "store/segment/body.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/wal/prepared.h"
#include "store/wal/wal.h"

/* Has the body of this header a record? Unknown counts as yes: space is lost, never data. */
static enum err
has_record(struct store *d, const struct log_record *m, bool *out, struct errbuf *eb)
{
    struct entry entry;
    struct part_entry part;
    enum err rc;

    *out = true;
    if (m->kind != LOG_RECORD_BODY) {
        *out = false; /* open or dead */
        return ERR_OK;
    }
    if (m->part > 0) {
        struct upload_entry u;

        rc = find_part(d->memtable, d->index, &m->upload, m->part, &part, eb);
        if (rc == ERR_OK)
            *out = content_eq(&part.entry.content, &m->content);
        else if (rc == ERR_NO_UPLOAD) /* of a completed one it may be in a manifest */
            *out = find_upload(d->memtable, d->index, m->bucket, m->key, &m->upload, &u,
                               eb) != ERR_OK;
        return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
    }
    if (prepared_has(d->prepared, &m->content))
        return ERR_OK;
    rc = find_content(d->memtable, d->index, m->bucket, m->key, &m->content, &entry, eb);
    if (rc == ERR_NOT_FOUND)
        *out = false;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* What damaged or missing logs said of a finished body is unknown: it stays, for rebuild --from-bodies. What an index that was
 * not read as a whole yet does not know stays as well: once that is proven it is given back as any dead body (punch.c). */
static bool
keeps_orphans(const struct store *d, const struct log_record *m)
{
    return (d->wals->damaged || d->o.rebuild ||
            index_trust(d->index) != STORE_INDEX_PROVEN) &&
           m->kind == LOG_RECORD_BODY;
}

/* A power cut may have lost the header of a cached place and kept later bodies: does the index know of more than these bytes? */
static enum err
more_lives(struct store *d, const struct segment *s, uint64_t found, bool *out,
           struct errbuf *eb)
{
    struct index_segment seen = {0};
    enum err rc = index_segment(d->index, s->class, s->id, &seen, eb);

    assert(s->kind == SEGMENT_BODIES);
    *out = rc == ERR_OK && seen.living > 0 && (uint64_t)seen.living > found;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Walks the newest shared segment: where the next body goes, and which places have no record. Those at the end are
 * given out again, the others get the header of the dead. Behind a header that cannot be read (torn by a cut when it
 * was rewritten, or rotten) nothing is: the length of its place is unknown, and what comes next may live. */
static enum err
walk_places(struct store *d, struct segment *s, struct errbuf *eb)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->owner.size};
    uint64_t at = STORE_ALIGN, used = STORE_ALIGN, living = 0, next;
    enum scanned got = SCAN_BATCH;
    struct errbuf why = {0};
    bool behind = false;
    enum err rc = ERR_OK;

    assert(s->kind == SEGMENT_BODIES);
    assert(s->owner.open_places == 0);
    while (rc == ERR_OK) {
        struct iobuf *buf;
        struct log_record m;
        bool lives = true;

        got = place_scan(&source, at, &m, &buf, &next, &why);
        if (got != SCAN_BATCH)
            break;
        rc = has_record(d, &m, &lives, eb);
        if (rc == ERR_OK && (lives || keeps_orphans(d, &m))) {
            used = next;
            living += (uint64_t)segment_weight(false, m.size);
            /* As with the log: were it lost, what comes behind it would seem to be free. */
            rc = rt_write(s->file, at, buf, 0, BODY_HEAD, RT_WRITE, eb);
        } else if (rc == ERR_OK && m.kind != LOG_RECORD_DEAD) {
            d->recovery->given_back++;
            rc = body_mark_dead(s, m.offset, &m.content, m.span, RT_WRITE, eb);
            POINT(START_BURIED);
        }
        iobuf_drop(&buf);
        at = next;
    }
    if (got == SCAN_NEWER)
        return err_set(eb, ERR_NOT_IMPLEMENTED, "%s", why.text);
    if (got == SCAN_ERROR)
        return err_set(eb, ERR_IO, "%s", why.text);
    if (rc == ERR_OK && got == SCAN_END && why.text[0] == '\0')
        rc = more_lives(d, s, living, &behind, eb);
    if (got == SCAN_END && at + BODY_HEAD <= s->owner.size &&
        (why.text[0] != '\0' || behind))
        used = s->owner.size;
    assert(used >= STORE_ALIGN);
    assert(used <= s->owner.size);
    s->owner.used = used;
    puncher_given_out(d->puncher, s->id, used); /* all that died is with him by now */
    if (rc == ERR_OK)
        rc = replay_renew_segment(s, eb);
    return rc == ERR_OK ? rt_sync(s->file, eb) : rc;
}

enum err
recover_bodies(struct store *d, enum store_class class, struct errbuf *eb)
{
    struct segment *newest = NULL;
    enum err rc;

    assert(d->segments->bodies[class] == NULL);
    LIST_EACH(&d->segments->of_class[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (s->kind == SEGMENT_BODIES && (newest == NULL || s->id > newest->id))
            newest = s;
    }
    if (newest == NULL)
        return ERR_OK;
    rc = walk_places(d, newest, eb);
    if (rc == ERR_OK)
        d->segments->bodies[class] = segment_ref(newest);
    return rc;
}

static enum err
count_single(struct store *d, enum store_class class, uint32_t id, struct errbuf *eb)
{
    uint64_t size;
    enum err rc = segment_size(d, class, id, &size, eb);

    if (rc == ERR_OK)
        atomic_fetch_add(&d->segments->used_bytes[class],
                         size - MIN(size, 2 * STORE_ALIGN));
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Segments of one body: those in which nothing lives are unlinked; where the index is not proven, by the puncher, once it is. The index
 * has all of the replay by now. */
enum err
recover_single(struct store *d, enum store_class class, const struct segment_list *l,
               struct errbuf *eb)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct index_segment seg = {0};
        enum err rc;

        if (l->at[i].kind != SEGMENT_ONE)
            continue;
        rc = index_segment(d->index, class, l->at[i].id, &seg, eb);
        if (rc == ERR_OK && seg.living > 0) {
            rc = count_single(d, class, l->at[i].id, eb);
            if (rc != ERR_OK)
                return rc;
            continue;
        }
        if ((d->wals->damaged || d->o.rebuild) && class == STORE_NATIVE &&
            (rc == ERR_OK || rc == ERR_NOT_FOUND))
            continue;
        if ((rc == ERR_OK || rc == ERR_NOT_FOUND) &&
            index_trust(d->index) != STORE_INDEX_PROVEN) {
            struct garbage later = {.class = class, .segment = l->at[i].id};

            rc = count_single(d, class, l->at[i].id, eb);
            if (rc != ERR_OK)
                return rc;
            puncher_add(d->puncher, &later, 1);
            continue;
        }
        if (rc == ERR_OK || rc == ERR_NOT_FOUND)
            rc = segment_remove(d, class, SEGMENT_ONE, l->at[i].id, eb);
        if (rc == ERR_OK)
            d->recovery->given_back++;
        else if (rc !=
                 ERR_NOT_FOUND) /* the replay's own flush may have been there first */
            return rc;
    }
    return ERR_OK;
}

/* Logs and shared segments: to where the next batch or body goes; older ones are full. */
void
recover_count_shared(struct store *d, enum store_class class)
{
    LIST_EACH(&d->segments->of_class[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);
        bool open = s == d->wals->of[class].now || s == d->segments->bodies[class];

        assert(s->owner.used <= s->owner.size);
        s->owner.counted = (open ? s->owner.used : s->owner.size) - STORE_ALIGN;
        atomic_fetch_add(&d->segments->used_bytes[class], s->owner.counted);
    }
}
