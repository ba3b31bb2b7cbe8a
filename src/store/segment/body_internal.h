/* Inside of body*.c. */
#pragma once
#include "store/segment/body.h"

struct log_record;
struct segment;

/* A buffer for one header of BODY_HEAD bytes; the caller owns it. */
enum err body_head_buffer(struct iobuf **out, struct errbuf *eb) MUST_CHECK;
/* A header of 4 KiB for the place at `offset`: fills in where that is. */
void body_head_put(char *to, const struct segment *s, uint64_t offset,
                   struct log_record *m);
/* Writes it there, out of a buffer that is dropped whatever the result. May switch. */
enum err body_head_write_from(struct iobuf *b, struct segment *s, uint64_t offset,
                              struct log_record *m, enum rt_class class,
                              struct errbuf *eb) MUST_CHECK;
/* The same out of a buffer of its own. May switch. */
enum err body_head_write(struct segment *s, uint64_t offset, struct log_record *m,
                         struct errbuf *eb) MUST_CHECK;

/* Is the header of a place in [from, end) not there yet? Owner loop. */
bool body_is_opening(const struct segment *s, uint64_t from, uint64_t end);
/* Returns when the headers of all places before `before` are there, or the segment takes no more. Owner loop; may switch. */
enum err body_wait_for_headers(struct segment *s, uint64_t before,
                               struct errbuf *eb) MUST_CHECK;

/* Around the last writes of a body that go with the turn that body_sealing_begin() returns: a sync may wait for them. Owner loop. */
unsigned body_sealing_begin(struct segment *s);
void body_sealing_end(struct segment *s, unsigned turn);

/* Of a body of unknown length: makes room for `payload` bytes. May switch. */
enum err body_grow(struct body *b, uint64_t payload, struct errbuf *eb) MUST_CHECK;
