/* in_doubt: a key whose remote was asked for a change, while nobody knows yet what became of that (disk.md, rule 4).
 *
 *     in_doubt_begin()     in the log, synced, before the remote hears of the change
 *       remote says yes   disks_commit() or disks_delete() of the key ends it
 *       remote says no    in_doubt_refused()
 *       no answer         it stays, over kills: what is kept is shown to nobody until a read asks
 *     in_doubt_resolve()    that read's fetch: one HEAD; where the remote has that very version still, the in_doubt is over
 *
 * A write's calls are made under write_lock_begin(), on any loop; a fetch's on its own. All may switch.
 */
#pragma once
#include "object/internal.h"

struct in_doubt {
    struct disks_key key; /* its spans are borrowed */
    bool was_in_doubt;    /* by an earlier change, whose outcome nobody knows */
};
enum err in_doubt_begin(struct object_service *s, const struct disks_key *k,
                        struct in_doubt *d, struct errbuf *eb) MUST_CHECK;
/* The backend said clearly that nothing changed by this one. */
void in_doubt_refused(struct object_service *s, const struct in_doubt *d);
/* The outcome is known, and there is no entry whose change tells it. */
void in_doubt_clear(struct object_service *s, const struct disks_key *k);

/* The time that a version written through here is kept with. `by_md5`: the remote's ETag is the MD5 of its bytes; then it is no
 * whole second, which a remote's is. */
int64_t in_doubt_mtime(int64_t now_ms, bool by_md5);

/* Of f->entry, which is in in_doubt. *over: the entry may be believed again, and is to be looked at anew; else it is to be fetched. An error,
 * with its sentence in f->eb: the remote does not answer, or has no such object (ERR_NOT_FOUND). */
enum err in_doubt_resolve(struct fetch *f, bool *over) MUST_CHECK;
