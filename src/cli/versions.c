#include "cli/versions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/names.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/select.h"
#include "wire/json.h"

typedef enum err version_on(void *arg, const struct s3xml_version_entry *v,
                            struct errbuf *eb);

/* Every version of the keys that begin so, the newest of a key first; ERR_NOT_MODIFIED of `on` ends the walk. May
 * switch. */
static enum err
versions_walk(struct session *s, const struct place *p, version_on *on, void *arg,
              struct errbuf *eb)
{
    struct s3_version_list l = {.prefix = p->key};
    struct arena *pages[2] = {arena_new(KIB(64), MIB(16)), arena_new(KIB(64), MIB(16))};
    struct s3xml_version_list page = {.truncated = true};
    struct s3_failure f;
    enum err rc = ERR_OK;

    for (unsigned turn = 0; rc == ERR_OK && page.truncated; turn ^= 1) {
        arena_reset(pages[turn]); /* the markers lie in the other one */
        rc = s3_version_list(s->s3, p->bucket, &l, pages[turn], &page, &f, eb);
        for (size_t i = 0; rc == ERR_OK && i < page.count; i++)
            rc = on(arg, &page.entries[i], eb);
        l.key_marker = page.next_key;
        l.id_marker = page.next_id;
        if (rc == ERR_OK && page.truncated && page.next_key.len == 0)
            rc = err_set(eb, ERR_BACKEND, "the server's list of versions has no end");
    }
    arena_free(&pages[0]);
    arena_free(&pages[1]);
    return rc == ERR_NOT_MODIFIED ? ERR_OK : rc;
}

/* ---- ls --versions ---- */

struct versions_listing {
    struct session *s;
    struct span bucket;
    struct pick pick;
    struct json json;
    struct buf text;
    struct arena *a;
};

static void
version_json(struct versions_listing *l, const struct s3xml_version_entry *v,
             const char *date)
{
    if (l->s->output == OUTPUT_JSONL)
        json_begin(&l->json, &l->text);
    json_open_object(&l->json, NULL);
    json_span(&l->json, "key", v->key);
    json_span(&l->json, "version_id", v->version_id);
    json_bool(&l->json, "latest", v->is_latest);
    json_bool(&l->json, "delete_marker", v->is_marker);
    if (!v->is_marker) {
        json_u64(&l->json, "size", v->size);
        json_span(&l->json, "etag", v->etag);
    }
    json_text(&l->json, "modified", date);
    json_end(&l->json);
    fwrite(l->text.at, 1, l->text.len, stdout);
    if (l->s->output == OUTPUT_JSONL)
        putchar('\n');
    buf_clear(&l->text);
}

static enum err
version_show(void *arg, const struct s3xml_version_entry *v, struct errbuf *eb)
{
    struct versions_listing *l = arg;
    struct found e = {.size = v->size, .mtime_ms = v->mtime_ms};
    char date[NUM_DATE_TEXT], size[32];

    if (!pick_wants(&l->pick, &e))
        return ERR_OK;
    arena_reset(l->a);
    date_iso(v->mtime_ms, date);
    snprintf(size, sizeof size, "%" PRIu64, v->size);
    if (l->s->json)
        version_json(l, v, date);
    else if (l->s->output == OUTPUT_NAME)
        printf("s3://%.*s/%.*s\n", SPAN_ARG(l->bucket), SPAN_ARG(v->key));
    else
        printf("%24s %12s %-7s %.*s  %.*s\n", date, v->is_marker ? "deleted" : size,
               v->is_latest ? "latest" : "older", SPAN_ARG(v->version_id),
               SPAN_ARG(name_shown(v->key, l->a)));
    return output_check(eb);
}

