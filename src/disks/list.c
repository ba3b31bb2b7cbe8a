/* Listings. */
#include "disks/internal.h"

enum err
disks_list(struct disks *ds, uint64_t bucket, struct span after, bool inclusive,
           uint32_t max, struct arena *a, struct disk_entry **out, uint32_t *count,
           bool *more, struct errbuf *eb)
{
    return disk_list(only_disk(ds), bucket, after, inclusive, max, a, out, count, more,
                     eb);
}

enum err
disks_upload_list(struct disks *ds, uint64_t bucket, struct span after_key,
                  const struct upload_id *after_id, uint32_t max, struct arena *a,
                  struct disk_upload **out, uint32_t *count, bool *more,
                  struct errbuf *eb)
{
    return disk_upload_list(only_disk(ds), bucket, after_key, after_id, max, a, out,
                            count, more, eb);
}

enum err
disks_bucket_empty(struct disks *ds, uint64_t bucket, bool *empty, struct errbuf *eb)
{
    return disk_bucket_empty(only_disk(ds), bucket, empty, eb);
}
