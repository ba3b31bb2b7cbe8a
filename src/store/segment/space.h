/* space: how much space a disk has, what may still take of it, and what happens when it is full.
 *
 *     roomy  --(free below half the reserve, or an allocation failed)-->  full: rejects objects
 *       ^                                                                   |
 *       '------(the ballast is back, half the reserve beside it)------------'
 *
 * The reserve is the ballast (ballast.h), a 256th of the disk (8 to 256 MiB); where inodes are counted, eight of them are
 * kept too, beside those of the ballast. The store releases it for essential writes that do not fit: records of deletes, the index, relocations.
 * Once a second the space fiber checks the file system, and recreates the ballast when there is
 * space. So a full disk still deletes, compacts and lists, and later accepts objects again by
 * itself.
 *
 * Fibers: calls marked "owner" on the owner loop only; the others anywhere, without a lock.
 */
#pragma once
#include "store/core/core.h"

struct space;
struct space *space_new(struct store *d);
void space_free(struct space **sp); /* NULL is fine */
/* Measures the file system and recreates a released ballast if there is space. Owner loop; may
 * switch. */
enum err space_open(struct space *s, struct errbuf *eb) MUST_CHECK;
enum err space_start(struct space *s,
                     struct errbuf *eb) MUST_CHECK; /* starts the fiber; owner */
void space_stop(struct space *s);                   /* owner; switches */

/* Checks whether a body of this size (or STORE_SIZE_UNKNOWN) may be written. ERR_NO_SPACE with a
 * message. */
enum err space_admit(const struct space *s, uint64_t size, struct errbuf *eb) MUST_CHECK;
/* True if allocating this many bytes for objects would leave the reserve free. Reads the file
 * system. Any loop. */
enum err space_leaves_reserve(struct space *s, uint64_t bytes,
                              struct errbuf *eb) MUST_CHECK;
/* Reports a write that did not fit: the disk rejects objects until there is space again. Any
 * loop. */
void space_ran_out(struct space *s, const char *what);
/* Releases the ballast for an essential write. False: it was released before. Owner loop; may
 * switch. */
bool space_give_ballast(struct space *s);
bool space_is_full(const struct space *s);
/* True if less than twice the reserve is free. Compaction then does not wait for an idle disk. */
bool space_is_tight(const struct space *s);

/* ---- counting: any loop ---- */
enum space_writer { SPACE_USER, SPACE_COMPACTION };
void space_appended(struct space *s, enum space_writer who, uint64_t bytes);
enum space_way { SPACE_UNLINK, SPACE_PUNCH, SPACE_COMPACT };
void space_reclaimed(struct space *s, enum space_way how, uint64_t bytes);
