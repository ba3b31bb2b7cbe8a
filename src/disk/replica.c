/* One disk's copy of a version that was decided elsewhere: it comes, it goes. */
#include <assert.h>

#include "disk/commit.h"
#include "disk/writer.h"

enum err
disk_commit_copy(struct disk_writer **wp, const struct object_meta *meta,
                 const struct row *row, struct errbuf *eb)
{
    struct commit c = {.version = row->version, .born = row->born};

    assert(content_eq(disk_writer_content(*wp), &row->content));
    return writer_submit(wp, meta, &c, eb);
}

enum err
disk_forget(struct disk *d, const struct disk_key *k, const struct version *v,
            struct errbuf *eb)
{
    struct commit c = {.kind = MEMBER_OBSOLETE, .key = k, .version = *v};

    return commit_submit(d, DISK_NATIVE, &c, eb);
}
