/* rig: disks of one node in folders below a temporary one, around one fiber, with a bucket they know of. */
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "check.h"
#include "disks/disks.h"
#include "folder.h"
#include "rt/loop.h"
#include "rt/time.h"

#define RIG_BUCKET 7
#define RIG_DISKS  5

struct rig {
    char base[200];
    char path[RIG_DISKS][256]; /* BASE/a, BASE/b … */
    char state[256];           /* BASE/node */
    unsigned copies, min_copies;
    uint64_t epoch;
    struct disks *ds;
    struct errbuf eb;
};

static inline bool
rig_next_bucket(void *arg, uint64_t after, struct disks_bucket *out)
{
    struct rig *g = arg;

    if (after >= RIG_BUCKET)
        return false;
    *out = (struct disks_bucket){
        .id = RIG_BUCKET, .immutable_name = SPAN("bucket"), .copies = g->copies};
    return true;
}

/* Opens disks a, b … (bits of `which`). */
static inline enum err
rig_open_without(struct rig *g, unsigned which, const char *without)
{
    const char *paths[RIG_DISKS];
    struct disks_options o = {.paths = paths,
                              .disk = {.node = 1,
                                       .epoch = ++g->epoch,
                                       .segment_bytes = 8u << 20,
                                       .block_cache_bytes = 4u << 20,
                                       .index_map_bytes = 64u << 20},
                              .state = g->state,
                              .without = &without,
                              .without_count = without != NULL};
    enum err rc;

    memset(o.disk.cluster_id, 0xc1, sizeof o.disk.cluster_id);
    for (unsigned i = 0; i < RIG_DISKS; i++)
        if ((which >> i & 1) != 0)
            paths[o.count++] = g->path[i];
    memset(&g->eb, 0, sizeof g->eb);
    rc = disks_open(&o, &g->ds, &g->eb);
    if (rc == ERR_OK)
        disks_buckets(g->ds, rig_next_bucket, g);
    return rc;
}

static inline enum err
rig_open(struct rig *g, unsigned which)
{
    return rig_open_without(g, which, NULL);
}

static inline void
rig_run(fiber_fn *fn, struct rig *g)
{
    const char *tmp = getenv("TMPDIR");
    struct rt_options o = {.engine = RT_EPOLL, .loops = 2, .workers = 2};

    snprintf(g->base, sizeof g->base, "%s/fbdisks-XXXXXX", tmp != NULL ? tmp : "/tmp");
    REQUIRE(mkdtemp(g->base) != NULL);
    for (unsigned i = 0; i < RIG_DISKS; i++)
        snprintf(g->path[i], sizeof g->path[i], "%s/%c", g->base, 'a' + (int)i);
    snprintf(g->state, sizeof g->state, "%s/node", g->base);
    REQUIRE(mkdir(g->state, 0700) == 0);
    CHECK(rt_run(&o, fn, g, &g->eb) == ERR_OK);
    folder_remove(g->base);
}

static inline struct disks_key
rig_key(const struct rig *g, const char *key)
{
    return (struct disks_key){.at = {.bucket = RIG_BUCKET,
                                     .immutable_name = SPAN("bucket"),
                                     .key = span_of(key)},
                              .copies = g->copies,
                              .min_copies = g->min_copies};
}

/* Bytes that say where they belong. */
static inline void
rig_fill(char *out, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (char)((seed * 2654435761u + i * 40503u + (i >> 8)) >> 3);
}

static inline enum err
rig_put_if(struct rig *g, const char *key, size_t len, uint64_t seed,
           const struct store_condition *c, struct entry *entry)
{
    struct disks_key k = rig_key(g, key);
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct disks_writer *w = NULL;
    char *data = xmalloc(len + 1);
    unsigned char md5[DIGEST_MAX];
    enum err rc;

    memset(&g->eb, 0, sizeof g->eb);
    rig_fill(data, len, seed);
    digest_oneshot(DIGEST_MD5, data, len, md5);
    memcpy(meta.md5, md5, 16);
    rc = disks_write_begin(g->ds, &k, STORE_NATIVE, len, &w, &g->eb);
    if (rc == ERR_OK)
        rc = disks_write(w, data, len, &g->eb);
    if (rc == ERR_OK)
        rc = disks_commit(&w, &meta, c, entry, &g->eb);
    disks_write_abort(&w);
    free(data);
    return rc;
}

