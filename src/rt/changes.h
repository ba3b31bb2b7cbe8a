/* changes: waits until something below a local folder has changed (inotify(7)).
 *
 * One watch a folder; folders that come get one, too. Files that are still open for writing count when they are closed.
 * What the kernel dropped (an overflow of its queue) counts as a change. Fibers; every call may switch.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct changes;
/* `follow`: through symbolic links, as files_walk_open(). ERR_NOT_FOUND; ERR_BUSY: the kernel's limit of watches
 * (fs.inotify.max_user_watches) is reached, and the sentence says how many there are. */
enum err changes_open(const char *path, bool follow, struct changes **out,
                      struct errbuf *eb) MUST_CHECK;
/* Returns when something has changed and CHANGES_QUIET_MS passed without more, or at most `ms` later; *any: something
 * has. ERR_CANCELLED; ERR_BUSY as above. */
#define CHANGES_QUIET_MS 300u
#define CHANGES_HELD_MS  3000u /* a stream of changes is held back for so long at most */
enum err changes_wait(struct changes *c, uint64_t ms, bool *any,
                      struct errbuf *eb) MUST_CHECK;
void changes_close(struct changes **cp); /* NULL is fine */
