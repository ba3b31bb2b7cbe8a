/* s3xml_util: what the readers of S3 documents share. Only for s3xml_*.c. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

/* Room for item number `count` (zeroed) in an array of the arena that doubles; NULL when the arena is
 * full. `*items` and `*room` are kept by the caller. */
void *s3xml_grow(struct arena *a, void **items, size_t *room, size_t count,
                 size_t item_size);

/* A copy in the arena, NUL behind it. False when the arena is full. */
bool s3xml_keep(struct arena *a, struct span text, struct span *out);
/* Undoes encoding-type=url in place: the bytes are the caller's to change. AWS writes a space as '+'. False: a bad escape. */
bool s3xml_decode_key(struct span *key);
