#include "http/inbuf.h"

#include <stdlib.h>

#include "base/account.h"
#include "base/mem.h"

void
inbuf_init(struct inbuf *b, size_t room)
{
    account_add(ACCOUNT_CONNECTIONS, (int64_t)room);
    *b = (struct inbuf){.buf = xmalloc(room), .room = room};
}

void
inbuf_fini(struct inbuf *b)
{
    account_add(ACCOUNT_CONNECTIONS, -(int64_t)b->room);
    free(b->buf);
    *b = (struct inbuf){0};
}

static void
replace(struct inbuf *b, size_t room)
{
    char *other = xmalloc(room);

    account_add(ACCOUNT_CONNECTIONS, (int64_t)room - (int64_t)b->room);
    memcpy(other, b->buf + b->at, b->end - b->at);
    free(b->buf);
    b->buf = other;
    b->room = room;
    b->end -= b->at;
    b->at = 0;
}

/* Makes room: moves the bytes to the front, or to a long buffer. */
static void
inbuf_make_room(struct inbuf *b, struct http_head *h)
{
    if (b->at > 0) {
        memmove(b->buf, b->buf + b->at, b->end - b->at);
        b->end -= b->at;
        b->at = 0;
    } else {
        assert(b->room < INBUF_LONG); /* the parser rejects a head that fills it */
        replace(b, INBUF_LONG);
    }
    http_head_init(h);
}

enum http_parse
inbuf_head(struct inbuf *b, struct http_head *h, bool response, enum http_method method)
{
    for (;;) {
        const char *at = b->buf + b->at;
        size_t here = inbuf_here(b);
        enum http_parse parsed = here == 0  ? HTTP_MORE
                                 : response ? http_response_parse(h, at, here, method)
                                            : http_request_parse(h, at, here);

        if (parsed == HTTP_DONE && h->body_length == HTTP_CHUNKED &&
            b->room - b->at - h->len < INBUF_CHUNK_ROOM) {
            inbuf_make_room(b, h);
            continue;
        }
        if (parsed == HTTP_DONE)
            b->body_at = b->at += h->len;
        if (parsed == HTTP_MORE && b->end == b->room)
            inbuf_make_room(b, h);
        return parsed;
    }
}

void
inbuf_shrink(struct inbuf *b, size_t usual)
{
    if (inbuf_here(b) == 0)
        b->at = b->end = 0;
    if (b->room != usual && inbuf_here(b) <= usual)
        replace(b, usual);
}

enum err
inbuf_sized(struct inbuf *b, uint64_t *left, inbuf_receive *receive, void *who, char *to,
            size_t len, size_t *n, struct errbuf *eb)
{
    size_t want = MIN(len, *left), here = inbuf_here(b);
    enum err rc = ERR_OK;

    *n = 0;
    if (here > 0) {
        *n = MIN(here, want);
        memcpy(to, b->buf + b->at, *n);
        b->at += *n;
    } else {
        /* Receives directly into the caller's buffer: bytes after the body cannot end up there. */
        rc = receive(who, to, want, n, eb);
    }
    if (rc == ERR_OK)
        *left -= *n;
    return rc;
}

/* Within a chunk and with an empty buffer: like inbuf_sized(). May switch. */
static enum err
receive_chunk(struct http_chunked *k, inbuf_receive *receive, void *who, char *to,
              size_t len, size_t *n, struct errbuf *eb)
{
    struct span piece;
    size_t used;
    enum err rc = receive(who, to, MIN(len, http_chunked_left(k)), n, eb);

    if (rc != ERR_OK)
        return rc;
    if (http_chunked_next(k, to, *n, &used, &piece) != HTTP_CHUNK_DATA)
        assert(false);
    assert(used == *n);
    return ERR_OK;
}

enum err
inbuf_chunked(struct inbuf *b, struct http_chunked *k, inbuf_receive *receive, void *who,
              char *to, size_t len, size_t *n, bool *ended, struct errbuf *eb)
{
    *n = 0;
    for (;;) {
        struct span piece;
        size_t used, got;
        enum http_chunk what;

        if (inbuf_here(b) == 0 && http_chunked_left(k) > 0)
            return receive_chunk(k, receive, who, to, len, n, eb);
        if (inbuf_here(b) == 0) {
            enum err rc;

            b->at = b->end = b->body_at;
            rc = receive(who, b->buf + b->at, b->room - b->at, &got, eb);
            if (rc != ERR_OK)
                return rc;
            b->end += got;
        }
        what =
            http_chunked_next(k, b->buf + b->at, MIN(inbuf_here(b), len), &used, &piece);
        b->at += used;
        switch (what) {
        case HTTP_CHUNK_BAD:
            return err_set(eb, ERR_BAD_REQUEST, "%s", k->why);
        case HTTP_CHUNK_END:
            *ended = true;
            return ERR_OK;
        case HTTP_CHUNK_DATA:
            memcpy(to, piece.at, piece.len);
            *n = piece.len;
            return ERR_OK;
        case HTTP_CHUNK_MORE:
            break;
        }
    }
}
