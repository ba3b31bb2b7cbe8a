/* recover: from what lies on the disk to a disk that serves. Replay reads the logs from the index's position to
 * their end; there is no other recovery. Home; may switch. docs/formats.md, section 6.
 */
#pragma once
#include "disk/internal.h"

/* In DISK/.forebay: changes of the native log were lost, so bodies without a record are kept. */
#define RECOVER_ORPHANS "orphans"

/* Opens the segments, the index, replays, finds where the next group and body go, gives back what has no record. */
enum err recover_disk(struct disk *d, struct errbuf *eb) MUST_CHECK;
