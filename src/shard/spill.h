/* spill: records in temporary files of a folder, for work that does not fit into memory. Each record has a sum, and a file an end mark.
 *
 *     be32 length, be32 CRC-32C of the payload, payload; at the end be32 0xffffffff
 *
 * A file may also hold plain bytes (spill_raw()), whose reader knows offset, size and sum.
 * Fibers: one for each writer or reader, of one loop. Everything may switch.
 */
#pragma once
#include "base/buf.h"
#include "rt/file.h"

#define SPILL_RECORD_MAX (16u << 20)

struct spill_writer;
enum err spill_create(struct rt_dir *dir, const char *name, struct spill_writer **out,
                      struct errbuf *eb) MUST_CHECK;
enum err spill_put(struct spill_writer *w, struct span payload,
                   struct errbuf *eb) MUST_CHECK;
enum err spill_raw(struct spill_writer *w, struct span bytes,
                   struct errbuf *eb) MUST_CHECK;
uint64_t spill_size(const struct spill_writer *w); /* where the next bytes go */
/* Writes the end mark and syncs. Takes it: *wp is NULL afterwards. */
enum err spill_end(struct spill_writer **wp, struct errbuf *eb) MUST_CHECK;
void spill_abort(struct spill_writer **wp); /* NULL is fine */

struct spill_reader;
enum err spill_open(struct rt_dir *dir, const char *name, struct spill_reader **out,
                    struct errbuf *eb) MUST_CHECK;
void spill_seek(struct spill_reader *r, uint64_t offset); /* of a record */
uint64_t spill_at(const struct spill_reader *r);          /* of the next record */
/* The next record, valid until the next call; *end: the end mark. ERR_CORRUPT: a wrong sum, or no end mark. */
enum err spill_next(struct spill_reader *r, struct span *payload, bool *end,
                    struct errbuf *eb) MUST_CHECK;
/* Plain bytes at `offset`, at most `most`; at least one, or ERR_CORRUPT. Valid until the next call. */
enum err spill_bytes(struct spill_reader *r, uint64_t offset, uint64_t most,
                     struct span *out, struct errbuf *eb) MUST_CHECK;
void spill_close(struct spill_reader **rp); /* NULL is fine */

/* Removes every file of the folder whose name begins so. */
enum err spill_remove(struct rt_dir *dir, const char *prefix,
                      struct errbuf *eb) MUST_CHECK;
