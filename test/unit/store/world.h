/* world: a fresh folder and a running engine around one fiber, for tests of this room. */
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "check.h"
#include "folder.h"
#include "rt/loop.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "store/store_read.h"
#include "store/store_write.h"

static char world_path[256]; /* the disk of the case at hand */

static inline struct store_options
world_options(void)
{
    static uint64_t epoch;
    struct store_options o = {.node = 1,
                              .epoch = ++epoch,
                              .segment_bytes = 8u << 20,
                              .index_map_bytes = 64u << 20};

    memset(o.cluster_id, 0xc1, sizeof o.cluster_id);
    return o;
}

/* Runs fn as the first fiber of an engine, with a new empty folder in world_path. */
static inline void
world_run_loops(enum rt_engine engine, unsigned loops, fiber_fn *fn, void *arg)
{
    const char *tmp = getenv("TMPDIR");
    struct rt_options o = {.engine = engine, .loops = loops, .workers = 2};
    struct errbuf eb = {0};
    char base[200];

    snprintf(base, sizeof base, "%s/fbdisk-XXXXXX", tmp != NULL ? tmp : "/tmp");
    REQUIRE(mkdtemp(base) != NULL);
    snprintf(world_path, sizeof world_path, "%s/disk", base);
    CHECK(rt_run(&o, fn, arg, &eb) == ERR_OK);
    folder_remove(base);
}

static inline void
world_run(fiber_fn *fn, void *arg)
{
    world_run_loops(RT_EPOLL, 1, fn, arg);
}

/* The disk of the case at hand; NULL: with world_options(). */
static inline struct store *
world_open(const struct store_options *o)
{
    struct store_options usual = world_options();
    struct store *d = NULL;
    struct errbuf eb = {0};

    if (store_open(world_path, o != NULL ? o : &usual, &d, &eb) != ERR_OK) {
        fprintf(stderr, "open: %s\n", eb.text);
        abort();
    }
    return d;
}

/* The same with logs of 1 MiB: many, to be compacted. */
static inline struct store *
world_open_small_logs(void)
{
    struct store_options o = world_options();

    o.segment_bytes = 1u << 20;
    return world_open(&o);
}

static inline void
world_hear_fault(void *arg, bool fault, const char *sentence)
{
    (void)arg;
    if (fault)
        CHECK_STR(sentence, "a sound disk");
}

/* `disk check` finds no fault. The disk is closed. */
static inline void
world_check_sound(void)
{
    struct store_checked found;
    struct errbuf eb = {0};
    char scratch[300];

    snprintf(scratch, sizeof scratch, "%s/..", world_path);
    CHECK(store_check(world_path, scratch, world_hear_fault, NULL, &found, &eb) ==
          ERR_OK);
    CHECK_U64(found.faults, 0);
}

/* Bytes that say where they belong. */
static inline void
world_fill(char *out, uint64_t len, uint64_t seed)
{
    for (uint64_t i = 0; i < len; i++)
        out[i] = (char)((seed * 2654435761u + i * 40503u + (i >> 8)) >> 3);
}

static inline struct store_key
world_key(uint64_t bucket, const char *key)
{
    return (struct store_key){
        .bucket = bucket, .immutable_name = SPAN("bucket"), .key = span_of(key)};
}

static inline enum err
world_put_class(struct store *d, enum store_class class, const char *key,
                const char *data, uint64_t len, bool known,
                const struct store_condition *c, struct entry *entry)
{
    struct store_key k = world_key(7, key);
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct store_writer *w;
    struct errbuf eb = {0};
    unsigned char md5[DIGEST_MAX];
    enum err rc =
        store_write_begin(d, &k, class, known ? len : STORE_SIZE_UNKNOWN, &w, &eb);

    digest_oneshot(DIGEST_MD5, data, len, md5);
    memcpy(meta.md5, md5, 16);
    for (uint64_t at = 0; rc == ERR_OK && at < len; at += 100000)
        rc = store_write(w, data + at, len - at < 100000 ? len - at : 100000, &eb);
    if (rc == ERR_OK)
        rc = store_commit(&w, &meta, c, entry, &eb);
    if (rc != ERR_OK) {
        store_write_abort(&w);
        if (rc != ERR_PRECONDITION)
            fprintf(stderr, "put %s: %s: %s\n", key, err_name(rc), eb.text);
    }
    return rc;
}

static inline enum err
world_put(struct store *d, const char *key, const char *data, uint64_t len,
          struct entry *entry)
{
    return world_put_class(d, STORE_NATIVE, key, data, len, true, NULL, entry);
}

/* Reads the key and compares. */
static inline enum err
world_get(struct store *d, const char *key, const char *want, uint64_t len, uint64_t from,
          uint64_t to)
{
    struct store_key k = world_key(7, key);
    struct entry entry;
    struct store_reader *r;
    struct errbuf eb = {0};
    struct span piece;
    uint64_t at = from;
    enum err rc = store_lookup(d, &k, &entry, &eb);

    if (rc != ERR_OK)
        return rc;
    CHECK_U64(entry.size, len);
    rc = store_read_begin(d, &k, &entry, from, to - from, &r, &eb);
    while (rc == ERR_OK) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        CHECK(at + piece.len <= to && memcmp(piece.at, want + at, piece.len) == 0);
        at += piece.len;
    }
    store_read_end(&r);
    if (rc == ERR_OK)
        CHECK_U64(at, to);
    else
        fprintf(stderr, "get %s: %s: %s\n", key, err_name(rc), eb.text);
    return rc;
}
