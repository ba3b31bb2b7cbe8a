/* batch_reply: a batch as the body of an answer: an archive, or frames. Shared by S3's ?batch and AIS' GetBatch.
 *
 * A frame is 16 bytes, big-endian, then the bytes: index in the list (4), status 200 or 404 (4), length (8).
 */
#pragma once
#include "api/internal.h"
#include "shard/batch.h"

struct batch_reply {
    struct request *q;
    const struct batch_item *items;
    uint32_t count;
    /* Appends the name that item `index` has in the archive. */
    void (*name)(void *arg, uint32_t index, struct buf *out);
    void *arg;
    enum shard_format format;
    bool frames; /* instead of an archive */
    bool
        mark_missing; /* a missing item is an empty member "__404__/NAME"; else it is an error */
    /* Called before each send; false ends the reply by a reset. NULL: none. */
    bool (*may_go_on)(void *arg);
    /* Writes what stands before the archive, once its head was sent. NULL: nothing. */
    enum err (*before)(void *arg, struct http_request *http);
    enum err (*after)(void *arg, struct http_request *http);
    const char *content_type; /* NULL: of the format */
    /* Filled. */
    uint32_t failed; /* the item of an error */
    uint64_t objects, missing, bytes;
};
/* ERR_OK: the reply was sent, or it had begun and was reset. Else nothing was sent: r->failed is the item. */
enum err batch_reply_send(struct batch_reply *r, struct errbuf *eb) MUST_CHECK;
