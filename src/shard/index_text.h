/* index_text: what a shard holds, for other programs: as JSON, as an index of WebDataset's wids, as an index of DALI. No I/O of its
 * own; may switch where the sink does.
 *
 * wids and DALI see samples: members that follow each other and share a name up to the first dot of its last component. Members
 * without that dot belong to no sample; DALI also leaves out those with nothing before or behind it.
 */
#pragma once
#include "shard/index.h"
#include "shard/write.h"

enum shard_text { SHARD_TEXT_JSON, SHARD_TEXT_WIDS, SHARD_TEXT_DALI };
/* "json", "wids", "dali". False: none of them. */
bool shard_text_of(struct span name, enum shard_text *out);

struct shard_about {
    struct span name; /* of the shard, for JSON */
    struct span url;  /* for wids */
    struct span etag; /* without quotes */
    uint64_t size;
    bool etag_is_md5;
};
/* Writes the whole. ERR_BAD_REQUEST: this form cannot say it: wids and DALI of a zip, a name with a space for DALI; nothing was written
 * then. */
enum err shard_index_text(const struct shard_index *x, enum shard_text form,
                          const struct shard_about *about, struct shard_sink sink,
                          struct errbuf *eb) MUST_CHECK;
/* Samples as wids counts them. */
uint64_t shard_index_samples(const struct shard_index *x);
