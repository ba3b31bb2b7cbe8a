/* backup: the objects of native buckets as members of a tar (docs/formats.md, section 13), written to a callback.
 *
 * backup_bucket.c walks a bucket; backup_body.c sends what it finds. One fiber owns a backup. An error while one object is
 * read is recorded as damage, and the object is left out; once receiver_gone is set, or with ERR_CANCELLED, the backup is over.
 *
 * Memory: `whole`, `text` and `damaged` have fixed limits; a large object is read twice instead of kept.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "disks/disks.h"
#include "map/map.h"

#define BACKUP_WHOLE_MAX (4u << 20) /* objects up to this size are read once */

struct backup {
    /* Sends bytes to the receiver; an error means that it is gone. May switch. */
    enum err (*send)(void *arg, struct span bytes);
    void *arg;
    struct disks *disks;
    struct arena *arena;             /* of one object; owned */
    struct buf whole, text, damaged; /* damaged: a line of JSON for each */
    uint64_t objects, bytes, damaged_count, sent_ns;
    uint64_t older, markers, uploads, parts;
    bool receiver_gone;
};
void backup_init(struct backup *b, struct disks *disks,
                 enum err (*send)(void *arg, struct span bytes), void *arg);
void backup_fini(struct backup *b);

/* An error means that the receiver is gone. May switch, as all below. */
enum err backup_send(struct backup *b, struct span bytes) MUST_CHECK;
/* A small member of the backup's own. */
enum err backup_send_file(struct backup *b, const char *name,
                          struct span bytes) MUST_CHECK;
/* The bucket's uploads in progress, then its objects or all their versions. Errors are logged here. */
enum err backup_bucket(struct backup *b, const struct map_bucket *bucket) MUST_CHECK;
