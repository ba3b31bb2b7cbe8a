/* archive: streams bytes to a file or standard output, and from a file or standard input, in large pieces. A file is renamed to
 * its name when it is complete. For verbs that read and write archives. All may switch. */
#pragma once
#include "base/span.h"
#include "cli/local.h"
#include "wire/tar.h"

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
/* Writes the rest of the buffer, then renames the file to its name. */
enum err archive_keep(struct archive_out *o, struct errbuf *eb) MUST_CHECK;
void archive_out_close(struct archive_out *o); /* removes a file that was not kept */

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

/* Callbacks for the members of a tar, in order. An error of one ends the reading. */
struct archive_members {
    void *arg;
    /* Starts a member; the previous one is complete. `head` is valid until the next call. */
    enum err (*begin)(void *arg, const struct tar_head *head, struct errbuf *eb);
    enum err (*data)(void *arg, struct span data, struct errbuf *eb);
    enum err (*end)(void *arg, struct errbuf *eb); /* the end of a complete archive */
};
/* Reads the whole tar. ERR_BAD_REQUEST: no tar; ERR_INCOMPLETE: it ends inside a member. The error message names `path`. */
enum err archive_read_tar(const char *path, const struct archive_members *m,
                          struct errbuf *eb) MUST_CHECK;
