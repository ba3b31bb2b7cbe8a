/* upload: PUT, in parts where that pays. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/transfer.h"
#include "rt/loop.h"

#define PIECE     (256u << 10)
#define PARTS_MAX 10000

/* Sends `len` bytes of an open file from `offset` in one PUT; the server's ETag must be their MD5. */
static enum err
put_range(struct session *s, struct local *l, uint64_t offset, const struct s3_put *put,
          struct progress *p, struct arena *a, struct span *etag, struct errbuf *eb)
{
    struct s3_call *call = NULL;
    struct iobuf *buf = NULL;
    struct s3_failure f;
    struct digest md5;
    unsigned char sum[DIGEST_MAX];
    char hex[33];
    uint64_t at = 0;
    enum err rc = s3_put_begin(s->s3, put, &call, eb);

    digest_init(&md5, DIGEST_MD5);
    if (rc == ERR_OK)
        rc = iobuf_get(PIECE, &buf);
    while (rc == ERR_OK && at < put->size) {
        uint32_t n = 0;

        rc = rt_read(l->file, offset + at, buf, 0,
                     (uint32_t)MIN(buf->room, put->size - at), RT_READ, DEADLINE_NEVER,
                     &n, eb);
        if (rc == ERR_OK && n == 0)
            rc = err_set(eb, ERR_INCOMPLETE, "the file became shorter while it was read");
        if (rc == ERR_OK) {
            digest_add(&md5, buf->at, n);
            rc = s3_write(call, buf->at, n, eb);
            progress_bytes(p, n);
        }
        at += n;
    }
    if (rc == ERR_OK)
        rc = s3_put_finish(call, a, etag, &f, eb);
    digest_end(&md5, sum);
    hex_encode(sum, 16, hex);
    if (rc == ERR_OK && etag->len == 32 && !span_is(*etag, hex))
        rc = err_set(eb, ERR_BAD_DIGEST,
                     "the server has ETag \"%.*s\", what was sent has \"%s\"",
                     SPAN_ARG(*etag), hex);
    iobuf_drop(&buf);
    s3_end(&call);
    return rc;
}

struct parts {
    struct session *s;
    struct local *l;
    const struct place *to;
    struct span upload_id;
    uint64_t part_bytes;
    uint32_t count, next;
    struct s3_part *done;
    struct progress *p;
    struct arena *a;
    enum err rc;
    struct errbuf *eb;
};

static void
send_parts(void *arg)
{
    struct parts *w = arg;

    while (w->rc == ERR_OK && w->next < w->count) {
        uint32_t i = w->next++;
        uint64_t offset = (uint64_t)i * w->part_bytes;
        struct s3_put put = {.bucket = w->to->bucket,
                             .key = w->to->key,
                             .size = MIN(w->part_bytes, w->l->size - offset),
                             .upload_id = w->upload_id,
                             .part_number = i + 1};
        struct errbuf eb = {{0}};
        enum err rc =
            put_range(w->s, w->l, offset, &put, w->p, w->a, &w->done[i].etag, &eb);

        w->done[i].number = i + 1;
        if (rc != ERR_OK && w->rc == ERR_OK) {
            w->rc = rc;
            *w->eb = eb;
        }
    }
}

/* What did not end well is taken back, even when interrupted. */
static void
give_up(struct session *s, const struct place *to, struct span upload_id)
{
    struct s3_failure f;
    struct errbuf eb = {{0}};
    struct rt_shield shield;

    rt_shield_begin(&shield);
    (void)!s3_upload_abort(s->s3, to->bucket, to->key, upload_id, &f, &eb);
    rt_shield_end(&shield);
}

static enum err
put_parts(struct session *s, struct local *l, const struct place *to, struct progress *p,
          struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(64));
    struct parts w = {
        .s = s, .l = l, .to = to, .part_bytes = PART_BYTES, .p = p, .a = a, .eb = eb};
    struct s3_failure f;
    struct span etag;
    struct rt_group group;
    enum err rc =
        s3_upload_begin(s->s3, to->bucket, to->key, NULL, 0, a, &w.upload_id, &f, eb);

    if (rc != ERR_OK) {
        arena_free(&a);
        return rc;
    }
    while (l->size / w.part_bytes >= PARTS_MAX)
        w.part_bytes *= 2;
    w.count = (uint32_t)((l->size + w.part_bytes - 1) / w.part_bytes);
    w.done = arena_alloc(a, w.count * sizeof *w.done);
    rt_group_begin(&group);
    for (int i = 1; i < PARTS_AT_ONCE; i++)
        if (rt_group_start(&group, send_parts, &w) != ERR_OK)
            break; /* fewer at once, then */
    send_parts(&w);
    rt_group_join(&group);
    rc = w.rc;
    if (rc == ERR_OK)
        rc = s3_upload_complete(s->s3, to->bucket, to->key, w.upload_id, w.done, w.count,
                                a, &etag, &f, eb);
    if (rc != ERR_OK)
        give_up(s, to, w.upload_id);
    arena_free(&a);
    return rc;
}

enum err
transfer_up(struct session *s, const char *path, const struct place *to,
            struct progress *p, struct errbuf *eb)
{
    struct s3_put put = {.bucket = to->bucket, .key = to->key};
    struct arena *a;
    struct local l;
    struct span etag;
    enum err rc;

