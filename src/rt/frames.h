/* frames: checked frames over a stream, inside TLS: each up to 64 KiB of what is sent travels behind its length, its number
 * and a CRC-32C over all three. Bytes that are damaged between the sender's memory and the receiver's are never received.
 *
 * On the wire (docs/formats.md, section 14): length (4 bytes), number (4), CRC-32C (4), all big endian, then the bytes.
 * Numbers count from 0 in each direction. A wrong frame fails the stream for good: ERR_CORRUPT.
 */
#pragma once
#include "rt/net.h"

#define FRAME_BYTES_MAX  65536u
#define FRAME_HEAD_BYTES 12u

/* From now on, both ways. The peer does the same at the same place of the stream. After rt_tls_accept() or
 * rt_tls_connect(), where there is TLS; before anything else is sent or received. */
void rt_frames_begin(struct stream *s);

/* A frame's head. ERR_CORRUPT: its length is 0 or above FRAME_BYTES_MAX, or it is not number `expected`. */
struct frame_head {
    uint32_t len, number, crc;
};
void frame_head_put(const struct frame_head *h, unsigned char out[FRAME_HEAD_BYTES]);
enum err frame_head_parse(const unsigned char in[FRAME_HEAD_BYTES], uint32_t expected,
                          struct frame_head *out, struct errbuf *eb) MUST_CHECK;
/* The CRC over length, number and bytes; `crc` of the bytes so far: begin with frame_crc_begin(). */
uint32_t frame_crc_begin(uint32_t len, uint32_t number);
