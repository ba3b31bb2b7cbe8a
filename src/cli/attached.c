#include "cli/attached.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

void
attached_fini(struct attached *t)
{
    for (unsigned i = 0; i < t->count; i++) {
        free(t->at[i].name);
        free(t->at[i].endpoint);
        free(t->at[i].remote);
    }
    *t = (struct attached){.count = 0};
}

static struct attached_bucket *
attached_known(struct attached *t, struct span bucket)
{
    for (unsigned i = 0; i < t->count; i++)
        if (span_is(bucket, t->at[i].name))
            return &t->at[i];
    return NULL;
}

/* A full table forgets its last bucket: it is only a cache. */
static struct attached_bucket *
attached_add(struct attached *t, struct span bucket, const struct s3_bucket_remote *r)
{
    struct attached_bucket *b;

    if (t->count == ATTACHED_MAX) {
        b = &t->at[--t->count];
        free(b->name);
        free(b->endpoint);
        free(b->remote);
    }
    b = &t->at[t->count++];
    *b = (struct attached_bucket){.name = xmemdup0(bucket.at, bucket.len)};
    if (r->endpoint.len > 0) {
        b->endpoint = xmemdup0(r->endpoint.at, r->endpoint.len);
        b->remote = xmemdup0(r->bucket.at, r->bucket.len);
    }
    return b;
}

enum err
attached_find(struct attached *t, struct s3_client *s3, struct span bucket,
              const struct attached_bucket **out, struct errbuf *eb)
{
    struct attached_bucket *b = attached_known(t, bucket);
    struct s3_bucket_remote r = {{"", 0}, {"", 0}};
    struct s3_failure f;
    struct arena *a;
    enum err rc = ERR_OK;

    *out = NULL;
    if (b == NULL) {
        a = arena_new(KIB(4), MIB(1));
        rc = s3_bucket_remote(s3, bucket, a, &r, &f, eb);
        if (rc == ERR_OK || rc == ERR_DENIED) {
            b = attached_add(t, bucket, &r);
            rc = ERR_OK;
        }
        arena_free(&a);
    }
    if (rc == ERR_OK && b->endpoint != NULL)
        *out = b;
    return rc;
}

const char *
attached_text(struct attached *t, struct s3_client *s3, struct span bucket,
              char out[ATTACHED_TEXT])
{
    const struct attached_bucket *b;
    struct errbuf eb = {{0}};

    out[0] = '\0';
    if (attached_find(t, s3, bucket, &b, &eb) == ERR_OK && b != NULL)
        snprintf(out, ATTACHED_TEXT, " at the remote %s, bucket %s", b->endpoint,
                 b->remote);
    return out;
}

void
attached_note(struct attached *t, struct session *s, struct s3_client *s3,
              struct span bucket)
{
    char where[ATTACHED_TEXT];
    struct attached_bucket *b;

    if (s->quiet || s->within || t->asked)
        return;
    (void)attached_text(t, s3, bucket, where);
    b = attached_known(t, bucket);
    if (where[0] == '\0' || b == NULL || b->noted)
        return;
    b->noted = true;
    fprintf(stderr, "note: s3://%.*s is attached: what is deleted in it is deleted%s\n",
            SPAN_ARG(bucket), where);
}
