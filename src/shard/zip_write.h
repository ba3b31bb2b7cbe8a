/* zip_write: the headers of a zip that is written in one pass; its payload passes by. No I/O. */
#pragma once
#include "base/buf.h"
#include "base/err.h"

struct zip_writer {
    struct buf directory; /* owned: an entry for each ended member */
    uint64_t at;          /* bytes written */
    uint64_t count;
    /* of the open member */
    struct buf name; /* owned */
    uint64_t local_at, size;
    uint32_t crc;
    uint16_t date, time;
};
void zip_writer_init(struct zip_writer *z);
void zip_writer_fini(struct zip_writer *z);
/* Appends the local header to `head`. ERR_TOO_LARGE: the directory is at its limit. */
enum err zip_writer_member(struct zip_writer *z, struct span name, uint64_t size,
                           int64_t mtime_s, struct buf *head,
                           struct errbuf *eb) MUST_CHECK;
void zip_writer_data(struct zip_writer *z, struct span bytes);
/* What stands behind the payload; lies in `room`. */
struct span zip_writer_end_member(struct zip_writer *z, char room[24]);
/* Completes `directory` with the end records. */
void zip_writer_finish(struct zip_writer *z);