static inline enum err
rig_put(struct rig *g, const char *key, size_t len, uint64_t seed)
{
    return rig_put_if(g, key, len, seed, NULL, NULL);
}

/* Reads it whole and compares: ERR_BAD_DIGEST when other bytes came. */
static inline enum err
rig_get(struct rig *g, const char *key, size_t len, uint64_t seed)
{
    struct disks_key k = rig_key(g, key);
    struct disks_reader r = {0};
    char *want = xmalloc(len + 1);
    struct span piece = {"", 0};
    struct entry entry;
    size_t at = 0;
    enum err rc;

    memset(&g->eb, 0, sizeof g->eb);
    rig_fill(want, len, seed);
    rc = disks_lookup(g->ds, &k, &entry, &g->eb);
    if (rc == ERR_OK && entry.size != len)
        rc = ERR_BAD_DIGEST;
    if (rc == ERR_OK)
        rc = disks_read_begin(g->ds, &k, &entry, 0, len, &r, &g->eb);
    if (rc == ERR_OK) {
        while (rc == ERR_OK && at < len) {
            rc = disks_read_next(&r, DEADLINE_NEVER, &piece, &g->eb);
            if (rc == ERR_OK && memcmp(piece.at, want + at, piece.len) != 0)
                rc = ERR_BAD_DIGEST;
            at += piece.len;
        }
        disks_read_end(&r);
    }
    free(want);
    return rc;
}

static inline enum err
rig_delete(struct rig *g, const char *key, bool *existed)
{
    struct disks_key k = rig_key(g, key);

    memset(&g->eb, 0, sizeof g->eb);
    return disks_delete(g->ds, &k, STORE_NATIVE, NULL, existed, &g->eb);
}

/* Waits until every object lies where it should, for so many tries of 10 ms. */
static inline bool
rig_converged_within(struct rig *g, unsigned tries)
{
    struct disks_status *st = xcalloc(1, sizeof *st);
    bool converged = false;

    for (unsigned i = 0; i < tries && !converged; i++) {
        disks_status(g->ds, st);
        converged = st->converged && st->repairs == 0;
        if (!converged && rt_sleep_ms(10) != ERR_OK)
            break;
    }
    if (!converged)
        fprintf(stderr, "not converged: pass %llu, failed %llu, waiting %d: %s\n",
                (unsigned long long)st->pass, (unsigned long long)st->failed, st->waiting,
                st->why);
    free(st);
    return converged;
}

static inline bool
rig_converged(struct rig *g)
{
    return rig_converged_within(g, PATIENCE_MS / 10);
}

/* Objects on the disk at a path, whatever state it is in. */
static inline uint64_t
rig_objects_on(struct rig *g, const char *path)
{
    struct disks_status *st = xcalloc(1, sizeof *st);
    uint64_t n = UINT64_MAX;

    CHECK(disks_flush(g->ds, &g->eb) == ERR_OK);
    disks_status(g->ds, st);
    for (unsigned i = 0; i < st->count; i++)
        if (strcmp(st->disks[i].path, path) == 0)
            n = st->disks[i].stat.objects;
    free(st);
    return n;
}

/* ---- many objects ---- */

/* Two names stay good at a time. */
static inline const char *
rig_name(unsigned i)
{
    static char text[2][40];
    static unsigned which;

    which ^= 1;
    snprintf(text[which], sizeof text[which], "dir/key-%04u", i);
    return text[which];
}

/* Small ones lie in logs, large ones in bodies. */
static inline size_t
rig_size(unsigned i)
{
    return i % 8 == 7 ? 900000 + i : 300 + i * 97;
}

/* Objects 0 to count - 1, each with bytes of its own. */
static inline void
rig_put_all(struct rig *g, unsigned count, uint64_t seed)
{
    for (unsigned i = 0; i < count; i++)
        CHECK(rig_put(g, rig_name(i), rig_size(i), seed + i) == ERR_OK);
}

static inline void
rig_get_all(struct rig *g, unsigned count, uint64_t seed)
{
    for (unsigned i = 0; i < count; i++) {
        enum err rc = rig_get(g, rig_name(i), rig_size(i), seed + i);

        if (rc != ERR_OK)
            fprintf(stderr, "%s: %s: %s\n", rig_name(i), err_name(rc), g->eb.text);
        CHECK(rc == ERR_OK);
    }
}
