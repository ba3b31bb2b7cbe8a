/* known: which keys the index and the tail may hold. Most records of a log, and most PUTs, are of a new key; knowing that
 * from a few words of memory saves a look into every run of the tail and one into LMDB.
 *
 * "Not met" is always right once every key that was there has been added (known_complete()); "met" may be wrong for one key
 * in some. Filled by the replay into an empty index, or from the index behind a start (known_fill.h), and by whatever
 * changes an object. The loop of the disk only.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct known;
/* For about so many bytes of logs at first; it grows with what is added, up to 16 MiB of memory. */
struct known *known_new(uint64_t log_bytes);
void known_free(struct known **kp); /* NULL is fine */
void known_add(struct known *k, uint64_t hash);
bool known_maybe(const struct known *k, uint64_t hash);
/* It will be asked for soon. */
void known_prefetch(const struct known *k, uint64_t hash);
/* From now on what was not added is not there. */
void known_complete(struct known *k);
bool known_is_complete(const struct known *k);
