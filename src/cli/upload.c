/* upload: PUT of a whole object, verified by its ETag; from a file, or gathered from standard input. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/input.h"
#include "cli/transfer.h"
#include "rt/loop.h"
#include "wire/etag.h"

#define PIECE (256u << 10)

const char *
transfer_type(const char *name)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {".html", "text/html"},        {".htm", "text/html"},
        {".css", "text/css"},          {".js", "text/javascript"},
        {".txt", "text/plain"},        {".log", "text/plain"},
        {".md", "text/markdown"},      {".csv", "text/csv"},
        {".json", "application/json"}, {".xml", "application/xml"},
        {".pdf", "application/pdf"},   {".zip", "application/zip"},
        {".gz", "application/gzip"},   {".tar", "application/x-tar"},
        {".jpg", "image/jpeg"},        {".jpeg", "image/jpeg"},
        {".png", "image/png"},         {".gif", "image/gif"},
        {".webp", "image/webp"},       {".svg", "image/svg+xml"},
        {".mp4", "video/mp4"},         {".mp3", "audio/mpeg"},
        {".wav", "audio/wav"},         {".wasm", "application/wasm"},
    };
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot != NULL && i < ARRAY_LEN(types); i++)
        if (strcasecmp(dot, types[i].end) == 0)
            return types[i].type;
    return NULL;
}

struct putting {
    struct flow *f;
    const struct s3_put *put;
    const struct transfer_piece *from;
    struct arena *a;
    struct span *etag;
    char *room; /* owned; for pieces of a file */
};

/* The body, piece by piece; *sent counts it. */
static enum err
upload_send_body(struct putting *p, struct s3_call *call, struct md5 *md5, uint64_t *sent,
                 struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && *sent < p->put->size) {
        size_t n = MIN(PIECE, p->put->size - *sent);
        const char *at = p->from->bytes + *sent;

        if (p->from->file != NULL) {
            size_t want = n;

            at = p->room;
            rc =
                files_read(p->from->file, p->from->offset + *sent, p->room, want, &n, eb);
            if (rc == ERR_OK && n < want)
                rc = err_set(eb, ERR_INCOMPLETE,
                             "the file became shorter while it was read");
            /* Of a whole object: without the last piece the server has nothing. */
            if (rc == ERR_OK && p->put->upload_id.len == 0 && *sent + n == p->put->size)
                rc = files_unchanged(p->from->file, eb);
        }
        if (rc != ERR_OK)
            return rc;
        if (p->from->md5 == NULL)
            lanes_add(&p->f->lanes, md5, at, n);
        rc = s3_write(call, at, n, eb);
        *sent += n;
        flow_bytes(p->f, n);
    }
    return rc;
}

static enum err
put_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct putting *p = arg;
    struct s3_call *call = NULL;
    struct md5 md5;
    unsigned char sum[16];
    char hex[33];
    uint64_t sent = 0;
    enum err rc = s3_put_begin(p->f->s->s3, p->put, &call, eb);

    md5_init(&md5);
    f->retry = rc != ERR_OK;
    if (rc == ERR_OK) {
        lanes_enter(&p->f->lanes);
        rc = upload_send_body(p, call, &md5, &sent, eb);
        lanes_leave(&p->f->lanes);
        f->retry = rc == ERR_CLOSED || rc == ERR_TIMEOUT || rc == ERR_BUSY;
    }
    if (rc == ERR_OK)
        rc = s3_put_finish(call, p->a, p->etag, f, eb);
    md5_end(&md5, sum);
    hex_encode(p->from->md5 != NULL ? p->from->md5 : sum, 16, hex);
    if (rc == ERR_OK && p->etag->len == 32 && !span_is(*p->etag, hex)) {
        rc = err_set(eb, ERR_BAD_DIGEST,
                     "the server has ETag \"%.*s\", what was sent has \"%s\"",
                     SPAN_ARG(*p->etag), hex);
        f->retry = true;
    }
    if (rc != ERR_OK)
        progress_back(&p->f->progress, sent);
    s3_end(&call);
    return rc;
}

enum err
transfer_put(struct flow *f, const struct s3_put *put, const struct transfer_piece *from,
             struct arena *a, struct span *etag, struct errbuf *eb)
{
    struct putting p = {.f = f, .put = put, .from = from, .a = a, .etag = etag};
    enum err rc;

    if (from->file != NULL)
        p.room = xmalloc(PIECE);
    rc = flow_try(f, put_attempt, &p, eb);
    free(p.room);
    return rc;
}

/* A small file is in memory with its MD5: the server refuses what is not that. */
static enum err
up_small(struct flow *f, const struct item *it, const struct files_file *file,
         struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct s3_header headers[PUT_HEADERS_MAX];
    char md5[BASE64_LEN(16) + 1];
    struct s3_put put = {
        .bucket = span_of(it->to_bucket),
        .key = span_of(it->to),
        .size = file->size,
        .headers = headers,
        .header_count = put_headers_of(f->put_headers, transfer_type(it->from), headers),
        .md5_base64 = md5};
    struct transfer_piece from = {.bytes = file->bytes, .md5 = file->md5};
    struct span etag;
    enum err rc;

    base64_encode(file->md5, 16, md5);
    rc = transfer_put(f, &put, &from, a, &etag, eb);
    arena_free(&a);
    return rc;
}

