/* sendable: memory that sockets may be given by reference.
 *
 * Bytes that lie in such a region are sent (rt_sendv) by vmsplice() and splice() where a piece is at least RT_ZERO_COPY_MIN
 * long: the socket, and over loopback or veth the receiver, then holds our pages long after the call, after the peer has
 * acknowledged, after the connection has ended. So a page that was sent is never written again: its owner gives it back
 * first (sendable_release), and writes into a fresh one that comes in its place. A head before such bytes goes with them, from
 * pages of the loop's own, of which the same is true byte by byte. The memory is private, so what is given
 * back is only unmapped: who holds the page keeps what is in it.
 *
 * Where the kernel does not do it (or a sandbox forbids it) the bytes are copied, as all others are. Any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define SENDABLE_PAGE    4096u
#define RT_ZERO_COPY_MIN (32u << 10) /* bytes; below, copying costs less */
/* What goes through the pipe at a time: the less, the more calls; of what a socket does not take the pages were looked up in vain, so one that was full
 * the last time gets less. */
#define SENDABLE_PORTION  (1u << 20)
#define SENDABLE_CAUTIOUS (256u << 10)

struct sendable;
/* Zeroed, touched only as it fills, on huge pages where the kernel gives them. Never NULL: stops the process when there is no
 * address space. */
struct sendable *sendable_new(size_t bytes);
char *sendable_at(const struct sendable *s);
/* Whole pages inside are given back to the system and read as zeros from then on. No send of them is still running. */
void sendable_release(struct sendable *s, void *at, size_t bytes);
void sendable_free(struct sendable **sp); /* NULL is fine */

/* ---- inside rt ---- */

/* One a loop, zeros at first: a pipe, empty between two calls; where what a socket did not take is thrown away; memory for
 * what stands in front of pieces. */
struct sendable_pipe {
    int in, out, nowhere;
    bool open, useless;
    size_t room;  /* of the pipe */
    char *fronts; /* owned; no byte is written twice before its page was given back */
    size_t fronts_used; /* written */
};
/* Are these bytes to be sent by reference? */
bool sendable_has(const void *at, size_t len);
/* What stands before such pieces, of `portion` bytes at most with it, can go with them: *out is a copy of it that is never written
 * over. False: it must be copied by a call of its own, being too long, or because that costs no more. */
bool sendable_front(struct sendable_pipe *p, const struct iovec *front, int count,
                    const struct iovec *pieces, int piece_count, size_t portion,
                    struct iovec *out);
/* Gives `count` such pieces to a socket, `portion` bytes at a time: how many bytes it took, -EAGAIN, or another negative errno; -ENOSYS: they must be copied. */
ssize_t sendable_send(struct sendable_pipe *p, int fd, const struct iovec *iov, int count,
                      size_t portion);
void sendable_pipe_free(struct sendable_pipe *p); /* when the loop ends */
