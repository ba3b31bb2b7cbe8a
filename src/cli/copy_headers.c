#include "cli/copy_headers.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "wire/s3tags.h"

#define OTHERS 8 /* headers that are not the user's */

struct asking {
    struct flow *f;
    const struct item *it;
    struct arena *a;
    struct span doc;
};

static enum err
ask_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct asking *q = arg;
    enum err rc = s3_tags_get(q->f->s->s3, span_of(q->it->from_bucket),
                              span_of(q->it->from), q->a, &q->doc, f, eb);

    return rc != ERR_OK && strcmp(f->code, "NoSuchTagSet") == 0 ? ERR_OK : rc;
}

static void
say_once(struct flow *f, const char *what)
{
    if (f->tags != FLOW_TAGS_TOO || f->s->quiet)
        return;
    progress_clear(&f->progress);
    fprintf(stderr, "forebay: tags are not copied: %s (--no-tags hides this message)\n",
            what);
}

/* As the header x-amz-tagging; empty: there are none. */
static enum err
find_tags(struct asking *q, struct span *out, struct errbuf *eb)
{
    struct fault fault = {0};
    enum err rc;

    *out = (struct span){"", 0};
    if (q->f->tags != FLOW_TAGS_TOO)
        return ERR_OK;
    rc = flow_try(q->f, ask_attempt, q, eb);
    if (rc == ERR_DENIED || rc == ERR_NOT_IMPLEMENTED || rc == ERR_NOT_ALLOWED) {
        if (rc == ERR_DENIED)
            say_once(q->f, "the source denies these keys access to tags");
        q->f->tags = FLOW_TAGS_NONE;
        return ERR_OK;
    }
    if (rc != ERR_OK || q->doc.len == 0)
        return rc;
    if (s3tags_parse_document(q->doc, S3TAGS_OF_OBJECT, q->a, out, &fault) != ERR_OK)
        return err_set(eb, ERR_BACKEND, "the source's list of its tags cannot be read");
    return ERR_OK;
}

static void
copy_headers_add(struct copy_headers *c, struct span name, struct span value)
{
    if (value.len > 0)
        c->headers[c->count++] = (struct s3_header){name, value};
}

enum err
copy_headers_find(struct flow *f, const struct item *it,
                  const struct s3_object_info *info, struct arena *a,
                  struct copy_headers *out, struct errbuf *eb)
{
    struct asking q = {f, it, a, {"", 0}};
    struct span tags;
    enum err rc = find_tags(&q, &tags, eb);

    *out = (struct copy_headers){0};
    if (rc != ERR_OK)
        return rc;
    out->headers = arena_alloc(a, (info->user_count + OTHERS) * sizeof *out->headers);
    copy_headers_add(out, SPAN("content-type"), info->content_type);
    copy_headers_add(out, SPAN("cache-control"), info->cache_control);
    copy_headers_add(out, SPAN("content-disposition"), info->content_disposition);
    copy_headers_add(out, SPAN("content-encoding"), info->content_encoding);
    copy_headers_add(out, SPAN("content-language"), info->content_language);
    copy_headers_add(out, SPAN("expires"), info->expires);
    copy_headers_add(out, SPAN("x-amz-tagging"), tags);
    for (uint32_t i = 0; i < info->user_count; i++)
        copy_headers_add(
            out,
            span_of(arena_printf(a, "x-amz-meta-%.*s", SPAN_ARG(info->user[i].name))),
            info->user[i].value);
    return ERR_OK;
}
