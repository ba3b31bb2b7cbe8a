/* prealloc: a fiber that creates the next native log before it is needed and fills it with
 * zeros.
 *
 * A batch that overwrites written blocks leaves the file's metadata unchanged, so its sync only
 * flushes the disk. In blocks that are merely allocated, each sync also writes file system
 * metadata, which takes more than half as long again (docs/decisions/0008-durable-puts.md). The
 * finished file becomes the spare of the class (segment.h). When the log is full, the store
 * switches to the spare without waiting; so does the first start of a disk (recover.c). A spare
 * that compaction left serves as well; then the fiber creates nothing.
 *
 * Owner loop.
 */
#pragma once
#include "store/core/core.h"

struct segment;

enum err prealloc_start(struct store *d, struct errbuf *eb) MUST_CHECK;
void prealloc_stop(struct store *d); /* stops after the write in progress. Switches. */
void prealloc_free(struct prealloc **ap);

/* Reports that the native log has grown. Once it is a quarter full, the fiber creates the next
 * one. */
void prealloc_wal_grew(struct store *d, const struct segment *log);
