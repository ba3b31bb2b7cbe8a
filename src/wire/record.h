/* record: a small versioned value on disk: fields by number, its own length and its own
 * sum.
 *
 *     offset  bytes
 *     0       2      magic "FR"
 *     2       1      kind: which table of fields (the writer's; docs/formats.md)
 *     3       1      version of that table
 *     4       4      length of the whole record, sum included
 *     8       ...    fields: 1 byte id (1..255), 3 bytes length, that many bytes
 *     end-4   4      crc32c of everything before
 *
 * Numbers are big-endian. Fields stand in ascending order of id; an id may repeat. A number is its big-endian
 * bytes without leading zeros; 0 has none. So one content has one form, and a record that
 * opens formats back to the same bytes. Fields that a reader doesn't know are skipped, and
 * kept when the record is copied; what an old reader must not skip raises the version.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/span.h"

#define RECORD_MAX            (1024 * 1024)
#define RECORD_OVERHEAD       12 /* head and sum */
#define RECORD_SUM            4
#define RECORD_FIELD_OVERHEAD 4

/* Writing appends to `out`, which must have room for it (buf's limit; `full` tells). */
struct record_writer {
    struct buf *out; /* borrowed */
    size_t start;
    unsigned last_id;
};
void record_begin(struct record_writer *w, struct buf *out, uint8_t kind,
                  uint8_t version);
void record_put_span(struct record_writer *w, uint8_t id, struct span value);
size_t record_u64_len(uint64_t value); /* of the value that record_put_u64() writes */
void record_put_u64(struct record_writer *w, uint8_t id, uint64_t value);
void record_end(struct record_writer *w);

struct record {
    uint8_t kind, version;
    size_t len;           /* of the whole record; what follows it is not looked at */
    struct cursor all;    /* every field */
    struct cursor fields; /* those record_next() has not given yet */
};
/* Checks magic, length, sum and every field. CORRUPT: the sentence says what; nothing of
 * it may be believed. `bytes` may go on behind the record. */
enum err record_open(struct span bytes, struct record *out, struct errbuf *eb) MUST_CHECK;
/* Opens bytes that record_open() has checked and that have not changed since, without checking them again. */
void record_reopen(struct span bytes, struct record *out);
/* The next field, false at the end. */
bool record_next(struct record *r, uint8_t *id, struct span *value);
/* The first field of that id from the start, whatever was read so far; false when there
 * is none. */
bool record_find(const struct record *r, uint8_t id, struct span *value);
/* A field's number; CORRUPT when it is longer than 8 bytes or begins with a zero. */
enum err record_u64(struct span value, uint64_t *out) MUST_CHECK;
