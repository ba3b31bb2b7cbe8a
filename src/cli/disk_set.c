/* disk ls, add, drain, remove: the disks of a node that serves. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/local.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "rt/fiber.h"
#include "rt/time.h"
#include "wire/json.h"
#include "wire/json_get.h"

#define POLL_MS    500
#define ANSWER_MAX MIB(1)

/* ---- what is shown ---- */

/* "moving: 120 of 1000 objects looked at, 12 moved (1.2 MiB), 3 MiB/s, 8 s left" */
static void
moving_text(const json_t *doc, struct buf *out)
{
    const json_t *m = json_object_get(doc, "moving");
    uint64_t seen = json_get_u64(m, "seen"), total = json_get_u64(m, "total");
    uint64_t ms = json_get_u64(m, "elapsed_ms"), bytes = json_get_u64(m, "moved_bytes");
    char size[NUM_SIZE_TEXT], rate[NUM_SIZE_TEXT];

    buf_clear(out);
    buf_printf(out, "moving: %llu of %llu objects looked at, %llu moved (%s)",
               (unsigned long long)seen, (unsigned long long)total,
               (unsigned long long)json_get_u64(m, "moved"), num_size_text(bytes, size));
    if (ms > 0 && bytes > 0)
        buf_printf(out, ", %s/s", num_size_text(bytes * 1000 / ms, rate));
    if (seen > 0 && total > seen)
        buf_printf(out, ", %llu s left",
                   (unsigned long long)(ms * (total - seen) / seen / 1000 + 1));
    if (json_is_true(json_object_get(m, "waiting")))
        buf_puts(out, ", waiting for older uploads to end");
    if (json_get_u64(m, "failed") > 0)
        buf_printf(out, ", %llu FAILED: %s",
                   (unsigned long long)json_get_u64(m, "failed"),
                   json_get_text(m, "why", ""));
}

static void
disk_set_print_table(const json_t *doc)
{
    char used[NUM_SIZE_TEXT], free_text[NUM_SIZE_TEXT];
    struct buf line;
    size_t i;
    json_t *d;

    printf("%-8s  %-9s %-9s %10s %10s %10s  %s\n", "ID", "STATE", "HEALTH", "OBJECTS",
           "HOLDS", "FREE", "PATH");
    json_array_foreach(json_object_get(doc, "disks"), i, d)
    {
        printf("%.8s  %-9s %-9s %10llu %10s %10s  %s\n", json_get_text(d, "id", ""),
               json_get_text(d, "state", ""), json_get_text(d, "health", ""),
               (unsigned long long)json_get_u64(d, "objects"),
               num_size_text(json_get_u64(d, "native_bytes") +
                                 json_get_u64(d, "cached_bytes"),
                             used),
               num_size_text(json_get_u64(d, "free_bytes"), free_text),
               json_get_text(d, "path", ""));
        if (json_get_text(d, "why", "")[0] != '\0')
            printf("          %s\n", json_get_text(d, "why", ""));
        if (strcmp(json_get_text(d, "index", ""), "damaged") == 0)
            printf("          its index is DAMAGED: misses are not answered by 404 "
                   "and no space is reclaimed; the next start rebuilds it\n");
        else if (strcmp(json_get_text(d, "index", ""), "unproven") == 0 &&
                 strcmp(json_get_text(d, "health", ""), "failed") != 0)
            printf("          its index is being verified: %llu %%\n",
                   (unsigned long long)json_get_u64(d, "index_percent"));
    }
    if (json_get_u64(doc, "repairs_waiting") > 0)
        printf("%llu damaged copies wait for repair\n",
               (unsigned long long)json_get_u64(doc, "repairs_waiting"));
    if (json_get_text(doc, "job", "")[0] != '\0')
        printf("job %s\n", json_get_text(doc, "job", ""));
    if (json_is_true(json_object_get(doc, "converged")))
        return;
    buf_init(&line, KIB(4));
    moving_text(doc, &line);
    printf("%.*s\n", SPAN_ARG(buf_span(&line)));
    buf_fini(&line);
}

