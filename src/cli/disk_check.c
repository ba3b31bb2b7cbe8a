/* disk check: verifies everything on a stopped disk and repairs it with --repair. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/disk_tool.h"
#include "store/store_rescue.h"

static const struct flag flags[] = {
    {"repair", 0, NULL, "repair what needs no second copy", false},
    {"drop-damaged", 0, NULL,
     "with --repair: delete objects whose bytes are gone, so that they answer 404",
     false},
    {"yes", 'y', NULL, "do not ask", false},
    {"scratch", 0, "DIR", "folder for the scratch index; default TMPDIR or /tmp", false},
    {"json", 0, NULL, "as JSON, a line each", false},
    {"quiet", 'q', NULL, "only what is damaged or mended", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay disk check ./data",
    "forebay disk check --repair ./data",
    "forebay disk check --repair --drop-damaged --yes ./data",
    NULL,
};
static const struct verb verb = {
    .name = "disk check",
    .summary = "verify everything on a stopped disk; repair with --repair",
    .arguments = "DIR",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more = "Reads the superblock, every log record and every byte of living "
            "objects, and compares the index with the logs.\n"
            "Without --repair it changes nothing. With --repair it rewrites "
            "superblocks, headers and the index; objects whose\n"
            "bytes are lost answer errors until --drop-damaged deletes them. "
            "Exit code 6 when damage is found or remains.",
};

struct checking {
    const char *path, *scratch;
    bool repair;
    struct store_repaired repaired;
    bool quiet;
    struct disk_tool *tool;
};

static void
disk_check_say(void *arg, enum store_says what, const char *sentence)
{
    const struct checking *c = arg;

    if (what == STORE_SAYS_REPAIRED)
        disk_tool_say(c->tool, "mended", sentence);
    else if (what == STORE_SAYS_DAMAGED)
        disk_tool_say(c->tool, c->tool->json ? "damaged" : "DAMAGED", sentence);
    else if (!c->quiet)
        disk_tool_say(c->tool, "note", sentence);
}

static void
disk_check_on_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    const struct checking *c = arg;

    disk_tool_progress(c->tool, what, done, total);
}

static void
disk_check_work(struct disk_tool *t)
{
    struct checking *c = t->arg;
    struct store_repair_options o = {.scratch = c->scratch,
                                     .look_only = !c->repair,
                                     .drop_damaged = args_has(t->args, "drop-damaged"),
                                     .say = disk_check_say,
                                     .progress = disk_check_on_progress,
                                     .arg = c};

    t->rc = store_repair(c->path, &o, &c->repaired, &t->eb);
}

static enum exit_code
disk_check_report(const struct disk_tool *t, const struct checking *c)
{
    const struct store_checked *r = &c->repaired.after;
    const char *result = r->faults > 0 ? "damaged" : "sound";
    char size[NUM_SIZE_TEXT];
    struct buf text;
    struct json j;

    if (t->json) {
        disk_tool_json(&text, &j, "summary");
        json_u64(&j, "records", r->records);
        json_u64(&j, "objects", r->objects);
        json_u64(&j, "parts", r->parts);
        json_u64(&j, "bytes", r->bytes);
        json_u64(&j, "damaged", r->faults);
        json_u64(&j, "notes", r->notes);
        if (c->repair) {
            json_u64(&j, "mended", c->repaired.mended);
            json_u64(&j, "dropped", c->repaired.dropped);
        }
        disk_tool_json_end(&text, &j);
    } else {
        printf("%s: %llu objects, %s, %llu records read; %llu damaged", result,
               (unsigned long long)r->objects, num_size_text(r->bytes, size),
               (unsigned long long)r->records, (unsigned long long)r->faults);
        if (c->repair)
            printf(", %llu mended", (unsigned long long)c->repaired.mended);
        printf("\n");
    }
    return r->faults == 0 ? EXIT_OK_ : EXIT_CHECKSUM;
}

static enum exit_code
disk_check_run(const struct args *a)
{
    const char *tmp = getenv("TMPDIR");
    struct checking c = {.path = a->at[0],
                         .scratch = args_value(a, "scratch"),
                         .repair = args_has(a, "repair"),
                         .quiet = args_has(a, "quiet")};
    struct disk_tool t = {.args = a};
    struct errbuf eb = {{0}};
    enum err rc;

    if (c.scratch == NULL)
        c.scratch = tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp";
    if (args_has(a, "drop-damaged") && !c.repair) {
        (void)err_set(&eb, ERR_BAD_REQUEST, "--drop-damaged needs --repair");
        return cli_usage(&eb, &verb);
    }
    if (args_has(a, "drop-damaged") &&
        !disk_tool_yes(&t, "Objects with damaged bytes are deleted permanently."))
        return EXIT_USAGE;
    c.tool = &t;
    rc = disk_tool_run(&t, a, disk_check_work, &c);
    return rc == ERR_OK ? disk_check_report(&t, &c) : cli_fail(rc, &t.eb);
}

const struct cli_verb cli_disk_check = {&verb, disk_check_run};
