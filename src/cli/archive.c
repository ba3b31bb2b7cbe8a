#include "cli/archive.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "rt/loop.h"

#define PIECE (1u << 20)

struct pipe_job {
    char *at;
    size_t len;
    ssize_t got;
    int error;
};

static void
write_work(void *arg)
{
    struct pipe_job *j = arg;

    while (j->len > 0) {
        ssize_t n = write(1, j->at, j->len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            j->error = n < 0 ? errno : EPIPE;
            return;
        }
        j->at += n;
        j->len -= (size_t)n;
    }
}

static void
archive_read_work(void *arg)
{
    struct pipe_job *j = arg;

    do
        j->got = read(0, j->at, j->len);
    while (j->got < 0 && errno == EINTR);
    if (j->got < 0)
        j->error = errno;
}

/* ---- out ---- */

enum err
archive_out_open(struct archive_out *o, const char *path, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    *o = (struct archive_out){.is_stdout = strcmp(path, "-") == 0};
    if (!o->is_stdout) {
        rc = local_write_open(path, &o->file, eb);
        o->open = rc == ERR_OK;
    }
    if (rc == ERR_OK) {
        rc = iobuf_get(PIECE, &o->buf);
        if (rc != ERR_OK)
            (void)err_set(eb, rc, "no buffer to write with");
    }
    if (rc != ERR_OK)
        archive_out_close(o);
    return rc;
}

static enum err
archive_flush(struct archive_out *o, struct errbuf *eb)
{
    struct pipe_job j = {.at = o->buf->at, .len = o->len};
    enum err rc;

    if (o->len == 0)
        return ERR_OK;
    if (!o->is_stdout)
        rc = rt_write(o->file.file, o->at, o->buf, 0, o->len, RT_WRITE, eb);
    else
        rc = rt_blocking(write_work, &j, DEADLINE_NEVER);
    if (rc == ERR_OK && j.error != 0)
        rc = err_errno(eb, ERR_CLOSED, j.error, "standard output is closed or full");
    o->at += o->len;
    o->len = 0;
    return rc;
}

enum err
archive_put(struct archive_out *o, struct span bytes, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && bytes.len > 0) {
        uint32_t n = (uint32_t)MIN(bytes.len, (size_t)(PIECE - o->len));

        memcpy(o->buf->at + o->len, bytes.at, n);
        o->len += n;
        bytes = span_from(bytes, n);
        if (o->len == PIECE)
            rc = archive_flush(o, eb);
    }
    return rc;
}

enum err
archive_keep(struct archive_out *o, struct errbuf *eb)
{
    enum err rc = archive_flush(o, eb);

    return rc == ERR_OK && o->open ? local_keep(&o->file, eb) : rc;
}

void
archive_out_close(struct archive_out *o)
{
    if (o->open)
        local_close(&o->file);
    o->open = false;
    iobuf_drop(&o->buf);
}

/* ---- in ---- */

enum err
archive_in_open(struct archive_in *i, const char *path, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    *i = (struct archive_in){.is_stdin = strcmp(path, "-") == 0};
    if (!i->is_stdin) {
        rc = local_read_open(path, &i->file, eb);
        i->open = rc == ERR_OK;
    }
    if (rc == ERR_OK) {
        rc = iobuf_get(PIECE, &i->buf);
        if (rc != ERR_OK)
            (void)err_set(eb, rc, "no buffer to read with");
    }
    if (rc != ERR_OK)
        archive_in_close(i);
    return rc;
}

enum err
archive_get(struct archive_in *i, struct span *piece, struct errbuf *eb)
{
    struct pipe_job j = {.at = i->buf->at, .len = PIECE};
    uint32_t n = 0;
    enum err rc;

    *piece = (struct span){"", 0};
    if (!i->is_stdin) {
        rc = rt_read(i->file.file, i->at, i->buf, 0, PIECE, RT_READ, DEADLINE_NEVER, &n,
                     eb);
    } else {
        rc = rt_blocking(archive_read_work, &j, DEADLINE_NEVER);
        if (rc == ERR_OK && j.error != 0)
            rc = err_errno(eb, ERR_IO, j.error, "reading standard input");
        n = rc == ERR_OK ? (uint32_t)j.got : 0;
    }
    if (rc == ERR_OK)
        *piece = (struct span){i->buf->at, n};
    i->at += n;
    return rc;
}

void
archive_in_close(struct archive_in *i)
{
    if (i->open)
        local_close(&i->file);
    i->open = false;
    iobuf_drop(&i->buf);
}

/* ---- tar ---- */

static enum err
archive_feed(struct tar_reader *r, const struct archive_members *m, struct span in,
             struct errbuf *eb)
{
    struct span data;
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        switch (tar_reader_next(r, &in, &data, eb)) {
        case TAR_MORE:
        case TAR_END:
            return ERR_OK;
        case TAR_MEMBER:
            rc = m->begin(m->arg, &r->head, eb);
            break;
        case TAR_DATA:
            rc = m->data(m->arg, data, eb);
            break;
        case TAR_BAD:
            return ERR_BAD_REQUEST;
        }
    }
    return rc;
}

enum err
archive_read_tar(const char *path, const struct archive_members *m, struct errbuf *eb)
{
    struct tar_reader reader;
    struct archive_in in;
    struct span piece = {"", 1};
    enum err rc = archive_in_open(&in, path, eb);

    if (rc != ERR_OK)
        return rc;
    tar_reader_init(&reader);
    while (rc == ERR_OK && piece.len > 0) {
        rc = archive_get(&in, &piece, eb);
        if (rc == ERR_OK)
            rc = archive_feed(&reader, m, piece, eb);
    }
    if (rc == ERR_OK)
        rc = tar_reader_finish(&reader, eb);
    if (rc == ERR_OK)
        rc = m->end(m->arg, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "\"%s\"", path);
    tar_reader_fini(&reader);
    archive_in_close(&in);
    return rc;
}
