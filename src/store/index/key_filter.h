/* key_filter: which keys the index and the memtable may hold. Most records of a log, and most PUTs, are of a new key; knowing that
 * from a few words of memory saves a look into every run of the memtable and one into LMDB.
 *
 * "Not met" is always right once every key that was there has been added (key_filter_complete()); "met" may be wrong for one key
 * in some. Filled by the replay into an empty index, or from the index behind a start (key_filter_fill.h), and by whatever
 * changes an object. The loop of the disk only.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct key_filter;
/* For about so many bytes of logs at first; it grows with what is added, up to 16 MiB of memory. */
struct key_filter *key_filter_new(uint64_t log_bytes);
void key_filter_free(struct key_filter **kp); /* NULL is fine */
void key_filter_add(struct key_filter *k, uint64_t hash);
bool key_filter_maybe(const struct key_filter *k, uint64_t hash);
/* It will be asked for soon. */
void key_filter_prefetch(const struct key_filter *k, uint64_t hash);
/* From now on what was not added is not there. */
void key_filter_complete(struct key_filter *k);
bool key_filter_is_complete(const struct key_filter *k);
