/* copies: a disk and what a layer above does with it to keep copies, for the tests of these calls. */
#pragma once
#include "world.h"

#define COPIES_DATA (2u << 20)
static char *copies_data;
static uint64_t copies_epoch = 1;
static uint64_t copies_segment_bytes; /* 0: the world's */

static inline struct store *
copies_open_with(struct store_options o)
{

    o.epoch = ++copies_epoch;
    if (copies_segment_bytes != 0)
        o.segment_bytes = copies_segment_bytes;
    return world_open(&o);
}

static inline struct store *
copies_open(void)
{
    return copies_open_with(world_options());
}

/* way 0: as it is. 1: with everything in the index. 2: the index lost. */
enum { COPIES_WAYS = 3 };
static inline void
copies_reopen(struct store **dp, int way)
{
    char command[300];
    struct errbuf eb = {0};

    if (way == 1)
        CHECK(store_flush(*dp, &eb) == ERR_OK);
    store_close(dp);
    snprintf(command, sizeof command, "rm -r '%s/index'", world_path);
    if (way == 2)
        CHECK(system(command) == 0);
    *dp = copies_open();
}

static inline void
copies_say(void *arg, bool fault, const char *sentence)
{
    (void)arg;
    if (fault)
        fprintf(stderr, "check: %s\n", sentence);
}

/* Closes it, and lets the check hold index, logs and bodies against each other. */
static inline void
copies_close(struct store **dp)
{
    struct store_checked checked;
    struct errbuf eb = {0};
    char scratch[300];

    store_close(dp);
    snprintf(scratch, sizeof scratch, "%s/..", world_path);
    CHECK(store_check(world_path, scratch, copies_say, NULL, &checked, &eb) == ERR_OK);
    CHECK_U64(checked.faults, 0);
}

static inline struct version
copies_version(uint64_t counter)
{
    return (struct version){1, counter};
}

static inline struct content_id
copies_content(uint8_t n)
{
    struct content_id c = {{0}};

    c.bytes[5] = 1; /* epoch */
    c.bytes[7] = 1; /* node */
    c.bytes[15] = n;
    return c;
}

/* A body of `len` bytes from `at` of the data, under content n, written and not ended. */
static inline struct store_writer *
copies_write(struct store *d, const char *key, uint8_t n, uint64_t at, uint64_t len)
{
    struct store_key k = world_key(7, key);
    struct content_id content = copies_content(n);
    struct store_writer *w;
    struct errbuf eb = {0};

    if (store_write_begin_as(d, &k, len, &content, &w, &eb) != ERR_OK) {
        fprintf(stderr, "%s\n", eb.text);
        abort();
    }
    CHECK(memcmp(store_writer_content(w), &content, sizeof content) == 0);
    CHECK(store_write(w, copies_data + at, len, &eb) == ERR_OK);
    return w;
}

static inline enum err
copies_prepare(struct store *d, const char *key, uint8_t n, uint64_t at, uint64_t len)
{
    struct store_writer *w = copies_write(d, key, n, at, len);
    struct object_meta meta = {.mtime_ms = 1700000000123 + n};
    struct errbuf eb = {0};
    enum err rc = store_prepare(&w, &meta, NULL, &eb);

    CHECK(w == NULL);
    return rc;
}

static inline enum err
replicas_commit_prepared(struct store *d, const char *key, uint8_t n, uint64_t counter)
{
    struct store_key k = world_key(7, key);
    struct content_id content = copies_content(n);
    struct version v = copies_version(counter);
    struct errbuf eb = {0};

    return store_commit_prepared(d, &k, &content, &v, &eb);
}

static inline enum err
replicas_abort_prepared(struct store *d, const char *key, uint8_t n)
{
    struct store_key k = world_key(7, key);
    struct content_id content = copies_content(n);
    struct errbuf eb = {0};

    return store_abort_prepared(d, &k, &content, &eb);
}

static inline enum err
copies_copy(struct store *d, const char *key, uint8_t n, uint64_t counter, uint64_t at,
            uint64_t len)
{
    struct store_writer *w = copies_write(d, key, n, at, len);
    struct object_meta meta = {.mtime_ms = 1700000000123 + n};
    struct entry entry = {.version = copies_version(counter),
                          .content = copies_content(n)};
    struct errbuf eb = {0};
    enum err rc = store_commit_replica(&w, &meta, &entry, &eb);

    CHECK(w == NULL);
    return rc;
}

/* Is the key at this version, with this body? Version 0: there is no object. */
static inline void
copies_is(struct store *d, const char *key, uint64_t counter, uint8_t n, uint64_t at,
          uint64_t len)
{
    struct store_key k = world_key(7, key);
    struct content_id content = copies_content(n);
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc = store_lookup(d, &k, &entry, &eb);

    if (counter == 0) {
        CHECK(rc == ERR_NOT_FOUND);
        return;
    }
    REQUIRE(rc == ERR_OK);
    CHECK_U64(entry.version.epoch, 1);
    CHECK_U64(entry.version.counter, counter);
    CHECK(memcmp(&entry.content, &content, sizeof content) == 0);
    CHECK(world_get(d, key, copies_data + at, len, 0, len) == ERR_OK);
}

static inline bool
replicas_prepared(struct store *d, const char *key)
{
    struct store_key k = world_key(7, key);
    struct entry entry = {0};
    struct errbuf eb = {0};
    enum err rc = store_lookup(d, &k, &entry, &eb);

    CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND);
    return (entry.flags & ENTRY_PREPARED) != 0;
}

static inline uint64_t
copies_count(struct store *d)
{
    struct store_stat stat;

    store_stat(d, &stat);
    return stat.prepared;
}
