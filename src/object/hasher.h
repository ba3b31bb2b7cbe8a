/* hasher: the MD5 of request bodies, several bodies of one loop at once in SIMD lanes (base/md5.h).
 *
 * A fiber with bytes queues them. The first fiber of a turn lets the others of that turn queue theirs, then hashes
 * all of them. When every queued piece ends a body, it waits up to eight turns until the lanes are full. It never
 * waits on an idle loop: without other ready fibers it hashes at once, and a single stream costs what OpenSSL costs.
 * A round hashes at most one piece of each stream.
 *
 * A stream whose bytes stay in place may lag (struct hash_stream): its bytes are hashed when one stream runs out
 * of room, or ends. One fiber then hashes for all lagging streams of the loop, after the loop has run out of other
 * work, or after eight turns (16 for a patient stream). Slow streams fill the lanes in this way. When all waiting
 * streams are patient (small PUT bodies), a round waits up to 2 ms until half of the streams wait: the time that
 * hashing 1 MiB alone takes.
 */
#pragma once
#include "base/md5.h"
#include "object/internal.h"
#include "rt/loop.h"

/* Of one loop; owns nothing. */
void hashing_init(struct hashing *of_loop);

/* Adds `len` bytes at `data`; with `out` they are the last bytes, and the 16 bytes of the digest go there. The
 * bytes are borrowed until it returns. Never fails, cancelled or not. May switch. */
void hasher_add(struct object_service *s, struct md5 *m, const void *data, size_t len,
                unsigned char *out);

/* A body whose hashing lags; on one loop from begin to end. */
struct hash_stream {
    struct list of_loop;
    bool patient; /* it waits for other streams too */
    struct md5 md5;
    const unsigned char *at; /* borrowed: not hashed yet */
    size_t len;
    struct rt_waiter
        *waits; /* the fiber in hash_stream_drain() while another one leads */
};
void hash_stream_begin(struct object_service *s, struct hash_stream *h);
void hash_stream_end(struct hash_stream *h); /* drops what lags; twice is fine */
/* Queues bytes that directly follow the lagging ones; any address when none lag. They stay borrowed until they are
 * hashed: while h->len > 0. The only stream of a loop never lags. */
void hash_stream_add(struct object_service *s, struct hash_stream *h, const void *data,
                     size_t len);
/* Waits until nothing lags; a patient stream waits for others, at most 2 ms. Never fails, cancelled or not. May
 * switch. */
void hash_stream_drain(struct object_service *s, struct hash_stream *h, bool patient);
