/* restore_check: can the folders of a restore hold what the backup's buckets want? Looked at before anything is written. May switch. */
#pragma once
#include "base/err.h"
#include "base/span.h"

/* `state`: pairs of meta/dump.h. ERR_BAD_REQUEST with the bucket and what to give: a bucket wants more copies than there are disks. */
enum err restore_check_state(struct span state, unsigned disks,
                             struct errbuf *eb) MUST_CHECK;
/* The same of a backup in a file; it is read up to its state, and what is wrong with it otherwise is left to the restore. Standard input
 * ("-") cannot be read twice: ERR_OK. */
enum err restore_check_file(const char *path, unsigned disks,
                            struct errbuf *eb) MUST_CHECK;
