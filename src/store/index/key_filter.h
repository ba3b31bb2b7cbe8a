/* key_filter: a Bloom filter over the keys of index and memtable. Most log records, and most PUTs, are of a new key; a few words of
 * memory then save a lookup in every run of the memtable and one in LMDB.
 *
 * After key_filter_complete() "absent" is always right; "present" is wrong for a small share of keys. Filled by a replay into an empty
 * index, or from the index behind a start (key_filter_fill.h), and by every change of an object. Owner loop only.
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
/* Prefetches the word that key_filter_maybe() will read. */
void key_filter_prefetch(const struct key_filter *k, uint64_t hash);
/* All present keys are added: from now on a key that was not added does not exist. */
void key_filter_complete(struct key_filter *k);
bool key_filter_is_complete(const struct key_filter *k);
