#include "store/segment/segment.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/space.h"
#include "store/store_entry.h"

static const char *const kind_names[] = {
    [SEGMENT_LOG] = "log",
    [SEGMENT_BODIES] = "body",
    [SEGMENT_ONE] = "one",
};
#define SEGMENT_ID_MAX ((1u << 28) - 1)
#define LOG_SHARE      32u /* size of a log, as a fraction of what its class holds */
#define CACHED_SHARE                                                                     \
    64u /* size of a shared cached segment, as a fraction of the class's limit, */
#define CACHED_LEAST KIB(256) /* and at least this */

const char *
segment_kind_name(enum segment_kind kind)
{
    return kind_names[kind];
}

void
segment_name(enum segment_kind kind, uint32_t id, char out[SEGMENT_NAME_ROOM])
{
    snprintf(out, SEGMENT_NAME_ROOM, "%s-%06" PRIu32 ".tar", kind_names[kind], id);
}

bool
segment_name_parse(const char *name, enum segment_kind *kind, uint32_t *id)
{
    char again[SEGMENT_NAME_ROOM];

    for (unsigned k = 0; k < ARRAY_LEN(kind_names); k++) {
        size_t len = strlen(kind_names[k]);
        unsigned long n;

        if (strncmp(name, kind_names[k], len) != 0 || name[len] != '-')
            continue;
        n = strtoul(name + len + 1, NULL, 10);
        if (n == 0 || n > SEGMENT_ID_MAX)
            return false;
        *kind = (enum segment_kind)k;
        *id = (uint32_t)n;
        segment_name(*kind, *id, again);
        return strcmp(again, name) == 0; /* rejects other spellings of the number */
    }
    return false;
}

/* Asserts the invariants that hold whenever the owner loop runs. */
void
segment_check(const struct segment *s)
{
    assert(s->disk != NULL && s->id <= SEGMENT_ID_MAX);
    assert(s->class < STORE_CLASSES_);
    assert(atomic_load_explicit(&s->refs, memory_order_relaxed) > 0);
    assert(s->owner.used % STORE_ALIGN == 0);
    assert(s->owner.used >= STORE_ALIGN);
    assert(s->kind != SEGMENT_LOG || s->owner.open_places == 0);
    assert(s->kind == SEGMENT_LOG || !s->owner.current);
    assert(s->kind == SEGMENT_BODIES || list_empty(&s->owner.openings));
    assert(s->owner.syncs_done <= s->owner.syncs_begun);
    assert(s->owner.sealing_turn <= 1);
    assert(s->class == STORE_CACHED || !s->owner.dirty);
}

/* ---- the table ---- */

static segment_slot *
segment_slot_of(struct store *d, uint32_t id, bool make)
{
    segment_slot *page;
    uint32_t top = id / SEGMENT_TABLE_PAGE;

    if (top >= SEGMENT_TABLE_TOP)
        return NULL;
    page = atomic_load_explicit(&d->segments->table[top], memory_order_acquire);
    if (page == NULL && make) { /* only the owner loop allocates a page */
        page = xcalloc(SEGMENT_TABLE_PAGE, sizeof *page);
        atomic_store_explicit(&d->segments->table[top], page, memory_order_release);
    }
    return page != NULL ? &page[id % SEGMENT_TABLE_PAGE] : NULL;
}

