/* zip: the end record, the entries of the central directory, and local headers. Parsers of bytes; no I/O. Little-endian
 * throughout. One disk, methods stored (0) and deflate (8), zip64; encrypted and other entries are refused by name.
 *
 *     local header, name, extra, data ... | central directory: an entry each | [zip64 end, its locator] end record, comment
 */
#pragma once
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define ZIP_TAIL_MAX  (22u + 65535u + 20u + 56u) /* where the end record can be */
#define ZIP_ENTRY_MAX (46u + 3u * 65535u)        /* of one entry of the directory */
#define ZIP_LOCAL_MIN 30u

struct zip_end {
    uint64_t dir_at, dir_size, count;
    uint64_t
        end64_at; /* of the zip64 end record, which is still to be read; 0: not needed */
};
/* `tail`: the last bytes of an archive of `size` bytes. */
enum err zip_end_find(struct span tail, uint64_t size, struct zip_end *out,
                      struct errbuf *eb) MUST_CHECK;
/* The 56 bytes at end64_at. */
#define ZIP_END64_LEN 56u
enum err zip_end64_parse(struct span bytes, uint64_t size, struct zip_end *out,
                         struct errbuf *eb) MUST_CHECK;

enum zip_method { ZIP_STORED = 0, ZIP_DEFLATED = 8 };
struct zip_entry {
    struct span name; /* borrows */
    uint64_t size, stored, local_at;
    uint32_t crc;
    uint16_t method, flags;
    int64_t mtime_s;
};
/* The entry at the front of `window`. *used: its length; 0 with ERR_OK: the window is too short. */
enum err zip_entry_parse(struct span window, struct zip_entry *out, size_t *used,
                         struct errbuf *eb) MUST_CHECK;
/* The local header of `name`, at least ZIP_LOCAL_MIN bytes and the name: *data is where its data begins, from the header on. */
enum err zip_local_parse(struct span bytes, struct span name, uint64_t *data,
                         struct errbuf *eb) MUST_CHECK;
/* Seconds since 1970 of a DOS date and time, as if in UTC. */
int64_t zip_time(uint16_t date, uint16_t time);
