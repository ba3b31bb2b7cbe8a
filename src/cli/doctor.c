/* doctor: what is wrong with a server or the way to it, and what mends it. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/doctor_memory.h"
#include "cli/ping.h"
#include "rt/time.h"
#include "wire/json_get.h"

#define LITTLE_LEFT 10 /* hundredths of a disk: less is reported */

static const struct flag doctor_flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const doctor_examples[] = {
    "forebay doctor", "forebay doctor --endpoint-url http://node7:9000", NULL};
static const struct verb doctor_verb = {
    .name = "doctor",
    .summary = "check a server and the path to it, and advise on repairs",
    .arguments = "",
    .examples = doctor_examples,
    .flags = doctor_flags,
    .more = "Checks the connection, readiness, keys, disks and attached "
            "buckets. Exit code 0 when all is well, 1 when a check fails, 5 "
            "without a response."};

struct doctor {
    struct session *s;
    unsigned wrong;
    json_t *found; /* owned; of JSON */
};

/* One line: what was looked at; where it is wrong, `fix` says what to do. */
static void doctor_tell(struct doctor *d, const char *what, const char *fix,
                        const char *fmt, ...) PRINTF(4, 5);
static void
doctor_tell(struct doctor *d, const char *what, const char *fix, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    d->wrong += fix != NULL;
    if (d->s->json) {
        json_t *one = json_object();

        json_object_set_new(one, "what", json_string(what));
        json_object_set_new(one, "ok", json_boolean(fix == NULL));
        json_object_set_new(one, "says", json_string(text));
        if (fix != NULL)
            json_object_set_new(one, "fix", json_string(fix));
        json_array_append_new(d->found, one);
        return;
    }
    if (fix != NULL || !d->s->quiet)
        printf("%s%-5s%s  %-10s  %s\n",
               cli_paint(stdout, fix == NULL ? PAINT_GOOD : PAINT_BAD),
               fix == NULL ? "ok" : "WRONG", cli_paint(stdout, PAINT_OFF), what, text);
    if (fix != NULL)
        printf("                   fix: %s\n", fix);
}

/* A page of the server as JSON; NULL: not available, which was reported. */
static json_t *
doctor_page(struct doctor *d, const char *path, const char *what)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_request r = {.method = "GET", .path = span_of(path)};
    struct errbuf before = d->s->eb;
    struct span answer;
    json_t *doc = NULL;
    enum err rc = admin_call(d->s, &r, a, &answer);

    if (rc == ERR_OK)
        doc = json_loadb(answer.at, answer.len, 0, NULL);
    else if (rc == ERR_DENIED)
        doctor_tell(d, what, NULL, "not shown to these keys: administrators see it");
    d->s->eb = before;
    arena_free(&a);
    return doc;
}

static void
look_at_disks(struct doctor *d, const json_t *stat)
{
    const json_t *disk = json_object_get(stat, "disk"), *one;
    uint64_t total = json_get_u64(disk, "total_bytes"),
             left = json_get_u64(disk, "free_bytes");
    char size[NUM_SIZE_TEXT], parts[NUM_SIZE_TEXT], begun[128] = "";
    size_t i;

    json_array_foreach(json_object_get(stat, "disks"), i, one)
    {
        const char *state = json_get_text(one, "state", "?");

        if (strcmp(state, "ok") == 0)
            doctor_tell(d, "disk", NULL, "%s is well", json_get_text(one, "path", "?"));
        else
            doctor_tell(
                d, "disk",
                strcmp(state, "failed") == 0
                    ? "reconnect it, or remove it with forebay disk remove; "
                      "docs/recovery.md says what may be lost"
                    : "forebay disk drain it and replace it; docs/recovery.md says "
                      "what may be lost",
                "%s is %s: %s", json_get_text(one, "path", "?"), state,
                json_get_text(one, "why", "reason unknown"));
        if (json_get_u64(one, "corrupt_blocks") > 0)
            doctor_tell(d, "disk",
                        "look at the disk's own health (smartctl); forebay disk scrub",
                        "%s gave %llu damaged blocks", json_get_text(one, "path", "?"),
                        (unsigned long long)json_get_u64(one, "corrupt_blocks"));
    }
    if (total == 0)
        return;
    (void)num_size_text(left, size);
    if (json_get_u64(disk, "open_bytes") > 0)
        snprintf(begun, sizeof begun,
                 "; %s are in unfinished uploads: repeat their commands, or forebay rm "
                 "--uploads",
                 num_size_text(json_get_u64(disk, "open_bytes"), parts));
    if (left < total / 100 * LITTLE_LEFT)
        doctor_tell(d, "space",
                    "delete, add a disk (forebay disk add), or lower cache.budget",
                    "%s free: less than %d %%%s", size, LITTLE_LEFT, begun);
    else
        doctor_tell(d, "space", NULL, "%s free", size);
}

static void
look_at_memory(struct doctor *d, const json_t *stat)
{
    char text[512];

    if (json_object_get(stat, "block_cache") == NULL)
        return; /* an older server */
    doctor_memory_text(stat, text, sizeof text);
    doctor_tell(d, "memory", NULL, "%s", text);
}

