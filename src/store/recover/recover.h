/* recover: from what lies on the disk to a disk that serves. Replay reads the logs from the index's position to
 * their end; there is no other recovery. Home; may switch. docs/formats.md, section 6.
 */
#pragma once
#include "store/core/core.h"

struct segment;

/* In DISK/.forebay: changes of the native log were lost, so bodies without a record are kept. */
#define RECOVER_ORPHANS "orphans"

/* lost_head.c: a native log whose header and first batch are damaged, by what stands behind them. After all other logs were
 * opened. ERR_CORRUPT: nothing there is to be believed. The caller owns a reference. */
enum err recover_headless_wal(struct store *d, uint32_t id, struct segment **out,
                              struct errbuf *eb) MUST_CHECK;
/* Opens the segments, the index, replays, finds where the next batch and body go, gives back what has no record. */
enum err recover_disk(struct store *d, struct errbuf *eb) MUST_CHECK;
