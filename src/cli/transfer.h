/* transfer: bytes of one object between here and a server, checked on the way. */
#pragma once
#include "cli/local.h"
#include "cli/session.h"

#define PART_BYTES     (16u << 20)
#define MULTIPART_FROM (64u << 20) /* larger files go up in parts, several at a time */
#define PARTS_AT_ONCE  4

/* Reads the object and gives each piece to `take`; lengths and, where the ETag is an MD5, the bytes are verified: a mismatch
 * is ERR_BAD_DIGEST. */
typedef enum err take_piece(void *arg, uint64_t offset, struct iobuf *piece, uint32_t len,
                            struct errbuf *eb);
enum err transfer_get(struct session *s, const struct place *from, take_piece *take,
                      void *arg, struct progress *p, struct errbuf *eb) MUST_CHECK;
enum err transfer_down(struct session *s, const struct place *from, const char *path,
                       struct progress *p, struct errbuf *eb) MUST_CHECK;
enum err transfer_up(struct session *s, const char *path, const struct place *to,
                     struct progress *p, struct errbuf *eb) MUST_CHECK;
/* From standard input, of unknown length. */
enum err transfer_up_stdin(struct session *s, const struct place *to, struct progress *p,
                           struct errbuf *eb) MUST_CHECK;
/* Through here: servers that copy by themselves come with CopyObject. */
enum err transfer_across(struct session *s, const struct place *from,
                         const struct place *to, struct progress *p,
                         struct errbuf *eb) MUST_CHECK;
