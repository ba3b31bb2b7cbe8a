#include "cli/remove.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/names.h"
#include "wire/json.h"

/* Keys of one bucket that go in one request. */
struct batch {
    struct arena *a; /* owned; keys lie here */
    struct span bucket;
    struct span keys[S3_DELETE_MAX];
    uint32_t count;
    uint64_t bytes;
};

void
remover_drop(void *own)
{
    struct batch *b = own;

    arena_free(&b->a);
    free(b);
}

static struct s3_client *
client_of(const struct remover *r)
{
    return r->s3 != NULL ? r->s3 : r->f->s->s3;
}

void
remover_fini(struct remover *r)
{
    if (r->open != NULL)
        remover_drop(r->open);
    r->open = NULL;
    attached_fini(&r->attached);
}

enum err
remover_flush(struct remover *r, struct errbuf *eb)
{
    struct batch *b = r->open;
    struct item it = {.from_bucket = "", .from = "", .kind = 1, .own = b};
    char *bucket;
    enum err rc;

    r->open = NULL;
    if (b == NULL)
        return ERR_OK;
    bucket = xmemdup0(b->bucket.at, b->bucket.len);
    it.from_bucket = bucket;
    it.size = 0;
    rc = flow_add(r->f, &it, eb);
    if (rc != ERR_OK) {
        remover_drop(b);
    } else {
        r->f->found += b->count - 1;
        r->f->progress.total += b->count - 1;
    }
    free(bucket);
    return rc;
}

enum err
remover_add(struct remover *r, struct span bucket, struct span key, uint64_t size,
            struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (r->open != NULL &&
        (r->open->count == S3_DELETE_MAX || !span_eq(r->open->bucket, bucket)))
        rc = remover_flush(r, eb);
    if (rc != ERR_OK)
        return rc;
    if (r->open == NULL) {
        progress_clear(&r->f->progress);
        attached_note(&r->attached, r->f->s, client_of(r), bucket);
        r->open = xcalloc(1, sizeof *r->open);
        r->open->a = arena_new(KIB(64), MIB(16));
        r->open->bucket = arena_span(r->open->a, bucket);
    }
    r->open->keys[r->open->count++] = arena_span(r->open->a, key);
    r->open->bytes += size;
    return ERR_OK;
}

struct removing {
    struct remover *r;
    struct batch *b;
    struct arena *a;
    struct s3_refusal first;
    uint32_t refused, index;
    uint32_t
        step; /* keys in a request: fewer for a server that takes too long for them */
};
#define STEP_LEAST 50

static enum err
many_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct removing *d = arg;
    struct s3_refusal first = {0};
    uint32_t n = MIN(d->step, d->b->count - d->index), refused = 0;
    enum err rc = s3_delete_many(client_of(d->r), d->b->bucket, d->b->keys + d->index, n,
                                 d->a, &first, &refused, f, eb);

    if (rc == ERR_TIMEOUT)
        d->step = MAX(d->step / 4, STEP_LEAST);
    if (rc != ERR_OK)
        return rc;
    if (d->refused == 0)
        d->first = first;
    d->refused += refused;
    d->index += n;
    return ERR_OK;
}

static enum err
all_together(struct removing *d, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && d->index < d->b->count)
        rc = flow_try(d->r->f, many_attempt, d, eb);
    return rc;
}

static enum err
one_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct removing *d = arg;

    return s3_delete(client_of(d->r), d->b->bucket, d->b->keys[d->index], f, eb);
}

static enum err
one_by_one(struct removing *d, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (d->index = 0; rc == ERR_OK && d->index < d->b->count; d->index++)
        rc = flow_try(d->r->f, one_attempt, d, eb);
    return rc;
}

static void
remove_tell_json(const struct remover *r, struct span bucket, struct span key)
{
    char *from = xasprintf("s3://%.*s/%.*s", SPAN_ARG(bucket), SPAN_ARG(key));
    struct buf text;
    struct json j;

    buf_init(&text, KIB(64));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "did", r->dry ? "would delete" : "deleted");
    json_text(&j, "from", from);
    json_end(&j);
    printf("%.*s\n", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
    free(from);
}

static void
remove_tell(struct remover *r, const struct batch *b)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    char where[ATTACHED_TEXT] = "";

    if (r->dry)
        (void)attached_text(&r->attached, client_of(r), b->bucket, where);
    progress_clear(&r->f->progress);
    for (uint32_t i = 0; i < b->count; i++) {
        if (r->f->s->output == OUTPUT_JSONL) {
            remove_tell_json(r, b->bucket, b->keys[i]);
            continue;
        }
        if (r->f->s->output == OUTPUT_NAME) {
            printf("s3://%.*s/%.*s\n", SPAN_ARG(b->bucket), SPAN_ARG(b->keys[i]));
            continue;
        }
        printf("%s s3://%.*s/%.*s%s\n", r->dry ? "would delete" : "deleted",
               SPAN_ARG(b->bucket), SPAN_ARG(name_shown(b->keys[i], a)), where);
        arena_reset(a);
    }
    arena_free(&a);
}

enum err
remover_act(struct flow *f, const struct item *it, void *arg, struct errbuf *eb)
{
    struct removing d = {.r = arg, .b = it->own, .step = S3_DELETE_MAX};
    enum err rc = ERR_OK;

    d.a = arena_new(KIB(16), MIB(16));
    if (!d.r->dry && !d.r->singly && d.b->count > 1) {
        rc = all_together(&d, eb);
        if (rc == ERR_NOT_IMPLEMENTED || rc == ERR_NOT_ALLOWED) {
            d.r->singly = true;
            rc = ERR_OK;
        } else if (rc == ERR_OK && d.refused > 0) {
            rc = err_set(eb,
                         span_is(d.first.code, "AccessDenied") ? ERR_DENIED : ERR_BACKEND,
                         "%u of %u were not deleted; the first: %.*s: %.*s %.*s",
                         d.refused, d.b->count, (int)MIN(d.first.key.len, 100u),
                         d.first.key.at, SPAN_ARG(d.first.code),
                         (int)MIN(d.first.message.len, 100u), d.first.message.at);
        }
    }
    if (rc == ERR_OK && !d.r->dry && (d.r->singly || d.b->count == 1))
        rc = one_by_one(&d, eb);
    if (rc == ERR_OK) {
        f->done += d.b->count - 1;
        f->progress.count += d.b->count - 1;
        if (d.r->tell)
            remove_tell(d.r, d.b);
    }
    arena_free(&d.a);
    return rc;
}
