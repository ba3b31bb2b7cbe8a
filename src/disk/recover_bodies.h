/* recover_bodies: what a start does with bodies once the logs are replayed. Home; may switch. */
#pragma once
#include "disk/segment_list.h"

/* The newest segment of many bodies: where the next one goes, and which places have no record. */
enum err recover_bodies(struct disk *d, enum disk_class class,
                        struct errbuf *eb) MUST_CHECK;
/* Segments of one body: those in which nothing lives are unlinked. The index has all of the replay by now. */
enum err recover_single(struct disk *d, enum disk_class class,
                        const struct segment_list *l, struct errbuf *eb) MUST_CHECK;
/* How much of logs and shared segments is in use. */
void recover_count_shared(struct disk *d, enum disk_class class);
