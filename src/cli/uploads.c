#include "cli/uploads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/attached.h"
#include "cli/names.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/select.h"
#include "rt/fiber.h"
#include "wire/json.h"

struct upload_found {
    struct span bucket, key, id;
    int64_t begun_ms;
};
typedef enum err upload_on(void *arg, const struct upload_found *u, struct errbuf *eb);

/* Every upload of one place that the flags choose. May switch. */
static enum err
uploads_walk(struct session *s, const struct place *p, upload_on *on, void *arg,
             struct errbuf *eb)
{
    struct s3_upload_list l = {.prefix = p->key, .max_uploads = 1000};
    struct arena *pages[2] = {arena_new(KIB(64), MIB(16)), arena_new(KIB(64), MIB(16))};
    struct s3_upload_page page = {.truncated = true};
    struct pick pick;
    struct s3_failure f;
    enum err rc = pick_init(&pick, s->args, eb);

    for (unsigned turn = 0; rc == ERR_OK && page.truncated; turn ^= 1) {
        arena_reset(pages[turn]); /* the markers lie in the other one */
        rc = s3_upload_list(s->s3, p->bucket, &l, pages[turn], &page, &f, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < page.count; i++) {
            struct upload_found u = {p->bucket, page.entries[i].key,
                                     page.entries[i].upload_id, page.entries[i].begun_ms};

            if (u.id.len > 0 && pick_wants_time(&pick, u.begun_ms))
                rc = on(arg, &u, eb);
        }
        if (page.count == 0)
            break;
        l.key_marker = page.entries[page.count - 1].key;
        l.id_marker = page.entries[page.count - 1].upload_id;
    }
    arena_free(&pages[0]);
    arena_free(&pages[1]);
    return rc;
}

/* The same of all arguments. ERR_BAD_REQUEST: an argument, or a flag, that has no meaning here. */
static enum err
uploads_all(struct session *s, upload_on *on, void *arg, struct errbuf *eb)
{
    const struct args *a = s->args;
    enum err rc = ERR_OK;

    if (a->count == 0 || args_value(a, "from-file") != NULL)
        return err_set(eb, ERR_BAD_REQUEST, "--uploads needs s3://BUCKET[/PREFIX]");
    if (args_value(a, "larger") != NULL || args_value(a, "smaller") != NULL ||
        args_value(a, "include") != NULL || args_value(a, "exclude") != NULL)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "--uploads chooses by --older-than, --newer-than and a prefix only");
    for (size_t i = 0; rc == ERR_OK && i < a->count; i++) {
        struct place p;

        rc = place_remote(a->at[i], false, &p, eb);
        if (rc == ERR_OK && !args_has(a, "literal") && glob_is(p.key))
            rc = err_set(eb, ERR_BAD_REQUEST,
                         "\"%s\": --uploads takes a prefix, no pattern", a->at[i]);
        if (rc == ERR_OK)
            rc = uploads_walk(s, &p, on, arg, eb);
    }
    return rc;
}

/* ---- ls ---- */

struct uploads_listing {
    struct session *s;
    struct json json;
    struct buf text;
    struct arena *a;
    uint64_t count;
};

/* Parts and bytes that have arrived, up to a thousand parts. */
static void
uploads_weigh(struct uploads_listing *l, const struct upload_found *u, uint32_t *parts,
              uint64_t *bytes)
{
    struct s3_part_page page;
    struct s3_failure f;
    struct errbuf eb = {{0}};

    *parts = 0;
    *bytes = 0;
    if (s3_part_list(l->s->s3, u->bucket, u->key, u->id, 0, 1000, l->a, &page, &f, &eb) !=
        ERR_OK)
        return;
    *parts = page.count;
    for (uint32_t i = 0; i < page.count; i++)
        *bytes += page.parts[i].size;
}

static enum err
uploads_show(void *arg, const struct upload_found *u, struct errbuf *eb)
{
    struct uploads_listing *l = arg;
    char date[NUM_DATE_TEXT];
    uint32_t parts;
    uint64_t bytes;

    arena_reset(l->a);
    date_iso(u->begun_ms, date);
    l->count++;
    if (l->s->output == OUTPUT_NAME) {
        printf("s3://%.*s/%.*s\n", SPAN_ARG(u->bucket), SPAN_ARG(u->key));
        return output_check(eb);
    }
    uploads_weigh(l, u, &parts, &bytes);
    if (!l->s->json) {
        printf("%24s %12" PRIu64 " %6u parts  %.*s  s3://%.*s/%.*s\n", date, bytes, parts,
               SPAN_ARG(u->id), SPAN_ARG(u->bucket), SPAN_ARG(name_shown(u->key, l->a)));
        return output_check(eb);
    }
    if (l->s->output == OUTPUT_JSONL)
        json_begin(&l->json, &l->text);
    json_open_object(&l->json, NULL);
    json_span(&l->json, "bucket", u->bucket);
    json_span(&l->json, "key", u->key);
    json_span(&l->json, "upload_id", u->id);
    json_text(&l->json, "begun", date);
    json_u64(&l->json, "parts", parts);
    json_u64(&l->json, "bytes", bytes);
    json_end(&l->json);
    fwrite(l->text.at, 1, l->text.len, stdout);
    if (l->s->output == OUTPUT_JSONL)
        putchar('\n');
    buf_clear(&l->text);
    return output_check(eb);
}

