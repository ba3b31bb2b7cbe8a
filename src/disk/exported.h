/* exported: an object as a member of an archive that leaves Forebay and comes back: `forebay disk export` and `backup`
 * write it, `disk import` and `restore` read it. The record in the pax header says what the path and the bytes do not:
 * bucket, true key, metadata, and a sum of the bytes. docs/formats.md, section "Archives".
 *
 * Pure functions: any thread.
 */
#pragma once
#include "disk/disk.h"

#define EXPORTED_HEAD_MAX (32u << 10)
#define EXPORTED_ID       ".forebay/id/" /* where a key lies that no path can be */

struct exported {
    struct span bucket; /* its name, 1 to 255 bytes */
    struct span key;
    uint64_t size;
    uint32_t sum;              /* crc32c of the bytes */
    struct content_id content; /* names it where its key can't */
    struct object_meta meta;
};
/* Can BUCKET/KEY be a path that every tar and file system extracts where it belongs? */
bool exported_is_safe(struct span bucket, struct span key);
/* Where it stands: BUCKET/KEY, or under EXPORTED_ID when that is not safe, or `aside`: another key is a folder of this
 * name. */
#define EXPORTED_PATH_ROOM (255 + 1 + DISK_KEY_MAX + 1)
size_t exported_path(const struct exported *e, bool aside, char out[EXPORTED_PATH_ROOM]);
/* The record alone, and the whole header of the tar member. Both append. */
void exported_put_record(struct buf *out, const struct exported *e);
void exported_put_head(struct buf *out, const struct exported *e, bool aside);
/* Judges a record: everything in *out borrows from it or lies in the arena. ERR_NOT_FOUND: a record, but of another
 * kind (a segment's); ERR_CORRUPT; ERR_NOT_BUILT: of a newer version. */
enum err exported_read(struct span record, struct arena *a, struct exported *out,
                       struct errbuf *eb) MUST_CHECK;
