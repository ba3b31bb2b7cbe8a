/* inbuf: a buffer of received, unconsumed bytes, and the functions that take heads and bodies from it. Server and client share it. Inside `http` only.
 *
 *     buf [ used | head | ... at [ received ] end ... ] room
 *                       ^ body_at: the head borrows the bytes before it: they must not move */
#pragma once
#include "base/err.h"
#include "wire/http.h"

struct inbuf {
    char *buf; /* owned */
    size_t room, at, end;
    size_t body_at;
};

/* Room for chunk data behind the head, in a usual buffer or in a long one. */
#define INBUF_CHUNK_ROOM 2048u
#define INBUF_LONG       (HTTP_HEAD_ROOM + INBUF_CHUNK_ROOM)

void inbuf_init(struct inbuf *b, size_t room);
void inbuf_fini(struct inbuf *b);
static inline size_t
inbuf_here(const struct inbuf *b)
{
    return b->end - b->at;
}
/* Parses a head from the buffered bytes. HTTP_DONE: `at` is behind the head. HTTP_MORE: the buffer has room to receive
 * into. The buffer may be reallocated; then the head is parsed again, at most twice for one head. */
enum http_parse inbuf_head(struct inbuf *b, struct http_head *h, bool response,
                           enum http_method method);
/* After a request: moves the remaining bytes back into a buffer of the usual size, if they fit. */
void inbuf_shrink(struct inbuf *b, size_t usual);

/* Receives at least 1 byte; the end of the stream is an error. May switch. */
typedef enum err inbuf_receive(void *who, char *to, size_t len, size_t *n,
                               struct errbuf *eb);

/* At least 1 byte and at most `len` of a body with *left bytes to come (both > 0). May
 * switch. */
enum err inbuf_sized(struct inbuf *b, uint64_t *left, inbuf_receive *receive, void *who,
                     char *to, size_t len, size_t *n, struct errbuf *eb) MUST_CHECK;
/* At least 1 byte of a chunked body, or *n = 0 and *ended. ERR_BAD_REQUEST: the coding
 * is wrong; k->why. May switch. */
enum err inbuf_chunked(struct inbuf *b, struct http_chunked *k, inbuf_receive *receive,
                       void *who, char *to, size_t len, size_t *n, bool *ended,
                       struct errbuf *eb) MUST_CHECK;
