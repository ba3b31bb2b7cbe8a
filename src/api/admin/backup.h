/* backup: the pieces of a backup. backup.c is the page: the node's state and the buckets, one after the other;
 * backup_bucket.c walks a bucket, backup_body.c sends what it finds, backup_keys.c is the page of the keys.
 *
 * One fiber for each backup, which owns all of it. An error of what reads is of one thing, which is noted as damaged and left out;
 * once client_gone is set, or with ERR_CANCELLED, the backup is over.
 */
#pragma once
#include "api/admin/admin.h"
#include "store/store_exported.h"

#define BACKUP_WHOLE_MAX (4u << 20) /* objects up to here are read once */

struct backup {
    struct request *q;
    struct disks *disks;
    struct arena *arena; /* of one object; owned */
    struct buf whole, text, damaged;
    uint64_t objects, bytes, damaged_count, sent_ns;
    uint64_t older, markers, uploads, parts;
    bool client_gone;
};

/* What is sent of one body: its record, where it lies, and who gives its bytes. */
struct sent {
    struct exported e;
    struct disks_key key;
    struct entry entry;
};

/* ---- backup.c ---- */

/* Pairs of meta: with keys, or all others. ERR_TOO_LARGE: `out` is full. */
enum err backup_dump_meta(struct request *q, bool keys, struct buf *out,
                          struct errbuf *eb) MUST_CHECK;

/* ---- backup_bucket.c ---- */

/* Errors are logged here. May switch, as all below. */
enum err backup_bucket(struct backup *b, const struct map_bucket *bucket) MUST_CHECK;

/* ---- backup_body.c ---- */

/* Errors of these three are the client's: it is gone, and b->client_gone says so. */
enum err backup_send(struct backup *b, struct span bytes) MUST_CHECK;
/* A small member of ours. */
enum err backup_send_file(struct backup *b, const char *name,
                          struct span bytes) MUST_CHECK;
/* Of what has no bytes, or before them. */
enum err backup_send_record(struct backup *b, const struct sent *s) MUST_CHECK;
/* Record and bytes; nothing is sent before all was read: what is damaged has no place in a backup. ERR_NOT_FOUND: it was
 * replaced or ended. */
enum err backup_send_body(struct backup *b, struct sent *s, struct errbuf *eb) MUST_CHECK;
void backup_note_damaged(struct backup *b, const struct sent *s, const char *why);
