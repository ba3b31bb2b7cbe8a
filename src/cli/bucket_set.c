/* bucket set: settings of one bucket. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/jobs.h"
#include "cli/session.h"
#include "wire/json.h"
#include "wire/json_get.h"

static const struct flag flags[] = {
    {"anonymous-read", 0, "on|off", "allow reading and listing without keys", false},
    {"copies", 0, "N",
     "number of disks that hold each object; a job copies existing objects", false},
    {"wait", 0, NULL, "with --copies: wait until that job has ended", false},
    {"min-copies", 0, "N", "number of copies that a write needs; default: all", false},
    {"quota-bytes", 0, "SIZE", "limit of its bytes, as 10GiB; none: no limit", false},
    {"quota-objects", 0, "N", "limit of its objects; none: no limit", false},
    {"cache-budget", 0, "SIZE",
     "limit of cached bytes of an attached bucket; none: only the node's budget", false},
    {"ttl", 0, "TIME",
     "time to live of cached objects, as 10m; always: revalidate each read; never: do "
     "not "
     "revalidate",
     false},
    {"abort-uploads-after", 0, "TIME",
     "abort uploads that were begun so long ago and never completed, as 7d; never: keep "
     "them",
     false},
    {"stale", 0, "serve|fail",
     "when the remote cannot be asked: serve the cached copy, or fail", false},
    {"dry-run", 'n', NULL, "validate everything and change nothing", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay bucket set s3://shards --anonymous-read on",
    "forebay bucket set s3://models --copies 2",
    "forebay bucket set s3://scratch --quota-bytes 10GiB --quota-objects 1000000",
    "forebay bucket set s3://training --ttl 10m",
    "forebay bucket set s3://models --abort-uploads-after 7d",
    NULL};
static const struct verb verb = {.name = "bucket set",
                                 .summary = "change settings of a bucket",
                                 .arguments = "s3://BUCKET",
                                 .least = 1,
                                 .most = 1,
                                 .examples = examples,
                                 .flags = flags};

static enum err
set_number(const struct args *a, const char *flag, const char *member, struct json *j,
           unsigned *members, struct errbuf *eb)
{
    const char *text = args_value(a, flag);
    uint64_t n = 0;

    if (text == NULL)
        return ERR_OK;
    if (num_u64(span_of(text), &n) != ERR_OK || n < 1)
        return err_set(eb, ERR_BAD_REQUEST, "--%s \"%s\": expected a number from 1 on",
                       flag, text);
    json_u64(j, member, n);
    (*members)++;
    return ERR_OK;
}

/* A size or a number; "none" is 0. */
static enum err
set_quota(const struct args *a, const char *flag, const char *member, bool size,
          struct json *j, unsigned *members, struct errbuf *eb)
{
    const char *text = args_value(a, flag);
    uint64_t n = 0;
    enum err rc = ERR_OK;

    if (text == NULL)
        return ERR_OK;
    if (strcmp(text, "none") != 0)
        rc = size ? num_size(span_of(text), &n, eb)
             : num_u64(span_of(text), &n) == ERR_OK
                 ? ERR_OK
                 : err_set(eb, ERR_BAD_REQUEST, "expected a number or none");
    if (rc != ERR_OK) {
        err_prefix(eb, "--%s \"%s\"", flag, text);
        return rc;
    }
    json_u64(j, member, n);
    (*members)++;
    return ERR_OK;
}

static enum err
set_ttl(const struct args *a, struct json *j, unsigned *members, struct errbuf *eb)
{
    const char *text = args_value(a, "ttl");
    uint64_t ms = 0;
    enum err rc = ERR_OK;

    if (text == NULL)
        return ERR_OK;
    if (strcmp(text, "always") == 0)
        ms = 1;
    else if (strcmp(text, "never") != 0)
        rc = num_duration_ms(span_of(text), &ms, eb);
    if (rc == ERR_OK && ms == 0 && strcmp(text, "never") != 0)
        rc = err_set(eb, ERR_BAD_REQUEST, "to ask each time, say always");
    if (rc != ERR_OK)
        err_prefix(eb, "--ttl \"%s\"", text);
    json_u64(j, "ttl_ms", ms);
    (*members)++;
    return rc;
}

static enum err
set_upload_ttl(const struct args *a, struct json *j, unsigned *members, struct errbuf *eb)
{
    const char *text = args_value(a, "abort-uploads-after");
    uint64_t ms = 0;
    enum err rc = ERR_OK;

    if (text == NULL)
        return ERR_OK;
    if (strcmp(text, "never") != 0) {
        rc = num_duration_ms(span_of(text), &ms, eb);
        if (rc == ERR_OK && ms < 1000)
            rc = err_set(eb, ERR_BAD_REQUEST, "at least 1s, or never");
    }
    if (rc != ERR_OK)
        err_prefix(eb, "--abort-uploads-after \"%s\"", text);
    json_u64(j, "upload_ttl_ms", ms);
    (*members)++;
    return rc;
}

