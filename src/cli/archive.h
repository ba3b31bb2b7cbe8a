/* archive: a stream of bytes out to a file or standard output, and in from a file or standard input, in large pieces; a
 * file gets its name when it is whole. For verbs that read and write archives. All may switch. */
#pragma once
#include "base/span.h"
#include "cli/local.h"

struct archive_out {
    struct local file;
    bool is_stdout, open;
    struct iobuf *buf;
    uint32_t len;
    uint64_t at; /* of the buffer in the file */
};
/* `path` "-": standard output. */
enum err archive_out_open(struct archive_out *o, const char *path,
                          struct errbuf *eb) MUST_CHECK;
enum err archive_put(struct archive_out *o, struct span bytes,
                     struct errbuf *eb) MUST_CHECK;
/* What is left in the buffer; then the file gets its name. */
enum err archive_keep(struct archive_out *o, struct errbuf *eb) MUST_CHECK;
void archive_out_close(struct archive_out *o); /* what was not kept is removed */

struct archive_in {
    struct local file;
    bool is_stdin, open;
    struct iobuf *buf;
    uint64_t at;
};
enum err archive_in_open(struct archive_in *i, const char *path,
                         struct errbuf *eb) MUST_CHECK;
/* The next piece, good until the next call; len 0 at the end. */
enum err archive_get(struct archive_in *i, struct span *piece,
                     struct errbuf *eb) MUST_CHECK;
void archive_in_close(struct archive_in *i);
