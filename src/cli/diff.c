/* diff: what differs between two places, by sizes and checksums; no object is moved. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/output.h"
#include "cli/pairs.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"checksum", 'c', NULL, "compare ETags, ignore times", false},
    {"size-only", 0, NULL, "compare sizes alone", false},
    {"no-follow", 0, NULL, "skip symbolic links of a local place", false},
    {"to-endpoint-url", 0, "URL", "another server for RIGHT", false},
    {"to-profile", 0, "NAME", "its profile, of config.toml or the AWS files", false},
    {"to-region", 0, "NAME", "region to sign for there; us-east-1", false},
    SELECT_FLAGS,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay diff ./images s3://train/images",
    "forebay diff s3://train s3://backup/train -o jsonl",
    "forebay diff s3://train s3://train --to-endpoint-url https://other:9000", NULL};
static const struct verb verb = {
    .name = "diff",
    .summary = "list the differences between two places",
    .arguments = "LEFT RIGHT",
    .least = 2,
    .most = 2,
    .examples = examples,
    .flags = flags,
    .more =
        "< only left, > only right, ! not the same. Exit code 1 when something differs."};

struct differing {
    struct session *s;
    uint64_t count, same, failed;
    struct buf text;
    struct json json;
};

static void
diff_tell(struct differing *d, char mark, const struct pair *p)
{
    struct arena *a;
    const struct found *e = p->left != NULL ? p->left : p->right;

    d->count++;
    if (d->s->output == OUTPUT_JSONL)
        json_begin(&d->json, &d->text);
    if (d->s->json) {
        json_open_object(&d->json, NULL);
        json_span(&d->json, "name", e->name);
        json_text(&d->json, "is",
                  mark == '<'   ? "only left"
                  : mark == '>' ? "only right"
                                : "different");
        if (p->left != NULL)
            json_u64(&d->json, "left_size", p->left->size);
        if (p->right != NULL)
            json_u64(&d->json, "right_size", p->right->size);
        json_end(&d->json);
        printf("%.*s%s", SPAN_ARG(buf_span(&d->text)),
               d->s->output == OUTPUT_JSONL ? "\n" : "");
        buf_clear(&d->text);
        return;
    }
    if (d->s->output == OUTPUT_NAME) {
        printf("%.*s\n", SPAN_ARG(e->name));
        return;
    }
    a = arena_new(KIB(4), MIB(1));
    printf("%s%c%s %.*s\n", cli_paint(stdout, mark == '>' ? PAINT_GOOD : PAINT_BAD), mark,
           cli_paint(stdout, PAINT_OFF), SPAN_ARG(name_shown(e->name, a)));
    arena_free(&a);
}

/* What sync would leave out, or could not read, is no difference that it would mend. */
static bool
diff_skips(struct differing *d, const struct found *e)
{
    if (e == NULL || e->problem == NULL)
        return false;
    if (!e->odd)
        d->failed++;
    if (!e->odd)
        cli_say(e->path, e->problem);
    else if (!d->s->quiet)
        fprintf(stderr, "forebay: left out: %s: %s\n", e->path, e->problem);
    return true;
}

static enum err
diff_compare_pair(struct differing *d, struct pairs *pairs, const struct pair *p,
                  enum pairs_by by)
{
    const struct found *l = p->left, *r = p->right;
    const struct place *left = pairs_place(pairs, false);
    const struct found *object = left->remote ? l : r, *file = left->remote ? r : l;
    enum pairs_same same;
    bool equal = false;
    enum err rc = ERR_OK;

    if (diff_skips(d, l) || diff_skips(d, r))
        return ERR_OK;
    if (l == NULL || r == NULL) {
        diff_tell(d, l != NULL ? '<' : '>', p);
        return output_check(&d->s->eb);
    }
    same = pairs_compare(pairs, p, by);
    if (same == PAIRS_ASK && left->remote != pairs_place(pairs, true)->remote)
        rc = pairs_file_is(d->s, file->path, object->bucket, span_of(object->path),
                           object->etag, &equal, &d->s->eb);
    if (rc == ERR_OK && same != PAIRS_SAME && !equal)
        diff_tell(d, '!', p);
    else
        d->same++;
    return rc == ERR_OK ? output_check(&d->s->eb) : rc;
}

static enum err
diff_check_remote(struct session *s)
{
    enum err rc = ERR_OK;
    struct place p;

    for (size_t i = 0; rc == ERR_OK && i < 2; i++) {
        rc = place_parse(s->args->at[i], &p, &s->eb);
        if (rc == ERR_OK && !p.remote)
            rc = err_set(&s->eb, ERR_BAD_REQUEST,
                         "--to-endpoint-url and --to-profile are for two buckets; "
                         "--endpoint-url names the server of one");
    }
    return rc;
}

static enum exit_code
diff_act(struct session *s)
{
    const struct args *a = s->args;
    struct differing d = {.s = s};
    enum pairs_by by = args_has(a, "size-only")  ? PAIRS_SIZE
                       : args_has(a, "checksum") ? PAIRS_CHECKSUM
                                                 : PAIRS_USUAL;
    struct pairs *pairs = NULL;
    struct select sel;
    struct pair p;
    enum err rc = select_init(&sel, s, WALK_BELOW, &s->eb);

    buf_init(&d.text, MIB(1));
    if (s->output == OUTPUT_JSON) {
        json_begin(&d.json, &d.text);
        json_open_array(&d.json, NULL);
    }
    sel.walk.no_follow = args_has(a, "no-follow");
    if (rc == ERR_OK && s->to != s->s3)
        rc = diff_check_remote(s);
    if (rc == ERR_OK)
        rc = pairs_open(&sel, a->at[0], a->at[1], &pairs, &s->eb);
    if (rc == ERR_OK && !pairs_place(pairs, false)->remote &&
        !pairs_place(pairs, true)->remote)
        rc = err_set(&s->eb, ERR_BAD_REQUEST,
                     "neither place is on a server: diff -r does");
    while (rc == ERR_OK) {
        rc = pairs_next(pairs, &p, &s->eb);
        if (rc != ERR_OK || (p.left == NULL && p.right == NULL))
            break;
        rc = diff_compare_pair(&d, pairs, &p, by);
    }
    pairs_close(&pairs);
    if (rc == ERR_OK && s->output == OUTPUT_JSON) {
        json_end(&d.json);
        printf("%.*s\n", SPAN_ARG(buf_span(&d.text)));
    }
    buf_fini(&d.text);
    if (rc == ERR_NOT_MODIFIED && output_is_over())
        return EXIT_DIFFERS; /* what was read said so */
    if (rc != ERR_OK)
        return session_fail(s, rc);
    fflush(stdout);
    if (!s->quiet)
        fprintf(stderr, "%" PRIu64 " differ, %" PRIu64 " are the same\n", d.count,
                d.same);
    return d.count > 0 || d.failed > 0 || s->stale ? EXIT_DIFFERS : EXIT_OK_;
}

static enum exit_code
diff_run(const struct args *a)
{
    return session_run(a, diff_act, NULL);
}
const struct cli_verb cli_diff = {&verb, diff_run};
