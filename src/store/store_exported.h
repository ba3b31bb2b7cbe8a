/* exported: an object as a member of a tar archive outside Forebay. `forebay disk export` and
 * `backup` write it, `disk import` and `restore` read it. A record in the pax header has what
 * path and bytes lack: bucket, exact key, metadata, and a sum of the bytes. docs/formats.md,
 * section "Archives".
 *
 * Pure functions: any thread.
 */
#pragma once
#include "base/buf.h"
#include "store/store_upload.h"

#define EXPORTED_HEAD_MAX (32u << 10)
#define EXPORTED_ID       ".forebay/id/" /* folder for keys that are not safe paths */
#define EXPORTED_OLDER    ".forebay/version/"

/* `disk export` writes only objects. The other kinds occur in backups only, as records of
 * version 2: an older program must not take one for an object. */
enum exported_what {
    EXPORTED_OBJECT,
    /* One version of a key with versions, also the current one: `born`, meta.versioning. */
    EXPORTED_VERSION,
    EXPORTED_MARKER, /* a delete marker: the same, without a body */
    EXPORTED_UPLOAD, /* an upload in progress: `upload`, its metadata at begin */
    EXPORTED_PART    /* a part of it: `part`; of the metadata time, MD5 and checksum */
};
#define EXPORTED_EPOCH_MAX                                                               \
    ((uint64_t)1 << 40) /* of a version: no node has started this often */

struct exported {
    enum exported_what what;
    bool older; /* not the current version; exported_place() derives it from the path */
    struct span bucket; /* its name, 1 to 255 bytes */
    struct span key;
    uint64_t size;
    uint32_t sum;              /* crc32c of the bytes */
    struct content_id content; /* names it if its key can't */
    struct version born;       /* its id; later births are newer */
    struct upload_id upload;
    uint32_t part;
    struct object_meta meta;
};
/* True if every tar and file system extracts BUCKET/KEY to the right place. */
bool exported_is_safe(struct span bucket, struct span key);
/* The path of a member: BUCKET/KEY, or under EXPORTED_ID if that is not safe, or if `aside` is
 * set: another key is a folder of this name. Older versions and delete markers are under
 * EXPORTED_OLDER, uploads and parts in folders of their own. */
#define EXPORTED_PATH_ROOM (255 + 1 + STORE_KEY_MAX + 1)
size_t exported_path(const struct exported *e, bool aside, char out[EXPORTED_PATH_ROOM]);
/* After reading: derives the fields that the path implies. */
void exported_place(struct exported *e, struct span path);
/* Converts it for a caller that handles objects only. False: neither an object nor a current
 * version. */
bool exported_as_object(struct exported *e);
/* Encode the record alone, or the whole header of the tar member. Both append. */
void exported_put_record(struct buf *out, const struct exported *e);
void exported_put_head(struct buf *out, const struct exported *e, bool aside);
/* Parses and checks a record. Everything in *out borrows from it or lies in the arena.
 * ERR_NOT_FOUND: a record of another kind (a segment's); ERR_CORRUPT; ERR_NOT_IMPLEMENTED: a
 * newer version. */
enum err exported_read(struct span record, struct arena *a, struct exported *out,
                       struct errbuf *eb) MUST_CHECK;
