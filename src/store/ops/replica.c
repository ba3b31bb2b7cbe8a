/* One disk's copy of a version that was committed elsewhere: it comes, it goes. */
#include <assert.h>

#include "store/ops/writer.h"
#include "store/wal/commit.h"

enum err
store_commit_replica(struct store_writer **wp, const struct object_meta *meta,
                     const struct entry *entry, struct errbuf *eb)
{
    struct commit c = {.version = entry->version, .born = entry->born};

    assert(content_eq(store_writer_content(*wp), &entry->content));
    return writer_submit(wp, meta, &c, eb);
}

enum err
store_drop_replica(struct store *d, const struct store_key *k, const struct version *v,
                   struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_OBSOLETE, .key = k, .version = *v};

    return commit_submit(d, STORE_NATIVE, &c, eb);
}
