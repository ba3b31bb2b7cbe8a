/* across: from key to key. The server copies by itself, in parts where it is large; a server that does not do that, and another
 * server, get the bytes through here (between.c). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/copy_headers.h"
#include "cli/transfer.h"

#define COPY_MAX  (5ull << 30) /* one CopyObject */
#define COPY_PART (512ull << 20)

struct across {
    struct flow *f;
    const struct item *it;
    struct arena *a;
    struct s3_object_info info;
    struct span upload_id, etag;
    struct copy_headers copy_headers; /* of one that goes in parts */
    struct s3_part *done;
    uint32_t count, next;
    enum err rc;
    struct errbuf *eb;
};

static enum err
across_head_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct across *x = arg;

    return s3_head(x->f->s->s3, span_of(x->it->from_bucket), span_of(x->it->from), x->a,
                   &x->info, f, eb);
}

static struct s3_copy
names(const struct across *x)
{
    return (struct s3_copy){.from_bucket = span_of(x->it->from_bucket),
                            .from_key = span_of(x->it->from),
                            .bucket = span_of(x->it->to_bucket),
                            .key = span_of(x->it->to),
                            .if_match = x->info.etag};
}

static enum err
copy_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct across *x = arg;
    struct s3_copy copy = names(x);

    return s3_copy(x->f->s->s3, &copy, x->a, &x->etag, f, eb);
}

/* ---- in parts ---- */

static enum err
across_begin_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct across *x = arg;

    return s3_upload_begin(x->f->s->s3, span_of(x->it->to_bucket), span_of(x->it->to),
                           x->copy_headers.headers, x->copy_headers.count, x->a,
                           &x->upload_id, f, eb);
}

static enum err
across_end_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct across *x = arg;

    return s3_upload_complete(x->f->s->s3, span_of(x->it->to_bucket), span_of(x->it->to),
                              x->upload_id, x->done, x->count, x->a, &x->etag, f, eb);
}

struct one_part {
    struct across *x;
    uint32_t index;
};

static enum err
across_part_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct one_part *p = arg;
    struct across *x = p->x;
    struct s3_copy copy = names(x);

    copy.upload_id = x->upload_id;
    copy.part_number = p->index + 1;
    copy.first = p->index * COPY_PART;
    copy.last = MIN(copy.first + COPY_PART, x->info.size) - 1;
    return s3_copy(x->f->s->s3, &copy, x->a, &x->done[p->index].etag, f, eb);
}

static void
copy_parts(void *arg)
{
    struct across *x = arg;

    while (x->rc == ERR_OK && x->next < x->count) {
        struct one_part p = {x, x->next++};
        struct errbuf eb = {{0}};
        enum err rc = flow_try(x->f, across_part_attempt, &p, &eb);

        x->done[p.index].number = p.index + 1;
        progress_bytes(&x->f->progress,
                       MIN(COPY_PART, x->info.size - p.index * COPY_PART));
        if (rc != ERR_OK && x->rc == ERR_OK) {
            x->rc = rc;
            *x->eb = eb;
        }
    }
}

static void
across_abort(struct across *x)
{
    struct s3_failure f;
    struct errbuf eb = {{0}};
    struct rt_shield shield;

    rt_shield_begin(&shield);
    (void)!s3_upload_abort(x->f->s->s3, span_of(x->it->to_bucket), span_of(x->it->to),
                           x->upload_id, &f, &eb);
    rt_shield_end(&shield);
}

static enum err
in_parts(struct across *x)
{
    struct rt_group group;
    enum err rc = flow_try(x->f, across_begin_attempt, x, x->eb);

    if (rc != ERR_OK)
        return rc;
    x->count = (uint32_t)((x->info.size + COPY_PART - 1) / COPY_PART);
    x->done = arena_alloc(x->a, x->count * sizeof *x->done);
    rt_group_begin(&group);
    for (int i = 1; i < PARTS_AT_ONCE; i++)
        if (rt_group_start(&group, copy_parts, x) != ERR_OK)
            break; /* fewer at once, then */
    copy_parts(x);
    rt_group_join(&group);
    rc = x->rc;
    if (rc == ERR_OK)
        rc = flow_try(x->f, across_end_attempt, x, x->eb);
    if (rc != ERR_OK)
        across_abort(x);
    return rc;
}

enum err
transfer_across(struct flow *f, const struct item *it, struct transfer_seen *seen,
                struct errbuf *eb)
{
    struct across x = {.f = f, .it = it, .eb = eb};
    bool through = false; /* the bytes passed through here */
    enum err rc = ERR_OK;

    if (f->s->to != f->s->s3)
        return transfer_between(f, it, seen, eb);
    if (strcmp(it->from_bucket, it->to_bucket) == 0 && strcmp(it->from, it->to) == 0)
        return err_set(eb, ERR_BAD_REQUEST, "source and target are the same object");
    x.a = arena_new(KIB(64), MIB(64));
    if (it->known && it->etag != NULL) {
        x.info.size = it->size;
        x.info.etag = span_of(it->etag);
    } else {
        rc = flow_try(f, across_head_attempt, &x, eb);
        f->progress.total_bytes += rc == ERR_OK ? x.info.size : 0;
    }
    if (rc == ERR_OK && x.info.size > COPY_MAX) {
        if (it->known) /* headers and tags go along by hand here */
            rc = flow_try(f, across_head_attempt, &x, eb);
        if (rc == ERR_OK)
            rc = copy_headers_find(f, it, &x.info, x.a, &x.copy_headers, eb);
        rc = rc == ERR_OK ? in_parts(&x) : rc;
    } else if (rc == ERR_OK) {
        rc = flow_try(f, copy_attempt, &x, eb);
        if (rc == ERR_OK)
            progress_bytes(&f->progress, x.info.size);
        through = rc == ERR_NOT_IMPLEMENTED || rc == ERR_NOT_ALLOWED;
        if (through) {
            if (!it->known)
                f->progress.total_bytes -= x.info.size; /* it is counted there again */
            rc = transfer_between(f, it, seen, eb);
        }
    }
    if (rc == ERR_OK && !through)
        transfer_saw(seen, &x.info);
    arena_free(&x.a);
    return rc;
}
