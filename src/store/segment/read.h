/* read: bytes of a disk, verified before anybody sees them. Any loop; all may switch. The calls for the rooms
 * above (store_read_begin() …) stand in store_read.h. */
#pragma once
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"

struct manifest;
struct store;

/* One record of a log in memory, its header checked and, where wanted, its payload too. */
struct loaded {
    struct iobuf *buf;
    struct log_record m; /* spans lie in buf; m.body is empty unless it was wanted */
};
/* `entry` names segment and offset, and the content that must be there (all zeros: any). ERR_CORRUPT: something
 * else is there, or a sum is wrong. */
enum err read_log_record(struct store *d, const struct entry *entry, bool want_body,
                         struct loaded *out, struct errbuf *eb) MUST_CHECK;
void loaded_fini(struct loaded *l); /* twice is fine */
/* The same, but what is wrong is neither counted nor logged: the caller asks read_relookup() first. */
enum err read_log_record_quiet(struct store *d, const struct entry *entry, bool want_body,
                               struct loaded *out, struct errbuf *eb) MUST_CHECK;
/* For a caller that reads by itself: how many bytes from the record's header on are asked for, so that one read has all of it; and
 * whether what came (from the header on) is that object's record, whole and as it was written. *body lies in it. */
uint64_t read_first_look(const struct segment *s, const struct entry *entry,
                         bool want_body);
bool read_is_whole(const struct store *d, const struct segment *s,
                   const struct entry *entry, uint64_t bucket, struct span key,
                   struct span have, struct span *body) MUST_CHECK;
/* Something is wrong where `entry` says: was its body moved, or is it gone? ERR_OK: *entry names another place now, try that.
 * ERR_NOT_FOUND: no version of the key has this content any more. ERR_CORRUPT: it does stand there, and is damaged. */
enum err read_relookup(struct store *d, uint64_t bucket, struct span key,
                       struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* A segment as a reader has it: pinned in the table, or opened for it. */
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
/* Reads [from, from + len) into a fresh buffer, both made multiples of 4 KiB; *skip is where `from` lies in it,
 * *have how many bytes are there from `from` on. */
enum err read_span(struct rt_file *f, uint64_t from, uint64_t len, struct deadline by,
                   struct iobuf **out, uint32_t *skip, uint64_t *have,
                   struct errbuf *eb) MUST_CHECK;

/* Sums of a body's blocks, read in windows. */
struct sums {
    struct iobuf *buf;
    const char *at; /* of block `first` */
    uint64_t first, count;
    uint64_t file_offset; /* of the sum of block 0; 0: the header was not read yet */
};
enum err sums_get(struct rt_file *f, const struct entry *entry, uint64_t block,
                  uint64_t count, struct sums *s, const char **out,
                  struct errbuf *eb) MUST_CHECK;
void sums_fini(struct sums *s);
/* Reads a whole body (segment, offset, size and content of `entry`) and compares every block. ERR_CORRUPT: *bad is
 * the first wrong block, and nothing is logged. */
enum err body_is_whole(struct rt_file *f, uint32_t cluster_sum, const struct entry *entry,
                       uint64_t *bad, struct errbuf *eb) MUST_CHECK;

/* Where block 0 of a body's payload lies. */
static inline uint64_t
body_payload(const struct entry *entry)
{
    return entry->place.offset + BODY_HEAD;
}
/* Counts a damage and says it in words: once here, not by the caller. */
enum err read_damage(struct store *d, const struct entry *entry, uint64_t block,
                     struct errbuf *eb);

/* Reads and verifies the manifest of an entry with ENTRY_PARTS. Quiet: damage is neither counted nor logged, the caller asks
 * read_relookup() first. Any loop; may switch. */
enum err manifest_load(struct store *d, const struct entry *entry, struct manifest *out,
                       struct errbuf *eb) MUST_CHECK;
enum err manifest_load_quiet(struct store *d, const struct entry *entry,
                             struct manifest *out, struct errbuf *eb) MUST_CHECK;
