/* transfer: bytes of one object between here and a server, verified on the way; inside a flow, which schedules and retries. */
#pragma once
#include "cli/files.h"
#include "cli/flow.h"

#define PART_BYTES     (16u << 20)
#define MULTIPART_FROM (32u << 20) /* larger ones go in parts, several at a time */
#define PARTS_AT_ONCE  8
#define PARTS_MAX      10000

/* The version that was copied, for a caller that removes the source. Zero-initialised. */
struct transfer_seen {
    char *etag; /* owned by the caller: free(); NULL: none is known */
    bool stale; /* the server could not ask the bucket's remote */
};
/* it->from is a file, "-" or a key; it->to likewise. One of both is remote. Interrupted large transfers resume.
 * `seen` may be NULL, here and below. */
enum err transfer_item(struct flow *f, const struct item *it, struct transfer_seen *seen,
                       struct errbuf *eb) MUST_CHECK;

enum err transfer_up(struct flow *f, const struct item *it, struct errbuf *eb) MUST_CHECK;
enum err transfer_up_parts(struct flow *f, const struct item *it, struct files_file *file,
                           struct errbuf *eb) MUST_CHECK;
/* From standard input, of unknown length. */
enum err transfer_up_stdin(struct flow *f, const struct item *it,
                           struct errbuf *eb) MUST_CHECK;
enum err transfer_down(struct flow *f, const struct item *it, struct transfer_seen *seen,
                       struct errbuf *eb) MUST_CHECK;
enum err transfer_down_parts(struct flow *f, const struct item *it,
                             const struct s3_object_info *info,
                             struct errbuf *eb) MUST_CHECK;
/* From key to key: a copy within the server, or else through this client. */
enum err transfer_across(struct flow *f, const struct item *it,
                         struct transfer_seen *seen, struct errbuf *eb) MUST_CHECK;
/* Through here, from the session's server to that of its `to`. */
enum err transfer_between(struct flow *f, const struct item *it,
                          struct transfer_seen *seen, struct errbuf *eb) MUST_CHECK;
/* Fills in `seen`. */
void transfer_saw(struct transfer_seen *seen, const struct s3_object_info *info);

/* One part of an upload, or a whole object when put->upload_id is empty: from memory, or from `file` at `offset`. Its ETag must be
 * the MD5 of what was sent; *etag lies in the arena. */
struct transfer_piece {
    struct files_file *file; /* borrowed; NULL: `bytes` */
    const char *bytes;
    const unsigned char *md5; /* of all that is sent, where known; else NULL */
    uint64_t offset;
};
enum err transfer_put(struct flow *f, const struct s3_put *put,
                      const struct transfer_piece *from, struct arena *a,
                      struct span *etag, struct errbuf *eb) MUST_CHECK;

/* Of the name: "image/png"; NULL when there is none to guess. */
const char *transfer_type(const char *name);

/* ---- one object as a stream, outside of flows: cat, head, diff ---- */

/* Each piece in order. Not ERR_OK ends it; ERR_NOT_MODIFIED ends it without being an error. */
typedef enum err transfer_take(void *arg, const char *at, size_t len, struct errbuf *eb);
struct stream_range {
    bool set;
    uint64_t first,
        last; /* last inclusive; UINT64_MAX: open. first UINT64_MAX: the last `last` bytes */
};
/* A broken transfer resumes where it broke, with the same version. A whole object is verified by its ETag or checksum. */
enum err transfer_stream(struct session *s, struct span bucket, struct span key,
                         const struct stream_range *range, transfer_take *take, void *arg,
                         struct errbuf *eb) MUST_CHECK;
transfer_take transfer_to_stdout;
/* A GET failed when the object's bytes up to `at` had come. ERR_CORRUPT with a sentence, and no retry, when the server says that what
 * it stores is damaged; a body that was cut is asked for again from there to find out. Else `rc`. May switch. */
enum err transfer_damage(struct s3_client *s3, const struct s3_get *get, uint64_t at,
                         enum err rc, struct s3_failure *f, struct errbuf *eb);
