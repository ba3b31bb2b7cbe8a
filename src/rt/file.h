/* file: disk I/O that does not block the loop, with I/O classes, and the buffers it moves.
 *
 * Reads and writes go through `struct iobuf`: pooled, aligned to 4 KiB, counted. The operation holds its own
 * reference until the kernel is done. So when the fiber of a read is cancelled or times out, the read is
 * *abandoned*: the fiber continues at once, and the buffer is freed when the disk answers. Writes and syncs are
 * never abandoned: once begun they are waited for, whatever happens. None begins in a fiber that is cancelled or
 * whose scope has ended. A file likewise lives until its last operation is over.
 *
 * Each class has a limit of operations in flight per disk (table in file.c), and large reads have one of their own;
 * operations beyond it wait in order. Every call except the small inspectors may switch. Paths are opened relative
 * to a directory handle. */
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
/* ERR_BUSY: the pool's limit is reached. Sizes are rounded up to a power of two from 4 KiB. */
enum err iobuf_get(uint32_t size, struct iobuf **out) MUST_CHECK;
/* The same, but waits for a buffer to be released: for a reply that has begun. The buffer is for reading into, and
 * is dropped on this loop. May switch. */
enum err iobuf_wait(uint32_t size, struct deadline by, struct iobuf **out) MUST_CHECK;
#define IOBUF_WAIT_MS                                                                    \
    2000u /* how long iobuf_wait() waits before the client gets ERR_BUSY */
/* The same, but beyond the limit too: for work that other work waits for, and that is bounded by itself. ERR_BUSY:
 * the system has no memory. Such a buffer does not count against the limit, but is accounted as others are. */
enum err iobuf_get_beyond(uint32_t size, struct iobuf **out) MUST_CHECK;
/* The same for a read, or a commit batch, that goes to the disk soon: memory that the engine has registered with the
 * kernel, where there is such an engine. Loops only; dropped on the same loop. */
enum err iobuf_get_pinned(uint32_t size, struct iobuf **out) MUST_CHECK;
struct iobuf *iobuf_ref(struct iobuf *b);
void iobuf_drop(struct iobuf **bp); /* NULL is fine */
uint64_t iobuf_in_use(void);        /* bytes */
uint64_t iobuf_left(void);          /* bytes that this fiber may still allocate */
/* Other fibers wait for this fiber, for example for a store's committer. It may allocate buffers from the last
 * eighth of the limit, and it runs before the other fibers of a turn. */
void rt_essential(void);

/* ---- files ---- */
struct rt_file;
struct rt_dir;
/* Each class may have a number of operations in flight per loop and disk. RT_BODY: bytes of large bodies, behind
 * which other operations would wait in the disk. */
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
/* Opens the directory that contains `path`; *name is its last component and lies in `path`. */
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
/* What the file system of a directory has. Where inodes come out of its bytes as needed, `inodes` is 0. */
struct rt_space {
    uint64_t total_bytes, free_bytes;
    uint64_t inodes, free_inodes;
};
enum err rt_dir_space(struct rt_dir *d, struct rt_space *out,
                      struct errbuf *eb) MUST_CHECK;
/* The file system of the directory as of the latest rt_dir_space(); 0: unknown. */
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
/* flock, exclusive. ERR_EXISTS: another process holds it, also after half a second of retries: the kernel releases
 * the lock of a closed or killed ring late. May switch. */
enum err rt_file_lock(struct rt_file *f, struct errbuf *eb) MUST_CHECK;

/* ---- observers ---- */
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
        beside; /* operations of this observer in the kernel when it began, itself included */
};
/* Receives the result of every operation on what was opened below a directory: the one place where disk trouble is
 * detected. The caller embeds it; each directory and file holds a reference until its last operation is over. */
struct rt_observer {
    /* Runs on the submitting loop, in its fiber or outside any; must not switch. */
    void (*on_io)(struct rt_observer *o, const struct rt_io_done *d);
    void (*free)(struct rt_observer *o); /* any thread of rt */
    _Atomic uint32_t refs;               /* the caller's own: 1 */
    _Atomic uint32_t in_flight;
    _Atomic uint64_t done;
    _Atomic bool shut; /* new operations fail with ERR_IO at once */
    uint64_t number;   /* for test hooks: the nth of the process, from 1 */
};
/* Applies to `d` and everything that is opened in it from now on. */
void rt_dir_observe(struct rt_dir *d, struct rt_observer *o);
void rt_observer_drop(struct rt_observer **op); /* NULL is fine */

/* From now on reads and writes of this fiber and its children are RT_BACKGROUND, whatever the call says. */
void rt_io_background(bool on);

/* Reads up to len bytes to b->at + at; *n < len only at the end of the file. */
enum err rt_read(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at,
                 uint32_t len, enum rt_class class, struct deadline by, uint32_t *n,
                 struct errbuf *eb) MUST_CHECK;
/* An asynchronous read: no fiber waits for it. The caller owns the struct until on_read, which runs once, on this
 * loop, outside any fiber, and must not switch. `result`: bytes, fewer than requested only at the end of the file,
 * or a negative errno. */
struct rt_async_read {
    void (*on_read)(struct rt_async_read *r, int64_t result);
    /* The part of the buffer that on_read reads: it is prefetched into the CPU cache while other events of the turn
     * are handled. len 0: none. */
    struct span prefetch_span;
    struct io_op *op; /* private to rt, as the rest; NULL: the read is over */
    struct rt_after_poll soon;
    int64_t result;
};
/* Begins it, inside or outside a fiber. It has no deadline. On error nothing has begun. Does not switch. */
enum err rt_read_begin(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at,
                       uint32_t len, enum rt_class class,
                       struct rt_async_read *r) MUST_CHECK;
/* Drops on_read: the operation ends by itself and keeps the buffer until then. */
void rt_read_abandon(struct rt_async_read *r);
/* Writes all, or fails. */
enum err rt_write(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at,
                  uint32_t len, enum rt_class class, struct errbuf *eb) MUST_CHECK;
/* The same, but durable when it returns: one operation instead of a write and a sync. It does not make earlier
 * writes durable: a disk with FUA writes these bytes through and flushes nothing else. Only where
 * rt_writes_durable(): for files opened with RT_O_DIRECT, and not in the simulator. A failure does not say which of
 * both failed, so every failure except ERR_NO_SPACE is as final as that of a sync. */
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

/* Whole small files (configuration, credentials): reads into *out with a NUL behind; writes by a temporary file,
 * fsync, rename and fsync of the directory. */
enum err rt_file_load(struct rt_dir *d, const char *name, uint32_t limit, char **out,
                      size_t *len,
                      struct errbuf *eb) MUST_CHECK; /* the caller frees *out */
/* The same for a secret file named by the user: ERR_DENIED when anyone but its owner may read it. */
enum err rt_private_load(const char *path, uint32_t limit, char **out, size_t *len,
                         struct errbuf *eb) MUST_CHECK;
enum err rt_file_store(struct rt_dir *d, const char *name, const void *data, size_t len,
                       unsigned mode, struct errbuf *eb) MUST_CHECK;
void rt_random(void *out, size_t len); /* getrandom; seeded in sim */