static enum err
up_medium(struct flow *f, const struct item *it, struct files_file *file,
          struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct s3_header headers[PUT_HEADERS_MAX];
    struct s3_put put = {
        .bucket = span_of(it->to_bucket),
        .key = span_of(it->to),
        .size = file->size,
        .headers = headers,
        .header_count = put_headers_of(f->put_headers, transfer_type(it->from), headers)};
    struct transfer_piece from = {.file = file};
    struct span etag;
    enum err rc = transfer_put(f, &put, &from, a, &etag, eb);

    arena_free(&a);
    return rc;
}

enum err
transfer_up(struct flow *f, const struct item *it, struct errbuf *eb)
{
    struct files_file file;
    enum err rc;

    if (strcmp(it->from, "-") == 0 && !it->known)
        return transfer_up_stdin(f, it, eb);
    rc = files_open(it->from, &file, eb);
    if (rc != ERR_OK)
        return rc;
    if (!it->known)
        f->progress.total_bytes += file.size;
    if (file.bytes != NULL)
        rc = up_small(f, it, &file, eb);
    else if (file.size <= MULTIPART_FROM)
        rc = up_medium(f, it, &file, eb);
    else
        rc = transfer_up_parts(f, it, &file, eb);
    files_close(&file);
    return rc;
}

/* ---- of unknown length: gathered part by part ---- */

struct read_job {
    char *at;
    size_t room, len;
    bool failed;
};

static void
upload_read_work(void *arg)
{
    struct read_job *j = arg;

    while (j->len < j->room) {
        ssize_t n = input_read(j->at + j->len, j->room - j->len);

        if (n < 0)
            j->failed = true;
        if (n <= 0)
            return;
        j->len += (size_t)n;
    }
}

struct gather {
    struct flow *f;
    const struct item *it;
    struct arena *a;
    struct span upload_id;
    struct s3_part *done; /* owned */
    uint32_t count;
};

static enum err
upload_begin_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct gather *g = arg;
    struct s3_header headers[PUT_HEADERS_MAX];

    return s3_upload_begin(g->f->s->s3, span_of(g->it->to_bucket), span_of(g->it->to),
                           headers, put_headers_of(g->f->put_headers, NULL, headers),
                           g->a, &g->upload_id, f, eb);
}

static enum err
upload_end_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct gather *g = arg;
    struct span etag;

    return s3_upload_complete(g->f->s->s3, span_of(g->it->to_bucket), span_of(g->it->to),
                              g->upload_id, g->done, g->count, g->a, &etag, f, eb);
}

static enum err
send_gathered(struct gather *g, const struct read_job *j, struct errbuf *eb)
{
    struct s3_header headers[PUT_HEADERS_MAX];
    struct s3_put put = {
        .bucket = span_of(g->it->to_bucket), .key = span_of(g->it->to), .size = j->len};
    struct transfer_piece from = {.bytes = j->at};
    struct span etag;
    enum err rc = ERR_OK;

    if (g->upload_id.len == 0 && j->len < j->room) { /* all of it fits one PUT */
        put.headers = headers;
        put.header_count = put_headers_of(g->f->put_headers, NULL, headers);
        return transfer_put(g->f, &put, &from, g->a, &etag, eb);
    }
    if (g->upload_id.len == 0)
        rc = flow_try(g->f, upload_begin_attempt, g, eb);
    if (rc != ERR_OK || (j->len == 0 && g->count > 0))
        return rc;
    if (g->count == PARTS_MAX)
        return err_set(eb, ERR_TOO_LARGE, "standard input is over %u parts of 16 MiB",
                       PARTS_MAX);
    put.upload_id = g->upload_id;
    put.part_number = g->count + 1;
    rc = transfer_put(g->f, &put, &from, g->a, &g->done[g->count].etag, eb);
    g->done[g->count].number = g->count + 1;
    g->count++;
    return rc;
}

/* A pipe cannot be read again: what did not end well is taken back, even when interrupted. */
static void
upload_abort(struct gather *g)
{
    struct s3_failure f;
    struct errbuf eb = {{0}};
    struct rt_shield shield;

    rt_shield_begin(&shield);
    (void)!s3_upload_abort(g->f->s->s3, span_of(g->it->to_bucket), span_of(g->it->to),
                           g->upload_id, &f, &eb);
    rt_shield_end(&shield);
}

enum err
transfer_up_stdin(struct flow *f, const struct item *it, struct errbuf *eb)
{
    struct gather g = {.f = f, .it = it, .a = arena_new(KIB(64), MIB(64))};
    struct read_job j = {.room = PART_BYTES};
    enum err rc = ERR_OK;

    g.done = xcalloc(PARTS_MAX, sizeof *g.done);
    j.at = xmalloc(PART_BYTES);
    do {
        j.len = 0;
        rc = rt_blocking(upload_read_work, &j, DEADLINE_NEVER);
        if (rc == ERR_OK && j.failed)
            rc = err_set(eb, ERR_IO, "standard input cannot be read");
        if (rc == ERR_OK)
            rc = send_gathered(&g, &j, eb);
    } while (rc == ERR_OK && j.len == j.room);
    if (rc == ERR_OK && g.upload_id.len > 0)
        rc = flow_try(f, upload_end_attempt, &g, eb);
    if (rc != ERR_OK && g.upload_id.len > 0)
        upload_abort(&g);
    free(g.done);
    free(j.at);
    arena_free(&g.a);
    return rc;
}
