/* The check's first look: superblock, folders, headers of segments, chains of bodies. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "store/core/core.h"
#include "store/offline/check.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/superblock.h"
#include "store/recover/missing_logs.h"
#include "store/recover/recover.h"
#include "store/recover/recovery.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/segment/segment_list.h"
#include "store/store_entry.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

/* ---- superblock ---- */

static bool
check_copy(struct check *k, const char *name)
{
    struct superblock s;
    struct errbuf eb = {0};
    char *bytes = NULL;
    size_t len;
    enum err rc = rt_file_load(k->disk->state, name, SUPERBLOCK_BYTES, &bytes, &len, &eb);

    if (rc == ERR_OK)
        rc = superblock_decode((struct span){bytes, len}, &s, &eb);
    free(bytes);
    if (rc != ERR_OK) {
        k->repair.superblock = true;
        check_fault(k, ".forebay/%s: %s", name, eb.text);
    }
    return rc == ERR_OK;
}

static enum err
check_superblock(struct check *k, struct errbuf *eb)
{
    struct store *d = k->disk;
    struct superblock s;
    enum err rc = rt_open(d->state, "superblock", 0, 0, &d->superblock, eb);

    if (rc == ERR_OK)
        rc = rt_file_lock(d->superblock, eb);
    if (rc == ERR_EXISTS)
        return err_set(eb, ERR_EXISTS, "a process serves this disk: stop it first");
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    (void)check_copy(k, "superblock");
    (void)check_copy(k, "superblock.2");
    rc = superblock_load(d->state, &s, eb);
    if (rc == ERR_CORRUPT)
        return err_set(eb, rc,
                       "neither superblock is good, so nothing else can be checked; "
                       "forebay disk check --repair rebuilds them from the segments");
    if (rc != ERR_OK)
        return rc;
    memcpy(d->o.cluster_id, s.cluster_id, sizeof d->o.cluster_id);
    memcpy(d->disk_id, s.disk_id, sizeof d->disk_id);
    d->cluster_sum = hash_crc32c(0, s.cluster_id, sizeof s.cluster_id);
    d->generation = s.generation;
    d->epoch = s.epoch;
    return ERR_OK;
}

/* ---- segments ---- */

struct folder {
    struct check *check;
    enum store_class class;
};

static void
on_other(const char *name, void *arg)
{
    const struct folder *f = arg;

    check_note(f->check, "%s/%s: no file of ours, left alone", check_class_name(f->class),
               name);
}

/* The chain of headers, which a rebuild without logs would follow. */
static void
check_chain(struct check *k, struct segment *s)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->owner.size,
                                 .cluster_sum = k->disk->cluster_sum};
    uint64_t at = STORE_ALIGN, next;
    struct errbuf eb = {0};
    struct iobuf *buf;
    struct log_record m;

    assert(s->kind == SEGMENT_BODIES);
    assert(s->class == STORE_NATIVE);
    while (place_scan(&source, at, &m, &buf, &next, &eb) == SCAN_BATCH) {
        iobuf_drop(&buf);
        at = next;
    }
    k->chains = xrealloc(k->chains, (k->chain_count + 1) * sizeof *k->chains);
    k->chains[k->chain_count++] =
        (struct check_chain){.class = s->class, .segment = s->id, .end = at};
}

/* Does a record stand behind the header? A power cut leaves segments that were made and never used. */
static bool
is_used(struct check *k, enum store_class class, enum segment_kind kind, uint32_t id)
{
    char name[SEGMENT_NAME_ROOM];
    struct rt_file *f = NULL;
    struct iobuf *b = NULL;
    struct log_record m = {0};
    uint32_t n = 0;
    size_t need;
    bool used = true; /* what can't be read may hold something */

    segment_name(kind, id, name);
    if (rt_open(k->disk->dir[class], name, RT_O_DIRECT, 0, &f, NULL) == ERR_OK &&
        iobuf_get(HEAD_MAX + STORE_ALIGN, &b) == ERR_OK &&
        rt_read(f, STORE_ALIGN, b, 0, b->room, RT_READ, DEADLINE_NEVER, &n, NULL) ==
            ERR_OK)
        used =
            log_record_parse((struct span){b->at, n}, &m, &need, NULL) == LOG_RECORD_OK &&
            m.segment == id && m.offset == STORE_ALIGN && m.kind != LOG_RECORD_OPEN;
    iobuf_drop(&b);
    rt_file_close(&f);
    return used;
}

/* A segment is served by what its first record says when its header is damaged: a check has to say so. In cached
 * segments and those of one body a power cut leaves that behind too, since nothing was synced yet. */
static void
check_segment_header(struct check *k, enum store_class class, enum segment_kind kind,
                     struct segment *s)
{
    char name[SEGMENT_NAME_ROOM];
    struct errbuf why = {0};
    struct log_record m;

