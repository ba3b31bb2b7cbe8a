/* format: the archive formats of shards, by name and by media type. Pure; any thread. */
#pragma once
#include <stdbool.h>

#include "base/span.h"

enum shard_format {
    SHARD_NONE,
    SHARD_TAR,
    SHARD_TGZ,
    SHARD_TAR_LZ4,
    SHARD_ZIP,
    SHARD_FORMATS_
};

/* By extension: .tar, .tgz, .tar.gz, .tar.lz4, .zip. SHARD_NONE: no archive. */
enum shard_format shard_format_of_name(struct span name);
/* By what a client names: an extension with or without its dot, or a media type. */
enum shard_format shard_format_of_mime(struct span mime);
/* Has it places of members that can be read alone? */
static inline bool
shard_format_is_indexed(enum shard_format f)
{
    return f == SHARD_TAR || f == SHARD_ZIP;
}
const char *shard_format_extension(enum shard_format f); /* ".tar" */
const char *shard_format_media(enum shard_format f);     /* "application/x-tar" */

/* "a/b.tar/c" is member "c" of "a/b.tar": splits behind the first component that has the extension of an archive. False: there is
 * none. */
bool shard_path_split(struct span path, struct span *key, struct span *member);
/* The key of a WebDataset sample: the name without what follows the first dot of its last component. */
struct span shard_sample_key(struct span name);
