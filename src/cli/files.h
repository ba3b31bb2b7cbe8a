/* files: local files for the verbs. Symbolic links are followed in a source, never below a target.
 *
 * Everything that touches the disk runs on a worker (rt_blocking), so calls may switch. A download is written to a hidden file beside its target (files_part_*) and renamed when it is complete.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* ---- reading ---- */
#define FILES_SMALL (1u << 20) /* files up to so many bytes are read in one go */
struct files_file {
    int fd; /* -1: none */
    uint64_t size;
    int64_t mtime_ns;
    char *bytes;           /* owned: the whole of a small file; else NULL */
    unsigned char md5[16]; /* of `bytes` */
};
/* Regular files only. */
enum err files_open(const char *path, struct files_file *out,
                    struct errbuf *eb) MUST_CHECK;
/* *n < len only at the end of the file. */
enum err files_read(struct files_file *l, uint64_t at, void *buf, size_t len, size_t *n,
                    struct errbuf *eb) MUST_CHECK;
/* The MD5 of a range of the file. */
enum err files_md5(struct files_file *l, uint64_t at, uint64_t len, unsigned char md5[16],
                   struct errbuf *eb) MUST_CHECK;
/* ERR_INCOMPLETE: its size or mtime changed since the open, so the bytes read may mix versions. */
enum err files_unchanged(struct files_file *l, struct errbuf *eb) MUST_CHECK;
void files_close(struct files_file *l); /* twice is fine */

/* ---- writing ---- */
/* `path` is a target; its first `root_len` bytes were typed by the user and are taken as they are. Below them folders are made, and a
 * symbolic link is ERR_DENIED. mtime_ms 0: now. */
struct files_target {
    const char *path;
    size_t root_len;
};
enum err files_store(const struct files_target *t, const void *bytes, size_t len,
                     int64_t mtime_ms, struct errbuf *eb) MUST_CHECK;

/* *folds: names that differ in case alone are one there. Makes the folder, with all above it, and in it a hidden file for a moment. A
 * folder that cannot be written to is said not to. */
enum err files_folds_case(const char *folder, bool *folds, struct errbuf *eb) MUST_CHECK;

struct files_part {
    struct files_file file; /* readable too */
    int dir;
    char *name, *hidden; /* owned */
    bool
        own; /* not the one that a later command would go on with: another process has that */
};
/* What an earlier run left is kept when `keep`, else emptied. */
enum err files_part_open(const struct files_target *t, bool keep, struct files_part *out,
                         struct errbuf *eb) MUST_CHECK;
enum err files_part_write(struct files_part *p, uint64_t at, const void *buf, size_t len,
                          struct errbuf *eb) MUST_CHECK;
/* On a worker already: reads what was written. */
enum err files_part_read_now(struct files_part *p, uint64_t at, void *buf, size_t len,
                             size_t *n, struct errbuf *eb) MUST_CHECK;
/* Cut to `size`, renamed. */
enum err files_part_keep(struct files_part *p, uint64_t size, int64_t mtime_ms,
                         struct errbuf *eb) MUST_CHECK;
void files_part_remove(struct files_part *p); /* the hidden file goes */
void files_part_close(struct files_part *p);

enum err files_remove(const char *path, struct errbuf *eb) MUST_CHECK;

/* ---- walking ---- */
struct files_entry {
    const char *path; /* lent until the next call */
    const char *name; /* below the root */
    uint64_t size;
    int64_t mtime_ms;
    const char *problem; /* not NULL: why it cannot be read */
    bool odd; /* ... because it is no regular file, or a loop: left out, with a notice */
};
struct files_walk;
/* Every regular file below `path`, in the order of the keys that their names make. ERR_NOT_FOUND. */
enum err files_walk_open(const char *path, bool follow, struct files_walk **out,
                         struct errbuf *eb) MUST_CHECK;
/* *out is NULL at the end. */
enum err files_walk_next(struct files_walk *w, const struct files_entry **out,
                         struct errbuf *eb) MUST_CHECK;
void files_walk_close(struct files_walk **wp);
