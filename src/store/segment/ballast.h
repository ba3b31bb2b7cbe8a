/* ballast: files that hold room on a disk, so that a full one can delete and can start.
 *
 * There are two pieces. Each is one allocated file, and where inodes are counted some empty ones:
 *
 *     BALLAST_DELETES  `ballast`, `ballast.1` ...              released by an open store (space.h)
 *     BALLAST_START    `ballast.start`, `ballast.start.1` ...  used by a start, before it writes
 *
 * A start takes half of a piece, so that the next one finds room as well if another program takes what is free. A file that
 * is missing is no error.
 *
 * Fibers: any loop; all calls may switch. One caller at a time for a folder: the owner of the disk, or who has its lock.
 */
#pragma once
#include "rt/file.h"

enum ballast_piece { BALLAST_DELETES, BALLAST_START, BALLAST_PIECES_ };

#define BALLAST_INODES      8u /* in each piece, with the allocated file */
#define BALLAST_START_BYTES MIB(2)
#define BALLAST_LEAST_PIECE KIB(128) /* below that it is removed, not cut */

/* Makes a piece of `bytes`, in `files` files (1 to BALLAST_INODES). What exists of it is taken, or cut. ERR_NO_SPACE: it
 * does not fit, and what there was of it is gone. */
enum err ballast_make(struct rt_dir *state, enum ballast_piece which, uint64_t bytes,
                      unsigned files, struct errbuf *eb) MUST_CHECK;
enum err ballast_release(struct rt_dir *state, enum ballast_piece which,
                         struct errbuf *eb) MUST_CHECK;
/* Bytes of the piece; 0: there is none. */
uint64_t ballast_bytes(struct rt_dir *state, enum ballast_piece which);