/* ---- calls ---- */

static enum err
disk_set_ask(struct session *s, struct arena *a, const struct s3_request *r, json_t **doc,
             struct span *answer)
{
    enum err rc = admin_call(s, r, a, answer);

    return rc == ERR_OK ? admin_list(s, *answer, "disks", doc) : rc;
}

/* Until every object lies where it should; one line that is rewritten on a terminal, else one each ten seconds. */
static enum err
wait_converged(struct session *s, struct arena *a, json_t **doc, struct span *answer)
{
    struct s3_request r = {.method = "GET", .path = SPAN("/_/disks")};
    bool terminal = terminal_is(stderr);
    uint64_t shown = 0;
    struct buf line;
    enum err rc = ERR_OK;

    buf_init(&line, KIB(4));
    while (rc == ERR_OK && !json_is_true(json_object_get(*doc, "converged"))) {
        moving_text(*doc, &line);
        if (!s->quiet && !s->json && (terminal || rt_now_ns() - shown > 10000000000u)) {
            buf_putc(&line, '\0');
            if (terminal)
                terminal_line(line.at);
            else
                fprintf(stderr, "%s\n", line.at);
            shown = rt_now_ns();
        }
        rc = rt_sleep_ms(POLL_MS);
        json_decref(*doc);
        *doc = NULL;
        arena_reset(a);
        if (rc == ERR_OK)
            rc = disk_set_ask(s, a, &r, doc, answer);
    }
    if (terminal && shown > 0)
        terminal_clear();
    buf_fini(&line);
    return rc;
}

static bool
wants_to_wait(const struct args *a)
{
    return args_has(a, "wait") || (!args_has(a, "no-wait") && isatty(1) == 1);
}

