/* world_damage: what hurts the disk of the world from outside, while it is closed: bits flipped in its files, its
 * index gone. Names are those below the disk's folder. */
#pragma once
#include <stdarg.h>

#include "world.h"

/* Opened to be read and written; the caller closes it. */
__attribute__((format(printf, 1, 2))) static inline int
world_file(const char *name, ...)
{
    char path[400];
    size_t len = (size_t)snprintf(path, sizeof path, "%s/", world_path);
    va_list ap;
    int fd;

    va_start(ap, name);
    vsnprintf(path + len, sizeof path - len, name, ap);
    va_end(ap);
    fd = open(path, O_RDWR);
    if (fd < 0) {
        perror(path);
        abort();
    }
    return fd;
}

static inline void
world_flip(int fd, uint64_t bit)
{
    unsigned char c = 0;

    CHECK(pread(fd, &c, 1, (off_t)(bit / 8)) == 1);
    c ^= (unsigned char)(1u << (bit % 8));
    CHECK(pwrite(fd, &c, 1, (off_t)(bit / 8)) == 1);
}

/* A bit of the byte at `at`. Takes the file. */
static inline void
world_flip_at(int fd, uint64_t at)
{
    world_flip(fd, at * 8 + 3);
    close(fd);
}

static inline void
world_lose_index(void)
{
    char path[sizeof world_path + 8];

    snprintf(path, sizeof path, "%s/index", world_path);
    CHECK(access(path, F_OK) == 0);
    folder_remove(path);
    CHECK(access(path, F_OK) != 0);
}

/* The disk as it is now, which is what a kill leaves; then it is back. Without the ballast, hundreds of MiB on a large file
 * system, which the next start makes again. */
static inline void
world_copy(void)
{
    char text[1200];

    snprintf(text, sizeof text,
             "mkdir '%s.copy' && tar -C '%s' --exclude='ballast*' -cSf - . | "
             "tar -C '%s.copy' -xf -",
             world_path, world_path, world_path);
    CHECK(system(text) == 0);
}

static inline void
world_back_to_copy(void)
{
    char text[1200];

    snprintf(text, sizeof text, "rm -r '%s' && mv '%s.copy' '%s'", world_path, world_path,
             world_path);
    CHECK(system(text) == 0);
}

/* Below `below`; the same numbers in each run. */
static inline uint64_t
world_some(uint64_t below)
{
    static uint64_t state = 20261121;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 20) % below;
}

/* As world_get(), for what may be damaged. Bytes that are not as written fail the test. */
static inline enum err
world_get_damaged(struct store *d, const char *key, const char *want, uint64_t len)
{
    struct store_key k = world_key(7, key);
    struct store_reader *r = NULL;
    struct errbuf eb = {0};
    struct span piece = {"", 1};
    struct entry entry;
    uint64_t at = 0;
    enum err rc = store_lookup(d, &k, &entry, &eb);

    if (rc == ERR_OK)
        rc = store_read_begin(d, &k, &entry, 0, entry.size, &r, &eb);
    while (rc == ERR_OK && piece.len > 0) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc == ERR_OK)
            CHECK(at + piece.len <= len && memcmp(piece.at, want + at, piece.len) == 0);
        at += rc == ERR_OK ? piece.len : 0;
    }
    store_read_end(&r);
    if (rc == ERR_OK)
        CHECK_U64(at, len);
    return rc;
}
