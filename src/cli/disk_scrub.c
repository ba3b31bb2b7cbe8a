/* disk scrub: what the scrubs of a running server do, and asking for a pass. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "rt/fiber.h"
#include "wire/json_get.h"

#define WAIT_MS 200u

static const struct flag flags[] = {
    SESSION_FLAGS,
    {"wait", 'w', NULL, "start: wait until the pass has ended", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {"forebay disk scrub status",
                                       "forebay disk scrub start --wait", NULL};
static const struct verb verb = {
    .name = "disk scrub",
    .summary = "show what a server's scrubs found; start a pass",
    .arguments = "status|start",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more = "A scrub reads everything that lives on a disk continuously, one "
            "pass a week (scrub.pass). A pass that you start runs at\n"
            "scrub.rate. Exit code 6 when damage remains.",
};

static enum err
disk_scrub_ask(struct session *s, const char *method, struct arena *a,
               struct span *answer, json_t **doc)
{
    struct s3_request r = {.method = method, .path = SPAN("/_/scrub")};
    int status = 0;
    enum err rc = s3_request(s->s3, &r, a, &status, answer, &s->eb);

    *doc = NULL;
    if (rc == ERR_OK && status != 200)
        return err_set(&s->eb, status == 403 ? ERR_DENIED : ERR_BACKEND, "%.*s",
                       SPAN_ARG(*answer));
    if (rc != ERR_OK)
        return rc;
    return admin_list(s, *answer, "disks", doc);
}

static void
print_disk(const json_t *d)
{
    const json_t *p = json_object_get(d, "pass"),
                 *findings = json_object_get(d, "findings");
    char done[NUM_SIZE_TEXT], all[NUM_SIZE_TEXT];
    size_t i;
    json_t *f;

    printf("%s  %s  pass %llu: %llu objects, %s of about %s, %llu findings, %llu of them "
           "repaired\n",
           json_get_text(d, "disk", "-"), json_get_text(d, "state", "-"),
           (unsigned long long)json_get_u64(p, "number"),
           (unsigned long long)json_get_u64(p, "objects"),
           num_size_text(json_get_u64(p, "bytes"), done),
           num_size_text(json_get_u64(d, "total_bytes"), all),
           (unsigned long long)json_get_u64(p, "findings"),
           (unsigned long long)json_get_u64(p, "repaired"));
    json_array_foreach(findings, i, f)
    {
        printf("  %-8s s3://%s/%s  %s", json_get_text(f, "outcome", "-"),
               json_get_text(f, "bucket", "-"), json_get_text(f, "key", "-"),
               json_get_text(f, "what", "-"));
        if (json_get_u64(f, "part") > 0)
            printf(" of part %llu", (unsigned long long)json_get_u64(f, "part"));
        printf(", block %llu (pass %llu, %s)\n",
               (unsigned long long)json_get_u64(f, "block"),
               (unsigned long long)json_get_u64(f, "pass"),
               json_get_text(f, "found", "-"));
    }
}

/* Does any disk still run the pass that was asked for? *open: findings of the passes that are not repaired. */
static bool
is_running(const json_t *doc, uint64_t *open)
{
    bool running = false;
    size_t i;
    json_t *d;

    *open = 0;
    json_array_foreach(json_object_get(doc, "disks"), i, d)
    {
        const json_t *p = json_object_get(d, "pass");

        running = running || strcmp(json_get_text(d, "state", "-"), "running") == 0;
        *open += json_get_u64(p, "findings") -
                 MIN(json_get_u64(p, "findings"), json_get_u64(p, "repaired"));
    }
    return running;
}

static enum exit_code
disk_scrub_show(struct session *s, struct span answer, const json_t *doc, uint64_t open)
{
    size_t i;
    json_t *d;

    if (s->json)
        printf("%.*s\n", SPAN_ARG(answer));
    else if (!s->quiet)
        json_array_foreach(json_object_get(doc, "disks"), i, d) print_disk(d);
    return open > 0 ? EXIT_CHECKSUM : EXIT_OK_;
}

static enum exit_code
scrub(struct session *s)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    bool start = strcmp(s->args->at[0], "start") == 0;
    enum exit_code code = EXIT_OK_;
    struct span answer;
    uint64_t open = 0;
    json_t *doc;
    enum err rc = disk_scrub_ask(s, start ? "POST" : "GET", a, &answer, &doc);

    while (rc == ERR_OK && is_running(doc, &open) && start && args_has(s->args, "wait")) {
        json_decref(doc);
        doc = NULL;
        arena_reset(a);
        rc = rt_sleep_ms(WAIT_MS);
        if (rc == ERR_OK)
            rc = disk_scrub_ask(s, "GET", a, &answer, &doc);
    }
    if (rc == ERR_OK)
        code = disk_scrub_show(s, answer, doc,
                               start && !args_has(s->args, "wait") ? 0 : open);
    json_decref(doc);
    arena_free(&a);
    return rc == ERR_OK ? code : session_fail(s, rc);
}

static enum exit_code
disk_scrub_run(const struct args *a)
{
    struct errbuf eb = {0};

    if (strcmp(a->at[0], "status") != 0 && strcmp(a->at[0], "start") != 0) {
        err_set(&eb, ERR_BAD_REQUEST, "disk scrub \"%s\": expected status or start",
                a->at[0]);
        return cli_usage(&eb, &verb);
    }
    return session_run_own_keys(a, scrub, NULL);
}

const struct cli_verb cli_disk_scrub = {&verb, disk_scrub_run};
