/* doubt: a key whose remote was asked for a change, while nobody knows yet what became of that (disk.md, rule 4).
 *
 *     doubt_begin()     in the log, synced, before the remote hears of the change
 *       remote says yes   disks_commit() or disks_delete() of the key ends it
 *       remote says no    doubt_refused()
 *       no answer         it stays, over kills: what is kept is shown to nobody until a read asks
 *     doubt_settle()    that read's fetch: one HEAD; where the remote has that very version still, the doubt is over
 *
 * A write's calls are made under through_begin(), on any loop; a fetch's on its own. All may switch.
 */
#pragma once
#include "object/internal.h"

struct doubt {
    struct disks_key key; /* its spans are borrowed */
    bool was_there;       /* by an earlier change, whose outcome nobody knows */
};
enum err doubt_begin(struct object_service *s, const struct disks_key *k, struct doubt *d,
                     struct errbuf *eb) MUST_CHECK;
/* The backend said clearly that nothing changed by this one. */
void doubt_refused(struct object_service *s, const struct doubt *d);
/* The outcome is known, and there is no row whose change tells it. */
void doubt_clear(struct object_service *s, const struct disks_key *k);

/* The time that a version written through here is kept with. `by_md5`: the remote's ETag is the MD5 of its bytes; then it is no
 * whole second, which a remote's is. */
int64_t doubt_time(int64_t now_ms, bool by_md5);

/* Of f->row, which is in doubt. *over: the row may be believed again, and is to be looked at anew; else it is to be fetched. An error,
 * with its sentence in f->eb: the remote does not answer, or has no such object (ERR_NOT_FOUND). */
enum err doubt_settle(struct fetch *f, bool *over) MUST_CHECK;