static void
look_at_keys(struct doctor *d)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_bucket_entry *list = NULL;
    struct errbuf eb = {{0}};
    struct s3_failure f;
    uint32_t count = 0;
    enum err rc = s3_list_buckets(d->s->s3, a, &list, &count, &f, &eb);

    if (rc == ERR_OK)
        doctor_tell(d, "keys", NULL, "they open %u bucket%s", count,
                    count == 1 ? "" : "s");
    else
        doctor_tell(d, "keys",
                    strstr(eb.text, "TimeTooSkewed") != NULL
                        ? "set the clock of this machine or of the server (NTP)"
                        : "forebay env --origin says which keys are used and from where",
                    "%s", eb.text);
    arena_free(&a);
}

/* Each attached bucket is listed for one key: that asks its remote. */
static void
look_at_remotes(struct doctor *d, const json_t *doc)
{
    const json_t *b;
    size_t i;

    json_array_foreach(json_object_get(doc, "buckets"), i, b)
    {
        struct arena *a = arena_new(KIB(64), MIB(4));
        const char *name = json_get_text(b, "name", "");
        struct s3_list l = {.bucket = span_of(name), .max_keys = 1};
        struct s3_list_page found;
        struct errbuf eb = {{0}};
        struct s3_failure f;

        if (json_is_true(json_object_get(b, "cached"))) {
            if (s3_list_objects(d->s->s3, &l, a, &found, &f, &eb) != ERR_OK)
                doctor_tell(
                    d, "remote",
                    "forebay bucket attach it again with keys and endpoint that work",
                    "s3://%s: %s", name, eb.text);
            else if (found.stale)
                doctor_tell(
                    d, "remote",
                    "see that the server reaches the endpoint that forebay bucket ls "
                    "names",
                    "s3://%s: the remote does not respond; cached objects are served",
                    name);
            else
                doctor_tell(d, "remote", NULL, "s3://%s answers", name);
        }
        arena_free(&a);
    }
}

/* A server that runs alone has no such page. */
static void
look_at_cluster(struct doctor *d, const json_t *doc)
{
    const char *name = json_get_text(doc, "cluster", "?");
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(doc, "problems"), i, one)
        doctor_tell(d, "cluster", json_get_text(one, "do", "forebay cluster show"), "%s",
                    json_get_text(one, "what", ""));
    json_array_foreach(json_object_get(doc, "notes"), i, one)
        doctor_tell(d, "cluster", NULL, "%s", json_string_value(one));
    if (json_is_true(json_object_get(doc, "whole")))
        doctor_tell(d, "cluster", NULL, "all %zu nodes of %s are up",
                    json_array_size(json_object_get(doc, "nodes")), name);
}

/* -o json: one document; -o jsonl: a line for each thing that was looked at. */
static void
print_found(const struct doctor *d)
{
    json_t *one;
    size_t i;

    if (d->s->output == OUTPUT_JSON) {
        json_dumpf(d->found, stdout, JSON_INDENT(2));
        putchar('\n');
        return;
    }
    json_array_foreach(d->found, i, one)
    {
        json_dumpf(one, stdout, JSON_COMPACT);
        putchar('\n');
    }
}

static enum exit_code
doctor(struct session *s)
{
    struct doctor d = {.s = s, .found = json_array()};
    uint64_t began = rt_now_ns();
    int status = 0;
    json_t *doc;
    enum err rc = ping_ask(s, "/_/livez", &status);

    if (rc != ERR_OK) {
        if (s->json) {
            doctor_tell(&d, "server",
                        "is one running there? --endpoint-url names another", "%s",
                        s->eb.text);
            print_found(&d);
        }
        json_decref(d.found);
        return session_fail(s, rc);
    }
    doctor_tell(&d, "server", NULL, "%s answers in %.1f ms", s->endpoint,
                (double)(rt_now_ns() - began) / 1e6);
    if (status == 200) {
        rc = ping_ready(s);
        doctor_tell(&d, "ready", rc == ERR_OK ? NULL : "wait, or read the server's log",
                    "%s", rc == ERR_OK ? "it serves" : s->eb.text);
    }
    look_at_keys(&d);
    if (status == 200 && (doc = doctor_page(&d, "/_/stat", "disk")) != NULL) {
        look_at_disks(&d, doc);
        look_at_memory(&d, doc);
        json_decref(doc);
    }
    if (status == 200 && (doc = doctor_page(&d, "/_/buckets", "remote")) != NULL) {
        look_at_remotes(&d, doc);
        json_decref(doc);
    }
    if (status == 200 && (doc = doctor_page(&d, "/_/cluster", "cluster")) != NULL) {
        look_at_cluster(&d, doc);
        json_decref(doc);
    }
    if (s->json)
        print_found(&d);
    json_decref(d.found);
    return d.wrong == 0 ? EXIT_OK_ : EXIT_DIFFERS;
}

static enum exit_code
run_doctor(const struct args *a)
{
    return session_run(a, doctor, NULL);
}
const struct cli_verb cli_doctor = {&doctor_verb, run_doctor};
