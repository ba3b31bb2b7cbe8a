/* pin, unpin: what of an attached bucket stays on the server. */
#include <stdio.h>

#include "base/mem.h"
#include "cli/admin.h"
#include "cli/names.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"dry-run", 'n', NULL, "print what would be done, change nothing", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};

static const char *const pin_examples[] = {"forebay pin s3://train/val/",
                                           "forebay bucket ls --json", NULL};
static const struct verb pin_verb = {
    .name = "pin",
    .summary = "never evict cached objects of a prefix of an attached bucket",
    .arguments = "s3://BUCKET/PREFIX",
    .least = 1,
    .most = 1,
    .examples = pin_examples,
    .flags = flags,
    .more = "Nothing is fetched: `forebay prefetch` does that. At most 64 pins a bucket; "
            "`bucket ls --json` shows them."};

static const char *const unpin_examples[] = {"forebay unpin s3://train/val/", NULL};
static const struct verb unpin_verb = {.name = "unpin",
                                       .summary = "remove a pin",
                                       .arguments = "s3://BUCKET/PREFIX",
                                       .least = 1,
                                       .most = 1,
                                       .examples = unpin_examples,
                                       .flags = flags};

static enum exit_code
pin_ask(struct session *s, const char *member)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_request r = {.method = "PATCH"};
    struct span answer = {"", 0};
    struct place p;
    struct buf doc;
    struct json j;
    enum err rc = place_parse(s->args->at[0], &p, &s->eb);

    if (rc == ERR_OK && !p.remote)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "\"%s\": expected s3://BUCKET/PREFIX",
                     s->args->at[0]);
    if (rc == ERR_OK && args_has(s->args, "dry-run")) {
        printf("would %s s3://%.*s/%.*s\n", member, SPAN_ARG(p.bucket),
               SPAN_ARG(name_shown(p.key, a)));
        arena_free(&a);
        return EXIT_OK_;
    }
    buf_init(&doc, KIB(16));
    json_begin(&j, &doc);
    json_open_object(&j, NULL);
    if (rc == ERR_OK)
        json_span(&j, member, p.key);
    json_end(&j);
    r.body = buf_span(&doc);
    if (rc == ERR_OK) {
        r.path = span_of(arena_printf(a, "/_/buckets/%.*s", SPAN_ARG(p.bucket)));
        rc = admin_call(s, &r, a, &answer);
    }
    if (rc == ERR_OK && s->json)
        printf("%.*s\n", SPAN_ARG(answer));
    buf_fini(&doc);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
pin_pin(struct session *s)
{
    return pin_ask(s, "pin");
}

static enum exit_code
pin_unpin(struct session *s)
{
    return pin_ask(s, "unpin");
}

static enum exit_code
run_pin(const struct args *a)
{
    return session_run(a, pin_pin, NULL);
}
const struct cli_verb cli_pin = {&pin_verb, run_pin};

static enum exit_code
run_unpin(const struct args *a)
{
    return session_run(a, pin_unpin, NULL);
}
const struct cli_verb cli_unpin = {&unpin_verb, run_unpin};
