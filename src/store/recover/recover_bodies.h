/* recover_bodies: what a start does with bodies once the logs are replayed. Home; may switch. */
#pragma once
#include "store/segment/segment_list.h"
#include "store/store_entry.h"

struct store;

/* The newest segment of many bodies: where the next one goes, and which places have no record. */
enum err recover_bodies(struct store *d, enum store_class class,
                        struct errbuf *eb) MUST_CHECK;
/* Segments of one body: those in which nothing lives are unlinked. The index has all of the replay by now. */
enum err recover_single(struct store *d, enum store_class class,
                        const struct segment_list *l, struct errbuf *eb) MUST_CHECK;
/* How much of logs and shared segments is in use. */
void recover_count_shared(struct store *d, enum store_class class);
