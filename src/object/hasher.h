/* hasher: the MD5 of bodies that come in on one loop, in lanes (base/md5.h).
 *
 * Whoever has bytes lays them down and lets the other fibers of this turn do the same; the first to run again hashes what
 * lies there, for all. Nobody waits for more to come: with no other fiber ready it is done at once, and a stream that stays
 * alone costs what OpenSSL's code costs. A turn hashes one piece of each stream at most, so a piece is what bounds it.
 */
#pragma once
#include "base/md5.h"
#include "object/internal.h"

/* Adds `len` bytes at `data`; with `out` they are the last ones, and the 16 bytes of the sum come there. The bytes are
 * borrowed until it returns. Never fails, cancelled or not. May switch. */
void hasher_add(struct object_service *s, struct md5 *m, const void *data, size_t len,
                unsigned char *out);
