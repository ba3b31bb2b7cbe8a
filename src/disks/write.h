/* write: what objects and parts on their way in share. */
#pragma once
#include "disks/internal.h"

struct disks_writer *writer_new(struct disks *ds, const struct disks_key *k,
                                enum disk_class class);
/* One more disk has the body under way; the caller is in its slot. */
void writer_joins(struct disks_writer *w, unsigned slot, struct disk_writer *to);
unsigned least_of(const struct disks_key *k);
enum err too_few(unsigned have, unsigned want, struct errbuf *eb);

/* The disks on which an upload was begun, in the order of its key. */
struct homes {
    struct disks *ds;
    unsigned count;
    uint8_t at[DISKS_COPIES_MAX]; /* all entered; the first orders */
    bool deaf; /* another one that is here gave no answer, and may have it */
};
/* ERR_NO_UPLOAD: nobody has it, and all were heard. */
enum err homes_find(struct disks *ds, const struct disks_key *k,
                    const struct upload_id *u, struct homes *out,
                    struct errbuf *eb) MUST_CHECK;
struct disk *home_disk(const struct homes *h, unsigned i);
void homes_leave(struct homes *h); /* twice is fine */

/* Copies of a write whose owner is to[0]. prepare ends with ERR_OK when enough have it. */
enum err prepare_copies(struct disks_writer *w, const struct content_id *content,
                        const struct object_meta *meta, struct errbuf *eb) MUST_CHECK;
void give_up_copies(struct disks_writer *w, const struct content_id *content);
/* Copy i is out of this write after its prepare failed. */
void writer_leaves(struct disks_writer *w, unsigned i, const struct content_id *content);
void decide_copies(struct disks_writer *w, const struct content_id *content,
                   const struct version *v);
enum err ready_to_judge(struct disks_writer *w, const struct disk_condition *c,
                        struct errbuf *eb) MUST_CHECK;
