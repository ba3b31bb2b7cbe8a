/* disk: what can be done to a disk that nobody serves. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "disk/disk.h"
#include "rt/loop.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"scratch", 0, "DIR", "where the index is built anew for comparison; TMPDIR or /tmp",
     false},
    {"json", 0, NULL, "as JSON, a line each", false},
    {"quiet", 'q', NULL, "only what is damaged", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {"forebay disk check ./data", NULL};
static const struct verb verb = {
    .name = "disk",
    .summary = "check a disk that is not served",
    .arguments = "check DIR",
    .least = 2,
    .most = 2,
    .examples = examples,
    .flags = flags,
    .more = "Reads everything and changes nothing: the superblock, every record of the "
            "logs, every byte of what lives,\n"
            "and the index against the logs. Exit code 6 when something is damaged.",
};

struct checking {
    const struct args *args;
    const char *path, *scratch;
    bool json, quiet;
    struct fiber *fiber;
    struct disk_checked result;
    enum err rc;
    struct errbuf eb;
};

static void
say(void *arg, bool fault, const char *sentence)
{
    const struct checking *c = arg;
    struct buf text;
    struct json j;

    if (c->quiet && !fault)
        return;
    if (!c->json) {
        printf("%s %s\n", fault ? "DAMAGED" : "note   ", sentence);
        return;
    }
    buf_init(&text, KIB(64));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "kind", fault ? "damaged" : "note");
    json_text(&j, "text", sentence);
    json_end(&j);
    printf("%.*s\n", (int)text.len, text.at);
    buf_fini(&text);
}

static void
on_interrupt(void *arg)
{
    struct checking *c = arg;

    if (c->fiber != NULL)
        rt_cancel(c->fiber);
}

static void
check(void *arg)
{
    struct checking *c = arg;

    c->fiber = rt_self();
    rt_on_signal(SIGINT, on_interrupt, c);
    rt_on_signal(SIGTERM, on_interrupt, c);
    c->rc = disk_check(c->path, c->scratch, say, c, &c->result, &c->eb);
    c->fiber = NULL;
}

static enum exit_code
report(const struct checking *c)
{
    const struct disk_checked *r = &c->result;
    char size[NUM_SIZE_TEXT];

    if (c->rc != ERR_OK)
        return cli_fail(c->rc, &c->eb);
    if (c->json)
        printf("{\"kind\":\"summary\",\"records\":%llu,\"objects\":%llu,\"parts\":%llu,"
               "\"bytes\":%llu,"
               "\"damaged\":%llu,\"notes\":%llu}\n",
               (unsigned long long)r->records, (unsigned long long)r->objects,
               (unsigned long long)r->parts, (unsigned long long)r->bytes,
               (unsigned long long)r->faults, (unsigned long long)r->notes);
    else
        printf("%s: %llu objects, %s, %llu records read; %llu damaged\n",
               r->faults == 0 ? "sound" : "damaged", (unsigned long long)r->objects,
               num_size_text(r->bytes, size), (unsigned long long)r->records,
               (unsigned long long)r->faults);
    return r->faults == 0 ? EXIT_OK_ : EXIT_CHECKSUM;
}

static enum exit_code
run(const struct args *a)
{
    struct rt_options o = {.engine = RT_AUTO, .loops = 1};
    const char *tmp = getenv("TMPDIR");
    struct checking c = {.args = a,
                         .path = a->at[1],
                         .scratch = args_value(a, "scratch"),
                         .json = args_has(a, "json"),
                         .quiet = args_has(a, "quiet")};
    enum err rc;

    if (strcmp(a->at[0], "check") != 0) {
        err_set(&c.eb, ERR_BAD_REQUEST, "disk \"%s\": expected check DIR", a->at[0]);
        return cli_usage(&c.eb, &verb);
    }
    if (c.scratch == NULL)
        c.scratch = tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp";
    log_set_level(LOG_ERROR);
    rc = rt_run(&o, check, &c, &c.eb);
    return rc == ERR_OK ? report(&c) : cli_fail(rc, &c.eb);
}

const struct cli_verb cli_disk = {&verb, run};
