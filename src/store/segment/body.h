/* body: the place of one large body in a body segment, from reservation to seal or release.
 * docs/formats.md, section 6.
 *
 * Reserving, sealing and releasing run on the owner loop. The writer's own fiber writes the
 * bytes, at payload offsets that are multiples of 4 KiB.
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
    uint64_t span;           /* bytes reserved; after the seal, bytes occupied */
    uint64_t room;           /* payload bytes that fit; grows if the length is unknown */
    bool growing;
    bool finished; /* the final header may be on disk, whatever the caller reports */
    bool sealed;
    uint64_t
        sync_wanted; /* owner: number of the sync that makes it durable; 0: next one */
    bool moves; /* a relocation: written in the background, made durable by body_sync() */
    /* Contents of its header; spans are borrowed from the caller. */
    struct log_record head;
};

/* Overwrites the header of a place with a dead record: `span` bytes at `offset` that no log
 * record names. Not synced. May switch. */
enum err body_mark_dead(struct segment *s, uint64_t offset,
                        const struct content_id *content, uint64_t span,
                        enum rt_class class, struct errbuf *eb) MUST_CHECK;

/* Returns the bytes to reserve for a body of `size`. */
uint64_t body_span(uint64_t size);

/* Reserves a place for head->content, head->key and so on. `size` may be STORE_SIZE_UNKNOWN. Any
 * loop; may switch. */
enum err body_reserve(struct store *d, enum store_class class,
                      const struct log_record *head, uint64_t size, struct body *out,
                      struct errbuf *eb) MUST_CHECK;
/* Writes payload in units of 4 KiB at `at`; the bytes are in `data` from `from` on. Extends the
 * place if the length is unknown. May switch. Calls may overlap if they do not extend the place. */
enum err body_write(struct body *b, uint64_t at, struct iobuf *data, uint32_t from,
                    uint32_t len, struct errbuf *eb) MUST_CHECK;
/* Writes the rest of the payload (`tail`: from the last multiple of 4 KiB on), the sums and the
 * final header. A native body is then synced. `sums` holds be32 each. May switch. */
enum err body_seal(struct body *b, uint64_t size, struct span tail, struct span sums,
                   const struct object_meta *meta, struct errbuf *eb) MUST_CHECK;
/* For a relocated native body, after the seal: makes everything sealed in its segment so far
 * durable. May switch. */
enum err body_sync(struct body *b, struct errbuf *eb) MUST_CHECK;
struct place body_place(const struct body *b);
/* Ends a body that has a log record: drops the references only. */
void body_keep(struct body *b);
/* Ends a body without a log record: releases its place. May switch. */
void body_release(struct body *b);
/* Ends a body whose outcome is unknown: place and segment stay unchanged until the next start. */
void body_leave(struct body *b);
