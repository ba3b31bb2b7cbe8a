/* tar: heads of ustar and pax members, written and read. One module for segments, shards
 * and batches.
 *
 * A head is everything in front of a member's payload: a pax header with its records
 * where there are any, then the ustar header. The payload follows, filled with zeros to a
 * multiple of 512; two blocks of zeros end an archive. Written heads are deterministic:
 * the same member gives the same bytes.
 *
 *     [ ustar 'x' 512 | pax records, filled to 512 ]  ustar 512  payload, filled to 512
 *
 * Metadata of ours travels in the pax keyword SCHILY.xattr.user.forebay, which GNU tar
 * takes without a word. Where a writer needs a head of a certain length (log groups end
 * at multiples of 4 KiB, bodies start there), the pax header is filled up with a
 * `comment` record.
 *
 * The reader takes heads of any tar: old, ustar, GNU (long names, base-256 sizes), pax
 * (path, size, mtime, linkpath, xattr). Sparse members and continued volumes are refused.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define TAR_BLOCK         512
#define TAR_PATH_MAX      4096
#define TAR_SHORT_PATH    100 /* stands whole in a ustar header */
#define TAR_XATTR_KEYWORD "SCHILY.xattr.user.forebay"
#define TAR_HEAD_MAX      (256 * 1024) /* bytes of one head that the reader will look at */

static inline uint64_t
tar_padding(uint64_t size) /* zeros behind a payload */
{
    return (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

enum tar_type { TAR_FILE, TAR_DIR, TAR_SYMLINK, TAR_HARDLINK, TAR_OTHER };

/* ---- Writing ---- */

struct tar_member {
    struct span path;   /* no NUL; not empty; at most TAR_PATH_MAX */
    uint64_t size;      /* of the payload; 0 for directories */
    int64_t mtime_s;    /* 0.. */
    unsigned mode;      /* 0644 when 0 */
    enum tar_type type; /* TAR_FILE or TAR_DIR */
    struct span xattr;  /* the forebay value, any bytes; none when empty */
};
/* The length of the shortest head: a multiple of TAR_BLOCK. */
size_t tar_head_len(const struct tar_member *m);
/* Whether a head of `len` bytes can be made: the shortest, or longer by a multiple of 512
 * (a member that needs no pax header otherwise can't be longer by exactly 512). */
bool tar_head_len_ok(const struct tar_member *m, size_t len);
/* Writes a head of exactly `len` bytes; asserts tar_head_len_ok(). 0: the shortest. Returns where in the head the
 * forebay value stands; 0: there is none, or `out` is full. */
size_t tar_put_head(struct buf *out, const struct tar_member *m, size_t len);
/* Another member of the same size, mode and length of path: `ustar` is the last block of a head that tar_put_head() wrote for
 * a path of at most TAR_SHORT_PATH bytes. `name` replaces what stands at `at` of the path. `rest`: tar_rest_sum() of the
 * block, which is the same for all of them. */
void tar_fill_head(char *ustar, size_t at, struct span name, int64_t mtime_s,
                   uint64_t rest);
/* `rest` for a block whose path has `len` bytes at `at` that change. */
uint64_t tar_rest_sum(const char *ustar, size_t at, size_t len);
/* Zeros behind a payload of `size` bytes; two blocks of them behind the last member. */
void tar_put_padding(struct buf *out, uint64_t size);
void tar_put_end(struct buf *out);
/* May `key` be a path that every tar extracts where it belongs: relative, no "..", ".",
 * "//" or control bytes, valid UTF-8, components up to 255, no slash at the end. */
bool tar_path_safe(struct span key);

/* ---- Reading ---- */

enum tar_got {
    TAR_GOT_HEAD, /* *out is filled */
    TAR_GOT_MORE, /* the window is too short: out->need bytes are wanted */
    TAR_GOT_ZERO, /* a block of zeros: the end of an archive, if another follows */
    TAR_GOT_BAD,  /* the sentence says why */
};
struct tar_head {
    size_t head_len; /* payload begins here in the window */
    size_t need;
    uint64_t size; /* of the payload; 0 where the type has none */
    int64_t mtime_s;
    unsigned mode;
    enum tar_type type;
    char type_flag;    /* as written */
    struct span path;  /* borrows from the window, or `joined` */
    struct span link;  /* of links */
    struct span xattr; /* the forebay value */
    char joined[260];  /* prefix "/" name */
};
/* Reads the head at the front of `window`; everything in *out borrows from it (and from
 * *out itself: don't copy the struct). Never looks at more than TAR_HEAD_MAX bytes. */
enum tar_got tar_head_read(struct span window, struct tar_head *out, struct errbuf *eb);
/* The same for a head that has a sum over all of it, which the caller compares before trusting it: tar's own
 * checksums, 512 additions each, are not asked for. */
enum tar_got tar_head_read_summed(struct span window, struct tar_head *out,
                                  struct errbuf *eb);

/* A whole archive at any split: heads are gathered in a buffer of the reader, payload is
 * handed out in place. */
struct tar_reader {
    struct buf gathered; /* owned */
    struct tar_head head;
    uint64_t data_left, skip_left;
    unsigned char state;
};
enum tar_event { TAR_MORE, TAR_MEMBER, TAR_DATA, TAR_END, TAR_BAD };
void tar_reader_init(struct tar_reader *r);
void tar_reader_fini(struct tar_reader *r);
/* TAR_MEMBER: r->head is the next member's. TAR_DATA: *data is a piece of its payload.
 * TAR_MORE: *in is used up. TAR_END: two blocks of zeros were seen; what follows is not
 * read. */
enum tar_event tar_reader_next(struct tar_reader *r, struct span *in, struct span *data,
                               struct errbuf *eb);
/* The input has ended: fine between members, else INCOMPLETE. */
enum err tar_reader_finish(const struct tar_reader *r, struct errbuf *eb) MUST_CHECK;
