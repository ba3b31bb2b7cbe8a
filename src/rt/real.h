/* real: what the engines uring and epoll share: the machine's clocks, sockets,
 * directories, the worker pool. Inside `rt` only. */
#pragma once
#include "rt/engine.h"

void real_raise_limits(void); /* descriptors: the soft limit becomes the hard one */
uint64_t real_now_ns(void);
uint64_t real_boot_ns(void);
uint64_t real_wall_ns(void);
void real_random(void *out, size_t len);
enum err real_blocking(void (*work)(void *arg), void *arg, struct deadline by);
#ifdef FB_TEST_HOOKS
enum err real_before_wait(struct loop *l, bool owed);
#define REAL_BEFORE_WAIT real_before_wait
#else
#define REAL_BEFORE_WAIT NULL
#endif

/* listen.c, connect.c */
enum err real_listen(const char *addr, uint16_t port, const struct rt_listen_options *o,
                     struct listener **out, struct errbuf *eb);
enum err real_connect(const char *host, uint16_t port, unsigned refuse,
                      struct deadline by, struct stream **out, struct errbuf *eb);
enum err real_pipe(struct stream **a, struct stream **b);
/* posix.c */
void real_submit_to_pool(struct loop *l, struct io_op *op);
int64_t real_io_work(struct io_op *op); /* does it, on a worker: bytes or -errno */
enum err real_dir_open(struct rt_dir *at, const char *path, struct rt_dir **out,
                       struct errbuf *eb);
void real_dir_free(struct rt_dir *d);
enum err real_dir_make(struct rt_dir *d, const char *name, unsigned mode,
                       struct errbuf *eb);
enum err real_dir_sync(struct rt_dir *d, struct errbuf *eb);
enum err real_dir_list(struct rt_dir *d, void (*on_name)(const char *name, void *arg),
                       void *arg, struct errbuf *eb);
enum err real_dir_unlink(struct rt_dir *d, const char *name, struct errbuf *eb);
enum err real_dir_rename(struct rt_dir *d, const char *from, const char *to,
                         struct errbuf *eb);
enum err real_dir_mode(struct rt_dir *d, const char *name, unsigned *mode,
                       struct errbuf *eb);
enum err real_dir_space(struct rt_dir *d, struct rt_space *out, struct errbuf *eb);
enum err real_open_file(struct rt_dir *d, const char *name, unsigned flags, unsigned mode,
                        struct rt_file **out, struct errbuf *eb);
void real_file_free(struct rt_file *f);
enum err real_file_size(struct rt_file *f, uint64_t *out, struct errbuf *eb);
enum err real_file_lock(struct rt_file *f, struct errbuf *eb);

/* The rows that both engines have in common. */
#define REAL_ENGINE_OPS                                                                  \
    .now_ns = real_now_ns, .wall_ns = real_wall_ns, .random = real_random,               \
    .writes_durable = true, .before_wait = REAL_BEFORE_WAIT, .blocking = real_blocking,  \
    .listen = real_listen, .connect = real_connect, .pipe = real_pipe,                   \
    .dir_open = real_dir_open, .dir_free = real_dir_free, .dir_make = real_dir_make,     \
    .dir_sync = real_dir_sync, .dir_list = real_dir_list, .dir_unlink = real_dir_unlink, \
    .dir_rename = real_dir_rename, .dir_mode = real_dir_mode,                            \
    .dir_space = real_dir_space, .open_file = real_open_file,                            \
    .file_free = real_file_free, .file_size = real_file_size,                            \
    .file_lock = real_file_lock

/* From poll(2) bits to EDGE_*. */
unsigned watch_edges(uint32_t poll_bits);