enum exit_code
versions_ls(struct session *s)
{
    const struct args *a = s->args;
    struct versions_listing l = {.s = s, .a = arena_new(KIB(64), MIB(16))};
    enum err rc = pick_init(&l.pick, a, &s->eb);

    buf_init(&l.text, MIB(1));
    if (s->output == OUTPUT_JSON) {
        json_begin(&l.json, &l.text);
        json_open_array(&l.json, NULL);
    }
    if (rc == ERR_OK && a->count == 0)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "--versions needs s3://BUCKET[/PREFIX]");
    for (size_t i = 0; rc == ERR_OK && i < a->count; i++) {
        struct place p;

        rc = place_remote(a->at[i], false, &p, &s->eb);
        l.bucket = p.bucket;
        if (rc == ERR_OK && !args_has(a, "literal") && glob_is(p.key))
            rc = err_set(&s->eb, ERR_BAD_REQUEST,
                         "\"%s\": --versions takes a prefix, no pattern", a->at[i]);
        if (rc == ERR_OK)
            rc = versions_walk(s, &p, version_show, &l, &s->eb);
    }
    if (rc == ERR_OK && s->output == OUTPUT_JSON) {
        json_end(&l.json);
        printf("%.*s\n", SPAN_ARG(buf_span(&l.text)));
    }
    buf_fini(&l.text);
    arena_free(&l.a);
    if (rc == ERR_BAD_REQUEST)
        return cli_usage(&s->eb, a->verb);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

/* ---- one object: its versions, the newest first ---- */

struct versions_of {
    struct span key;
    struct arena *a;                   /* owned */
    struct s3xml_version_entry at;     /* the latest, a marker or not */
    struct s3xml_version_entry before; /* the newest older one that is no marker */
    struct s3xml_version_entry wanted; /* the one of `id` */
    struct span id;                    /* empty: none is looked for */
    unsigned count;
};

static void
version_keep(struct versions_of *o, struct s3xml_version_entry *to,
             const struct s3xml_version_entry *v)
{
    *to = *v;
    to->key = arena_span(o->a, v->key);
    to->version_id = arena_span(o->a, v->version_id);
    to->etag = arena_span(o->a, v->etag);
}

static enum err
version_look(void *arg, const struct s3xml_version_entry *v, struct errbuf *eb)
{
    struct versions_of *o = arg;

    (void)eb;
    if (!span_eq(v->key, o->key)) /* keys come in order: those that are longer follow */
        return o->count > 0 ? ERR_NOT_MODIFIED : ERR_OK;
    o->count++;
    if (v->is_latest)
        version_keep(o, &o->at, v);
    else if (!v->is_marker && o->before.version_id.len == 0)
        version_keep(o, &o->before, v);
    if (o->id.len > 0 && span_eq(v->version_id, o->id))
        version_keep(o, &o->wanted, v);
    return ERR_OK;
}

static enum err
versions_find(struct session *s, const struct place *p, struct versions_of *o)
{
    enum err rc;

    o->key = p->key;
    o->a = arena_new(KIB(16), MIB(1));
    rc = versions_walk(s, p, version_look, o, &s->eb);
    if (rc == ERR_OK && o->count == 0)
        rc = err_set(&s->eb, ERR_NOT_FOUND, "\"%s\" has no versions, and never had any",
                     p->text);
    return rc;
}

static const char *
version_text(const struct s3xml_version_entry *v, char *out, size_t room)
{
    char date[NUM_DATE_TEXT], size[NUM_SIZE_TEXT];

    date_iso(v->mtime_ms, date);
    snprintf(out, room, "%.*s, %s, of %s", SPAN_ARG(v->version_id),
             v->is_marker ? "a delete marker" : num_size_text(v->size, size), date);
    return out;
}

/* ---- rm --version ---- */

