/* file: disk I/O that does not block the loop, with classes, and the buffers it moves.
 *
 * Reads and writes go through `struct iobuf`: pooled, aligned to 4 KiB, counted. The
 * operation holds its own reference until the kernel is done. So a read whose fiber is
 * cancelled or times out is *abandoned*: the fiber goes on at once, the buffer is freed
 * when the disk answers. Writes and syncs are never abandoned: once begun they are waited
 * for whatever happens. None begins in a fiber that is cancelled or whose scope has
 * ended. A file likewise lives until its last operation is over.
 *
 * Each class has a bound on operations in flight on a file's disk (table in file.c), large
 * reads one of their own; what is beyond waits its turn. Every call but the small
 * inspectors may switch. Paths are opened relative to a directory handle.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "rt/fiber.h"
#include "rt/loop.h"

/* ---- buffers ---- */
struct iobuf {
    char *at;      /* aligned to 4,096 */
    uint32_t room; /* bytes */
    uint32_t refs; /* atomic: may be dropped on any loop */
};
#define IOBUF_MAX (8u << 20)
/* ERR_BUSY when the pool's limit is reached. Sizes are rounded up to a power of two from
 * 4 KiB. */
enum err iobuf_get(uint32_t size, struct iobuf **out) MUST_CHECK;
/* The same, but waits for others to give some back: for who is in the middle of an answer. To be read into, and dropped
 * on this loop. May switch. */
enum err iobuf_wait(uint32_t size, struct deadline by, struct iobuf **out) MUST_CHECK;
#define IOBUF_WAIT_MS                                                                    \
    2000u /* how long such a reader waits before he is told that we are busy: others wait for what he holds */
/* The same, but beyond the limit too: for what nobody can wait for, since it is what others wait for, and is bounded by itself.
 * ERR_BUSY: the system has no memory. Such a buffer takes nothing from the limit, and is accounted as others are. */
enum err iobuf_get_beyond(uint32_t size, struct iobuf **out) MUST_CHECK;
/* The same for a read, or a group of records, that goes to the disk soon: where there is an engine to which such memory costs
 * less it comes from there. Only on a loop, and dropped there. */
enum err iobuf_get_pinned(uint32_t size, struct iobuf **out) MUST_CHECK;
struct iobuf *iobuf_ref(struct iobuf *b);
void iobuf_drop(struct iobuf **bp); /* NULL is fine */
uint64_t iobuf_in_use(void);        /* bytes */
uint64_t iobuf_left(void);          /* bytes that this fiber may still get */
/* Others wait for this fiber, for a disk's commits say: it gets buffers from the last eighth of the limit too, and what it waited
 * for is followed before the other fibers of the turn. */
void rt_essential(void);

/* ---- files ---- */
struct rt_file;
struct rt_dir;
/* Each has so many operations of a loop on a disk at once. RT_BODY: bytes of large bodies, which others would wait for in the disk. */
enum rt_class { RT_READ, RT_WRITE, RT_BODY, RT_REPAIR, RT_BACKGROUND, RT_CLASSES_ };
enum rt_open_flags {
    RT_O_WRITE = 1, /* else read only */
    RT_O_CREATE = 2,
    RT_O_EXCL = 4,
    RT_O_DIRECT =
        8, /* offsets, lengths and memory aligned to 4 KiB; falls back where refused */
    RT_O_TRUNC = 16,
};

enum err rt_dir_open(const char *path, struct rt_dir **out, struct errbuf *eb) MUST_CHECK;
/* The folder that holds what `path` names; *name is its last part and lies in `path`. */
enum err rt_dir_open_of(const char *path, struct rt_dir **out, const char **name,
                        struct errbuf *eb) MUST_CHECK;
enum err rt_dir_open_at(struct rt_dir *d, const char *name, struct rt_dir **out,
                        struct errbuf *eb) MUST_CHECK;
void rt_dir_close(struct rt_dir **dp);
enum err rt_dir_make(struct rt_dir *d, const char *name, unsigned mode,
                     struct errbuf *eb) MUST_CHECK; /* EXISTS */
enum err rt_dir_sync(struct rt_dir *d, struct errbuf *eb) MUST_CHECK;
/* Calls on_name for each entry but "." and "..", in byte order. */
enum err rt_dir_list(struct rt_dir *d, void (*on_name)(const char *name, void *arg),
                     void *arg, struct errbuf *eb) MUST_CHECK;
enum err rt_dir_unlink(struct rt_dir *d, const char *name, struct errbuf *eb) MUST_CHECK;
enum err rt_dir_rename(struct rt_dir *d, const char *from, const char *to,
                       struct errbuf *eb) MUST_CHECK;
/* The permission bits of a file. ERR_NOT_FOUND. */
enum err rt_dir_mode(struct rt_dir *d, const char *name, unsigned *mode,
                     struct errbuf *eb) MUST_CHECK;
enum err rt_dir_space(struct rt_dir *d, uint64_t *total, uint64_t *free_bytes,
                      struct errbuf *eb) MUST_CHECK;
/* On which file system the folder was at the latest rt_dir_space(); 0: not known. */
uint64_t rt_dir_filesystem(const struct rt_dir *d);
/* The path as given to rt_dir_open (LMDB needs one). In sim: a place in memory. */
const char *rt_dir_path(const struct rt_dir *d);

enum err rt_open(struct rt_dir *d, const char *name, unsigned flags, unsigned mode,
                 struct rt_file **out,
                 struct errbuf *eb) MUST_CHECK; /* ERR_NOT_FOUND, ERR_EXISTS, ERR_IO */
void rt_file_close(
    struct rt_file **fp); /* never waits: the descriptor closes with the last operation */
