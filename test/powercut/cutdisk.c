/* cutdisk: a file that forgets what was not flushed, for power cuts of real file systems. A loop device stands on
 * it, a file system on that.
 *
 *     cutdisk IMAGE FOLDER        serves FOLDER/disk, the bytes of IMAGE, and FOLDER/control; root
 *
 * Reads see every write at once, as those of a drive with a cache. What was not flushed (fsync of `disk`, which is
 * what a loop device makes of a flush) is remembered in order, with what was there before. Lines for `control`:
 *
 *     cut SEED WAY [N]   the power goes: each unflushed write is kept or lost as the seed says, and from now on
 *                        everything fails with EIO. WAY: lose (all are lost), some (any of them are kept:
 *                        reordered), torn (as some, and of half of those kept only some sectors of 512 bytes).
 *                        With N not now, but in place of the Nth flush from now on
 *     on                 the power is back, with what the cut left
 *     lie                from now on flushes do nothing and say that they did
 *
 * Reading `control` tells "on" or "off" and what the last cut did. One thread: a flush is over when every write
 * before it is.
 */
#define FUSE_USE_VERSION 35
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR 512u
#define UNFLUSHED_MAX                                                                    \
    (256u << 20) /* beyond, the drive writes the oldest back by itself */

struct change {
    struct change *next;
    uint64_t offset;
    size_t len;
    char bytes[]; /* len as they became, len as they were */
};

static struct {
    int fd;
    uint64_t size;
    bool off, lies;
    struct change *first, **last; /* in order */
    uint64_t bytes, writes, flushes;
    struct {
        uint64_t at_flush; /* 0: none is due */
        uint64_t seed;
        bool some, torn;
    } due;
    uint64_t random;
    char told[256];
} disk = {.told = "on"};

