/* writer: what disk_write_begin() and disk_part_begin() share. */
#pragma once
#include "disk/read.h"
#include "disk/segment.h"

/* `upload` NULL and `part` 0: an object. Any loop; may switch. */
enum err writer_begin(struct disk *d, const struct disk_key *k, enum disk_class class,
                      uint64_t size, const struct upload_id *upload, uint32_t part,
                      struct disk_writer **out, struct errbuf *eb) MUST_CHECK;
/* Takes the writer. `out` may be NULL. May switch. */
enum err writer_commit(struct disk_writer **wp, const struct object_meta *meta,
                       const struct disk_condition *condition, struct row *out,
                       struct errbuf *eb) MUST_CHECK;
