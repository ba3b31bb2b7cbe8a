/* index: name, place and size of every member of a tar or zip. Immutable once built, counted; any thread reads it.
 *
 * Only regular files are members. Of two members of one name the first counts, in every format.
 */
#pragma once
#include "shard/format.h"
#include "shard/input.h"

#define SHARD_MEMBERS_MAX     4000000u
#define SHARD_INDEX_BYTES_MAX (128u << 20) /* of one index */

struct shard_entry {
    uint64_t offset; /* tar: of the payload; zip: of the local header */
    uint64_t size;
    uint64_t stored; /* bytes in the archive; zip: compressed */
    int64_t mtime_s;
    uint32_t crc; /* zip */
    uint32_t name_at;
    uint16_t name_len;
    uint16_t method; /* zip */
};
struct shard_index {
    _Atomic unsigned refs;
    enum shard_format format;
    uint32_t count, room;
    struct shard_entry *entries; /* owned; in the order of the archive */
    char *names;                 /* owned */
    size_t names_len, names_room;
    uint32_t *table; /* owned; open addressing: entry + 1 */
    uint32_t mask;
};
/* Reads the archive's heads or directory. ERR_BAD_REQUEST: it is none, or lies about itself; ERR_TOO_LARGE: a limit above. May
 * switch. On ERR_OK the caller owns one reference. */
enum err shard_index_build(struct shard_input *in, enum shard_format f,
                           struct shard_index **out, struct errbuf *eb) MUST_CHECK;
/* The same from entries at hand: new, then add in the order of the archive (`name_at` and `name_len` are set here), then seal. */
struct shard_index *shard_index_new(enum shard_format f);
enum err shard_index_add(struct shard_index *x, const struct shard_entry *e,
                         struct span name, struct errbuf *eb) MUST_CHECK;
void shard_index_seal(struct shard_index *x);
struct shard_index *shard_index_ref(struct shard_index *x);
void shard_index_drop(struct shard_index **xp); /* NULL is fine */
size_t shard_index_bytes(const struct shard_index *x);
/* NULL: no such member. */
const struct shard_entry *shard_index_find(const struct shard_index *x, struct span name);
static inline struct span
shard_entry_name(const struct shard_index *x, const struct shard_entry *e)
{
    return (struct span){x->names + e->name_at, e->name_len};
}
