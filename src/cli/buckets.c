/* buckets: mb and rb; bucket.c has the verb that attaches and sets. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/attached.h"
#include "cli/list_pages.h"
#include "cli/remove.h"
#include "cli/select.h"
#include "cli/session.h"

/* ---- mb ---- */

static const struct flag mb_flags[] = {
    {"dry-run", 'n', NULL, "print what would be created, change nothing", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const mb_examples[] = {"forebay mb s3://train", NULL};
static const struct verb mb = {.name = "mb",
                               .summary = "make a bucket",
                               .arguments = "s3://BUCKET...",
                               .least = 1,
                               .most = 1000,
                               .examples = mb_examples,
                               .flags = mb_flags};

/* Would the name be taken? */
static enum err
would_make(struct session *s, struct span bucket, struct s3_failure *f)
{
    enum err rc = s3_bucket_head(s->s3, bucket, f, &s->eb);

    if (rc == ERR_OK)
        return err_set(&s->eb, ERR_EXISTS, "s3://%.*s already exists", SPAN_ARG(bucket));
    return rc == ERR_NOT_FOUND || rc == ERR_NO_BUCKET ? ERR_OK : rc;
}

static enum exit_code
make_all(struct session *s)
{
    bool dry = args_has(s->args, "dry-run");

    for (size_t i = 0; i < s->args->count; i++) {
        struct s3_failure f;
        struct place p;
        enum err rc = place_bucket(s->args->at[i], &p, &s->eb);

        if (rc == ERR_OK && p.key.len > 0) {
            err_set(&s->eb, ERR_BAD_REQUEST,
                    "\"%s\" names more than a bucket: folders are made by the objects in "
                    "them; mb s3://%.*s",
                    p.text, SPAN_ARG(p.bucket));
            return cli_usage(&s->eb, &mb);
        }
        if (rc == ERR_OK)
            rc = dry ? would_make(s, p.bucket, &f)
                     : s3_bucket_make(s->s3, p.bucket, &f, &s->eb);
        if (rc != ERR_OK)
            return session_fail(s, rc);
        if (s->output == OUTPUT_NAME)
            printf("s3://%.*s\n", SPAN_ARG(p.bucket));
        else if (!s->quiet && !s->json)
            printf("%s s3://%.*s\n", dry ? "would make" : "made", SPAN_ARG(p.bucket));
    }
    return EXIT_OK_;
}

static enum exit_code
run_mb(const struct args *a)
{
    return session_run(a, make_all, NULL);
}
const struct cli_verb cli_mb = {&mb, run_mb};

/* ---- rb ---- */

static const struct flag rb_flags[] = {
    {"force", 0, NULL, "delete its objects first, after a count and a question", false},
    {"remote", 0, NULL,
     "with --force, of an attached bucket: delete its objects at the remote, then detach",
     false},
    {"yes", 'y', NULL, "do not ask", false},
    {"dry-run", 'n', NULL, "print what would be deleted, change nothing", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const rb_examples[] = {"forebay rb s3://train",
                                          "forebay rb s3://old --force --yes", NULL};
static const struct verb rb = {.name = "rb",
                               .summary = "remove a bucket",
                               .arguments = "s3://BUCKET",
                               .least = 1,
                               .most = 1,
                               .examples = rb_examples,
                               .flags = rb_flags,
                               .more =
                                   "An attached bucket is not removed: forebay bucket "
                                   "detach drops its cached copies and leaves the\n"
                                   "remote as it is."};

struct emptying {
    struct remover remover;
    struct session *s;
    struct span bucket;
    uint64_t count, bytes;
};

static enum err
rb_count_one(void *arg, const struct s3xml_list_entry *e)
{
    struct emptying *x = arg;

    x->count++;
    x->bytes += e->size;
    return ERR_OK;
}

static enum err
rb_add_one(void *arg, const struct s3xml_list_entry *e)
{
    struct emptying *x = arg;

    return remover_add(&x->remover, x->bucket, e->key, e->size, &x->s->eb);
}

static enum err
find_all(struct flow *f, void *arg, struct errbuf *eb)
{
    struct emptying *x = CONTAINER_OF(arg, struct emptying, remover);
    enum err rc = list_pages(f->s, x->bucket, SPAN(""), SPAN(""), rb_add_one, x, eb);

    return rc == ERR_OK ? remover_flush(&x->remover, eb) : rc;
}

/* Says first how much it is. */
static enum exit_code
empty_bucket(struct session *s, struct span bucket, const char *where)
{
    struct flow *f = xcalloc(1, sizeof *f);
    struct emptying x = {.remover = {.f = f}, .s = s, .bucket = bucket};
    char size[NUM_SIZE_TEXT];
    enum exit_code code = EXIT_OK_;
    enum err rc = list_pages(s, bucket, SPAN(""), SPAN(""), rb_count_one, &x, &s->eb);

    if (rc == ERR_OK && !args_has(s->args, "dry-run"))
        rc = session_all_listed(s);
    if (rc == ERR_OK && x.count > 0) {
        if (!s->quiet)
            fprintf(stderr, "s3://%.*s holds %llu object%s, %s: deleted first%s\n",
                    SPAN_ARG(bucket), (unsigned long long)x.count,
                    x.count == 1 ? "" : "s", num_size_text(x.bytes, size), where);
        x.remover.attached.asked = true;
        x.remover.dry = args_has(s->args, "dry-run");
        x.remover.tell = x.remover.dry && !s->quiet && s->output != OUTPUT_JSON;
        if (!x.remover.dry)
            rc =
                select_agreed(s, &s->eb, "delete %llu object%s%s, and %s s3://%.*s",
                              (unsigned long long)x.count, x.count == 1 ? "" : "s", where,
                              where[0] != '\0' ? "detach" : "remove", SPAN_ARG(bucket));
    }
    if (rc == ERR_OK && x.count > 0) {
        *f = (struct flow){.s = s,
                           .did = x.remover.dry ? "would delete" : "deleted",
                           .dry = x.remover.dry,
                           .find = find_all,
                           .act = remover_act,
                           .drop = remover_drop,
                           .arg = &x.remover,
                           .parallel = 8,
                           .silent = true};
        code = flow_run(f);
    }
    remover_fini(&x.remover);
    free(f);
    if (rc == ERR_BAD_REQUEST)
        return cli_usage(&s->eb, &rb);
    return rc == ERR_OK ? code : session_fail(s, rc);
}

/* What lies at a remote is removed only when --remote says so. `where`: " at the remote ...", or "". */
static enum err
rb_check(struct session *s, const struct place *p, const char *where)
{
    bool force = args_has(s->args, "force"), remote = args_has(s->args, "remote");

    if (remote && !force)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "--remote deletes the objects of a bucket at its remote: it wants "
                       "--force too");
    if (remote && where[0] == '\0')
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "s3://%.*s is not attached: --remote is for a bucket that is",
                       SPAN_ARG(p->bucket));
    if (!remote && where[0] != '\0')
        return err_set(
            &s->eb, ERR_BAD_REQUEST,
            "s3://%.*s is attached, its objects are%s. forebay bucket detach "
            "s3://%.*s drops the cached copies and leaves the remote as it is; "
            "rb --force --remote deletes the objects there",
            SPAN_ARG(p->bucket), where, SPAN_ARG(p->bucket));
    return ERR_OK;
}

static enum err
rb_find_remote(struct session *s, const struct place *p, char where[ATTACHED_TEXT])
{
    struct attached t = {.count = 0};
    const struct attached_bucket *b;
    enum err rc = attached_find(&t, s->s3, p->bucket, &b, &s->eb);

    where[0] = '\0';
    if (rc == ERR_OK)
        (void)attached_text(&t, s->s3, p->bucket, where);
    attached_fini(&t);
    return rc;
}

static enum exit_code
remove_bucket(struct session *s)
{
    bool dry = args_has(s->args, "dry-run"), force = args_has(s->args, "force");
    char where[ATTACHED_TEXT] = "";
    struct s3_failure f;
    struct place p;
    enum err rc = place_bucket(s->args->at[0], &p, &s->eb);

    if (rc == ERR_OK && p.key.len > 0)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "\"%s\" names an object; rm removes those",
                     p.text);
    if (rc == ERR_OK)
        rc = rb_find_remote(s, &p, where);
    if (rc == ERR_OK)
        rc = rb_check(s, &p, where);
    if (rc == ERR_BAD_REQUEST)
        return cli_usage(&s->eb, &rb);
    if (rc == ERR_OK && force) {
        enum exit_code code = empty_bucket(s, p.bucket, where);

        if (code != EXIT_OK_)
            return code;
    }
    if (rc == ERR_OK && dry) {
        printf("would %s s3://%.*s%s\n", where[0] != '\0' ? "detach" : "remove",
               SPAN_ARG(p.bucket), force ? "" : ", if it is empty");
        return EXIT_OK_;
    }
    if (rc == ERR_OK)
        rc = s3_bucket_remove(s->s3, p.bucket, &f, &s->eb);
    if (rc == ERR_NOT_EMPTY)
        err_set(&s->eb, rc, "s3://%.*s is not empty", SPAN_ARG(p.bucket));
    if (rc != ERR_OK)
        return session_fail(s, rc);
    if (s->output == OUTPUT_NAME)
        printf("s3://%.*s\n", SPAN_ARG(p.bucket));
    else if (!s->quiet && !s->json && where[0] != '\0')
        printf("detached s3://%.*s; its bucket%s, stays, empty\n", SPAN_ARG(p.bucket),
               where);
    else if (!s->quiet && !s->json)
        printf("removed s3://%.*s\n", SPAN_ARG(p.bucket));
    return EXIT_OK_;
}

static enum exit_code
run_rb(const struct args *a)
{
    return session_run(a, remove_bucket, NULL);
}
const struct cli_verb cli_rb = {&rb, run_rb};
