/* exported: an object as a member of an archive that leaves Forebay and comes back: `forebay disk export` and `backup`
 * write it, `disk import` and `restore` read it. The record in the pax header says what the path and the bytes do not:
 * bucket, true key, metadata, and a sum of the bytes. docs/formats.md, section "Archives".
 *
 * Pure functions: any thread.
 */
#pragma once
#include "base/buf.h"
#include "store/store_upload.h"

#define EXPORTED_HEAD_MAX (32u << 10)
#define EXPORTED_ID       ".forebay/id/" /* where a key lies that no path can be */
#define EXPORTED_OLDER    ".forebay/version/"

/* An object is all that `disk export` writes. The others, which only a backup has, are records of version 2: a program that does not
 * know them must not take one for an object. */
enum exported_what {
    EXPORTED_OBJECT,
    EXPORTED_VERSION, /* one version of a key that has versions, also the current one: `born`, meta.versioning */
    EXPORTED_MARKER,  /* a delete marker: the same, without bytes */
    EXPORTED_UPLOAD,  /* an upload in progress: `upload`, metadata as it was begun with */
    EXPORTED_PART     /* of it: `part`; of the metadata time, MD5 and checksum */
};
#define EXPORTED_EPOCH_MAX                                                               \
    ((uint64_t)1 << 40) /* of a version: no node was started so often */

struct exported {
    enum exported_what what;
    bool
        older; /* a version that is not the current one: its path says so, exported_place() */
    struct span bucket; /* its name, 1 to 255 bytes */
    struct span key;
    uint64_t size;
    uint32_t sum;              /* crc32c of the bytes */
    struct content_id content; /* names it where its key can't */
    struct version born;       /* its id; what is newer was born later */
    struct upload_id upload;
    uint32_t part;
    struct object_meta meta;
};
/* Can BUCKET/KEY be a path that every tar and file system extracts where it belongs? */
bool exported_is_safe(struct span bucket, struct span key);
/* Where it stands: BUCKET/KEY, or under EXPORTED_ID when that is not safe, or `aside`: another key is a folder of this
 * name. Older versions and delete markers stand under EXPORTED_OLDER, uploads and parts under folders of their own. */
#define EXPORTED_PATH_ROOM (255 + 1 + STORE_KEY_MAX + 1)
size_t exported_path(const struct exported *e, bool aside, char out[EXPORTED_PATH_ROOM]);
/* Of what was read: which place it had. */
void exported_place(struct exported *e, struct span path);
/* As an object, for a caller that wants nothing else: false where it is none, and no current version. */
bool exported_as_object(struct exported *e);
/* The record alone, and the whole header of the tar member. Both append. */
void exported_put_record(struct buf *out, const struct exported *e);
void exported_put_head(struct buf *out, const struct exported *e, bool aside);
/* Judges a record: everything in *out borrows from it or lies in the arena. ERR_NOT_FOUND: a record, but of another
 * kind (a segment's); ERR_CORRUPT; ERR_NOT_IMPLEMENTED: of a newer version. */
enum err exported_read(struct span record, struct arena *a, struct exported *out,
                       struct errbuf *eb) MUST_CHECK;
