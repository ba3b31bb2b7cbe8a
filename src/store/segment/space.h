/* space: how much room a disk has, what may still take of it, and what happens when there is none.
 *
 *     roomy  --(free below half the reserve, or an allocation failed)-->  full: no object comes in
 *       ^                                                                   |
 *       '------(the ballast is back, half the reserve beside it)------------'
 *
 * The reserve is a file, `.forebay/ballast`, of a 256th of the disk (8 to 256 MiB). It is released when
 * what has to be written does not fit: records of deletes, the index, what compaction moves. Once a second the space
 * fiber looks at the file system, and makes the ballast again when there is room for it. So a full disk still deletes,
 * compacts and lists, and takes objects again by itself.
 *
 * Fibers: calls marked "owner" on the owner loop only; the others anywhere, without a lock.
 */
#pragma once
#include "store/core/core.h"

struct space;
struct space *space_new(struct store *d);
void space_free(struct space **sp); /* NULL is fine */
/* Measures; a ballast that was released is made again where there is room. Owner loop; may switch. */
enum err space_open(struct space *s, struct errbuf *eb) MUST_CHECK;
enum err space_start(struct space *s,
                     struct errbuf *eb) MUST_CHECK; /* the fiber; owner */
void space_stop(struct space *s);                   /* owner; switches */

/* May a body of so many bytes (or STORE_SIZE_UNKNOWN) come in? ERR_NO_SPACE with a sentence. */
enum err space_admit(const struct space *s, uint64_t size, struct errbuf *eb) MUST_CHECK;
/* May so many bytes be allocated for objects, so that the reserve stays free? Asks the file system. Any loop. */
enum err space_leaves_reserve(struct space *s, uint64_t bytes,
                              struct errbuf *eb) MUST_CHECK;
/* Something did not fit: no object comes in until there is room again. Any loop. */
void space_ran_out(struct space *s, const char *what);
/* For what has to be written: gives the ballast up. False: it was released before. Owner loop; may switch. */
bool space_give_ballast(struct space *s);
bool space_is_full(const struct space *s);
/* Is less than twice the reserve free? Then compaction does not wait for quiet. */
bool space_is_tight(const struct space *s);

/* ---- counting: any loop ---- */
enum space_writer { SPACE_USER, SPACE_COMPACTION };
void space_appended(struct space *s, enum space_writer who, uint64_t bytes);
enum space_way { SPACE_UNLINK, SPACE_PUNCH, SPACE_COMPACT };
void space_reclaimed(struct space *s, enum space_way how, uint64_t bytes);