bool rt_file_is_direct(const struct rt_file *f);
uint32_t rt_file_busy(
    const struct rt_file
        *f); /* operations still in the kernel, abandoned ones included */
enum err rt_file_size(struct rt_file *f, uint64_t *out, struct errbuf *eb) MUST_CHECK;
/* flock, exclusive. ERR_EXISTS: somebody has it, and half a second later still: the kernel lets go of a file late that a ring
 * had, be it closed or its process killed. May switch. */
enum err rt_file_lock(struct rt_file *f, struct errbuf *eb) MUST_CHECK;

/* ---- who is told ---- */
enum rt_io {
    RT_IO_READ,
    RT_IO_WRITE,
    RT_IO_SYNC,  /* of files and directories */
    RT_IO_SPACE, /* reserving, punching, cutting */
    RT_IO_NAME,  /* opening, making, listing, removing, looking at */
    RT_IOS_
};
/* One operation that is over. */
struct rt_io_done {
    enum rt_io kind;
    int error; /* 0, or a positive errno */
    uint64_t len;
    uint64_t where;   /* of one that failed: the same for the same file and page */
    uint64_t took_ns; /* with the kernel, not in our queue; RT_IO_NAME: 0 */
    uint32_t
        beside; /* operations that the kernel had of this observer when it began, itself included */
};
/* Is told of every operation on what was opened below a directory: the one place where a disk's trouble is seen.
 * Embedded by the caller, counted: each directory and file holds a reference until its last operation is over. */
struct rt_observer {
    /* On the loop that asked, outside any fiber or in the one that asked; must not switch. */
    void (*on_io)(struct rt_observer *o, const struct rt_io_done *d);
    void (*free)(struct rt_observer *o); /* any thread of rt */
    _Atomic uint32_t refs;               /* the caller's own: 1 */
    _Atomic uint32_t in_flight;
    _Atomic uint64_t done;
    _Atomic bool shut; /* nothing begins any more: ERR_IO at once */
    uint64_t number;   /* for test hooks: the nth of the process, from 1 */
};
/* For `d` and everything that is opened in it from now on. */
void rt_dir_observe(struct rt_dir *d, struct rt_observer *o);
void rt_observer_drop(struct rt_observer **op); /* NULL is fine */

/* What this fiber and its children read and write from now on is RT_BACKGROUND, whatever the call says. */
void rt_io_background(bool on);

/* Reads up to len bytes to b->at + at; *n < len only at the end of the file. */
enum err rt_read(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at,
                 uint32_t len, enum rt_class class, struct deadline by, uint32_t *n,
                 struct errbuf *eb) MUST_CHECK;
/* A read that no fiber waits for. It is the caller's, and stays until on_read, which is called once, on this loop, outside
 * any fiber, and must not switch. `result`: bytes, fewer than wanted only at the end of the file, or a negative errno. */
struct rt_async_read {
    void (*on_read)(struct rt_async_read *r, int64_t result);
    /* Of the buffer: what on_read looks at, which is on its way to the cache while others of this turn are seen to. Nothing: len 0. */
    struct span prefetch_span;
    struct io_op *op; /* rt's own, as the rest; NULL: it is over */
    struct rt_after_poll soon;
    int64_t result;
};
/* Begins it; fibers may, and what is no fiber. It has no deadline. On error nothing has begun. Does not switch. */
enum err rt_read_begin(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at,
                       uint32_t len, enum rt_class class,
                       struct rt_async_read *r) MUST_CHECK;
/* Instead of waiting for on_read any longer: the operation ends by itself, and holds the buffer until then. */
void rt_read_abandon(struct rt_async_read *r);
/* Writes all, or fails. */
enum err rt_write(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at,
                  uint32_t len, enum rt_class class, struct errbuf *eb) MUST_CHECK;
/* The same, durable when it is over: one operation, where a write and a sync are two. What was written before is not made durable
 * by it: a disk that can may write these bytes through and flush nothing else. Only where rt_writes_durable(): for files
 * that are read and written directly, and not in the simulation. Which of both failed nobody tells, so every failure but ERR_NO_SPACE
 * is as final as that of a sync. */
bool rt_writes_durable(const struct rt_file *f);
enum err rt_write_durable(struct rt_file *f, uint64_t offset, struct iobuf *b,
                          uint32_t at, uint32_t len, enum rt_class class,
                          struct errbuf *eb) MUST_CHECK;
/* fdatasync. A failure is final: the caller abandons the file. */
enum err rt_sync(struct rt_file *f, struct errbuf *eb) MUST_CHECK;
enum err rt_fallocate(struct rt_file *f, uint64_t offset, uint64_t len,
                      struct errbuf *eb) MUST_CHECK; /* NO_SPACE */
enum err rt_punch(struct rt_file *f, uint64_t offset, uint64_t len,
                  struct errbuf *eb) MUST_CHECK;
enum err rt_truncate(struct rt_file *f, uint64_t size, struct errbuf *eb) MUST_CHECK;

/* Whole small files (configuration, credentials): read into *out with a NUL behind; write
 * by a temporary, fsync, rename, fsync of the folder. */
enum err rt_file_load(struct rt_dir *d, const char *name, uint32_t limit, char **out,
                      size_t *len,
                      struct errbuf *eb) MUST_CHECK; /* the caller frees *out */
/* The same for a secret that somebody named by its path: ERR_DENIED when others than its owner may read it. */
enum err rt_private_load(const char *path, uint32_t limit, char **out, size_t *len,
                         struct errbuf *eb) MUST_CHECK;
enum err rt_file_store(struct rt_dir *d, const char *name, const void *data, size_t len,
                       unsigned mode, struct errbuf *eb) MUST_CHECK;
void rt_random(void *out, size_t len); /* getrandom; seeded in sim */
