/* Internal to body*.c. */
#pragma once
#include "store/segment/body.h"

struct log_record;
struct segment;

/* Allocates a buffer for one header of BODY_HEAD bytes; the caller owns it. */
enum err body_head_buffer(struct iobuf **out, struct errbuf *eb) MUST_CHECK;
/* Encodes a header of 4 KiB for the place at `offset`, and fills in its location. */
void body_head_put(char *to, const struct segment *s, uint64_t offset,
                   struct log_record *m);
/* Writes the header from a buffer, which it always drops. May switch. */
enum err body_head_write_from(struct iobuf *b, struct segment *s, uint64_t offset,
                              struct log_record *m, enum rt_class class,
                              struct errbuf *eb) MUST_CHECK;
/* Allocates a buffer and writes the header. May switch. */
enum err body_head_write(struct segment *s, uint64_t offset, struct log_record *m,
                         struct errbuf *eb) MUST_CHECK;

/* True if a place in [from, end) has no header yet. Owner loop. */
bool body_is_opening(const struct segment *s, uint64_t from, uint64_t end);
/* Waits until all places before `before` have their headers, or the segment has failed. Owner
 * loop; may switch. */
enum err body_wait_for_headers(struct segment *s, uint64_t before,
                               struct errbuf *eb) MUST_CHECK;

/* Bracket the last writes of a body; end gets the value that body_sealing_begin() returned. A
 * sync may wait for writes in the bracket. Owner loop. */
unsigned body_sealing_begin(struct segment *s);
void body_sealing_end(struct segment *s, unsigned turn);

/* Extends the place of a body of unknown length to `payload` bytes. May switch. */
enum err body_grow(struct body *b, uint64_t payload, struct errbuf *eb) MUST_CHECK;
