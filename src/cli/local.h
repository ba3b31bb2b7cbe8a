/* local: files of this machine as the verbs read and write them; symbolic links are followed, as people expect. */
#pragma once
#include "base/err.h"
#include "rt/file.h"

struct local {
    struct rt_dir *dir;
    struct rt_file *file;
    char *name, *temporary; /* writing: the bytes go to `temporary` until local_keep() */
    uint64_t size;          /* reading */
};
enum err local_read_open(const char *path, struct local *out,
                         struct errbuf *eb) MUST_CHECK;
/* Folders on the way are made. */
enum err local_write_open(const char *path, struct local *out,
                          struct errbuf *eb) MUST_CHECK;
enum err local_keep(struct local *l,
                    struct errbuf *eb) MUST_CHECK; /* gives the file its name */
void local_close(struct local *l);                 /* what was not kept is removed */

/* Every regular file below `path` (or itself), as path and as name relative to it, in byte order. */
struct local_entry {
    char *path, *name;
    uint64_t size;
    int64_t mtime_ms;
};
struct local_list {
    struct local_entry *at;
    size_t count, room;
};
enum err local_walk(const char *path, struct local_list *out,
                    struct errbuf *eb) MUST_CHECK;
void local_list_fini(struct local_list *l);
/* The path from the root, links and dots as they are; free() it. */
char *local_absolute(const char *path);
bool local_exists(const char *path);
bool local_is_folder(const char *path);
