/* filldisk: a disk with many small objects, made fast: thousands of fibers commit at once, so that groups are large. The
 * disk must have been served once, and must not be served now.
 *
 *     filldisk DISK OBJECTS [BYTES (16)] [BUCKET (1)]
 *
 * Names have 45 bytes, in scattered order: train/HHHHHHHHHHHHHHHH/sample-NNNNNNNNNN.jpeg; name n is the same in every disk
 * (filldisk -n N prints it). Prints one line of JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rt/loop.h"
#include "rt/time.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_options.h"
#include "store/store_write.h"

#define FIBERS 4096u

static struct {
    const char *path;
    uint64_t objects, size, bucket, next;
    struct store *disk;
    bool failed;
} job = {.size = 16, .bucket = 1};

static struct span
name_of(uint64_t n, char out[64])
{
    int len = snprintf(out, 64, "train/%016" PRIx64 "/sample-%010" PRIu64 ".jpeg",
                       n * 0x9e3779b97f4a7c15u, n);

    return (struct span){out, (size_t)len};
}

static enum err
put(uint64_t n, struct errbuf *eb)
{
    static const char zeros[4096];
    struct object_meta meta = {.mtime_ms = 1763739000000};
    struct store_key k = {.bucket = job.bucket, .immutable_name = SPAN("bench")};
    struct store_writer *w;
    char name[64];
    enum err rc;

    k.key = name_of(n, name);
    rc = store_write_begin(job.disk, &k, STORE_NATIVE, job.size, &w, eb);
    for (uint64_t at = 0; rc == ERR_OK && at < job.size; at += sizeof zeros)
        rc = store_write(w, zeros,
                         job.size - at < sizeof zeros ? job.size - at : sizeof zeros, eb);
    if (rc != ERR_OK) {
        store_write_abort(&w);
        return rc;
    }
    memcpy(meta.md5, &n, sizeof n);
    return store_commit(&w, &meta, NULL, &(struct entry){0}, eb);
}

static void
work(void *arg)
{
    struct errbuf eb = {0};

    (void)arg;
    while (!job.failed && job.next < job.objects) {
        enum err rc = put(job.next++, &eb);

        if (rc == ERR_OK)
            continue;
        if (!job.failed)
            fprintf(stderr, "%s\n", eb.text);
        job.failed = true;
    }
}

static void
fill(void *arg)
{
    struct store_options o = {.node = 1, .index_map_bytes = 64ull << 30};
    struct store_identity is;
    struct errbuf eb = {0};
    struct rt_group g;
    uint64_t begun;

    (void)arg;
    if (store_identify(job.path, &is, &eb) == ERR_OK) {
        memcpy(o.cluster_id, is.cluster_id, sizeof o.cluster_id);
        o.epoch = is.epoch + 1;
    }
    if (eb.text[0] != '\0' || store_open(job.path, &o, &job.disk, &eb) != ERR_OK) {
        fprintf(stderr, "%s: %s\n", job.path, eb.text);
        job.failed = true;
        return;
    }
    begun = rt_now_ns();
    rt_group_begin(&g);
    for (unsigned i = 0; i < FIBERS; i++) {
        if (rt_group_start(&g, work, NULL) != ERR_OK)
            break;
    }
    rt_group_join(&g);
    if (!job.failed && store_flush(job.disk, &eb) != ERR_OK) {
        fprintf(stderr, "%s\n", eb.text);
        job.failed = true;
    }
    printf("{\"objects\":%" PRIu64 ",\"seconds\":%.3f}\n", job.next,
           (double)(rt_now_ns() - begun) / 1e9);
    store_close(&job.disk);
}

int
main(int argc, char **argv)
{
    struct rt_options o = {.loops = 1, .workers = 2, .fibers_max = FIBERS + 256};
    struct errbuf eb = {0};
    char name[64];

    if (argc == 3 && strcmp(argv[1], "-n") == 0) {
        struct span s = name_of(strtoull(argv[2], NULL, 10), name);

        printf("%.*s\n", (int)s.len, s.at);
        return 0;
    }
    if (argc < 3) {
        fprintf(stderr, "filldisk DISK OBJECTS [BYTES] [BUCKET]\n");
        return 2;
    }
    job.path = argv[1];
    job.objects = strtoull(argv[2], NULL, 10);
    job.size = argc > 3 ? strtoull(argv[3], NULL, 10) : job.size;
    job.bucket = argc > 4 ? strtoull(argv[4], NULL, 10) : job.bucket;
    log_set_level(LOG_ERROR);
    if (rt_run(&o, fill, NULL, &eb) != ERR_OK) {
        fprintf(stderr, "%s\n", eb.text);
        return 1;
    }
    return job.failed ? 1 : 0;
}
