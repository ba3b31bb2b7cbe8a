/* hasher: the MD5 of bodies that come in on one loop, in lanes (base/md5.h).
 *
 * Whoever has bytes lays them down; the first of them lets the other fibers of this turn do the same, and hashes what lies there,
 * for all. Where all of that ends bodies he lets up to eight turns pass until the lanes are full. Nobody waits while nothing
 * else is to be done: with no other fiber ready it is done at once, and a stream that stays alone costs what OpenSSL's code
 * costs. A round hashes one piece of each stream at most, so a piece is what bounds it.
 *
 * Whoever keeps its bytes may lag (struct hash_stream): they are hashed when one stream has no room left for more, or ends,
 * for all that lag on this loop, by one of them, and not before the loop has run out of other work or has done eight turns of
 * it (16 for a patient one). Streams that come slowly fill the lanes that way. Where all who want their sum are patient
 * (small bodies of PUT), a round waits up to 2 ms until half of the streams do: what hashing 1 MiB alone takes.
 */
#pragma once
#include "base/md5.h"
#include "object/internal.h"
#include "rt/loop.h"

/* Of one loop; nothing is owned. */
void hashing_init(struct hashing *of_loop);

/* Adds `len` bytes at `data`; with `out` they are the last ones, and the 16 bytes of the sum come there. The bytes are
 * borrowed until it returns. Never fails, cancelled or not. May switch. */
void hasher_add(struct object_service *s, struct md5 *m, const void *data, size_t len,
                unsigned char *out);

/* A body whose hashing lags; on one loop from begin to end. */
struct hash_stream {
    struct list of_loop;
    bool patient; /* it waits for others, too */
    struct md5 md5;
    const unsigned char *at; /* borrowed: not hashed yet */
    size_t len;
    struct rt_waiter
        *waits; /* of whoever is in hash_stream_drain() while another one leads */
};
void hash_stream_begin(struct object_service *s, struct hash_stream *h);
void hash_stream_end(
    struct hash_stream *h); /* whatever lags is forgotten; twice is fine */
/* Lays down bytes that follow right behind those which lag still, or anywhere when none do. They stay borrowed until they
 * are hashed: while h->len > 0. A stream that is the only one of its loop never lags. */
void hash_stream_add(struct object_service *s, struct hash_stream *h, const void *data,
                     size_t len);
/* Until nothing lags; who is patient waits for others, at most 2 ms. Never fails, cancelled or not. May switch. */
void hash_stream_drain(struct object_service *s, struct hash_stream *h, bool patient);
