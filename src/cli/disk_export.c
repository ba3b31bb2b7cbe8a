/* disk export: the living objects of stopped disks, as a tar or into a folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/archive.h"
#include "cli/disk_tool.h"
#include "node/absent.h"
#include "store/store_rescue.h"
#include "wire/tar.h"

static const struct flag flags[] = {
    {"bucket", 'b', "NAME", "only this bucket", false},
    {"prefix", 'p', "TEXT", "only keys that begin with it", false},
    {"scratch", 0, "DIR", "folder for the scratch index; default TMPDIR or /tmp", false},
    {"dry-run", 'n', NULL, "read and verify, write nothing", false},
    {"partial", 0, NULL,
     "export what is on these disks although disks of the node are missing (exit code 1)",
     false},
    {"yes", 'y', NULL, "replace existing files without asking", false},
    {"json", 0, NULL, "as JSON, a line each", false},
    {"quiet", 'q', NULL, "no progress", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay disk export ./data everything.tar",
    "forebay disk export /disk1 /disk2 - --bucket train | ssh host tar -xf -",
    "forebay disk export ./data ./files --bucket train --prefix 2026/",
    NULL,
};
static const struct verb verb = {
    .name = "disk export",
    .summary = "write all living objects as a tar or into a folder, without a server",
    .arguments = "DIR... TARGET",
    .least = 2,
    .most = 257,
    .examples = examples,
    .flags = flags,
    .more = "TARGET is FILE.tar, - for standard output, or a folder. All disks "
            "of the node must be named; --partial exports what\n"
            "the named ones hold when others are lost. Each byte is verified before it "
            "is written; damaged objects are listed and skipped (exit code 6). "
            "Older versions, delete markers and open uploads\n"
            "are skipped (forebay backup has them). Objects are written to "
            "BUCKET/KEY. A key that cannot be a path, or that is also\n"
            "a folder of other keys, is written under .forebay/id/ with its "
            "key in the tar's record or in .forebay/objects. forebay\n"
            "disk import reads both.",
};

struct exporting {
    struct disk_tool *tool;
    const char *target;
    const char **paths; /* owned */
    bool tar, failed;
    struct store_exported result;
    struct node_absents absents; /* disks of the node that were not named */

    /* The tar, or the file at hand of a folder; and the folder's list. */
    struct archive_out out, list;
    bool out_open, list_open;
    uint64_t size;
    struct buf text;
};

static void
disk_export_say(void *arg, const char *sentence)
{
    const struct exporting *x = arg;

    if (x->tar && strcmp(x->target, "-") == 0)
        fprintf(stderr, "forebay: %s\n", sentence); /* stdout is the archive */
    else
        disk_tool_say(x->tool, x->tool->json ? "damaged" : "DAMAGED", sentence);
}

static void
disk_export_on_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    const struct exporting *x = arg;

    disk_tool_progress(x->tool, what, done, total);
}

static enum err
on_data(void *arg, struct span piece, struct errbuf *eb)
{
    struct exporting *x = arg;

    return archive_put(&x->out, piece, eb);
}

/* ---- tar ---- */

static enum err
tar_begin(void *arg, const struct exported *e, bool aside, struct errbuf *eb)
{
    struct exporting *x = arg;

    buf_clear(&x->text);
    exported_put_head(&x->text, e, aside);
    x->size = e->size;
    return archive_put(&x->out, buf_span(&x->text), eb);
}

static enum err
tar_end(void *arg, struct errbuf *eb)
{
    struct exporting *x = arg;

    buf_clear(&x->text);
    tar_put_padding(&x->text, x->size);
    return archive_put(&x->out, buf_span(&x->text), eb);
}

/* ---- folder ---- */

/* A line for what the file alone does not say: where the key is another one, or metadata is not all default. */
static enum err
put_line(struct exporting *x, const struct exported *e, const char *file,
         struct errbuf *eb)
{
    struct buf record;
    struct json j;
    char *hex;
    enum err rc;

    buf_init(&record, EXPORTED_HEAD_MAX);
    exported_put_record(&record, e);
    hex = xmalloc(2 * record.len + 1);
    hex_encode(record.at, record.len, hex);
    buf_clear(&x->text);
    json_begin(&j, &x->text);
    json_open_object(&j, NULL);
    json_text(&j, "file", file);
    json_span(&j, "bucket", e->bucket);
    json_span(&j, "key", e->key);
    json_text(&j, "record", hex);
    json_end(&j);
    buf_putc(&x->text, '\n');
    rc = archive_put(&x->list, buf_span(&x->text), eb);
    free(hex);
    buf_fini(&record);
    return rc;
}

