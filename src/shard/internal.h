/* internal: what the files of the shard room share. */
#pragma once
#include "base/list.h"
#include "rt/sync.h"
#include "shard/cache.h"
#include "shard/decode.h"
#include "shard/files.h"
#include "shard/member.h"

struct shard_service {
    struct object_service *object;
    struct shard_cache *cache; /* owned */
    struct shard_files *files; /* owned; NULL: indexes are kept in memory only */
    struct list *builds;       /* one a loop: indexes under construction there; owned */
};

/* An open archive with its index, where its format has one. */
struct shard_open {
    struct shard_object object;
    enum shard_format format;
    struct shard_index *index; /* one reference; NULL: not indexed */
};
/* ERR_NOT_FOUND with *replaced: begin again. */
enum err shard_open_archive(struct shard_service *s, const struct shard_ask *ask,
                            struct shard_open *out, struct errbuf *eb) MUST_CHECK;
void shard_close_archive(struct shard_open *o);

/* extract.c: the bytes of one entry of an indexed archive. */
struct shard_extract {
    struct shard_input *in; /* borrowed */
    struct shard_entry entry;
    struct span name;              /* borrowed: for errors */
    struct shard_decoder *decoder; /* owned; NULL: stored */
    struct span raw;
    uint64_t raw_left;   /* stored bytes that were not received */
    uint64_t skip, left; /* of the member, before and of the range */
    uint64_t made;       /* decoded bytes */
    uint32_t crc;
    bool is_zip;
};
enum err extract_begin(struct shard_extract *x, struct shard_input *in,
                       const struct shard_index *ix, const struct shard_entry *e,
                       uint64_t first, uint64_t len, struct errbuf *eb) MUST_CHECK;
enum err extract_next(struct shard_extract *x, struct span *piece,
                      struct errbuf *eb) MUST_CHECK;
void extract_end(struct shard_extract *x);
