/* Mending the chain of headers of a body segment: what a scan of bodies follows, and where metadata of a body is read.
 * A log record says all that a body's header said; of a place without a record nothing is wanted but its length. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "disk/check.h"
#include "disk/log_walk.h"
#include "disk/read.h"
#include "disk/segment.h"

/* Where a record says that a body stands in this segment; the last one of each place. */
struct named {
    uint64_t offset, span;
    uint32_t log;
    uint64_t at; /* of the record */
};
struct mending {
    struct disk *disk;
    enum disk_class class;
    uint32_t segment, generation;
    struct rt_file *file; /* borrowed */
    uint64_t size;
    struct named *named; /* owned */
    uint32_t count, room;
    uint64_t mended;
};

static enum err
take_record(void *arg, struct member *m)
{
    struct mending *x = arg;
    struct named n = {m->place.offset, m->place.span, m->segment, m->offset};

    if (m->place.segment != x->segment || m->place.generation != x->generation ||
        n.offset % DISK_ALIGN != 0 || n.span < BODY_HEAD)
        return ERR_OK;
    if (x->count == x->room) {
        x->room = MAX(64u, 2 * x->room);
        x->named = xrealloc(x->named, x->room * sizeof *x->named);
    }
    x->named[x->count++] = n;
    return ERR_OK;
}

static const struct named *
named_at(const struct mending *x, uint64_t offset)
{
    for (uint32_t i = x->count; i-- > 0;)
        if (x->named[i].offset == offset)
            return &x->named[i];
    return NULL;
}

static enum err
write_head(struct mending *x, struct member *m, struct errbuf *eb)
{
    struct iobuf *b;
    struct buf head;
    enum err rc;

    buf_init(&head, HEAD_MAX);
    member_encode(m, 0, &head);
    if (m->kind == MEMBER_BODY && head.len > BODY_HEAD) { /* they stand behind it, too */
        m->meta_behind = true;
        m->meta = NULL;
    }
    buf_clear(&head);
    member_encode(m, BODY_HEAD, &head);
    assert(head.len == BODY_HEAD);
    rc = iobuf_get(BODY_HEAD, &b);
    if (rc != ERR_OK) {
        buf_fini(&head);
        return err_set(eb, rc, "no buffer for the header of a body");
    }
    memcpy(b->at, head.at, BODY_HEAD);
    rc = rt_write(x->file, m->offset, b, 0, BODY_HEAD, RT_WRITE, eb);
    if (rc == ERR_OK)
        x->mended++;
    iobuf_drop(&b);
    buf_fini(&head);
    return rc;
}

/* The header of a body, from its record. */
static enum err
mend_body(struct mending *x, const struct named *n, struct errbuf *eb)
{
    struct row row = {.flags = ROW_INLINE | (x->class == DISK_CACHED ? ROW_CACHED : 0),
                      .segment = n->log,
                      .offset = n->at};
    struct arena *a = arena_new(4096, KIB(64));
    struct object_meta meta;
    struct loaded l;
    enum err rc = read_log_member(x->disk, &row, false, &l, eb);

    if (rc == ERR_OK)
        rc = member_meta(&l.m, a, true, &meta, eb);
    if (rc == ERR_OK) {
        struct member head = {.kind = MEMBER_BODY,
                              .segment = x->segment,
                              .generation = x->generation,
                              .offset = n->offset,
                              .epoch = l.m.epoch,
                              .payload = l.m.size,
                              .bucket = l.m.bucket,
                              .birth_name = l.m.birth_name,
                              .key = l.m.key,
                              .content = l.m.content,
                              .size = l.m.size,
                              .span = n->span,
                              .upload = l.m.upload,
                              .part = l.m.part,
                              .meta = &meta};

        rc = write_head(x, &head, eb);
    }
    loaded_fini(&l);
    arena_free(&a);
    return rc;
}

/* Nobody knows the place: dead, up to the next header that stands or is named by a record. */
static enum err
mend_gap(struct mending *x, const struct scan_source *source, uint64_t at, uint64_t *next,
         struct errbuf *eb)
{
    struct member dead = {.kind = MEMBER_DEAD,
                          .segment = x->segment,
                          .generation = x->generation,
                          .offset = at,
                          .epoch = x->disk->epoch};
    enum scanned got = SCAN_END;

    for (*next = at + DISK_ALIGN; *next + BODY_HEAD <= x->size; *next += DISK_ALIGN) {
        struct iobuf *b;
        struct member m;
        uint64_t unused;

        got = place_scan(source, *next, &m, &b, &unused, NULL);
        iobuf_drop(&b);
        if (got != SCAN_END || named_at(x, *next) != NULL)
            break;
    }
    if (got == SCAN_ERROR)
        return err_set(eb, ERR_IO, "segment %06" PRIu32 " can't be read", x->segment);
    dead.span = *next - at;
    dead.payload = dead.span - BODY_HEAD;
    return write_head(x, &dead, eb);
}

static enum err
mend(struct mending *x, uint64_t living, struct errbuf *eb)
{
    struct scan_source source = {.file = x->file,
                                 .segment = x->segment,
                                 .generation = x->generation,
                                 .size = x->size,
                                 .cluster_sum = x->disk->cluster_sum};
    uint64_t at = DISK_ALIGN, next = 0;
    enum err rc = log_walk(x->disk, x->class, take_record, x, NULL, eb);

    while (rc == ERR_OK && at <= living) {
        const struct named *n;
        struct iobuf *b;
        struct member m;
        enum scanned got = place_scan(&source, at, &m, &b, &next, NULL);

        iobuf_drop(&b);
        if (got == SCAN_ERROR)
            return err_set(eb, ERR_IO, "segment %06" PRIu32 " can't be read", x->segment);
        if (got == SCAN_NEWER)
            return err_set(eb, ERR_NOT_BUILT,
                           "segment %06" PRIu32 " has a header of a newer version",
                           x->segment);
        if (got != SCAN_GROUP) {
            n = named_at(x, at);
            rc = n != NULL ? mend_body(x, n, eb) : mend_gap(x, &source, at, &next, eb);
            if (n != NULL)
                next = at + n->span;
        }
        at = next;
    }
    return rc == ERR_OK && x->mended > 0 ? rt_sync(x->file, eb) : rc;
}

enum err
check_mend_chain(struct disk *d, enum disk_class class, uint32_t segment, uint64_t living,
                 uint64_t *mended, struct errbuf *eb)
{
    struct mending x = {.disk = d, .class = class, .segment = segment, .generation = 1};
    struct segment *s = segment_pin(d, segment);
    struct rt_file *own = NULL;
    struct member head;
    char name[SEGMENT_NAME_ROOM];
    enum err rc = ERR_OK;

    *mended = 0;
    if (s != NULL) {
        x.file = s->file;
        x.generation = s->generation;
        x.size = s->home.size;
    } else {
        segment_name(SEGMENT_ONE, segment, name);
        rc = rt_open(d->dir[class], name, RT_O_WRITE | RT_O_DIRECT, 0, &own, eb);
        x.file = own;
        if (rc == ERR_OK)
            rc = rt_file_size(own, &x.size, eb);
        if (rc == ERR_OK && segment_header_read(own, &head, NULL) == ERR_OK)
            x.generation = head.generation;
    }
    if (rc == ERR_OK)
        rc = mend(&x, living, eb);
    *mended = x.mended;
    segment_drop(&s);
    rt_file_close(&own);
    free(x.named);
    return rc;
}
