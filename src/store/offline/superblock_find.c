/* A superblock rebuilt. Each segment says in its header which disk and cluster it belongs to, and each record which
 * start wrote it; that is all a superblock knows but for its age. */
#include <inttypes.h>

#include "base/hash.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/superblock.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"

static const char *const class_names[STORE_CLASSES_] = {
    [STORE_NATIVE] = "native", [STORE_CACHED] = "cached"};

struct finding {
    struct superblock *out;
    struct rt_dir *dir; /* of the class at hand */
    const char *class_name;
    bool any;
    /* The log whose last batch is the youngest. */
    enum segment_kind kind;
    uint32_t newest;
    uint64_t newest_batch;
    struct errbuf *eb;
    enum err rc;
};

static enum err
open_segment(struct finding *f, const char *name, struct rt_file **file,
             struct log_record *head)
{
    enum err rc = rt_open(f->dir, name, RT_O_DIRECT, 0, file, f->eb);

    return rc == ERR_OK ? segment_header_read(*file, head, f->eb) : rc;
}

/* One header. Damaged ones are left out: the others say the same. */
static void
take_header(struct finding *f, const char *name, const struct log_record *head)
{
    struct superblock *s = f->out;

    if (f->any && (memcmp(s->cluster_id, head->cluster_id, 16) != 0 ||
                   memcmp(s->disk_id, head->disk_id, 16) != 0)) {
        f->rc = err_set(f->eb, ERR_DENIED,
                        "%s/%s belongs to another disk than the segments before it: "
                        "move what does not belong here out of the folder",
                        f->class_name, name);
        return;
    }
    f->any = true;
    memcpy(s->cluster_id, head->cluster_id, 16);
    memcpy(s->disk_id, head->disk_id, 16);
    s->epoch = MAX(s->epoch, head->epoch);
    if (s->made_ms == 0 || head->mtime_ms < s->made_ms)
        s->made_ms = head->mtime_ms;
}

/* What the first record says of epochs: bodies are written by later starts than their segment. */
static void
take_first(struct finding *f, struct rt_file *file)
{
    struct iobuf *b = NULL;
    struct log_record m;
    uint32_t n = 0;
    size_t need;

    if (iobuf_get(HEAD_MAX, &b) == ERR_OK &&
        rt_read(file, STORE_ALIGN, b, 0, HEAD_MAX, RT_READ, DEADLINE_NEVER, &n, NULL) ==
            ERR_OK &&
        log_record_parse((struct span){b->at, n}, &m, &need, NULL) == LOG_RECORD_OK)
        f->out->epoch = MAX(f->out->epoch, m.epoch);
    iobuf_drop(&b);
}

static void
on_name(const char *name, void *arg)
{
    struct finding *f = arg;
    struct rt_file *file = NULL;
    struct log_record head;
    enum segment_kind kind;
    uint32_t id;
    enum err rc;

    if (f->rc != ERR_OK || !segment_name_parse(name, &kind, &id))
        return;
    rc = open_segment(f, name, &file, &head);
    if (rc == ERR_OK)
        take_header(f, name, &head);
    else if (rc != ERR_CORRUPT)
        f->rc = rc;
    if (rc == ERR_OK && kind == SEGMENT_LOG && head.first_batch >= f->newest_batch) {
        f->newest = id;
        f->newest_batch = head.first_batch;
    }
    if (rc == ERR_OK)
        take_first(f, file);
    rt_file_close(&file);
}

/* Epochs never decrease in a log: the youngest log knows the largest. */
static enum err
take_newest_log(struct finding *f)
{
    struct scan_source source = {.cluster_sum = hash_crc32c(0, f->out->cluster_id, 16)};
    char name[SEGMENT_NAME_ROOM];
    struct wal_scan scan;
    struct wal_scan_next_batch behind;
    struct log_record head;
    enum scanned got = SCAN_BATCH;
    enum err rc;

    segment_name(SEGMENT_LOG, f->newest, name);
    rc = open_segment(f, name, &source.file, &head);
    if (rc == ERR_OK)
        rc = rt_file_size(source.file, &source.size, f->eb);
    source.segment = head.segment;
    source.generation = head.generation;
    if (rc == ERR_OK) {
        wal_scan_begin(&scan, &source, STORE_ALIGN, 0, 0);
        while (got == SCAN_BATCH) {
            got = wal_scan_next(&scan, NULL);
            for (uint32_t i = 0; got == SCAN_BATCH && i < scan.count; i++)
                f->out->map_epoch = MAX(f->out->map_epoch, scan.records[i].version.epoch);
            if (got == SCAN_END && wal_scan_find_next(&scan, BATCH_MAX, &behind)) {
                wal_scan_resume(&scan, &behind);
                got = SCAN_BATCH;
            }
        }
        f->out->epoch = MAX(f->out->epoch, scan.epoch);
        wal_scan_end(&scan);
        if (got == SCAN_ERROR)
            rc = err_set(f->eb, ERR_IO, "%s can't be read", name);
    }
    rt_file_close(&source.file);
    return rc;
}

enum err
superblock_from_segments(struct rt_dir *root, struct superblock *out, struct errbuf *eb)
{
    struct finding f = {.out = out, .eb = eb};
    enum err rc = ERR_OK;

    *out = (struct superblock){0};
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++) {
        f.class_name = class_names[c];
        f.newest = 0;
        f.newest_batch = 0;
        rc = rt_dir_open_at(root, class_names[c], &f.dir, eb);
        if (rc == ERR_NOT_FOUND) {
            rc = ERR_OK;
            continue;
        }
        if (rc == ERR_OK)
            rc = rt_dir_list(f.dir, on_name, &f, eb);
        if (rc == ERR_OK)
            rc = f.rc;
        if (rc == ERR_OK && f.newest != 0)
            rc = take_newest_log(&f);
        rt_dir_close(&f.dir);
    }
    /* What the newest logs do not say, the replay of all logs raises. */
    out->map_epoch = MAX(out->map_epoch, out->epoch);
    if (rc == ERR_OK && !f.any)
        rc = err_set(eb, ERR_NOT_FOUND, "there is no segment whose header can be read");
    return rc;
}
