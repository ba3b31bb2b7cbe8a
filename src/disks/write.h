/* write: shared by writers of objects and of parts. */
#pragma once
#include <assert.h>

#include "disks/internal.h"

struct disks_writer *writer_new(struct disks *ds, const struct disks_key *k,
                                enum store_class class);
/* Adds a disk that receives the body; the caller has entered its slot. */
void writer_joins(struct disks_writer *w, unsigned slot, struct replica_writer *to);
/* The replica of copy i, entered, and the content id of the body. */
static inline struct replica *
writer_replica(const struct disks_writer *w, unsigned i)
{
    assert(i < w->count);
    return &w->disks->slots[w->slot[i]].at;
}
static inline const struct content_id *
writer_content(const struct disks_writer *w)
{
    return writer_replica(w, 0)->ops->content(w->to[0]);
}
unsigned copies_least(const struct disks_key *k);
enum err too_few(unsigned have, unsigned want, struct errbuf *eb);

/* The disks on which an upload was begun, in the order of its key. */
struct upload_replicas {
    struct disks *ds;
    unsigned count;
    uint8_t at[DISKS_COPIES_MAX]; /* all entered; the first is the coordinator */
    bool incomplete; /* another disk in service gave no answer, and may have it */
};
/* ERR_NO_UPLOAD: all replicas answered, and none has it. */
enum err upload_replicas_find(struct disks *ds, const struct disks_key *k,
                              const struct upload_id *u, struct upload_replicas *out,
                              struct errbuf *eb) MUST_CHECK;
struct replica *upload_replica(const struct upload_replicas *h, unsigned i);
void upload_replicas_leave(struct upload_replicas *h); /* idempotent */

/* Two-phase commit of the copies of a write whose owner is to[0]. prepare returns ERR_OK if
 * enough copies have it. */
enum err prepare_copies(struct disks_writer *w, const struct content_id *content,
                        const struct object_meta *meta, struct errbuf *eb) MUST_CHECK;
void abort_copies(struct disks_writer *w, const struct content_id *content);
/* Takes copy i out of this write after its prepare failed. */
void writer_remove_copy(struct disks_writer *w, unsigned i,
                        const struct content_id *content);
void commit_copies(struct disks_writer *w, const struct content_id *content,
                   const struct version *v);
enum err owner_make_current(struct disks_writer *w, const struct store_condition *c,
                            struct errbuf *eb) MUST_CHECK;
