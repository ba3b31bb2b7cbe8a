/* proof: do the bytes of a remote match what it says of them (promise I6)?
 *
 * An ETag that is an MD5, or a FULL_OBJECT checksum, verifies a whole object. proof_add() takes the bytes in order, and
 * proof_end() compares when all have come. A reader gets the last HELD_BACK bytes only behind proof_end(), so an answer with
 * wrong bytes never looks complete.
 *
 * Fibers: of one loop from proof_begin() to proof_fini(). proof_add(), proof_drain() and proof_read() may switch.
 */
#pragma once
#include "object/hasher.h"
#include "object/internal.h"
#include "wire/checksum.h"

struct s3_object_info;

struct proof {
    struct object_service *s;
    bool is_md5; /* the ETag is an MD5 */
    struct hash_stream md5;
    struct checksum sum; /* FULL_OBJECT, from the backend */
    uint64_t got, size;
    unsigned char want_md5[16];
    unsigned char want_sum[32];
    size_t want_sum_len; /* 0: no checksum */
};

/* Is the ETag of this answer an MD5 of its bytes? Fills the field of struct object_info. */
bool proof_etag_is_md5(const struct object_meta *m, const struct s3_object_info *from);
/* Does the remote say anything that verifies the whole object? */
bool proof_is_possible(const struct object_info *info);
/* Borrows nothing of `info`. proof_fini() in every case; a zeroed one is fine for that. */
void proof_begin(struct proof *p, struct object_service *s,
                 const struct object_info *info);
/* The bytes stay borrowed while proof_lags(). */
void proof_add(struct proof *p, const void *data, size_t len);
bool proof_lags(const struct proof *p);
/* Waits until no bytes are borrowed. */
void proof_drain(struct proof *p);
/* All bytes were added: ERR_BACKEND if the length, the MD5 or the checksum differs. */
enum err proof_end(struct proof *p, struct span key, struct errbuf *eb) MUST_CHECK;
void proof_fini(struct proof *p);

/* Reads up to `len` bytes to `at`; n = 0 is not possible. */
typedef enum err proof_source(void *arg, char *at, size_t len, size_t *n,
                              struct errbuf *eb);
/* The next piece of a body into `buf`, n bytes: the last HELD_BACK bytes in one piece, after proof_end(). */
enum err proof_read(struct proof *p, struct span key, struct iobuf *buf,
                    proof_source *source, void *arg, size_t *n,
                    struct errbuf *eb) MUST_CHECK;
