/* cat, head: objects to standard output. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/output.h"
#include "cli/select.h"
#include "cli/transfer.h"

static const struct flag cat_flags[] = {
    {"range", 0, "FIRST-LAST", "these bytes, both ends included; 100- is from 100 on",
     false},
    {"tail", 0, "SIZE", "the last bytes", false},
    {"latest", 0, NULL, "attached buckets: revalidate at the remote first", false},
    SELECT_FLAGS,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const cat_examples[] = {
    "forebay cat s3://train/shard-000000.tar | tar t",
    "forebay cat 's3://train/shard-{000..009}.tar' | wc -c",
    "forebay cat --tail 64KiB s3://train/table.parquet | xxd | less", NULL};
static const struct verb cat = {
    .name = "cat",
    .summary = "write objects to standard output",
    .arguments = "s3://BUCKET/KEY...",
    .least = 0,
    .most = 1000000,
    .examples = cat_examples,
    .flags = cat_flags,
    .more = "A broken transfer resumes with the same version. A complete "
            "object is verified: exit code 6 when its bytes do not\n"
            "match."};

static const struct flag head_flags[] = {
    {"lines", 'n', "N", "so many lines; 10 unless given", false},
    {"bytes", 'c', "SIZE", "so many bytes instead", false},
    SELECT_FLAGS,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const head_examples[] = {"forebay head s3://logs/today.txt",
                                            "forebay head -c 512 s3://b/image.img | xxd",
                                            NULL};
static const struct verb head = {.name = "head",
                                 .summary = "write the beginning of objects",
                                 .arguments = "s3://BUCKET/KEY...",
                                 .least = 0,
                                 .most = 1000000,
                                 .examples = head_examples,
                                 .flags = head_flags};

struct cut {
    struct session *s;
    struct stream_range range;
    uint64_t lines, left; /* of head -n */
};

static enum err
cat_take_lines(void *arg, const char *at, size_t len, struct errbuf *eb)
{
    struct cut *c = arg;
    size_t n = 0;
    enum err rc;

    while (n < len && c->left > 0)
        c->left -= at[n++] == '\n';
    rc = transfer_to_stdout(NULL, at, n, eb);
    return rc == ERR_OK && c->left == 0 ? ERR_NOT_MODIFIED : rc;
}

static enum err
cat_on_found(void *arg, const struct place *p, const struct found *e, struct errbuf *eb)
{
    struct cut *c = arg;

    if (!p->remote)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\": expected s3://BUCKET/KEY", p->text);
    c->left = c->lines;
    if (output_is_over())
        return ERR_NOT_MODIFIED;
    return transfer_stream(c->s, e->bucket, span_of(e->path), &c->range,
                           c->lines > 0 ? cat_take_lines : transfer_to_stdout, c, eb);
}

/* "5-9", "5-" */
static enum err
take_range(const char *text, struct stream_range *r, struct errbuf *eb)
{
    const char *dash = strchr(text, '-');
    bool good = dash != NULL && dash != text &&
                num_u64((struct span){text, (size_t)(dash - text)}, &r->first) == ERR_OK;

    r->set = true;
    r->last = UINT64_MAX;
    if (good && dash[1] != '\0')
        good = num_u64(span_of(dash + 1), &r->last) == ERR_OK && r->last >= r->first;
    if (good)
        return ERR_OK;
    return err_set(eb, ERR_BAD_REQUEST, "--range \"%s\": expected FIRST-LAST or FIRST-",
                   text);
}

static enum err
cat_take_flags(struct cut *c, struct errbuf *eb)
{
    const struct args *a = c->s->args;
    const char *text;
    enum err rc = ERR_OK;

    if (a->verb == &cat) {
        s3_client_want_latest(c->s->s3, args_has(a, "latest"));
        if ((text = args_value(a, "range")) != NULL)
            rc = take_range(text, &c->range, eb);
        if (rc == ERR_OK && (text = args_value(a, "tail")) != NULL) {
            c->range = (struct stream_range){.set = true, .first = UINT64_MAX};
            rc = num_size(span_of(text), &c->range.last, eb);
        }
        return rc;
    }
    c->lines = 10;
    if ((text = args_value(a, "lines")) != NULL &&
        (num_u64(span_of(text), &c->lines) != ERR_OK || c->lines == 0))
        return err_set(eb, ERR_BAD_REQUEST, "--lines \"%s\": expected a number from 1 on",
                       text);
    if ((text = args_value(a, "bytes")) != NULL) {
        c->range.set = true;
        c->lines = 0;
        rc = num_size(span_of(text), &c->range.last, eb);
        if (rc == ERR_OK && c->range.last-- == 0)
            rc = err_set(eb, ERR_BAD_REQUEST, "--bytes is at least 1");
    }
    return rc;
}

static enum exit_code
cat_act(struct session *s)
{
    struct cut c = {.s = s};
    struct select sel;
    enum err rc = cat_take_flags(&c, &s->eb);

    if (rc == ERR_OK)
        rc = select_init(&sel, s, WALK_ONE, &s->eb);
    if (rc == ERR_OK && s->args->count == 0 && args_value(s->args, "from-file") == NULL)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "%s wants s3://BUCKET/KEY",
                     s->args->verb->name);
    if (rc != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    rc = select_all(&sel, s->args->count, cat_on_found, &c, &s->eb);
    if (rc == ERR_OK && s->stale)
        return EXIT_DIFFERS; /* a pattern stands for more, perhaps */
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
cat_run(const struct args *a)
{
    return session_run(a, cat_act, NULL);
}
const struct cli_verb cli_cat = {&cat, cat_run}, cli_head = {&head, cat_run};
