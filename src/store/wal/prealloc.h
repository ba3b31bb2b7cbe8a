/* ahead: the fiber that makes the next native log before it is needed, and writes it full of zeros.
 *
 * A batch that overwrites written blocks changes nothing of the file's form, so its sync flushes the disk and no more; in
 * blocks that were only allocated each sync writes what the file system knows of them, too: more than half as much time
 * again (docs/decisions/0008-durable-puts.md). What is ready becomes the spare of the class (segment.h): the log that is
 * full takes it without waiting for a file to be made, as the first start of a disk does (recover.c). A spare that compaction
 * left does as well, then nothing is made.
 *
 * Owner loop.
 */
#pragma once
#include "store/core/core.h"

struct segment;

enum err prealloc_start(struct store *d, struct errbuf *eb) MUST_CHECK;
void prealloc_stop(struct store *d); /* within one write. Switches. */
void prealloc_free(struct prealloc **ap);

/* The native log has grown: once it is a quarter full, the next one is made. */
void prealloc_wal_grew(struct store *d, const struct segment *log);