static enum err
folder_begin(void *arg, const struct exported *e, bool aside, struct errbuf *eb)
{
    struct exporting *x = arg;
    const struct object_meta *m = &e->meta;
    bool plain = m->content_type.len + m->cache_control.len + m->content_disposition.len +
                     m->content_encoding.len + m->content_language.len + m->expires.len +
                     m->etag_text.len + m->storage_class.len + m->user_count + m->parts +
                     m->checksum_algorithm ==
                 0;
    char file[EXPORTED_PATH_ROOM];
    char *path;
    enum err rc = ERR_OK;

    (void)exported_path(e, aside, file);
    if (!plain || aside || !exported_is_safe(e->bucket, e->key))
        rc = put_line(x, e, file, eb);
    if (rc != ERR_OK)
        return rc;
    path = xasprintf("%s/%s", x->target, file);
    rc = archive_out_open(&x->out, path, eb);
    x->out_open = rc == ERR_OK;
    free(path);
    return rc;
}

static enum err
folder_end(void *arg, struct errbuf *eb)
{
    struct exporting *x = arg;
    enum err rc = archive_keep(&x->out, eb);

    archive_out_close(&x->out);
    x->out_open = false;
    return rc;
}

/* ---- */

/* Half of a node looks like all of it once it is a tar. */
static enum err
export_check_absent(struct exporting *x, struct errbuf *eb)
{
    const struct args *a = x->tool->args;
    const struct node_absents *n = &x->absents;
    char text[512] = "";
    size_t at = 0;

    node_absents_find(x->paths, (unsigned)a->count - 1, &x->absents);
    if (n->count == 0 || args_has(a, "partial"))
        return ERR_OK;
    for (unsigned i = 0; i < n->count && at < sizeof text - 1; i++)
        at += (size_t)MAX(snprintf(text + at, sizeof text - at, "%s%s (disk %.8s%s)",
                                   i > 0 ? ", " : "", n->at[i].path, n->at[i].id,
                                   n->at[i].is_there ? "" : ", not found there"),
                          0);
    return err_set(eb, ERR_BAD_REQUEST,
                   "the node has %u more disk%s: %s. Name %s too; if one is lost, "
                   "--partial exports what the others hold",
                   n->count, n->count > 1 ? "s" : "", text, n->count > 1 ? "them" : "it");
}

static enum err
open_target(struct exporting *x, struct errbuf *eb)
{
    char *list;
    enum err rc;

    if (args_has(x->tool->args, "dry-run"))
        return ERR_OK;
    if (x->tar) {
        rc = archive_out_open(&x->out, x->target, eb);
        x->out_open = rc == ERR_OK;
        return rc;
    }
    list = xasprintf("%s/.forebay/objects", x->target);
    rc = archive_out_open(&x->list, list, eb);
    x->list_open = rc == ERR_OK;
    free(list);
    return rc;
}

static enum err
close_target(struct exporting *x, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (x->tar && x->out_open) {
        buf_clear(&x->text);
        tar_put_end(&x->text);
        rc = archive_put(&x->out, buf_span(&x->text), eb);
        if (rc == ERR_OK)
            rc = archive_keep(&x->out, eb);
    }
    if (x->list_open && rc == ERR_OK)
        rc = archive_keep(&x->list, eb);
    return rc;
}

static void
disk_export_work(struct disk_tool *t)
{
    struct exporting *x = t->arg;
    const struct args *a = t->args;
    const char *tmp = getenv("TMPDIR"), *scratch = args_value(a, "scratch");
    const char *bucket = args_value(a, "bucket"), *prefix = args_value(a, "prefix");
    struct store_export_sink sink = {.begin = x->tar ? tar_begin : folder_begin,
                                     .data = on_data,
                                     .end = x->tar ? tar_end : folder_end,
                                     .arg = x};
    struct store_export_options o = {.paths = x->paths,
                                     .count = (unsigned)a->count - 1,
                                     .bucket = span_of(bucket != NULL ? bucket : ""),
                                     .prefix = span_of(prefix != NULL ? prefix : ""),
                                     .scratch = scratch,
                                     .dry_run = args_has(a, "dry-run"),
                                     .say = disk_export_say,
                                     .progress = disk_export_on_progress,
                                     .arg = x};

    if (scratch == NULL)
        o.scratch = tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp";
    buf_init(&x->text, KIB(256));
    t->rc = export_check_absent(x, &t->eb);
    if (t->rc == ERR_OK)
        t->rc = open_target(x, &t->eb);
    if (t->rc == ERR_OK)
        t->rc = store_export(&o, &sink, &x->result, &t->eb);
    if (t->rc == ERR_OK)
        t->rc = close_target(x, &t->eb);
    archive_out_close(&x->out);
    archive_out_close(&x->list);
    buf_fini(&x->text);
}