enum exit_code
uploads_ls(struct session *s)
{
    struct uploads_listing l = {.s = s, .a = arena_new(KIB(64), MIB(16))};
    enum err rc;

    buf_init(&l.text, MIB(1));
    if (s->output == OUTPUT_JSON) {
        json_begin(&l.json, &l.text);
        json_open_array(&l.json, NULL);
    }
    rc = uploads_all(s, uploads_show, &l, &s->eb);
    if (rc == ERR_OK && s->output == OUTPUT_JSON) {
        json_end(&l.json);
        printf("%.*s\n", SPAN_ARG(buf_span(&l.text)));
    }
    buf_fini(&l.text);
    arena_free(&l.a);
    if (rc == ERR_BAD_REQUEST)
        return cli_usage(&s->eb, s->args->verb);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

/* ---- rm ---- */

/* First they are counted, then these, and no others, are aborted. */
struct uploads_removing {
    struct session *s;
    struct arena *a; /* owned */
    struct upload_found *at;
    size_t count, room;
    struct attached attached;
};
#define UPLOADS_MAX 1000000

static enum err
uploads_keep(void *arg, const struct upload_found *u, struct errbuf *eb)
{
    struct uploads_removing *r = arg;

    if (r->count == UPLOADS_MAX)
        return err_set(eb, ERR_TOO_LARGE, "over %d uploads: give a longer prefix",
                       UPLOADS_MAX);
    if (r->count == r->room) {
        r->room = MAX(2 * r->room, (size_t)64);
        r->at = xrealloc(r->at, r->room * sizeof *r->at);
    }
    r->at[r->count++] =
        (struct upload_found){arena_span(r->a, u->bucket), arena_span(r->a, u->key),
                              arena_span(r->a, u->id), u->begun_ms};
    return ERR_OK;
}

static enum err
uploads_agree(struct uploads_removing *r)
{
    struct session *s = r->s;
    char which[PICK_TEXT], where[ATTACHED_TEXT];

    if (args_has(s->args, "dry-run") || r->count == 0)
        return ERR_OK;
    pick_text(s->args, which);
    return select_agreed(s, &s->eb,
                         "abort %zu unfinished uploads below %s%s%s%s%s; their parts are "
                         "deleted, objects stay",
                         r->count, s->args->at[0],
                         s->args->count > 1 ? " and others" : "",
                         which[0] != '\0' ? ", " : "", which,
                         attached_text(&r->attached, s->s3, r->at[0].bucket, where));
}

static enum exit_code
uploads_abort(struct uploads_removing *r)
{
    struct session *s = r->s;
    bool dry = args_has(s->args, "dry-run");
    enum err rc = ERR_OK;
    size_t failed = 0;

    for (size_t i = 0; i < r->count && !rt_cancelled(); i++) {
        const struct upload_found *u = &r->at[i];
        struct s3_failure f;
        struct errbuf eb = {{0}};
        struct arena *a = arena_new(KIB(4), MIB(1));
        enum err one =
            dry ? ERR_OK : s3_upload_abort(s->s3, u->bucket, u->key, u->id, &f, &eb);

        if (one != ERR_OK && one != ERR_NO_UPLOAD) { /* ended meanwhile: nothing to do */
            failed++;
            rc = one;
            s->eb = eb;
            fprintf(stderr, "forebay: s3://%.*s/%.*s: %s\n", SPAN_ARG(u->bucket),
                    SPAN_ARG(name_shown(u->key, a)), eb.text);
        } else if (!s->quiet && !s->json) {
            printf("%s the upload %.*s of s3://%.*s/%.*s\n",
                   dry ? "would abort" : "aborted", SPAN_ARG(u->id), SPAN_ARG(u->bucket),
                   SPAN_ARG(name_shown(u->key, a)));
        }
        arena_free(&a);
    }
    if (!s->quiet)
        fprintf(stderr, "%s %zu uploads%s\n", dry ? "would abort" : "aborted",
                r->count - failed, failed > 0 ? "; others failed" : "");
    if (failed > 0 && failed < r->count)
        return EXIT_DIFFERS;
    return rc == ERR_OK ? EXIT_OK_ : cli_exit_of(rc);
}

enum exit_code
uploads_rm(struct session *s)
{
    struct uploads_removing r = {.s = s, .a = arena_new(KIB(64), MIB(1024))};
    enum exit_code code = EXIT_OK_;
    enum err rc = uploads_all(s, uploads_keep, &r, &s->eb);

    if (rc == ERR_OK)
        rc = uploads_agree(&r);
    if (rc == ERR_OK)
        code = uploads_abort(&r);
    attached_fini(&r.attached);
    free(r.at);
    arena_free(&r.a);
    if (rc == ERR_BAD_REQUEST)
        return cli_usage(&s->eb, s->args->verb);
    return rc == ERR_OK ? code : session_fail(s, rc);
}