static enum err
version_remove(struct session *s, struct versions_of *o)
{
    const struct args *a = s->args;
    struct s3_failure f;
    struct place p;
    char text[256];
    enum err rc;

    o->id = span_of(args_value(a, "version"));
    if (a->count != 1 || args_has(a, "recursive") || args_value(a, "from-file") != NULL)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "--version deletes one version of one object: s3://BUCKET/KEY");
    rc = place_remote(a->at[0], true, &p, &s->eb);
    if (rc == ERR_OK)
        rc = versions_find(s, &p, o);
    if (rc == ERR_OK && o->wanted.version_id.len == 0)
        rc =
            err_set(&s->eb, ERR_NOT_FOUND,
                    "\"%s\" has no version \"%.*s\"; forebay ls --versions %s lists them",
                    p.text, SPAN_ARG(o->id), p.text);
    if (rc != ERR_OK)
        return rc;
    version_text(&o->wanted, text, sizeof text);
    if (args_has(a, "dry-run")) {
        printf("would delete the version %s of %s\n", text, p.text);
        return ERR_OK;
    }
    rc = select_agreed(s, &s->eb, "delete the version %s of %s for ever", text, p.text);
    if (rc == ERR_OK)
        rc = s3_version_delete(s->s3, p.bucket, p.key, o->id, &f, &s->eb);
    if (rc == ERR_OK && !s->quiet && !s->json)
        printf("deleted the version %s of %s\n", text, p.text);
    return rc;
}

enum exit_code
versions_rm(struct session *s)
{
    struct versions_of o = {.count = 0};
    enum err rc = version_remove(s, &o);

    arena_free(&o.a);
    if (rc == ERR_BAD_REQUEST)
        return cli_usage(&s->eb, s->args->verb);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

/* ---- undo ---- */

static const struct flag undo_flags[] = {
    {"dry-run", 'n', NULL, "print what would be done, change nothing", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const undo_examples[] = {"forebay undo s3://train/labels.json",
                                            "forebay undo -n s3://train/labels.json",
                                            NULL};
static const struct verb undo_verb = {
    .name = "undo",
    .summary = "take back the last overwrite or delete of an object with versions",
    .arguments = "s3://BUCKET/KEY",
    .least = 1,
    .most = 1,
    .examples = undo_examples,
    .flags = undo_flags,
    .more =
        "A deleted object comes back: its delete marker is removed. An overwritten "
        "object gets the content that it had\nbefore, as a new version; what it has "
        "now stays as an older one, so a second undo takes the first one back.\nNeeds "
        "a bucket with versions."};

/* Removing a marker, or adding a version: no bytes go, whatever else happens at the same time. */
static enum err
undo_one(struct session *s, const struct place *p, struct versions_of *o)
{
    bool dry = args_has(s->args, "dry-run");
    struct s3_failure f;
    char text[256];
    enum err rc = versions_find(s, p, o);

    if (rc != ERR_OK)
        return rc;
    if (o->before.version_id.len == 0)
        return err_set(&s->eb, ERR_NOT_FOUND,
                       "\"%s\" has no older version to go back to: either it was written "
                       "once, or s3://%.*s keeps no versions",
                       p->text, SPAN_ARG(p->bucket));
    version_text(&o->before, text, sizeof text);
    if (!dry && o->at.is_marker)
        rc = s3_version_delete(s->s3, p->bucket, p->key, o->at.version_id, &f, &s->eb);
    else if (!dry)
        rc = s3_version_restore(s->s3, p->bucket, p->key, o->before.version_id, &f,
                                &s->eb);
    if (rc == ERR_OK && !s->quiet && !s->json)
        printf("%s %s: %s the version %s\n", dry ? "would restore" : "restored", p->text,
               o->at.is_marker ? "the delete marker goes, and back comes" : "a copy of",
               text);
    return rc;
}

static enum exit_code
undo_act(struct session *s)
{
    struct versions_of o = {.count = 0};
    struct place p;
    enum err rc = place_remote(s->args->at[0], true, &p, &s->eb);

    if (rc != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    rc = undo_one(s, &p, &o);
    arena_free(&o.a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
undo_run(const struct args *a)
{
    return session_run(a, undo_act, NULL);
}
const struct cli_verb cli_undo = {&undo_verb, undo_run};
