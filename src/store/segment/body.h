/* body: the place of one large body in a body segment: reserved, written, sealed, given back.
 * docs/formats.md, section 6.
 *
 * Reserving, sealing and giving back run on the owner loop; bytes are written by the writer's own fiber, at
 * offsets of the payload that are multiples of 4 KiB.
 */
#pragma once
#include "rt/file.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"

struct segment;
struct store;

struct body {
    struct store *disk; /* borrowed */
    enum store_class class;
    struct segment *segment; /* a reference */
    uint64_t offset;         /* of its header */
    uint64_t span;           /* reserved; after sealing what it takes */
    uint64_t room; /* payload bytes that fit; grows where the length is unknown */
    bool growing;
    bool
        finished; /* its final header may stand there, whatever the caller reports of the body */
    bool sealed;
    uint64_t
        sync_wanted; /* owner: number of the sync that makes it durable; 0: of the next one */
    bool moves; /* compaction's: written in the background, made durable by body_sync() */
    struct log_record head; /* what its header says; spans are borrowed from the caller */
};

/* Writes the header of the dead over the one of a place: `span` bytes at `offset` that no record names. Not synced. May
 * switch. */
enum err body_mark_dead(struct segment *s, uint64_t offset,
                        const struct content_id *content, uint64_t span,
                        enum rt_class class, struct errbuf *eb) MUST_CHECK;

/* What a body of `size` reserves. */
uint64_t body_span(uint64_t size);

/* Reserves for head->content, head->key and so on; `size` may be STORE_SIZE_UNKNOWN. Any loop; may switch. */
enum err body_reserve(struct store *d, enum store_class class,
                      const struct log_record *head, uint64_t size, struct body *out,
                      struct errbuf *eb) MUST_CHECK;
/* Writes whole 4 KiB of payload at `at`, which stand in `data` from `from` on; makes room where the length was unknown. May
 * switch; where it makes no room, several at once. */
enum err body_write(struct body *b, uint64_t at, struct iobuf *data, uint32_t from,
                    uint32_t len, struct errbuf *eb) MUST_CHECK;
/* The rest of the payload (tail: its bytes from the last multiple of 4 KiB on), the sums, the final header;
 * then, native, one sync. `sums` holds be32 each. May switch. */
enum err body_seal(struct body *b, uint64_t size, struct span tail, struct span sums,
                   const struct object_meta *meta, struct errbuf *eb) MUST_CHECK;
/* Of one that moves, after the seal: native, what was sealed in its segment until now is durable. May switch. */
enum err body_sync(struct body *b, struct errbuf *eb) MUST_CHECK;
struct place body_place(const struct body *b);
/* It has a record: only references are dropped. */
void body_keep(struct body *b);
/* It has none: the place is given back. May switch. */
void body_release(struct body *b);
/* The outcome is unknown: place and segment stay as they are until the next start. */
void body_leave(struct body *b);
