/* disk rebuild: an index, superblocks or logs that are damaged or gone. */
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/disk_tool.h"
#include "store/store_rescue.h"

static const struct flag flags[] = {
    {"from-bodies", 0, NULL,
     "last resort when logs are lost: turn bodies without a log record "
     "into objects",
     false},
    {"dry-run", 'n', NULL, "print what would be done, change no object", false},
    {"yes", 'y', NULL, "do not ask", false},
    {"json", 0, NULL, "as JSON, a line each", false},
    {"quiet", 'q', NULL, "no progress", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay disk rebuild ./data",
    "forebay disk rebuild --from-bodies --dry-run ./data",
    NULL,
};
static const struct verb verb = {
    .name = "disk rebuild",
    .summary = "rebuild the index from the logs, and superblocks from segments",
    .arguments = "DIR",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more = "The server must be stopped. serve rebuilds a missing or damaged "
            "index by itself; use this verb to discard an index,\n"
            "for two damaged superblocks, or for a lost log.\n"
            "With --from-bodies, objects that were deleted or replaced after "
            "the lost log began may return; objects of up to\n"
            "256 KiB are stored in logs and do not return; parts return as "
            "open uploads.",
};

struct rebuilding {
    const char *path;
    struct store_rebuilt result;
    struct disk_tool *tool;
};

static void
disk_rebuild_say(void *arg, const char *sentence)
{
    const struct rebuilding *r = arg;

    disk_tool_say(r->tool, "note", sentence);
}

static void
disk_rebuild_on_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    const struct rebuilding *r = arg;

    disk_tool_progress(r->tool, what, done, total);
}

static void
disk_rebuild_work(struct disk_tool *t)
{
    struct rebuilding *r = t->arg;
    struct store_rebuild_options o = {.from_bodies = args_has(t->args, "from-bodies"),
                                      .dry_run = args_has(t->args, "dry-run"),
                                      .say = disk_rebuild_say,
                                      .progress = disk_rebuild_on_progress,
                                      .arg = r};

    t->rc = store_rebuild(r->path, &o, &r->result, &t->eb);
}

static enum exit_code
disk_rebuild_report(const struct disk_tool *t, const struct rebuilding *r)
{
    bool dry = args_has(t->args, "dry-run");
    char size[NUM_SIZE_TEXT];
    struct buf text;
    struct json j;

    if (t->json) {
        disk_tool_json(&text, &j, "summary");
        json_u64(&j, "objects", r->result.objects);
        json_u64(&j, "log_bytes", r->result.log_bytes);
        json_u64(&j, "bodies", r->result.bodies);
        json_u64(&j, "parts", r->result.parts);
        json_bool(&j, "superblock", r->result.superblock);
        json_bool(&j, "log_damaged", r->result.wal_damaged);
        json_bool(&j, "dry_run", dry);
        disk_tool_json_end(&text, &j);
        return EXIT_OK_;
    }
    if (dry && !args_has(t->args, "from-bodies")) {
        printf("would rebuild %sthe index from the logs\n",
               r->result.superblock ? "both superblocks and " : "");
        return EXIT_OK_;
    }
    printf("%llu objects; %s of logs read\n", (unsigned long long)r->result.objects,
           num_size_text(r->result.log_bytes, size));
    if (args_has(t->args, "from-bodies"))
        printf("%s %llu bodies and %llu parts without a log record\n",
               dry ? "would take back" : "took back",
               (unsigned long long)r->result.bodies, (unsigned long long)r->result.parts);
    if (r->result.wal_damaged)
        printf("changes of the native log are lost; see docs/recovery.md\n");
    return EXIT_OK_;
}

static enum exit_code
disk_rebuild_run(const struct args *a)
{
    struct rebuilding r = {.path = a->at[0]};
    struct disk_tool t = {.args = a};
    enum err rc;

    if (args_has(a, "from-bodies") && !args_has(a, "dry-run") &&
        !disk_tool_yes(&t, "Objects that a lost log deleted or replaced may return."))
        return EXIT_USAGE;
    r.tool = &t;
    rc = disk_tool_run(&t, a, disk_rebuild_work, &r);
    return rc == ERR_OK ? disk_rebuild_report(&t, &r) : cli_fail(rc, &t.eb);
}

const struct cli_verb cli_disk_rebuild = {&verb, disk_rebuild_run};
