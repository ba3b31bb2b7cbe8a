/* writer: shared by store_write_begin() and store_part_begin(). */
#pragma once
#include "store/segment/read.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"

struct store;
struct store_condition;
struct upload_id;

/* `upload` NULL and `part` 0: an object. Any loop; may switch. */
enum err writer_begin(struct store *d, const struct store_key *k, enum store_class class,
                      uint64_t size, const struct upload_id *upload, uint32_t part,
                      struct store_writer **out, struct errbuf *eb) MUST_CHECK;
/* The same with a content id minted before; NULL: a new one. */
enum err writer_begin_as(struct store *d, const struct store_key *k,
                         enum store_class class, uint64_t size,
                         const struct content_id *content, const struct upload_id *upload,
                         uint32_t part, struct store_writer **out,
                         struct errbuf *eb) MUST_CHECK;
struct commit;
/* Takes the writer. `c` has the kind (0: put, commit or part, depending on the body), condition
 * and version. Body and names come from the writer; the result is in `c`. May switch. */
enum err writer_submit(struct store_writer **wp, const struct object_meta *meta,
                       struct commit *c, struct errbuf *eb) MUST_CHECK;
#ifdef FB_TEST_HOOKS
extern bool writer_loses_early_writes; /* test: a deliberate bug: early writes are lost */
#endif
/* Takes the writer. `out` may be NULL. May switch. */
enum err writer_commit(struct store_writer **wp, const struct object_meta *meta,
                       const struct store_condition *condition, struct entry *out,
                       struct errbuf *eb) MUST_CHECK;
