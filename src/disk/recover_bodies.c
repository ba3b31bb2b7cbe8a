/* Bodies after the replay: those without a record are given back, and where the next one goes. */
#include "disk/recover_bodies.h"

#include "disk/body.h"
#include "disk/find.h"
#include "disk/index.h"
#include "disk/prepare.h"
#include "disk/punch.h"
#include "disk/replay.h"
#include "disk/scan.h"
#include "rt/point.h"

/* Has the body of this header a record? Unknown counts as yes: space is lost, never data. */
static enum err
has_record(struct disk *d, const struct member *m, bool *out, struct errbuf *eb)
{
    struct row row;
    struct part_row part;
    enum err rc;

    *out = true;
    if (m->kind != MEMBER_BODY) {
        *out = false; /* open or dead */
        return ERR_OK;
    }
    if (m->part > 0) {
        struct upload_row u;

        rc = find_part(d->tail, d->index, &m->upload, m->part, &part, eb);
        if (rc == ERR_OK)
            *out = content_eq(&part.row.content, &m->content);
        else if (rc == ERR_NO_UPLOAD) /* of a completed one it may be in a manifest */
            *out = find_upload(d->tail, d->index, m->bucket, m->key, &m->upload, &u,
                               eb) != ERR_OK;
        return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
    }
    if (prepared_has(d->prepared, &m->content))
        return ERR_OK;
    rc = find_content(d->tail, d->index, m->bucket, m->key, &m->content, &row, eb);
    if (rc == ERR_NOT_FOUND)
        *out = false;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* What logs that are damaged or gone said of a finished body nobody knows: it stays, for rebuild --from-bodies. What an index that was
 * not read as a whole yet does not know stays as well: once that is proven it is given back as any dead body (punch.c). */
static bool
keeps_orphans(const struct disk *d, const struct member *m)
{
    return (d->home.log_damaged || d->o.rebuild ||
            index_trust(d->index) != DISK_INDEX_PROVEN) &&
           m->kind == MEMBER_BODY;
}

/* Walks the newest shared segment: where the next body goes, and which places have no record. Those at the end are
 * given out again, the others get the header of the dead. Behind a header that cannot be read (torn by a cut when it
 * was rewritten, or rotten) nothing is: how long its place is nobody knows, and what comes next may live. */
static enum err
walk_places(struct disk *d, struct segment *s, struct errbuf *eb)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->home.size};
    uint64_t at = DISK_ALIGN, used = DISK_ALIGN, next;
    enum scanned got = SCAN_GROUP;
    struct errbuf why = {0};
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        struct iobuf *buf;
        struct member m;
        bool lives = true;

        got = place_scan(&source, at, &m, &buf, &next, &why);
        if (got != SCAN_GROUP)
            break;
        rc = has_record(d, &m, &lives, eb);
        if (rc == ERR_OK && (lives || keeps_orphans(d, &m))) {
            used = next;
            /* As with the log: were it lost, what comes behind it would seem to be free. */
            rc = rt_write(s->file, at, buf, 0, BODY_HEAD, RT_WRITE, eb);
        } else if (rc == ERR_OK && m.kind != MEMBER_DEAD) {
            d->home.given_back++;
            rc = body_bury(s, m.offset, &m.content, m.span, RT_WRITE, eb);
            POINT(START_BURIED);
        }
        iobuf_drop(&buf);
        at = next;
    }
    if (got == SCAN_NEWER)
        return err_set(eb, ERR_NOT_BUILT, "%s", why.text);
    if (got == SCAN_ERROR)
        return err_set(eb, ERR_IO, "%s", why.text);
    if (got == SCAN_END && at + BODY_HEAD <= s->home.size && why.text[0] != '\0')
        used = s->home.size;
    s->home.used = used;
    puncher_given_out(d->puncher, s->id, used); /* all that died is with him by now */
    if (rc == ERR_OK)
        rc = replay_renew_segment(s, eb);
    return rc == ERR_OK ? rt_sync(s->file, eb) : rc;
}

enum err
recover_bodies(struct disk *d, enum disk_class class, struct errbuf *eb)
{
    struct segment *newest = NULL;
    enum err rc;

    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind == SEGMENT_BODIES && (newest == NULL || s->id > newest->id))
            newest = s;
    }
    if (newest == NULL)
        return ERR_OK;
    rc = walk_places(d, newest, eb);
    if (rc == ERR_OK)
        d->home.bodies[class] = segment_ref(newest);
    return rc;
}

static enum err
count_single(struct disk *d, enum disk_class class, uint32_t id, struct errbuf *eb)
{
    uint64_t size;
    enum err rc = segment_size(d, class, id, &size, eb);

    if (rc == ERR_OK)
        atomic_fetch_add(&d->used_bytes[class], size - MIN(size, 2 * DISK_ALIGN));
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Segments of one body: those in which nothing lives are unlinked; where the index is not proven, by the puncher, once it is. The index
 * has all of the replay by now. */
enum err
recover_single(struct disk *d, enum disk_class class, const struct segment_list *l,
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
        if ((d->home.log_damaged || d->o.rebuild) && class == DISK_NATIVE &&
            (rc == ERR_OK || rc == ERR_NOT_FOUND))
            continue;
        if ((rc == ERR_OK || rc == ERR_NOT_FOUND) &&
            index_trust(d->index) != DISK_INDEX_PROVEN) {
            struct dying later = {.class = class, .segment = l->at[i].id};

            rc = count_single(d, class, l->at[i].id, eb);
            if (rc != ERR_OK)
                return rc;
            puncher_add(d->puncher, &later, 1);
            continue;
        }
        if (rc == ERR_OK || rc == ERR_NOT_FOUND)
            rc = segment_remove(d, class, SEGMENT_ONE, l->at[i].id, eb);
        if (rc == ERR_OK)
            d->home.given_back++;
        else if (rc !=
                 ERR_NOT_FOUND) /* the replay's own flush may have been there first */
            return rc;
    }
    return ERR_OK;
}

/* Logs and shared segments: to where the next group or body goes; older ones are full. */
void
recover_count_shared(struct disk *d, enum disk_class class)
{
    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);
        bool open = s == d->home.log[class].now || s == d->home.bodies[class];

        s->home.counted = (open ? s->home.used : s->home.size) - DISK_ALIGN;
        atomic_fetch_add(&d->used_bytes[class], s->home.counted);
    }
}
