/* read: verified bytes of a disk. Any loop; all calls may switch. The calls for the rooms above
 * (store_read_begin() …) are in store_read.h. */
#pragma once
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"

struct manifest;
struct store;

/* One log record in memory. Its header is verified; its payload too, if requested. */
struct loaded {
    struct iobuf *buf;
    struct log_record m; /* spans lie in buf; m.body is empty unless requested */
};
/* Reads a record. `entry` gives segment, offset and the expected content (all zeros: any).
 * ERR_CORRUPT: another record is there, or a sum is wrong. */
enum err read_log_record(struct store *d, const struct entry *entry, bool want_body,
                         struct loaded *out, struct errbuf *eb) MUST_CHECK;
void loaded_fini(struct loaded *l); /* idempotent */
/* The same, but neither counts nor logs damage: the caller calls read_relookup() first. */
enum err read_log_record_quiet(struct store *d, const struct entry *entry, bool want_body,
                               struct loaded *out, struct errbuf *eb) MUST_CHECK;
/* For a caller that reads by itself. The first returns how many bytes to read from the record's
 * header on, so that one read gets all of it. The second verifies that the bytes read are that
 * object's whole record; *body points into them. */
uint64_t read_first_look(const struct segment *s, const struct entry *entry,
                         bool want_body);
bool read_is_whole(const struct store *d, const struct segment *s,
                   const struct entry *entry, uint64_t bucket, struct span key,
                   struct span have, struct span *body) MUST_CHECK;
/* Call after a failed read of `entry`: finds out whether its body was moved or deleted. ERR_OK:
 * *entry names the new place, try again. ERR_NOT_FOUND: no version of the key has this content
 * any more. ERR_CORRUPT: the place is still right, and damaged. */
enum err read_relookup(struct store *d, uint64_t bucket, struct span key,
                       struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* A segment as a reader uses it: pinned in the table, or opened by name. */
struct read_file {
    struct segment *pin;
    struct rt_file *own;
};
enum err read_file_open(struct store *d, const struct entry *entry, struct read_file *out,
                        struct errbuf *eb) MUST_CHECK;
void read_file_close(struct read_file *f);
static inline struct rt_file *
read_file_of(const struct read_file *f)
{
    return f->own != NULL ? f->own : f->pin->file;
}
/* Reads [from, from + len), rounded out to multiples of 4 KiB, into a new buffer. *skip is the
 * offset of `from` in it, *have the number of bytes from `from` on. */
enum err read_span(struct rt_file *f, uint64_t from, uint64_t len, struct deadline by,
                   struct iobuf **out, uint32_t *skip, uint64_t *have,
                   struct errbuf *eb) MUST_CHECK;

/* The sums of a body's blocks, read in windows. */
struct sums {
    struct iobuf *buf;
    const char *at; /* of block `first` */
    uint64_t first, count;
    uint64_t file_offset; /* of the sum of block 0; 0: header not read yet */
};
enum err sums_get(struct rt_file *f, const struct entry *entry, uint64_t block,
                  uint64_t count, struct sums *s, const char **out,
                  struct errbuf *eb) MUST_CHECK;
void sums_fini(struct sums *s);
/* Reads a whole body (segment, offset, size and content of `entry`) and verifies every block.
 * ERR_CORRUPT: *bad is the first wrong block; nothing is logged. */
enum err body_is_whole(struct rt_file *f, uint32_t cluster_sum, const struct entry *entry,
                       uint64_t *bad, struct errbuf *eb) MUST_CHECK;

/* File offset of block 0 of a body's payload. */
static inline uint64_t
body_payload(const struct entry *entry)
{
    return entry->place.offset + BODY_HEAD;
}
/* Counts and logs damage. The caller must not do so again. */
enum err read_damage(struct store *d, const struct entry *entry, uint64_t block,
                     struct errbuf *eb);

/* Reads and verifies the manifest of an entry with ENTRY_PARTS. Damage is neither counted nor
 * logged: the caller calls read_relookup() first. Any loop; may switch. */
enum err manifest_load(struct store *d, const struct entry *entry, struct manifest *out,
                       struct errbuf *eb) MUST_CHECK;
enum err manifest_load_quiet(struct store *d, const struct entry *entry,
                             struct manifest *out, struct errbuf *eb) MUST_CHECK;
