/* disk import: objects from a tar or a folder into a stopped node. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/disk_tool.h"
#include "cli/import.h"
#include "cli/local.h"
#include "wire/s3name.h"

static const struct flag flags[] = {
    {"bucket", 'b', "NAME", "target bucket; default: the first folder of each path",
     false},
    {"prefix", 'p', "TEXT", "prefix of each key", false},
    {"rename", 0, "OLD=NEW", "bucket OLD of the source becomes NEW", true},
    {"dry-run", 'n', NULL, "count, write nothing", false},
    {"json", 0, NULL, "as JSON, a line each", false},
    {"quiet", 'q', NULL, "no progress", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay disk import ./data everything.tar",
    "forebay disk import ./data ./photos --bucket photos --prefix 2026/",
    "forebay disk import ./data everything.tar --rename \"My Photos=my-photos\"",
    "zcat dump.tar.gz | forebay disk import ./data - --bucket dump",
    NULL,
};
static const struct verb verb = {
    .name = "disk import",
    .summary = "import a tar or a folder into a stopped node",
    .arguments = "DIR... SOURCE",
    .least = 2,
    .most = 65,
    .examples = examples,
    .flags = flags,
    .more = "The server must be stopped; a new folder becomes a new node. An "
            "archive of forebay disk export restores the same\n"
            "objects with metadata and ETags; for other tars and folders, "
            "paths become keys. Existing objects are skipped, so an\n"
            "interrupted import is simply repeated. A bucket whose name S3 does not "
            "allow is left out unless --rename gives it another.\n"
            "Exit code 1 when something was left out.",
};

#define RENAMES_MAX 128
struct importing {
    struct disk_tool *tool;
    struct import_rename renames[RENAMES_MAX];
    size_t rename_count;
    const char *source;
    struct imported result;
};

static void
disk_import_say(void *arg, const char *sentence)
{
    const struct importing *m = arg;

    disk_tool_say(m->tool, "note", sentence);
}

static void
on_bytes(void *arg, uint64_t bytes)
{
    const struct importing *m = arg;

    disk_tool_progress(m->tool, "imported", m->tool->progress.bytes + bytes, 0);
}

static void
disk_import_work(struct disk_tool *t)
{
    struct importing *m = t->arg;
    const struct args *a = t->args;
    const char *bucket = args_value(a, "bucket"), *prefix = args_value(a, "prefix");
    struct import_options o = {.bucket = span_of(bucket != NULL ? bucket : ""),
                               .prefix = span_of(prefix != NULL ? prefix : ""),
                               .renames = m->renames,
                               .rename_count = m->rename_count,
                               .dry_run = args_has(a, "dry-run"),
                               .say = disk_import_say,
                               .progress = on_bytes,
                               .arg = m};
    struct node_offline node = {0};
    struct import i;

    if (!o.dry_run)
        t->rc = node_offline_open(a->at, (unsigned)a->count - 1, &node, &t->eb);
    if (t->rc == ERR_OK && !o.dry_run)
        t->rc = node_offline_map(&node, &t->eb);
    if (t->rc == ERR_OK) {
        struct errbuf eb = {{0}};
        enum err rc;

        import_start(&i, &node, &o);
        t->rc = local_is_folder(m->source) ? import_folder(&i, m->source, &t->eb)
                                           : import_tar(&i, m->source, &t->eb);
        rc = import_finish(&i, &eb);
        if (t->rc == ERR_OK && rc != ERR_OK) {
            t->rc = rc;
            t->eb = eb;
        }
        m->result = i.result;
    }
    node_offline_close(&node);
}

static enum exit_code
disk_import_report(const struct disk_tool *t, const struct importing *m)
{
    const struct imported *r = &m->result;
    char size[NUM_SIZE_TEXT];

    if (t->json)
        printf("{\"kind\":\"summary\",\"objects\":%llu,\"bytes\":%llu,\"same\":%llu,"
               "\"left_out\":%llu,\"passed_over\":%llu}\n",
               (unsigned long long)r->objects, (unsigned long long)r->bytes,
               (unsigned long long)r->same, (unsigned long long)r->refused,
               (unsigned long long)r->passed);
    else
        printf("%s %llu objects, %s; %llu already present, %llu skipped\n",
               args_has(t->args, "dry-run") ? "would import" : "imported",
               (unsigned long long)r->objects, num_size_text(r->bytes, size),
               (unsigned long long)r->same, (unsigned long long)r->refused);
    if (!t->json && r->passed > 0)
        printf("%llu older versions, delete markers, open uploads and parts are "
               "skipped: forebay restore imports them\n",
               (unsigned long long)r->passed);
    return r->refused == 0 ? EXIT_OK_ : EXIT_DIFFERS;
}

static enum err
import_check_name(const char *flag, struct span name, struct errbuf *eb)
{
    return s3_bucket_ok(name)
               ? ERR_OK
               : err_set(eb, ERR_BAD_REQUEST,
                         "%s: \"%.*s\" cannot be a bucket's name: %d to %d of a-z, 0-9, "
                         "\"-\" and \".\"",
                         flag, (int)MIN(name.len, 255u), name.at, S3_BUCKET_MIN,
                         S3_BUCKET_MAX);
}

/* "OLD=NEW": NEW has no "=". */
static enum err
import_read_renames(struct importing *m, const struct args *a, struct errbuf *eb)
{
    const char *text;
    enum err rc = ERR_OK;

    if (args_value(a, "bucket") != NULL)
        rc = import_check_name("--bucket", span_of(args_value(a, "bucket")), eb);
    while (rc == ERR_OK && (text = args_nth(a, "rename", m->rename_count)) != NULL) {
        const char *equals = strrchr(text, '=');

        if (equals == NULL || equals == text)
            return err_set(eb, ERR_BAD_REQUEST, "--rename \"%s\": expected OLD=NEW",
                           text);
        if (m->rename_count == RENAMES_MAX)
            return err_set(eb, ERR_BAD_REQUEST, "--rename is given over %d times",
                           RENAMES_MAX);
        rc = import_check_name("--rename", span_of(equals + 1), eb);
        m->renames[m->rename_count++] =
            (struct import_rename){{text, (size_t)(equals - text)}, span_of(equals + 1)};
    }
    return rc;
}

static enum exit_code
disk_import_run(const struct args *a)
{
    struct importing m = {.source = a->at[a->count - 1]};
    struct disk_tool t = {.args = a};
    enum err rc = import_read_renames(&m, a, &t.eb);

    if (rc != ERR_OK)
        return cli_usage(&t.eb, &verb);
    m.tool = &t;
    rc = disk_tool_run(&t, a, disk_import_work, &m);
    return rc == ERR_OK ? disk_import_report(&t, &m) : cli_fail(rc, &t.eb);
}

const struct cli_verb cli_disk_import = {&verb, disk_import_run};