static enum err
set_stale(const struct args *a, struct json *j, unsigned *members, struct errbuf *eb)
{
    const char *text = args_value(a, "stale");
    bool fail = text != NULL && strcmp(text, "fail") == 0;

    if (text == NULL)
        return ERR_OK;
    if (!fail && strcmp(text, "serve") != 0)
        return err_set(eb, ERR_BAD_REQUEST, "--stale \"%s\": expected serve or fail",
                       text);
    json_bool(j, "fail_stale", fail);
    (*members)++;
    return ERR_OK;
}

/* One flag is one member of the document. */
static enum err
set_document(const struct args *a, struct json *j, struct errbuf *eb)
{
    const char *anonymous = args_value(a, "anonymous-read");
    unsigned members = 0;
    enum err rc;

    json_open_object(j, NULL);
    rc = set_number(a, "copies", "copies", j, &members, eb);
    if (rc == ERR_OK)
        rc = set_number(a, "min-copies", "min_copies", j, &members, eb);
    if (rc == ERR_OK)
        rc = set_quota(a, "quota-bytes", "quota_bytes", true, j, &members, eb);
    if (rc == ERR_OK)
        rc = set_quota(a, "cache-budget", "cache_budget", true, j, &members, eb);
    if (rc == ERR_OK)
        rc = set_quota(a, "quota-objects", "quota_objects", false, j, &members, eb);
    if (rc == ERR_OK)
        rc = set_ttl(a, j, &members, eb);
    if (rc == ERR_OK)
        rc = set_upload_ttl(a, j, &members, eb);
    if (rc == ERR_OK)
        rc = set_stale(a, j, &members, eb);
    if (rc != ERR_OK)
        return rc;
    if (anonymous != NULL) {
        bool on = strcmp(anonymous, "on") == 0;

        if (!on && strcmp(anonymous, "off") != 0)
            return err_set(eb, ERR_BAD_REQUEST,
                           "--anonymous-read \"%s\": expected on or off", anonymous);
        json_bool(j, "anonymous_read", on);
        members++;
    }
    if (args_has(a, "dry-run"))
        json_bool(j, "dry_run", true);
    json_end(j);
    return members > 0 ? ERR_OK
                       : err_set(eb, ERR_BAD_REQUEST,
                                 "bucket set: nothing to set; --help lists the settings");
}

/* The job that brings objects where they should be now. */
static enum exit_code
tell_job(struct session *s, struct span answer)
{
    enum exit_code code = EXIT_OK_;
    json_t *doc = json_loadb(answer.at, answer.len, 0, NULL);
    const char *id = json_get_text(doc, "job", "");

    if (id[0] != '\0' && args_has(s->args, "wait")) {
        code = jobs_wait(s, id);
    } else if (s->json) {
        printf("%.*s\n", SPAN_ARG(answer));
    } else if (id[0] != '\0' && !s->quiet) {
        printf("job %s copies the objects to their disks; forebay wait %s\n", id, id);
    }
    json_decref(doc);
    return code;
}

static enum exit_code
cli_bucket_set(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_request r = {.method = "PATCH"};
    struct span answer;
    struct place p;
    struct buf doc;
    struct json j;
    enum exit_code code = EXIT_OK_;
    enum err rc = place_bucket(s->args->at[0], &p, &s->eb);

    buf_init(&doc, KIB(4));
    json_begin(&j, &doc);
    if (rc == ERR_OK)
        rc = set_document(s->args, &j, &s->eb);
    r.body = buf_span(&doc);
    if (rc == ERR_OK) {
        r.path = span_of(arena_printf(a, "/_/buckets/%.*s", SPAN_ARG(p.bucket)));
        rc = admin_call(s, &r, a, &answer);
    }
    if (rc == ERR_OK && !s->json && !s->quiet && args_has(s->args, "dry-run"))
        printf("would set s3://%.*s\n", SPAN_ARG(p.bucket));
    else if (rc == ERR_OK)
        code = tell_job(s, answer);
    buf_fini(&doc);
    arena_free(&a);
    return rc == ERR_OK ? code : session_fail(s, rc);
}

static enum exit_code
run_bucket_set(const struct args *a)
{
    return session_run(a, cli_bucket_set, NULL);
}
const struct cli_verb cli_bucket_set_verb = {&verb, run_bucket_set};
