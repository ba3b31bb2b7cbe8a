/* log: the file that a class's records go to, one batch after the other. docs/formats.md, section 6.
 *
 * Owner loop; only the class's committer appends. A write or a sync that failed is final: the log takes
 * nothing more until the disk is opened again, and the native one takes the disk with it.
 */
#pragma once
#include "store/internal.h"

/* Makes sure that a batch of `bytes` fits behind the last one: in a new segment where it does not. Afterwards
 * log->now, its `used` and log->next_batch say where the batch will stand. May switch. */
enum err wal_reserve(struct store *d, enum store_class class, uint64_t bytes,
                     struct errbuf *eb) MUST_CHECK;
/* Writes the batch in b->at[0, len) and the zero block behind it (b has room for both). May switch. */
enum err wal_append(struct store *d, enum store_class class, struct iobuf *b,
                    uint32_t len, bool sync, struct errbuf *eb) MUST_CHECK;
/* Makes durable what was appended so far without a sync. May switch. */
enum err wal_sync(struct store *d, enum store_class class, struct errbuf *eb) MUST_CHECK;
