/* sendable: memory that sockets may refer to (zero-copy sends).
 *
 * A piece of at least RT_ZERO_COPY_MIN bytes in such a region is sent (rt_sendv) by vmsplice() and splice(). The
 * socket, and over loopback or veth also the receiver, then refers to our pages long after the call, after the
 * acknowledgement, and after the connection has ended. So a page that was sent is never written again: its owner
 * releases it first (sendable_release) and writes into the fresh page that replaces it. A head before such bytes
 * goes with them, from pages of the loop's own, with the same rule per byte. The memory is private, so a released
 * page is only unmapped here: other holders keep its content.
 *
 * Where the kernel or a sandbox does not allow it, the bytes are copied. Any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define SENDABLE_PAGE    4096u
#define RT_ZERO_COPY_MIN (32u << 10) /* bytes; below, copying is cheaper */
/* Bytes through the pipe at a time: fewer bytes mean more calls, but pages that the socket does not accept were
 * looked up in vain. So a socket that was full last time gets less. */
#define SENDABLE_PORTION  (1u << 20)
#define SENDABLE_CAUTIOUS (256u << 10)

struct sendable;
/* Zeroed, touched only as it fills, on huge pages where the kernel gives them. Never NULL: stops the process when
 * there is no address space. */
struct sendable *sendable_new(size_t bytes);
struct sendable *sendable_try(size_t bytes); /* NULL: there is none */
char *sendable_at(const struct sendable *s);
/* Returns the whole pages inside to the system; they read as zeros from then on. No send of them may be running. */
void sendable_release(struct sendable *s, void *at, size_t bytes);
void sendable_free(struct sendable **sp); /* NULL is fine */

/* ---- inside rt ---- */

/* One per loop, zeros at first: a pipe, empty between calls; a descriptor to discard what a socket did not accept;
 * memory for heads that precede zero-copy pieces. */
struct sendable_pipe {
    int in, out, nowhere;
    bool open, useless;
    size_t room;  /* of the pipe */
    char *fronts; /* owned; no byte is written twice before its page was given back */
    size_t fronts_used; /* written */
};
/* Whether these bytes are sent by reference. */
bool sendable_has(const void *at, size_t len);
/* Copies a head so that it can go with zero-copy pieces, of `portion` bytes at most together: *out is a copy that is
 * never overwritten. False: send it by copy in a call of its own, since it is too long or that costs no more. */
bool sendable_front(struct sendable_pipe *p, const struct iovec *front, int count,
                    const struct iovec *pieces, int piece_count, size_t portion,
                    struct iovec *out);
/* Sends `count` such pieces, `portion` bytes at a time. Returns the bytes that the socket accepted, -EAGAIN, or
 * another negative errno; -ENOSYS: copy them. */
ssize_t sendable_send(struct sendable_pipe *p, int fd, const struct iovec *iov, int count,
                      size_t portion);
void sendable_pipe_free(struct sendable_pipe *p); /* when the loop ends */
