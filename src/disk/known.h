/* known: which keys the replay into an empty index has met so far. Most records of a log are of a new key; knowing that
 * from one word of memory saves a look into every run of the tail and one into LMDB.
 *
 * "Not met" is always right; "met" may be wrong for one key in some. The loop of the disk only.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct known;
/* For about so many bytes of logs; 4 KiB to 16 MiB of memory. */
struct known *known_new(uint64_t log_bytes);
void known_free(struct known **kp); /* NULL is fine */
void known_add(struct known *k, uint64_t hash);
bool known_maybe(const struct known *k, uint64_t hash);
/* It will be asked for soon. */
void known_prefetch(const struct known *k, uint64_t hash);
