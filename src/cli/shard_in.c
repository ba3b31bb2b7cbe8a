#include "cli/shard_in.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/file.h"

#define IN_PIECE    (256u << 10)
#define IN_ATTEMPTS 5u

/* ---- a file ---- */

static enum err
file_begin(struct shard_input *in, uint64_t first, uint64_t len, struct errbuf *eb)
{
    struct shard_in *i = CONTAINER_OF(in, struct shard_in, in);

    (void)eb;
    i->at = first;
    i->left = len;
    return ERR_OK;
}

static enum err
file_next(struct shard_input *in, struct span *piece, struct errbuf *eb)
{
    struct shard_in *i = CONTAINER_OF(in, struct shard_in, in);
    uint32_t want = (uint32_t)MIN(i->left, (uint64_t)IN_PIECE), n = 0;
    enum err rc = ERR_OK;

    if (want > 0)
        rc = rt_read(i->file.file, i->at, i->buf, 0, want, RT_READ, DEADLINE_NEVER, &n,
                     eb);
    if (rc == ERR_OK && n < want)
        rc = err_set(eb, ERR_INCOMPLETE, "the file became shorter");
    *piece = (struct span){i->buf->at, n};
    i->at += n;
    i->left -= n;
    return rc;
}

/* ---- an object ---- */

static void
end_call(struct shard_in *i)
{
    s3_end(&i->call);
    arena_reset(i->arena);
}

static enum err
object_range_begin(struct shard_input *in, uint64_t first, uint64_t len,
                   struct errbuf *eb)
{
    struct shard_in *i = CONTAINER_OF(in, struct shard_in, in);

    (void)eb;
    end_call(i);
    i->at = first;
    i->left = len;
    return ERR_OK;
}

static enum err
begin_call(struct shard_in *i, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_get get = {.bucket = i->place.bucket,
                         .key = i->place.key,
                         .range = true,
                         .first = i->at,
                         .last = i->at + i->left - 1,
                         .if_match = span_of(i->etag)};
    struct s3_object_info info;
    enum err rc = s3_get_begin(i->s->s3, &get, i->arena, &info, &i->call, f, eb);

    if (rc == ERR_PRECONDITION)
        return err_set(eb, ERR_BUSY, "\"%s\" was replaced while it was read",
                       i->place.text);
    if (rc == ERR_OK && info.body_length != i->left)
        return err_set(eb, ERR_BACKEND, "\"%s\": the server sends %llu bytes of %llu",
                       i->place.text, (unsigned long long)info.body_length,
                       (unsigned long long)i->left);
    return rc;
}

static enum err
object_range_next(struct shard_input *in, struct span *piece, struct errbuf *eb)
{
    struct shard_in *i = CONTAINER_OF(in, struct shard_in, in);
    enum err rc = ERR_OK;

    *piece = (struct span){i->buf->at, 0};
    for (unsigned tries = 1; i->left > 0; tries++) {
        struct s3_failure f = {0};
        size_t n = 0;

        rc = i->call != NULL ? ERR_OK : begin_call(i, &f, eb);
        if (rc == ERR_OK) {
            rc = s3_read(i->call, i->buf->at, IN_PIECE, &n, eb);
            f.retry = rc != ERR_OK && rc != ERR_CANCELLED;
        }
        if (rc == ERR_OK) {
            piece->len = n;
            i->at += n;
            i->left -= n;
            return n > 0 ? ERR_OK : err_set(eb, ERR_INCOMPLETE, "the answer ended early");
        }
        end_call(i);
        if (!f.retry || tries == IN_ATTEMPTS)
            return rc;
        if (rt_sleep_ms(MAX(f.retry_after_ms, 100ull << tries)) != ERR_OK)
            return err_set(eb, ERR_CANCELLED, "interrupted");
    }
    return rc;
}

/* ---- both ---- */

static enum err
shard_in_object(struct shard_in *i, struct errbuf *eb)
{
    struct s3_object_info info;
    struct s3_failure f;
    enum err rc =
        s3_head(i->s->s3, i->place.bucket, i->place.key, i->arena, &info, &f, eb);

    if (rc != ERR_OK)
        return rc;
    i->in = (struct shard_input){
        .size = info.size, .begin = object_range_begin, .next = object_range_next};
    i->etag = xmemdup0(info.etag.at, info.etag.len);
    return ERR_OK;
}

enum err
shard_in_open(struct session *s, const char *text, struct shard_in *out,
              struct errbuf *eb)
{
    enum err rc;

    *out = (struct shard_in){.s = s};
    out->arena = arena_new(KIB(16), MIB(1));
    rc = place_parse(text, &out->place, eb);
    if (rc == ERR_OK) {
        out->format =
            shard_format_of_name(out->place.remote ? out->place.key : span_of(text));
        if (out->format == SHARD_NONE)
            rc = err_set(
                eb, ERR_BAD_REQUEST,
                "\"%s\" is no shard by its name: .tar, .tgz, .tar.gz, .tar.lz4 or "
                ".zip at its end",
                text);
    }
    if (rc == ERR_OK && iobuf_get(IN_PIECE, &out->buf) != ERR_OK)
        rc = err_set(eb, ERR_BUSY, "no buffer to read with");
    if (rc == ERR_OK && out->place.remote)
        rc = shard_in_object(out, eb);
    else if (rc == ERR_OK)
        rc = local_read_open(text, &out->file, eb);
    if (rc == ERR_OK && !out->place.remote)
        out->in = (struct shard_input){
            .size = out->file.size, .begin = file_begin, .next = file_next};
    if (rc != ERR_OK)
        shard_in_close(out);
    return rc;
}

void
shard_in_close(struct shard_in *i)
{
    s3_end(&i->call);
    if (i->file.file != NULL)
        local_close(&i->file);
    i->file.file = NULL;
    iobuf_drop(&i->buf);
    arena_free(&i->arena);
    free(i->etag);
    i->etag = NULL;
}

enum err
shard_in_index(struct shard_in *i, const char *form, struct arena *a, struct span *out,
               struct errbuf *eb)
{
    struct s3_request r = {.method = "GET"};
    int status = 0;
    enum err rc;

    if (!i->place.remote || !shard_format_is_indexed(i->format))
        return err_set(eb, ERR_NOT_FOUND, "\"%s\" has no index at a server",
                       i->place.text);
    r.path = span_of(
        arena_printf(a, "/%.*s/%.*s", SPAN_ARG(i->place.bucket), SPAN_ARG(i->place.key)));
    r.query = span_of(arena_printf(a, "shard-index=%s", form));
    rc = s3_request(i->s->s3, &r, a, &status, out, eb);
    if (rc == ERR_OK && status != 200)
        rc = err_set(eb, status == 400 ? ERR_BAD_REQUEST : ERR_NOT_FOUND, "%.*s",
                     (int)MIN(out->len, 400), out->at);
    return rc;
}