    segment_name(kind, s->id, name);
    if (segment_header_read(s->file, &m, &why) != ERR_CORRUPT)
        return;
    k->repair.headers = xrealloc(k->repair.headers, (k->repair.header_count + 1) *
                                                        sizeof *k->repair.headers);
    k->repair.headers[k->repair.header_count++] =
        (struct check_header){class, kind, s->id};
    check_report(k, class == STORE_NATIVE && kind != SEGMENT_ONE, "%s: segment %s: %s",
                 check_class_name(class), name, why.text);
}

/* A native log whose header and first batch are damaged. A repair can't write the header again: nothing is left that says where
 * the log begins. */
static void
check_headless(struct check *k, uint32_t id)
{
    struct segment *s;
    struct errbuf why = {0};

    if (recover_headless_wal(k->disk, id, &s, &why) != ERR_OK) {
        check_report(k, is_used(k, STORE_NATIVE, SEGMENT_LOG, id), "native: %s",
                     why.text);
        return;
    }
    check_fault(k,
                "native/log-%06" PRIu32
                ".tar: its header and its first group are damaged; "
                "what follows them is read",
                id);
    segment_drop(&s);
}

static enum err
check_segments(struct check *k, enum store_class class, struct errbuf *eb)
{
    struct folder f = {.check = k, .class = class};
    struct segment_list l = {0};
    enum err rc = segment_list_read(&l, k->disk->dir[class], on_other, &f, eb);
    uint32_t headless = 0;

    assert(class < STORE_CLASSES_);
    for (uint32_t i = 0; rc == ERR_OK && i < l.count; i++) {
        struct segment *s = NULL;
        struct errbuf why = {0};

        rc = segment_open(k->disk, class, l.at[i].kind, l.at[i].id, &s, &why);
        if (rc == ERR_BUSY || rc == ERR_CANCELLED) {
            *eb = why;
            break;
        }
        if (rc == ERR_OK)
            check_segment_header(k, class, l.at[i].kind, s);
        if (rc == ERR_CORRUPT && class == STORE_NATIVE && l.at[i].kind == SEGMENT_LOG)
            l.at[headless++] = l.at[i]; /* when all others are known */
        else if (rc != ERR_OK)
            check_report(k, is_used(k, class, l.at[i].kind, l.at[i].id), "%s: %s",
                         check_class_name(class), why.text);
        else if (l.at[i].kind == SEGMENT_BODIES && class == STORE_NATIVE)
            check_chain(k, s);
        segment_drop(&s);
        rc = ERR_OK;
    }
    for (uint32_t i = 0; rc == ERR_OK && i < headless; i++)
        check_headless(k, l.at[i].id);
    segment_list_fini(&l);
    return rc;
}

/* Are all logs there that must be? */
static void
check_log_set(struct check *k)
{
    struct store *d = k->disk;
    const struct log_set *s = &d->wals->set;
    bool cached;

    assert(d->read_only);
    d->wals->missing = log_set_match(d, &cached);
    d->recovery->drop_cached |= cached;
    for (uint32_t i = 0; i < s->count; i++) {
        if (!s->at[i].missing)
            continue;
        check_fault(
            k,
            "%s/log-%06" PRIu32 ".tar is missing: it begins with commit batch %" PRIu64
            "%s",
            check_class_name(s->at[i].class), s->at[i].segment, s->at[i].first_batch,
            s->at[i].class == STORE_CACHED
                ? CHECK_CACHE_IS_DROPPED
                : "; put it back, or run forebay disk rebuild to continue without it");
    }
}

enum err
check_files(struct check *k, const char *path, struct errbuf *eb)
{
    struct store *d = k->disk;
    enum err rc = rt_dir_open(path, &d->root, eb);

    if (rc == ERR_OK)
        rc = rt_dir_open_at(d->root, ".forebay", &d->state, eb);
    if (rc == ERR_NOT_FOUND)
        return err_set(eb, rc, "\"%s\" is no disk: it has no folder .forebay", path);
    if (rc == ERR_OK)
        rc = check_superblock(k, eb);
    if (rc == ERR_OK)
        rc = truncated_load(d->state, &d->wals->truncated, eb);
    if (rc == ERR_OK)
        rc = missing_logs_load(d, eb);
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++) {
        rc = rt_dir_open_at(d->root, check_class_name((enum store_class)c), &d->dir[c],
                            eb);
        if (rc == ERR_OK)
            rc = check_segments(k, (enum store_class)c, eb);
        if (rc == ERR_NOT_FOUND) {
            check_fault(k, "the folder %s is not there",
                        check_class_name((enum store_class)c));
            rc = ERR_OK;
        }
    }
    if (rc == ERR_OK)
        check_log_set(k);
    return rc;
}
