/* in_doubt: write-throughs of unknown outcome: the backend was asked for a change, and its
 * answer is not known (disk.md, rule 4).
 *
 *     in_doubt_begin()    logs the in-doubt record, synced, before the request to the backend
 *       it accepts        store_commit() or store_delete() of the key ends the record
 *       it refuses        in_doubt_refused()
 *       no answer         the record stays, across restarts: the kept version is not served
 *     in_doubt_resolve()  in the fetch of the next read: one HEAD; if the backend still has
 *                         exactly the kept version, the record ends
 *
 * A write calls these under write_lock_begin(), on any loop; a fetch on its own loop. All may
 * switch.
 */
#pragma once
#include "object/internal.h"

struct in_doubt {
    struct disks_key key; /* its spans are borrowed */
    bool was_in_doubt;    /* an earlier change of this key is already in doubt */
};
enum err in_doubt_begin(struct object_service *s, const struct disks_key *k,
                        struct in_doubt *d, struct errbuf *eb) MUST_CHECK;
/* The backend refused this change: it changed nothing. */
void in_doubt_refused(struct object_service *s, const struct in_doubt *d);
/* The outcome is known, and no index change records it. */
void in_doubt_clear(struct object_service *s, const struct disks_key *k);

/* The modification time of a version written through this node. `by_md5`: the backend's ETag is the MD5 of the
 * bytes; then the time is never a whole second, which a backend's always is. */
int64_t in_doubt_mtime(int64_t now_ms, bool by_md5);

/* Resolves f->entry, which is in doubt. *over: the entry is valid again, and the caller looks it up again; else
 * the caller fetches. On error f->eb has the sentence: the backend does not answer, or has no such object
 * (ERR_NOT_FOUND). */
enum err in_doubt_resolve(struct fetch *f, bool *over) MUST_CHECK;