struct segment *
segment_ref(struct segment *s)
{
    assert(atomic_load_explicit(&s->refs, memory_order_relaxed) > 0);
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void
segment_drop(struct segment **sp)
{
    struct segment *s = *sp;

    *sp = NULL;
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    rt_file_close(&s->file);
    free(s);
}

struct segment *
segment_pin(struct store *d, uint32_t id)
{
    segment_slot *slot = segment_slot_of(d, id, false);
    struct segment *s =
        slot != NULL ? atomic_load_explicit(slot, memory_order_acquire) : NULL;

    /* The table's own reference outlives this loop iteration (rt_retire), so the count is not
     * zero. */
    return s != NULL ? segment_ref(s) : NULL;
}

static void
segment_drop_recycled(void *ptr)
{
    struct segment *s = ptr;

    segment_drop(&s);
}

static void
table_add(struct segment *s)
{
    segment_slot *slot = segment_slot_of(s->disk, s->id, true);

    assert(s->kind != SEGMENT_ONE);
    assert(list_empty(&s->owner.of_class));
    assert(slot != NULL && atomic_load(slot) == NULL);
    list_push_back(&s->disk->segments->of_class[s->class], &s->owner.of_class);
    atomic_store_explicit(slot, segment_ref(s), memory_order_release);
}

static void
table_remove(struct store *d, uint32_t id)
{
    segment_slot *slot = segment_slot_of(d, id, false);
    struct segment *s = slot != NULL ? atomic_exchange(slot, NULL) : NULL;

    if (s == NULL)
        return;
    list_remove(&s->owner.of_class);
    rt_retire(segment_drop_recycled, s);
}

static void
table_clear(struct segments *all)
{
    for (unsigned top = 0; top < SEGMENT_TABLE_TOP; top++) {
        segment_slot *page = atomic_exchange(&all->table[top], NULL);

        if (page == NULL)
            continue;
        for (unsigned i = 0; i < SEGMENT_TABLE_PAGE; i++) {
            struct segment *s = atomic_load(&page[i]);

            if (s != NULL)
                list_remove(&s->owner.of_class);
            segment_drop(&s);
        }
        free(page);
    }
}

void
segment_table_clear(struct store *d)
{
    assert(d->segments != NULL);
    table_clear(d->segments);
}

/* ---- files ---- */

static struct segment *
new_segment(struct store *d, enum store_class class, enum segment_kind kind, uint32_t id)
{
    struct segment *s = xcalloc(1, sizeof *s);

    s->disk = d;
    s->id = id;
    s->generation = 1;
    s->class = class;
    s->kind = kind;
    atomic_init(&s->refs, 1);
    list_init(&s->owner.of_class);
    list_init(&s->owner.of_dirty);
    list_init(&s->owner.openings);
    rt_cond_init(&s->owner.opened);
    rt_cond_init(&s->owner.synced);
    s->owner.used = STORE_ALIGN;
    return s;
}

static enum err
write_header(struct segment *s, struct errbuf *eb)
{
    struct log_record m = {.kind = LOG_RECORD_SEGMENT_HEADER,
                           .segment = s->id,
                           .generation = s->generation,
                           .epoch = s->disk->epoch,
                           .class = s->class,
                           .segment_kind = s->kind,
                           .first_batch = s->first_batch,
                           .segment_bytes = s->owner.size,
                           .mtime_ms = (int64_t)(rt_wall_ns() / 1000000)};
    struct iobuf *b;
    struct buf head;
    enum err rc = iobuf_get(STORE_ALIGN, &b);

    assert(s->file != NULL);
    assert(s->disk->epoch > 0);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer for the header of a segment");
    memcpy(m.cluster_id, s->disk->o.cluster_id, sizeof m.cluster_id);
    memcpy(m.disk_id, s->disk->disk_id, sizeof m.disk_id);
    buf_init(&head, STORE_ALIGN);
    log_record_encode(&m, STORE_ALIGN, &head);
    memcpy(b->at, head.at, STORE_ALIGN);
    buf_fini(&head);
    rc = rt_write(s->file, 0, b, 0, STORE_ALIGN, RT_WRITE, eb);
    iobuf_drop(&b);
    return rc;
}

void
segment_discard(struct store *d, enum store_class class, const char *name)
{
    struct rt_shield shield;
    struct errbuf eb = {0};

    rt_shield_begin(&shield);
    if (rt_dir_unlink(d->dir[class], name, &eb) != ERR_OK)
        LOG(LOG_WARN, "store.unlink_failed",
            "a segment without bodies stays until the next start",
            L_TEXT("segment", name), L_TEXT("error", eb.text));
    rt_shield_end(&shield);
}

/* Creates the file with its header, but does not put it into the table. */
static enum err
make_file(struct store *d, enum store_class class, enum segment_kind kind,
          uint64_t first_batch, uint64_t bytes, struct segment **out, struct errbuf *eb)
{
    char name[SEGMENT_NAME_ROOM];
    struct segment *s;
    enum err rc;

    assert(on_owner(d));
    assert(bytes >= 2 * STORE_ALIGN);
    assert(kind == SEGMENT_LOG || first_batch == 0);
    *out = NULL;
    if (d->segments->next_id > SEGMENT_ID_MAX)
        return err_set(eb, ERR_NO_SPACE, "the disk has used up its %u segment numbers",
                       SEGMENT_ID_MAX);
    s = new_segment(d, class, kind, d->segments->next_id++);
    s->first_batch = first_batch;
    s->owner.size = bytes;
    s->owner.swept = true; /* a new segment has no leftovers of a crash */
    segment_name(kind, s->id, name);
    rc = kind != SEGMENT_LOG ? space_leaves_reserve(d->space, bytes, eb) : ERR_OK;
    if (rc == ERR_OK)
        rc = rt_open(d->dir[class], name,
                     RT_O_WRITE | RT_O_CREATE | RT_O_EXCL | RT_O_DIRECT, 0600, &s->file,
                     eb);
    if (s->file != NULL) {
        rc = rt_fallocate(s->file, 0, bytes, eb);
        if (rc == ERR_OK)
            rc = write_header(s, eb);
        if (rc == ERR_OK && kind != SEGMENT_ONE) {
            rc = rt_sync(s->file, eb);
            if (rc == ERR_OK)
                rc = rt_dir_sync(d->dir[class], eb);
        }
        if (rc != ERR_OK) {
            segment_discard(d, class, name);
        }
    }
    if (rc != ERR_OK) {
        err_prefix(eb, "segment %s", name);
        segment_drop(&s);
        return rc;
    }
    POINT(SEGMENT_MADE);
    *out = s;
    return ERR_OK;
}

enum err
segment_make(struct store *d, enum store_class class, enum segment_kind kind,
             uint64_t first_batch, uint64_t bytes, struct segment **out,
             struct errbuf *eb)
{
    enum err rc = make_file(d, class, kind, first_batch, bytes, out, eb);

    if (rc == ERR_OK && kind != SEGMENT_ONE)
        table_add(*out);
    return rc;
}

/* ---- spares ---- */

#define PIN_WAIT_MS 10u
#define PIN_WAITS   500u /* a reader pins a log for one read only */
/* A larger write fills the disk's queue (254 pieces of a page), and the sync of a batch then
 * waits 0.5 ms behind it. */
#define ZEROS_PIECE (128u << 10)
#define ZEROS_ALONE (1u << 20) /* there are no syncs while the disk is opened */

/* Writes `len` zero bytes, or stops at *stop. `stop` is NULL while the disk is opened. */
static enum err
write_zeros(struct segment *s, uint64_t offset, uint64_t len, const bool *stop,
            struct errbuf *eb)
{
    uint32_t room = (uint32_t)MIN(len, stop == NULL ? ZEROS_ALONE : ZEROS_PIECE);
    struct iobuf *b;
    enum err rc = iobuf_get(room, &b);

    assert(offset % STORE_ALIGN == 0);
    assert(len % STORE_ALIGN == 0);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer to clear a log");
    memset(b->at, 0, room);
    while (rc == ERR_OK && len > 0) {
        uint32_t n = (uint32_t)MIN(len, room);

        if (stop != NULL && *stop)
            rc = ERR_CANCELLED;
        else
            rc = rt_write(s->file, offset, b, 0, n, RT_BACKGROUND, eb);
        offset += n;
        len -= n;
    }
    iobuf_drop(&b);
    return rc;
}

/* Makes the new header durable, then overwrites the first batch. So if the header is torn when
 * the log is reused, the file does not look like the old log. */
static enum err
make_spare(struct segment *s, struct errbuf *eb)
{
    enum err rc;

    assert(s->kind == SEGMENT_LOG);
    assert(!s->owner.current);
    s->generation++;
    s->first_batch = 0;
    rc = write_header(s, eb);
    if (rc == ERR_OK)
        rc = rt_sync(s->file, eb);
    if (rc == ERR_OK)
        rc = write_zeros(s, STORE_ALIGN, STORE_ALIGN, NULL, eb);
    if (rc == ERR_OK)
        rc = rt_sync(s->file, eb);
    s->owner.used = STORE_ALIGN;
    s->owner.counted = 0;
    return rc;
}

static enum err
unlink_log(struct store *d, enum store_class class, uint32_t id, struct errbuf *eb)
{
    char name[SEGMENT_NAME_ROOM];
    enum err rc;

    segment_name(SEGMENT_LOG, id, name);
    rc = rt_dir_unlink(d->dir[class], name, eb);
    return rc == ERR_OK ? rt_dir_sync(d->dir[class], eb) : rc;
}

/* Returns the size of the next log of the class. */
static uint64_t
bytes_of_next(const struct store *d, enum store_class class, enum segment_kind kind,
              uint64_t from, uint64_t most)
{
    uint64_t holds = atomic_load(&d->segments->used_bytes[class]);

    if (class == STORE_CACHED && d->o.cached_bytes != 0)
        most = MIN(most, MAX(d->o.cached_bytes / CACHED_SHARE, CACHED_LEAST));
    from = MIN(from, most);
    return align_down(
        MIN(most, MAX(from, kind == SEGMENT_LOG ? holds / LOG_SHARE : holds)),
        STORE_ALIGN);
}

/* True if the log should become the spare, which saves half the cost of a new log. There is at
 * most one spare, and it must not be a large part of what the class holds. */
static bool
wants_spare(const struct store *d, const struct segment *s)
{
    return d->segments->spare[s->class] == NULL && !s->doomed &&
           !space_is_tight(d->space) && s->generation < UINT32_MAX &&
           s->owner.size <=
               bytes_of_next(d, s->class, SEGMENT_LOG, LOG_BYTES_LEAST, UINT64_MAX);
}

enum err
segment_recycle(struct store *d, struct segment **sp, struct errbuf *eb)
{
    struct segment *s = *sp;
    enum store_class class = s->class;
    bool spare = wants_spare(d, s);
    enum err rc = ERR_IO;

    *sp = NULL;
    assert(s->kind == SEGMENT_LOG && !s->owner.current);
    table_remove(d, s->id);
    for (unsigned i = 0; spare && i < PIN_WAITS && atomic_load(&s->refs) > 1; i++) {
        rc = rt_sleep_ms(PIN_WAIT_MS);
        spare = rc == ERR_OK;
    }
    atomic_fetch_sub(&d->segments->used_bytes[class], s->owner.counted);
    s->owner.counted = 0;
    if (spare && atomic_load(&s->refs) == 1) {
        rc = make_spare(s, eb);
        if (rc == ERR_OK && d->segments->spare[class] == NULL) {
            d->segments->spare[class] = s;
            return ERR_OK;
        }
    }
    rc = unlink_log(d, class, s->id, eb);
    segment_drop(&s); /* readers keep the file */
    return rc;
}

/* Writes the header first: after a crash while zeros are written, a start recognizes a spare. */
enum err
segment_make_spare(struct store *d, enum store_class class, const bool *stop,
                   struct errbuf *eb)
{
    uint64_t bytes = bytes_of_next(d, class, SEGMENT_LOG, LOG_BYTES_LEAST,
                                   MIN(d->o.segment_bytes, LOG_BYTES_MOST));
    struct segment *s;
    enum err rc = space_leaves_reserve(d->space, bytes, eb);

    if (rc == ERR_OK)
        rc = make_file(d, class, SEGMENT_LOG, 0, bytes, &s, eb);
    if (rc != ERR_OK)
        return rc;
    rc = write_zeros(s, STORE_ALIGN, bytes - STORE_ALIGN, stop, eb);
    if (rc == ERR_OK)
        rc = rt_sync(s->file, eb);
    if (rc == ERR_OK && d->segments->spare[class] == NULL && !space_is_tight(d->space)) {
        d->segments->spare[class] = s;
        return ERR_OK;
    }
    if (unlink_log(d, class, s->id, NULL) != ERR_OK)
        LOG(LOG_WARN, "store.unlink_failed", "a spare log stays until the next start",
            L_U64("segment", s->id));
    segment_drop(&s);
    return rc;
}

void
segment_drop_spare(struct store *d, enum store_class class)
{
    struct segment *s = d->segments->spare[class];
    struct errbuf eb = {0};

    d->segments->spare[class] = NULL;
    if (s != NULL && unlink_log(d, class, s->id, &eb) != ERR_OK)
        LOG(LOG_WARN, "store.unlink_failed", "a spare log stays until the next start",
            L_U64("segment", s->id), L_TEXT("error", eb.text));
    segment_drop(&s);
}

/* Reuses the spare, since overwriting costs half as much as growing. NULL: no spare is large
 * enough, or reuse failed. */
static struct segment *
take_spare(struct store *d, enum store_class class, uint64_t first_batch, uint64_t least)
{
    struct segment *s = d->segments->spare[class];
    struct errbuf eb = {0};
    enum err rc;

    if (s == NULL || s->owner.size < least)
        return NULL;
    d->segments->spare[class] = NULL;
    s->first_batch = first_batch;
    rc = write_header(s, &eb);
    if (rc == ERR_OK)
        rc = rt_sync(s->file, &eb);
    if (rc == ERR_OK) {
        table_add(s);
        return s;
    }
    LOG(LOG_WARN, "store.spare_failed", "a new log is made instead",
        L_U64("segment", s->id), L_TEXT("error", eb.text));
    s->first_batch = 0;
    d->segments->spare[class] = s;
    segment_drop_spare(d, class);
    return NULL;
}

enum err
segment_make_shared(struct store *d, enum store_class class, enum segment_kind kind,
                    uint64_t first_batch, uint64_t from, uint64_t most, uint64_t room,
                    struct segment **out, struct errbuf *eb)
{
    uint64_t least = align_up(2 * STORE_ALIGN + room, STORE_ALIGN);
    uint64_t bytes = bytes_of_next(d, class, kind, from, most);
    enum err rc;

    *out = kind == SEGMENT_LOG ? take_spare(d, class, first_batch, least) : NULL;
    if (*out != NULL)
        return ERR_OK;
    bytes = MAX(bytes, least);
    for (;;) {
        rc = segment_make(d, class, kind, first_batch, bytes, out, eb);
        if (rc != ERR_NO_SPACE || bytes == least)
            return rc;
        bytes = MAX(align_down(bytes / 4, STORE_ALIGN), least);
    }
}

enum err
segment_size(struct store *d, enum store_class class, uint32_t id, uint64_t *out,
             struct errbuf *eb)
{
    char name[SEGMENT_NAME_ROOM];
    struct rt_file *f = NULL;
    enum err rc;

    *out = 0;
    segment_name(SEGMENT_ONE, id, name);
    rc = rt_open(d->dir[class], name, 0, 0, &f, eb);
    if (rc == ERR_OK)
        rc = rt_file_size(f, out, eb);
    rt_file_close(&f);
    return rc;
}

enum err
segment_header_read(struct rt_file *f, struct log_record *out, struct errbuf *eb)
{
    struct iobuf *b;
    uint32_t n = 0;
    size_t need;
    enum err rc = iobuf_get(STORE_ALIGN, &b);

    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer for the header of a segment");
    rc = rt_read(f, 0, b, 0, STORE_ALIGN, RT_READ, DEADLINE_NEVER, &n, eb);
    if (rc == ERR_OK) {
        enum log_record_result got =
            log_record_parse((struct span){b->at, n}, out, &need, eb);

        if (got == LOG_RECORD_NEWER)
            rc = ERR_NOT_IMPLEMENTED;
        else if (got == LOG_RECORD_ZERO || got == LOG_RECORD_MORE)
            rc = err_set(eb, ERR_CORRUPT, "no header");
        else if (got != LOG_RECORD_OK)
            rc = ERR_CORRUPT;
        else if (out->kind != LOG_RECORD_SEGMENT_HEADER || out->offset != 0)
            rc = err_set(eb, ERR_CORRUPT, "does not begin with a segment header");
        out->record = (struct span){NULL, 0};
    }
    iobuf_drop(&b);
    return rc;
}

static enum err
check_header(struct store *d, const struct segment *s, const struct log_record *m,
             struct errbuf *eb)
{
    if (memcmp(m->cluster_id, d->o.cluster_id, sizeof m->cluster_id) != 0 ||
        memcmp(m->disk_id, d->disk_id, sizeof m->disk_id) != 0)
        return err_set(eb, ERR_DENIED, "belongs to another disk");
    if (m->segment != s->id || m->class != s->class || m->segment_kind != s->kind)
        return err_set(eb, ERR_CORRUPT,
                       "its header names segment %06" PRIu32 " of another kind",
                       m->segment);
    return ERR_OK;
}

/* Identifies a segment with a damaged header: its first record, which has its own sum, and the
 * file name say the same. A segment without a first record holds nothing. */
static enum err
header_from_first(const struct segment *s, struct log_record *out, struct errbuf *eb)
{
    struct iobuf *b;
    struct log_record first;
    uint32_t n = 0;
    size_t need;
    enum err rc = iobuf_get(HEAD_MAX, &b);
    bool good;

    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer for the header of a segment");
    rc = rt_read(s->file, STORE_ALIGN, b, 0, HEAD_MAX, RT_READ, DEADLINE_NEVER, &n, eb);
    good =
        rc == ERR_OK &&
        log_record_parse((struct span){b->at, n}, &first, &need, NULL) == LOG_RECORD_OK &&
        first.segment == s->id && first.offset == STORE_ALIGN &&
        (first.kind >= LOG_RECORD_BODY) == (s->kind != SEGMENT_LOG);
    iobuf_drop(&b);
    if (rc != ERR_OK)
        return rc;
    if (!good)
        return err_set(eb, ERR_CORRUPT,
                       "its header is damaged and nothing stands behind it");
    LOG(LOG_ERROR, "store.segment_header_damaged", "its first member says what it is",
        L_TEXT("disk", rt_dir_path(s->disk->root)), L_U64("segment", s->id));
    *out = (struct log_record){.segment = s->id,
                               .generation = first.generation,
                               .class = s->class,
                               .segment_kind = s->kind,
                               .first_batch = first.batch};
    memcpy(out->cluster_id, s->disk->o.cluster_id, sizeof out->cluster_id);
    memcpy(out->disk_id, s->disk->disk_id, sizeof out->disk_id);
    return ERR_OK;
}

/* After lost writes a file with the same number may exist under another name. */
static enum err
check_number(const struct segment *s, struct errbuf *eb)
{
    segment_slot *slot = segment_slot_of(s->disk, s->id, false);

    return slot == NULL || atomic_load(slot) == NULL
               ? ERR_OK
               : err_set(eb, ERR_CORRUPT, "another segment has the number %06" PRIu32,
                         s->id);
}

enum err
segment_open(struct store *d, enum store_class class, enum segment_kind kind, uint32_t id,
             struct segment **out, struct errbuf *eb)
{
    char name[SEGMENT_NAME_ROOM];
    struct segment *s = new_segment(d, class, kind, id);
    struct log_record m;
    enum err rc;

    *out = NULL;
    segment_name(kind, id, name);
    rc = rt_open(d->dir[class], name, (d->read_only ? 0u : RT_O_WRITE) | RT_O_DIRECT,
                 0600, &s->file, eb);
    if (rc == ERR_OK)
        rc = segment_header_read(s->file, &m, eb);
    if (rc == ERR_CORRUPT)
        rc = header_from_first(s, &m, eb);
    if (rc == ERR_OK)
        rc = check_header(d, s, &m, eb);
    if (rc == ERR_OK)
        rc = check_number(s, eb);
    if (rc == ERR_OK)
        rc = rt_file_size(s->file, &s->owner.size, eb);
    if (rc != ERR_OK) {
        err_prefix(eb, "segment %s", name);
        segment_drop(&s);
        return rc;
    }
    s->generation = m.generation;
    s->first_batch = m.first_batch;
    if (kind != SEGMENT_ONE)
        table_add(s);
    *out = s;
    return ERR_OK;
}

enum err
segment_open_headless(struct store *d, enum store_class class, uint32_t id,
                      struct segment **out, struct errbuf *eb)
{
    char name[SEGMENT_NAME_ROOM];
    struct segment *s = new_segment(d, class, SEGMENT_LOG, id);
    enum err rc;

    segment_name(SEGMENT_LOG, id, name);
    rc = rt_open(d->dir[class], name, (d->read_only ? 0u : RT_O_WRITE) | RT_O_DIRECT,
                 0600, &s->file, eb);
    if (rc == ERR_OK)
        rc = check_number(s, eb);
    if (rc == ERR_OK)
        rc = rt_file_size(s->file, &s->owner.size, eb);
    if (rc != ERR_OK)
        segment_drop(&s);
    *out = s;
    return rc;
}

void
segment_join(struct segment *s, uint32_t generation, uint64_t first_batch)
{
    s->generation = generation;
    s->first_batch = first_batch;
    s->owner.headless = true;
    table_add(s);
}

enum err
segment_remove(struct store *d, enum store_class class, enum segment_kind kind,
               uint32_t id, struct errbuf *eb)
{
    char name[SEGMENT_NAME_ROOM];
    enum err rc;

    segment_name(kind, id, name);
    table_remove(d, id);
    POINT(UNLINK_BEFORE);
    rc = rt_dir_unlink(d->dir[class], name, eb);
    POINT(UNLINKED);
    return rc;
}

void
segments_check(const struct store *d)
{
    const struct segments *all = d->segments;

    assert(on_owner(d));
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        const struct segment *bodies = all->bodies[c];

        assert(bodies == NULL || bodies->kind == SEGMENT_BODIES);
        assert(bodies == NULL || bodies->class == c);
        assert(all->spare[c] == NULL || all->spare[c]->kind == SEGMENT_LOG);
        LIST_EACH(&all->of_class[c], n)
        {
            const struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

            assert(s->disk == d);
            assert(s->class == c);
            assert(s->kind != SEGMENT_ONE);
            assert(s->id < all->next_id);
            assert(atomic_load(&s->refs) > 0);
            assert(s->owner.used <= s->owner.size);
            assert(s->owner.counted <= s->owner.size);
            assert(s->kind == SEGMENT_BODIES || s->owner.open_places == 0);
            assert(s->owner.sealing[0] + s->owner.sealing[1] <= s->owner.open_places);
            assert(s->owner.syncs_done <= s->owner.syncs_begun);
        }
    }
}

struct segments *
segments_new(void)
{
    struct segments *s = xcalloc(1, sizeof *s);

    for (unsigned c = 0; c < STORE_CLASSES_; c++)
        list_init(&s->of_class[c]);
    list_init(&s->dirty_bodies);
    rt_sem_init(&s->reserve, 1);
    return s;
}

void
segments_free(struct segments **sp)
{
    struct segments *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    table_clear(s);
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        assert(list_empty(&s->of_class[c]));
        segment_drop(&s->bodies[c]);
        segment_drop(&s->spare[c]);
    }
    while (!list_empty(&s->dirty_bodies)) {
        struct segment *dirty =
            LIST_ENTRY(list_pop_front(&s->dirty_bodies), struct segment, owner.of_dirty);

        segment_drop(&dirty);
    }
    free(s);
}
