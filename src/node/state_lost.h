/* state_lost: detects disks with objects next to a node state without buckets: its file was deleted or emptied. */
#pragma once
#include "disks/disks.h"
#include "meta/meta.h"

/* ERR_CORRUPT says what to do: a node that started would answer that no bucket is there, and make a new one under an old one's
 * number. `path`: of the disk with the state. Before the state is copied anywhere. May switch. */
enum err state_check_lost(struct meta *m, struct disks *ds, const char *path,
                          struct errbuf *eb) MUST_CHECK;
