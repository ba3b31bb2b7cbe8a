/* Mending the chain of headers of a body segment: what a scan of bodies follows, and where metadata of a body is read.
 * A log record says all that a body's header said; of a place without a record nothing is wanted but its length. */
#include "store/core/core.h"
#include "store/offline/check.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/read.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/segment/wal_walk.h"
#include "store/store_entry.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* Where a record says that a body stands in this segment; the last one of each place. */
struct named {
    uint64_t offset, span;
    uint32_t log;
    uint64_t at; /* of the record */
};
struct chain_repair {
    struct store *disk;
    enum store_class class;
    uint32_t segment, generation;
    struct rt_file *file; /* borrowed */
    uint64_t size;
    struct named *named; /* owned */
    uint32_t count, room;
    uint64_t repaired;
};

static enum err
take_record(void *arg, struct log_record *m)
{
    struct chain_repair *x = arg;
    struct named n = {m->place.offset, m->place.span, m->segment, m->offset};

    if (m->place.segment != x->segment || m->place.generation != x->generation ||
        n.offset % STORE_ALIGN != 0 || n.span < BODY_HEAD)
        return ERR_OK;
    if (x->count == x->room) {
        x->room = MAX(64u, 2 * x->room);
        x->named = xrealloc(x->named, x->room * sizeof *x->named);
    }
    x->named[x->count++] = n;
    return ERR_OK;
}

static const struct named *
named_at(const struct chain_repair *x, uint64_t offset)
{
    for (uint32_t i = x->count; i-- > 0;)
        if (x->named[i].offset == offset)
            return &x->named[i];
    return NULL;
}

static enum err
write_head(struct chain_repair *x, struct log_record *m, struct errbuf *eb)
{
    struct iobuf *b;
    struct buf head;
    enum err rc;

    assert(m->offset % STORE_ALIGN == 0);
    buf_init(&head, HEAD_MAX);
    log_record_encode(m, 0, &head);
    if (m->kind == LOG_RECORD_BODY &&
        head.len > BODY_HEAD) { /* they stand behind it, too */
        m->meta_behind = true;
        m->meta = NULL;
    }
    buf_clear(&head);
    log_record_encode(m, BODY_HEAD, &head);
    assert(head.len == BODY_HEAD);
    rc = iobuf_get(BODY_HEAD, &b);
    if (rc != ERR_OK) {
        buf_fini(&head);
        return err_set(eb, rc, "no buffer for the header of a body");
    }
    memcpy(b->at, head.at, BODY_HEAD);
    rc = rt_write(x->file, m->offset, b, 0, BODY_HEAD, RT_WRITE, eb);
    if (rc == ERR_OK)
        x->repaired++;
    iobuf_drop(&b);
    buf_fini(&head);
    return rc;
}

/* The header of a body, from its record. */
static enum err
repair_body(struct chain_repair *x, const struct named *n, struct errbuf *eb)
{
    struct entry entry = {.flags = ENTRY_INLINE |
                                   (x->class == STORE_CACHED ? ENTRY_CACHED : 0),
                          .place.segment = n->log,
                          .place.offset = n->at};
    struct arena *a = arena_new(4096, KIB(64));
    struct object_meta meta;
    struct loaded l;
    enum err rc = read_log_record(x->disk, &entry, false, &l, eb);

    assert(n->span >= BODY_HEAD);
    if (rc == ERR_OK)
        rc = log_record_meta(&l.m, a, true, &meta, eb);
    if (rc == ERR_OK) {
        struct log_record head = {.kind = LOG_RECORD_BODY,
                                  .segment = x->segment,
                                  .generation = x->generation,
                                  .offset = n->offset,
                                  .epoch = l.m.epoch,
                                  .payload = l.m.size,
                                  .bucket = l.m.bucket,
                                  .immutable_name = l.m.immutable_name,
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

/* No record names the place: dead, up to the next header that stands or is named by a record. */
static enum err
repair_gap(struct chain_repair *x, const struct scan_source *source, uint64_t at,
           uint64_t *next, struct errbuf *eb)
{
    struct log_record dead = {.kind = LOG_RECORD_DEAD,
                              .segment = x->segment,
                              .generation = x->generation,
                              .offset = at,
                              .epoch = x->disk->epoch};
    enum scanned got = SCAN_END;

    assert(at % STORE_ALIGN == 0);
    for (*next = at + STORE_ALIGN; *next + BODY_HEAD <= x->size; *next += STORE_ALIGN) {
        struct iobuf *b;
        struct log_record m;
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
repair_chain(struct chain_repair *x, uint64_t living, struct errbuf *eb)
{
    struct scan_source source = {.file = x->file,
                                 .segment = x->segment,
                                 .generation = x->generation,
                                 .size = x->size,
                                 .cluster_sum = x->disk->cluster_sum};
    uint64_t at = STORE_ALIGN, next = 0;
    enum err rc = wal_walk(x->disk, x->class, take_record, x, NULL, eb);

    while (rc == ERR_OK && at <= living) {
        const struct named *n;
        struct iobuf *b;
        struct log_record m;
        enum scanned got = place_scan(&source, at, &m, &b, &next, NULL);

        iobuf_drop(&b);
        if (got == SCAN_ERROR)
            return err_set(eb, ERR_IO, "segment %06" PRIu32 " can't be read", x->segment);
        if (got == SCAN_NEWER)
            return err_set(eb, ERR_NOT_IMPLEMENTED,
                           "segment %06" PRIu32 " has a header of a newer version",
                           x->segment);
        if (got != SCAN_BATCH) {
            n = named_at(x, at);
            rc =
                n != NULL ? repair_body(x, n, eb) : repair_gap(x, &source, at, &next, eb);
            if (n != NULL)
                next = at + n->span;
        }
        at = next;
    }
    return rc == ERR_OK && x->repaired > 0 ? rt_sync(x->file, eb) : rc;
}

enum err
check_repair_chain(struct store *d, enum store_class class, uint32_t segment,
                   uint64_t living, uint64_t *repaired, struct errbuf *eb)
{
    struct chain_repair x = {
        .disk = d, .class = class, .segment = segment, .generation = 1};
    struct segment *s = segment_pin(d, segment);
    struct rt_file *own = NULL;
    struct log_record head;
    char name[SEGMENT_NAME_ROOM];
    enum err rc = ERR_OK;

    assert(!d->read_only);
    assert(class < STORE_CLASSES_);
    *repaired = 0;
    if (s != NULL) {
        x.file = s->file;
        x.generation = s->generation;
        x.size = s->owner.size;
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
        rc = repair_chain(&x, living, eb);
    *repaired = x.repaired;
    segment_drop(&s);
    rt_file_close(&own);
    free(x.named);
    return rc;
}
