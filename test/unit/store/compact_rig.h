/* compact_rig: a disk that is compacted, for tests of what is as it was behind it. */
#pragma once
#include "world_damage.h"

#define LARGE (700u << 10)

static char *data; /* LARGE bytes and some; main() makes them */

static inline void
compact(struct store *d)
{
    struct errbuf eb = {0};

    if (store_compact(d, &eb) != ERR_OK)
        CHECK_STR(eb.text, "a disk that is compacted");
    CHECK(store_flush(d, &eb) == ERR_OK);
}

static inline void delete (struct store *d, enum store_class class, const char *key)
{
    struct store_key k = world_key(7, key);
    struct errbuf eb = {0};
    bool existed;

    CHECK(store_delete(d, &k, class, NULL, &existed, &eb) == ERR_OK && existed);
}

/* Allocated bytes of the files of a class, and how many there are. */
static inline uint64_t
allocated(const char *class, unsigned *files)
{
    char path[700];
    uint64_t sum = 0;
    struct dirent *e;
    struct stat st;
    DIR *dir;

    snprintf(path, sizeof path, "%s/%s", world_path, class);
    dir = opendir(path);
    *files = 0;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s/%s", world_path, class, e->d_name);
        if (e->d_name[0] == '.' || stat(path, &st) != 0)
            continue;
        sum += (uint64_t)st.st_blocks * 512;
        ++*files;
    }
    closedir(dir);
    return sum;
}

static inline const char *
name(unsigned n)
{
    static char text[32];

    snprintf(text, sizeof text, "key-%04u", n);
    return text;
}

/* ---- uploads with parts of `size` bytes of the data ---- */

static inline void
put_part_of(struct store *d, const char *key, const struct upload_id *u, uint32_t number,
            uint64_t size)
{
    struct store_key k = world_key(7, key);
    struct object_meta meta = {.mtime_ms = 7};
    struct store_writer *w;
    struct errbuf eb = {0};

    REQUIRE(store_part_begin(d, &k, u, number, size, &w, &eb) == ERR_OK);
    CHECK(store_write(w, data + number * size, size, &eb) == ERR_OK);
    CHECK(store_part_commit(&w, &meta, &eb) == ERR_OK);
}

static inline uint32_t
parts_of(struct store *d, const char *key, const struct upload_id *u, struct arena *a,
         struct store_part **out)
{
    struct store_key k = world_key(7, key);
    struct errbuf eb = {0};
    uint32_t count = 0;
    bool more;

    CHECK(store_part_list(d, &k, u, 0, 100, a, out, &count, &more, &eb) == ERR_OK);
    return count;
}

static inline void
complete_upload(struct store *d, const char *key, const struct upload_id *u)
{
    struct store_key k = world_key(7, key);
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_part *parts;
    struct errbuf eb = {0};
    uint32_t count = parts_of(d, key, u, a, &parts);
    struct object_meta meta = {.mtime_ms = 9, .parts = count};
    struct entry entry;

    CHECK(store_upload_complete(d, &k, u, parts, count, &meta, NULL, &entry, &eb) ==
          ERR_OK);
    arena_free(&a);
}