    rc = local_read_open(path, &l, eb);
    if (rc != ERR_OK)
        return rc;
    if (l.size > MULTIPART_FROM) {
        rc = put_parts(s, &l, to, p, eb);
    } else {
        a = arena_new(KIB(4), MIB(1));
        put.size = l.size;
        rc = put_range(s, &l, 0, &put, p, a, &etag, eb);
        arena_free(&a);
    }
    local_close(&l);
    return rc;
}

/* ---- of unknown length: gathered part by part ---- */

struct read_job {
    char *at;
    size_t room, len;
    bool failed;
};

static void
read_work(void *arg)
{
    struct read_job *j = arg;

    while (j->len < j->room) {
        ssize_t n = read(0, j->at + j->len, j->room - j->len);

        if (n < 0)
            j->failed = true;
        if (n <= 0)
            return;
        j->len += (size_t)n;
    }
}

static enum err
put_memory(struct session *s, const struct s3_put *given, const char *at,
           struct progress *p, struct arena *a, struct span *etag, struct errbuf *eb)
{
    struct s3_call *call = NULL;
    struct s3_failure f;
    enum err rc = s3_put_begin(s->s3, given, &call, eb);

    for (uint64_t done = 0; rc == ERR_OK && done < given->size;) {
        size_t n = MIN(PIECE, given->size - done);

        rc = s3_write(call, at + done, n, eb);
        progress_bytes(p, n);
        done += n;
    }
    if (rc == ERR_OK)
        rc = s3_put_finish(call, a, etag, &f, eb);
    s3_end(&call);
    return rc;
}

struct gather {
    struct session *s;
    const struct place *to;
    struct progress *p;
    struct arena *a;
    struct span upload_id;
    struct s3_part *done; /* owned */
    uint32_t count;
};

static enum err
send_gathered(struct gather *g, const struct read_job *j, struct errbuf *eb)
{
    struct s3_put put = {.bucket = g->to->bucket, .key = g->to->key, .size = j->len};
    struct s3_failure f;
    struct span etag;
    enum err rc = ERR_OK;

    if (g->upload_id.len == 0 && j->len < j->room) /* all of it fits one PUT */
        return put_memory(g->s, &put, j->at, g->p, g->a, &etag, eb);
    if (g->upload_id.len == 0)
        rc = s3_upload_begin(g->s->s3, put.bucket, put.key, NULL, 0, g->a, &g->upload_id,
                             &f, eb);
    if (rc != ERR_OK || (j->len == 0 && g->count > 0))
        return rc;
    if (g->count == PARTS_MAX)
        return err_set(eb, ERR_TOO_LARGE, "standard input is over %u parts of 16 MiB",
                       PARTS_MAX);
    put.upload_id = g->upload_id;
    put.part_number = g->count + 1;
    rc = put_memory(g->s, &put, j->at, g->p, g->a, &g->done[g->count].etag, eb);
    g->done[g->count].number = g->count + 1;
    g->count++;
    return rc;
}

enum err
transfer_up_stdin(struct session *s, const struct place *to, struct progress *p,
                  struct errbuf *eb)
{
    struct gather g = {.s = s, .to = to, .p = p, .a = arena_new(KIB(64), MIB(64))};
    struct read_job j = {.room = PART_BYTES};
    struct s3_failure f;
    struct span etag;
    enum err rc = ERR_OK;

    g.done = xcalloc(PARTS_MAX, sizeof *g.done);
    j.at = xmalloc(PART_BYTES);
    do {
        j.len = 0;
        rc = rt_blocking(read_work, &j, DEADLINE_NEVER);
        if (rc == ERR_OK && j.failed)
            rc = err_set(eb, ERR_IO, "standard input cannot be read");
        if (rc == ERR_OK)
            rc = send_gathered(&g, &j, eb);
    } while (rc == ERR_OK && j.len == j.room);
    if (rc == ERR_OK && g.upload_id.len > 0)
        rc = s3_upload_complete(s->s3, to->bucket, to->key, g.upload_id, g.done, g.count,
                                g.a, &etag, &f, eb);
    if (rc != ERR_OK && g.upload_id.len > 0)
        give_up(s, to, g.upload_id);
    free(g.done);
    free(j.at);
    arena_free(&g.a);
    return rc;
}

/* ---- from one object to another ---- */

static enum err
to_call(void *arg, uint64_t offset, struct iobuf *piece, uint32_t len, struct errbuf *eb)
{
    (void)offset;
    return s3_write(arg, piece->at, len, eb);
}

enum err
transfer_across(struct session *s, const struct place *from, const struct place *to,
                struct progress *p, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_put put = {.bucket = to->bucket, .key = to->key};
    struct s3_object_info info;
    struct s3_header headers[1];
    struct s3_call *call = NULL;
    struct s3_failure f;
    struct span etag;
    enum err rc = s3_head(s->s3, from->bucket, from->key, a, &info, &f, eb);

    if (rc == ERR_OK) {
        put.size = info.size;
        headers[0] = (struct s3_header){SPAN("content-type"), info.content_type};
        put.headers = headers;
        put.header_count = info.content_type.len > 0;
        rc = s3_put_begin(s->s3, &put, &call, eb);
    }
    if (rc == ERR_OK)
        rc = transfer_get(s, from, to_call, call, p, eb);
    if (rc == ERR_OK)
        rc = s3_put_finish(call, a, &etag, &f, eb);
    s3_end(&call);
    arena_free(&a);
    return rc;
}