/* One call that changes something; then what came of it. */
static enum exit_code
disk_set_change(struct session *s, const char *path, struct buf *body, bool may_wait)
{
    struct arena *a = arena_new(KIB(16), ANSWER_MAX);
    struct s3_request r = {
        .method = "POST", .path = span_of(path), .body = buf_span(body)};
    struct span answer = {"", 0};
    json_t *doc = NULL;
    enum err rc = disk_set_ask(s, a, &r, &doc, &answer);

    if (rc == ERR_OK && may_wait && wants_to_wait(s->args))
        rc = wait_converged(s, a, &doc, &answer);
    if (rc == ERR_OK && !admin_print(s, answer, "disks", "", "id") && !s->quiet)
        disk_set_print_table(doc);
    json_decref(doc);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

/* ---- ls ---- */

static const struct flag ls_flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const ls_examples[] = {"forebay disk ls", NULL};
static const struct verb ls = {.name = "disk ls",
                               .summary =
                                   "list the disks of a node and what moves between them",
                               .arguments = "",
                               .examples = ls_examples,
                               .flags = ls_flags};

static enum exit_code
disk_set_list(struct session *s)
{
    struct arena *a = arena_new(KIB(16), ANSWER_MAX);
    struct s3_request r = {.method = "GET", .path = SPAN("/_/disks")};
    struct span answer = {"", 0};
    json_t *doc = NULL;
    enum err rc = disk_set_ask(s, a, &r, &doc, &answer);

    if (rc == ERR_OK && !admin_print(s, answer, "disks", "", "id"))
        disk_set_print_table(doc);
    json_decref(doc);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
disk_set_run_ls(const struct args *a)
{
    return session_run(a, disk_set_list, NULL);
}
const struct cli_verb cli_disk_ls = {&ls, disk_set_run_ls};

/* ---- add ---- */

#define WAIT_FLAGS                                                                       \
    {"wait", 0, NULL, "wait until every object is on its disks; default on a terminal",  \
     false},                                                                             \
    {                                                                                    \
        "no-wait", 0, NULL, "return immediately; forebay disk ls shows the progress",    \
            false                                                                        \
    }

static const struct flag add_flags[] = {
    {"create", 0, NULL, "make the folder where it is missing", false},
    {"not-empty", 0, NULL, "the folder may hold other things: data is put beside them",
     false},
    WAIT_FLAGS,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const add_examples[] = {"forebay disk add /mnt/disk4", NULL};
static const struct verb add = {
    .name = "disk add",
    .summary = "add a disk to a running node, or take back one that was out",
    .arguments = "DIR",
    .least = 1,
    .most = 1,
    .examples = add_examples,
    .flags = add_flags,
    .more = "The folder is on the server's machine. Objects that belong on the "
            "new disk move in the background. Name the folder at\n"
            "the next start of the server, too. A disk of this node that is out of "
            "service is taken "
            "back, and gets what it missed.",
};

static enum exit_code
do_add(struct session *s)
{
    char *whole = local_absolute(s->args->at[0]);
    struct buf body;
    struct json j;
    enum exit_code rc;

    buf_init(&body, KIB(16));
    json_begin(&j, &body);
    json_open_object(&j, NULL);
    json_text(&j, "path", whole);
    json_bool(&j, "create", args_has(s->args, "create"));
    json_bool(&j, "not_empty", args_has(s->args, "not-empty"));
    json_end(&j);
    rc = disk_set_change(s, "/_/disks", &body, true);
    buf_fini(&body);
    free(whole);
    return rc;
}

static enum exit_code
disk_set_run_add(const struct args *a)
{
    return session_run(a, do_add, NULL);
}
const struct cli_verb cli_disk_add = {&add, disk_set_run_add};

/* ---- drain, remove ---- */

/* A folder that is here is said by its whole path, as the server lists it; else it may be the beginning of an id. */
static enum exit_code
change_one(struct session *s, const char *path, const char *flag, bool may_wait)
{
    const char *disk = s->args->at[0];
    char *whole = local_is_folder(disk) ? local_absolute(disk) : xstrdup(disk);
    struct buf body;
    struct json j;
    enum exit_code rc;

    buf_init(&body, KIB(16));
    json_begin(&j, &body);
    json_open_object(&j, NULL);
    json_text(&j, "disk", whole);
    json_bool(&j, flag, args_has(s->args, flag));
    json_end(&j);
    rc = disk_set_change(s, path, &body, may_wait);
    buf_fini(&body);
    free(whole);
    return rc;
}

static const struct flag drain_flags[] = {
    {"undo", 0, NULL, "cancel the drain: the disk takes its share of objects again",
     false},
    WAIT_FLAGS,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const drain_examples[] = {
    "forebay disk drain /mnt/disk2", "forebay disk drain 3f9a01c7 --no-wait", NULL};
static const struct verb drain = {
    .name = "disk drain",
    .summary = "move the objects of a disk to the other disks",
    .arguments = "DISK",
    .least = 1,
    .most = 1,
    .examples = drain_examples,
    .flags = drain_flags,
    .more = "DISK is a path as disk ls shows it, or the beginning of an id. Objects stay "
            "readable all the time.",
};

static enum exit_code
do_drain(struct session *s)
{
    return change_one(s, "/_/disks/-/drain", "undo", true);
}

static enum exit_code
run_drain(const struct args *a)
{
    return session_run(a, do_drain, NULL);
}
const struct cli_verb cli_disk_drain = {&drain, run_drain};

static const struct flag remove_flags[] = {
    {"force", 0, NULL, "even if it holds the only copy of an object, which is lost then",
     false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const remove_examples[] = {"forebay disk remove /mnt/disk2", NULL};
static const struct verb remove_verb = {
    .name = "disk remove",
    .summary = "remove a drained or lost disk",
    .arguments = "DISK",
    .least = 1,
    .most = 1,
    .examples = remove_examples,
    .flags = remove_flags,
    .more =
        "Refused while the disk may hold the only copy of an object. A removed disk is "
        "refused when it comes back.",
};

static enum exit_code
do_remove(struct session *s)
{
    return change_one(s, "/_/disks/-/remove", "force", false);
}

static enum exit_code
run_remove(const struct args *a)
{
    return session_run(a, do_remove, NULL);
}
const struct cli_verb cli_disk_remove = {&remove_verb, run_remove};