static uint64_t
draw(void)
{
    uint64_t z = disk.random += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool
all(bool write_it, uint64_t offset, void *at, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n =
            write_it
                ? pwrite(disk.fd, (char *)at + done, len - done, (off_t)(offset + done))
                : pread(disk.fd, (char *)at + done, len - done, (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* The machine under the test fails: nothing that comes after would mean anything. */
static void
must(bool good)
{
    if (good)
        return;
    perror("cutdisk: the image");
    abort();
}

/* ---- what was not flushed ---- */

static void
forget_first(void)
{
    struct change *c = disk.first;

    disk.first = c->next;
    if (disk.first == NULL)
        disk.last = &disk.first;
    disk.bytes -= c->len;
    free(c);
}

static int
change(uint64_t offset, const char *data, size_t len)
{
    struct change *c = malloc(sizeof *c + 2 * len);

    if (c == NULL)
        return -ENOMEM;
    *c = (struct change){.offset = offset, .len = len};
    memcpy(c->bytes, data, len);
    must(all(false, offset, c->bytes + len, len));
    must(all(true, offset, c->bytes, len));
    *disk.last = c;
    disk.last = &c->next;
    disk.bytes += len;
    disk.writes++;
    while (disk.bytes > UNFLUSHED_MAX)
        forget_first();
    return 0;
}

/* ---- the cut ---- */

static struct change *
reversed(struct change *c)
{
    struct change *out = NULL;

    while (c != NULL) {
        struct change *next = c->next;

        c->next = out;
        out = c;
        c = next;
    }
    return out;
}

static void
tear(struct change *c)
{
    for (size_t at = 0; at < c->len; at += SECTOR) {
        size_t n = c->len - at < SECTOR ? c->len - at : SECTOR;

        if (draw() % 2 == 0)
            must(all(true, c->offset + at, c->bytes + at, n));
    }
}

static void
cut(uint64_t seed, bool some, bool torn)
{
    unsigned kept = 0, lost = 0, half = 0;
    unsigned
        odds; /* of 4: drawn for each cut, so that nearly all and nearly nothing happen as well */

    disk.random = seed;
    disk.off = true;
    odds = some ? 1 + (unsigned)(draw() % 4) : 0;
    disk.first = reversed(disk.first);
    for (struct change *c = disk.first; c != NULL; c = c->next)
        must(all(true, c->offset, c->bytes + c->len, c->len));
    disk.first = reversed(disk.first);
    for (struct change *c = disk.first; c != NULL; c = c->next) {
        if (draw() % 4 >= odds) {
            lost++;
        } else if (torn && draw() % 2 == 0) {
            tear(c);
            half++;
        } else {
            must(all(true, c->offset, c->bytes, c->len));
            kept++;
        }
    }
    snprintf(disk.told, sizeof disk.told,
             "off %" PRIu64 " writes, %" PRIu64
             " flushes; of those unflushed %u lost, %u kept, %u torn\n",
             disk.writes, disk.flushes, lost, kept, half);
    while (disk.first != NULL)
        forget_first();
}

static int
flush(void)
{
    if (!disk.off && ++disk.flushes == disk.due.at_flush)
        cut(disk.due.seed, disk.due.some, disk.due.torn);
    if (disk.off)
        return -EIO;
    while (disk.first != NULL && !disk.lies)
        forget_first();
    return 0;
}

static int
command(const char *text)
{
    uint64_t seed, flush_number = 0;
    char way[8];
    bool some, torn;

    if (strcmp(text, "on\n") == 0) {
        disk.off = false;
        memcpy(disk.told, "on ", 3);
        return 0;
    }
    if (strcmp(text, "lie\n") == 0) {
        disk.lies = true;
        return 0;
    }
    if (sscanf(text, "cut %" SCNu64 " %7s %" SCNu64, &seed, way, &flush_number) < 2 ||
        disk.off)
        return -EINVAL;
    torn = strcmp(way, "torn") == 0;
    some = torn || strcmp(way, "some") == 0;
    if (!some && strcmp(way, "lose") != 0)
        return -EINVAL;
    disk.due.at_flush = flush_number > 0 ? disk.flushes + flush_number : 0;
    disk.due.seed = seed;
    disk.due.some = some;
    disk.due.torn = torn;
    if (flush_number == 0)
        cut(seed, some, torn);
    return 0;
}

/* ---- FUSE ---- */

static bool
is_disk(const char *path)
{
    return strcmp(path, "/disk") == 0;
}
static bool
is_control(const char *path)
{
    return strcmp(path, "/control") == 0;
}

static int
on_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    (void)fi;
    *st = (struct stat){.st_mode = S_IFREG | 0600, .st_nlink = 1};
    if (strcmp(path, "/") == 0)
        st->st_mode = S_IFDIR | 0700;
    else if (is_disk(path))
        st->st_size = (off_t)disk.size;
    else if (!is_control(path))
        return -ENOENT;
    return 0;
}

static int
on_open(const char *path, struct fuse_file_info *fi)
{
    if (!is_disk(path) && !is_control(path))
        return -ENOENT;
    fi->direct_io = 1; /* no cache may keep what is lost */
    return 0;
}

static int
on_read(const char *path, char *buf, size_t size, off_t offset, struct fuse_file_info *fi)
{
    uint64_t at = (uint64_t)offset, end = is_disk(path) ? disk.size : strlen(disk.told);

    (void)fi;
    if (is_disk(path) && disk.off)
        return -EIO;
    if (at >= end)
        return 0;
    size = size < end - at ? size : end - at;
    if (is_disk(path))
        must(all(false, at, buf, size));
    else
        memcpy(buf, disk.told + at, size);
    return (int)size;
}

static int
on_write(const char *path, const char *buf, size_t size, off_t offset,
         struct fuse_file_info *fi)
{
    char text[64];
    int rc;

    (void)fi;
    if (is_disk(path)) {
        if (disk.off)
            return -EIO;
        if ((uint64_t)offset + size > disk.size)
            return -ENOSPC;
        rc = change((uint64_t)offset, buf, size);
        return rc == 0 ? (int)size : rc;
    }
    if (size >= sizeof text)
        return -EINVAL;
    memcpy(text, buf, size);
    text[size] = '\0';
    rc = command(text);
    return rc == 0 ? (int)size : rc;
}

static int
on_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
    (void)data_only;
    (void)fi;
    return is_disk(path) ? flush() : 0;
}

static int
on_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
    (void)size;
    (void)fi;
    return is_control(path) ? 0 : -EPERM; /* what a shell's > does */
}

static const struct fuse_operations operations = {
    .getattr = on_getattr,
    .open = on_open,
    .read = on_read,
    .write = on_write,
    .fsync = on_fsync,
    .truncate = on_truncate,
};

int
main(int argc, char **argv)
{
    char *fuse_argv[] = {
        argv[0], "-f", "-s", "-o", "fsname=cutdisk", argc > 2 ? argv[2] : NULL, NULL};
    struct stat st;

    if (argc != 3) {
        fprintf(stderr, "cutdisk IMAGE FOLDER\n");
        return 2;
    }
    disk.last = &disk.first;
    disk.fd = open(argv[1], O_RDWR | O_CLOEXEC);
    if (disk.fd < 0 || fstat(disk.fd, &st) != 0) {
        perror(argv[1]);
        return 1;
    }
    disk.size = (uint64_t)st.st_size;
    return fuse_main(6, fuse_argv, &operations, NULL);
}
