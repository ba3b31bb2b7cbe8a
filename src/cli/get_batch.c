/* get_batch: get --batch: many objects, ranges and members of shards in one request, as one archive. */
#include "cli/get_batch.h"

#include <stdlib.h>

#include "base/mem.h"
#include "cli/archive.h"
#include "wire/batchlist.h"

#define PIECE (256u << 10)

/* The list, from a file or standard input. */
static enum err
batch_read_list(struct session *s, const char *path, struct buf *list)
{
    struct archive_in in;
    struct span piece = {"", 1};
    enum err rc = archive_in_open(&in, path, &s->eb);

    while (rc == ERR_OK && piece.len > 0) {
        rc = archive_get(&in, &piece, &s->eb);
        if (rc == ERR_OK)
            buf_put_span(list, piece);
    }
    archive_in_close(&in);
    if (rc == ERR_OK && list->full)
        rc = err_set(&s->eb, ERR_TOO_LARGE,
                     "the list \"%s\" is over %u MiB; split it into several", path,
                     BATCHLIST_BYTES_MAX >> 20);
    return rc;
}

static enum err
batch_receive(struct session *s, struct s3_call *call, const char *to)
{
    char *room = xmalloc(PIECE);
    struct archive_out out;
    size_t n = 1;
    enum err rc = archive_out_open(&out, to, &s->eb);

    if (rc == ERR_OK) {
        while (rc == ERR_OK && n > 0) {
            rc = s3_read(call, room, PIECE, &n, &s->eb);
            if (rc == ERR_OK)
                rc = archive_put(&out, (struct span){room, n}, &s->eb);
        }
        if (rc == ERR_OK)
            rc = archive_keep(&out, &s->eb);
        else if (rc == ERR_INCOMPLETE)
            err_prefix(
                &s->eb,
                "the server ended the batch in the middle (an item is missing, damaged "
                "or cannot be read; its log says which)");
        archive_out_close(&out);
    }
    free(room);
    return rc;
}

static enum exit_code
get_batch_act(struct session *s)
{
    const struct args *a = s->args;
    const char *to = a->count > 1 ? a->at[1] : "-";
    struct s3_batch_get ask = {.format = span_of(args_value(a, "format")),
                               .fail_on_missing = args_has(a, "fail-on-missing")};
    struct s3_call *call = NULL;
    struct s3_failure f;
    struct place bucket;
    struct buf list;
    enum err rc = place_bucket(a->at[0], &bucket, &s->eb);

    buf_init(&list, BATCHLIST_BYTES_MAX);
    if (rc == ERR_OK)
        rc = batch_read_list(s, args_value(a, "batch"), &list);
    if (rc == ERR_OK) {
        ask.bucket = bucket.bucket;
        ask.list = buf_span(&list);
        ask.json = list.len > 0 && (list.at[0] == '{' || list.at[0] == '[');
        rc = s3_batch_begin(s->s3, &ask, &call, &f, &s->eb);
    }
    if (rc == ERR_OK)
        rc = batch_receive(s, call, to);
    s3_end(&call);
    buf_fini(&list);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

enum exit_code
get_batch_run(const struct args *a)
{
    return session_run(a, get_batch_act, NULL);
}
