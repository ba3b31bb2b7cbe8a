/* download: GET, verified: a small object in memory, a larger one into a hidden file that gets its name when it is whole. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/transfer.h"
#include "cli/verify.h"

#define PIECE (256u << 10)

struct getting {
    struct flow *f;
    const struct item *it;
    struct arena *a; /* of the attempt */
    struct s3_object_info info;
    struct verify verify;
    struct files_part part; /* of an object that is not small */
    bool open, large;
    char *bytes; /* owned */
    uint64_t at;
};

/* The body, into memory when it is small, else into the file. */
static enum err
download_receive(struct getting *g, struct s3_call *call, struct s3_failure *f,
                 struct errbuf *eb)
{
    bool small = g->info.size <= FILES_SMALL;
    size_t room = small ? MAX(g->info.size, 1u) : PIECE, n = 1;
    enum err rc = ERR_OK;

    free(g->bytes);
    g->bytes = xmalloc(room);
    for (g->at = 0; rc == ERR_OK && n > 0;) {
        char *to = small ? g->bytes + g->at : g->bytes;
        char end[1];

        /* A small body that is complete: one more read sees its end. */
        if (small && g->at == g->info.size)
            rc = s3_read(call, end, 1, &n, eb);
        else
            rc = s3_read(call, to, small ? g->info.size - g->at : room, &n, eb);
        if (rc == ERR_OK && small && g->at + n > g->info.size)
            rc = err_set(eb, ERR_BACKEND, "the server sent more than it said");
        f->retry = rc != ERR_OK && rc != ERR_CANCELLED;
        if (rc != ERR_OK || n == 0)
            break;
        verify_add(&g->verify, to, n);
        if (!small)
            rc = files_part_write(&g->part, g->at, to, n, eb);
        g->at += n;
        flow_bytes(g->f, n);
    }
    return rc;
}

static enum err
download_keep(struct getting *g, struct errbuf *eb)
{
    struct files_target t = {g->it->to, g->it->to_root};

    if (g->open)
        return files_part_keep(&g->part, g->info.size, g->info.mtime_ms, eb);
    return files_store(&t, g->bytes, g->info.size, g->info.mtime_ms, eb);
}

static bool
goes_in_parts(const struct s3_object_info *info)
{
    unsigned char md5[16];
    unsigned parts = 0;

    return info->size > MULTIPART_FROM ||
           (info->size > FILES_SMALL && etag_parse(info->etag, md5, &parts) && parts > 0);
}

static enum err
get_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct getting *g = arg;
    struct s3_get get = {.bucket = span_of(g->it->from_bucket),
                         .key = span_of(g->it->from),
                         .checksum_mode = true};
    struct files_target t = {g->it->to, g->it->to_root};
    struct s3_call *call = NULL;
    unsigned char md5[16];
    unsigned parts = 0;
    enum err rc;

    arena_reset(g->a);
    rc = s3_get_begin(g->f->s->s3, &get, g->a, &g->info, &call, f, eb);
    if (rc == ERR_OK && goes_in_parts(&g->info)) {
        g->large = true;
        s3_end(&call);
        return ERR_OK;
    }
    if (rc != ERR_OK)
        return transfer_damage(g->f->s->s3, &get, 0, rc, f, eb);
    if (!g->it->known)
        g->f->progress.total_bytes += g->info.size;
    if (g->info.size > FILES_SMALL && !g->open) {
        rc = files_part_open(&t, false, &g->part, eb);
        g->open = rc == ERR_OK;
    }
    /* Small uploads in parts have one part, nearly always. */
    verify_init(&g->verify, &g->info,
                etag_parse(g->info.etag, md5, &parts) && parts == 1 ? g->info.size : 0);
    if (rc == ERR_OK)
        rc = download_receive(g, call, f, eb);
    s3_end(&call);
    if (rc != ERR_OK)
        rc = transfer_damage(g->f->s->s3, &get, g->at, rc, f, eb);
    if (rc == ERR_OK && !verify_end(&g->verify)) {
        rc = verify_refuse(&g->verify, &g->info, eb);
        f->retry = true;
    }
    verify_fini(&g->verify);
    if (rc == ERR_OK)
        rc = download_keep(g, eb);
    if (rc != ERR_OK) {
        progress_back(&g->f->progress, g->at);
        if (!g->it->known)
            g->f->progress.total_bytes -= g->info.size;
    }
    return rc;
}

/* What a listing says to be large is not asked for whole first. */
static enum err
download_head_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct getting *g = arg;

    arena_reset(g->a);
    return s3_head_sums(g->f->s->s3, span_of(g->it->from_bucket), span_of(g->it->from),
                        g->a, &g->info, f, eb);
}

static enum err
to_stdout(void *arg, const char *at, size_t len, struct errbuf *eb)
{
    struct flow *f = arg;

    flow_bytes(f, len);
    return transfer_to_stdout(NULL, at, len, eb);
}

void
transfer_saw(struct transfer_seen *seen, const struct s3_object_info *info)
{
    if (seen == NULL)
        return;
    free(seen->etag);
    seen->etag = info->etag.len > 0 ? xmemdup0(info->etag.at, info->etag.len) : NULL;
    seen->stale = info->stale;
}

enum err
transfer_down(struct flow *f, const struct item *it, struct transfer_seen *seen,
              struct errbuf *eb)
{
    struct getting g = {.f = f, .it = it};
    enum err rc = ERR_OK;

    if (strcmp(it->to, "-") == 0)
        return transfer_stream(f->s, span_of(it->from_bucket), span_of(it->from), NULL,
                               to_stdout, f, eb);
    g.a = arena_new(KIB(16), MIB(1));
    if (it->known && it->size > MULTIPART_FROM) {
        rc = flow_try(f, download_head_attempt, &g, eb);
        g.large = rc == ERR_OK && goes_in_parts(&g.info);
    }
    if (rc == ERR_OK && !g.large)
        rc = flow_try(f, get_attempt, &g, eb);
    if (rc == ERR_OK && g.large)
        rc = transfer_down_parts(f, it, &g.info, eb);
    if (rc == ERR_OK)
        transfer_saw(seen, &g.info);
    if (g.open) {
        if (rc != ERR_OK)
            files_part_remove(&g.part);
        files_part_close(&g.part);
    }
    free(g.bytes);
    arena_free(&g.a);
    return rc;
}

enum err
transfer_item(struct flow *f, const struct item *it, struct transfer_seen *seen,
              struct errbuf *eb)
{
    if (it->from_bucket != NULL && it->to_bucket != NULL)
        return transfer_across(f, it, seen, eb);
    return it->from_bucket != NULL ? transfer_down(f, it, seen, eb)
                                   : transfer_up(f, it, eb);
}
