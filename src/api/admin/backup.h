/* backup: the pages of a backup: backup.c sends the node's state and the buckets, backup_keys.c the sealed keys. */
#pragma once
#include "api/admin/admin.h"

/* Pairs of meta: with keys, or all others. ERR_TOO_LARGE: `out` is full. */
enum err backup_dump_meta(struct request *q, bool keys, struct buf *out,
                          struct errbuf *eb) MUST_CHECK;