/* What a missing disk holds is known by its share of the node alone. */
static uint64_t
export_missing_objects(const struct exporting *x)
{
    uint64_t weight = 0;

    for (unsigned i = 0; i < x->absents.count; i++)
        weight += x->absents.at[i].weight;
    return x->absents.given_weight == 0
               ? 0
               : (uint64_t)((double)x->result.objects * (double)weight /
                            (double)x->absents.given_weight);
}

static void
export_tell_absent(const struct disk_tool *t, const struct exporting *x)
{
    for (unsigned i = 0; i < x->absents.count; i++)
        fprintf(stderr, "forebay: disk %.8s (%s, %s) is not in the export\n",
                x->absents.at[i].id, x->absents.at[i].path, x->absents.at[i].text);
    if (x->absents.count > 0)
        fprintf(stderr,
                "forebay: PARTIAL: objects that only these disks hold are missing, about "
                "%llu by the disks' share of the node; objects of buckets with more "
                "copies than missing disks are complete\n",
                (unsigned long long)export_missing_objects(x));
    if (!x->absents.known && !t->quiet)
        fprintf(stderr, "forebay: note: no list of the node's disks was found: whether "
                        "these are all of them is not known\n");
}

static enum exit_code
disk_export_report(const struct disk_tool *t, const struct exporting *x)
{
    const struct store_exported *r = &x->result;
    FILE *to = x->tar && strcmp(x->target, "-") == 0 ? stderr : stdout;
    char size[NUM_SIZE_TEXT];

    if (t->json)
        fprintf(to,
                "{\"kind\":\"summary\",\"objects\":%llu,\"bytes\":%llu,\"aside\":%llu,"
                "\"damaged\":%llu,\"older_left_out\":%llu,"
                "\"parts_left_out\":%llu,\"disks_missing\":%u,"
                "\"objects_missing_about\":%llu}\n",
                (unsigned long long)r->objects, (unsigned long long)r->bytes,
                (unsigned long long)r->aside, (unsigned long long)r->damaged,
                (unsigned long long)r->older, (unsigned long long)r->open_parts,
                x->absents.count, (unsigned long long)export_missing_objects(x));
    else if (!t->quiet || r->damaged > 0)
        fprintf(to, "%llu objects, %s; %llu of them under .forebay/id; %llu damaged\n",
                (unsigned long long)r->objects, num_size_text(r->bytes, size),
                (unsigned long long)r->aside, (unsigned long long)r->damaged);
    if (!t->json && !t->quiet && r->older + r->open_parts > 0)
        fprintf(to,
                "older versions (%llu on these disks) and open uploads (%llu "
                "parts) are skipped: forebay backup has them\n",
                (unsigned long long)r->older, (unsigned long long)r->open_parts);
    export_tell_absent(t, x);
    if (r->damaged > 0)
        return EXIT_CHECKSUM;
    if (x->absents.count > 0)
        return EXIT_DIFFERS;
    if (r->objects > 0 || (!args_has(t->args, "bucket") && !args_has(t->args, "prefix")))
        return EXIT_OK_;
    fprintf(stderr, "forebay: no object matches --bucket and --prefix\n");
    return EXIT_NOT_FOUND;
}

static bool
ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);

    return len >= n && strcmp(text + len - n, end) == 0;
}

static enum exit_code
disk_export_run(const struct args *a)
{
    struct exporting x = {.target = a->at[a->count - 1]};
    struct disk_tool t = {.args = a};
    enum exit_code code;
    enum err rc;

    x.tar = strcmp(x.target, "-") == 0 || ends_with(x.target, ".tar");
    if (strcmp(x.target, "-") != 0 && local_exists(x.target) && !args_has(a, "dry-run") &&
        !disk_tool_yes(
            &t, x.tar ? "The file exists and will be replaced."
                      : "The folder exists; files with the same names will be replaced."))
        return EXIT_USAGE;
    x.paths = xmalloc(a->count * sizeof *x.paths);
    for (size_t i = 0; i + 1 < a->count; i++)
        x.paths[i] = a->at[i];
    x.tool = &t;
    rc = disk_tool_run(&t, a, disk_export_work, &x);
    free(x.paths);
    code = rc == ERR_OK ? disk_export_report(&t, &x) : cli_fail(rc, &t.eb);
    node_absents_fini(&x.absents);
    return code;
}

const struct cli_verb cli_disk_export = {&verb, disk_export_run};
