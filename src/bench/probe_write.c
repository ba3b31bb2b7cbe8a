/* probe_write: what a disk takes. */
#include <stdio.h>

#include "base/mem.h"
#include "bench/probe.h"
#include "rt/fiber.h"
#include "rt/file.h"

#define WRITE_BYTES MIB(1)
#define WRITERS     4u
#define SYNC_EACH   MIB(32)
#define FILE_BYTES  MIB(256)

struct writing {
    struct rt_file *file;
    uint64_t next, bytes, room;
    struct deadline end;
    enum err rc;
    struct errbuf eb;
};

static void
write_disk(void *arg)
{
    struct writing *w = arg;
    struct iobuf *b = NULL;
    struct errbuf eb;
    enum err rc = iobuf_get(WRITE_BYTES, &b);

    if (rc == ERR_OK)
        rt_random(b->at, WRITE_BYTES); /* zeros may be nothing to a disk */
    while (rc == ERR_OK) {
        uint64_t at = w->next % w->room;

        w->next += WRITE_BYTES;
        rc = rt_write(w->file, at, b, 0, WRITE_BYTES, RT_WRITE, &eb);
        if (rc == ERR_OK && w->next % SYNC_EACH == 0)
            rc = rt_sync(w->file, &eb);
        w->bytes += rc == ERR_OK ? WRITE_BYTES : 0;
        if (deadline_passed(w->end)) /* one each, however late they begin */
            break;
    }
    if (rc != ERR_OK && w->rc == ERR_OK) {
        w->rc = rc;
        w->eb = eb;
    }
    iobuf_drop(&b);
}

static enum err
write_many(struct writing *w, uint64_t ms, double *bytes_s, struct errbuf *eb)
{
    uint64_t began = rt_now_ns();
    struct rt_group g;
    enum err rc = ERR_OK;

    w->end = deadline_in_ms(ms);
    rt_group_begin(&g);
    for (unsigned i = 0; i < WRITERS && rc == ERR_OK; i++)
        rc = rt_group_start(&g, write_disk, w);
    rt_group_join(&g);
    if (rc == ERR_OK && w->rc != ERR_OK) {
        *eb = w->eb;
        rc = w->rc;
    }
    if (rc == ERR_OK)
        rc = rt_sync(w->file, eb);
    *bytes_s = (double)w->bytes / ((double)MAX(rt_now_ns() - began, 1u) / 1e9);
    return rc;
}

enum err
probe_disk_writes(const char *path, uint64_t ms, double *bytes_s, struct errbuf *eb)
{
    struct writing w = {.room = FILE_BYTES};
    struct rt_dir *dir = NULL;
    struct rt_space space;
    char name[40];
    uint32_t mark;
    enum err rc = rt_dir_open(path, &dir, eb);

    rt_random(&mark, sizeof mark);
    snprintf(name, sizeof name, ".forebay-bench-%08x", mark);
    if (rc == ERR_OK)
        rc = rt_dir_space(dir, &space, eb);
    if (rc == ERR_OK && space.free_bytes < 4 * FILE_BYTES)
        rc = err_set(eb, ERR_NO_SPACE, "less than 1 GiB is free below \"%s\"", path);
    if (rc == ERR_OK)
        rc = rt_open(dir, name, RT_O_WRITE | RT_O_CREATE | RT_O_EXCL | RT_O_DIRECT, 0600,
                     &w.file, eb);
    if (rc == ERR_OK) {
        rc = rt_dir_unlink(dir, name, eb);
        if (rc == ERR_OK)
            rc = rt_fallocate(w.file, 0, FILE_BYTES, eb);
        if (rc == ERR_OK)
            rc = write_many(&w, ms, bytes_s, eb);
    }
    rt_file_close(&w.file);
    rt_dir_close(&dir);
    return rc;
}
