/* disks: the disks of this node, shown and changed.
 *
 *     GET    /_/disks             all of them, and what is on its way between them
 *     POST   /_/disks             {"path": "/mnt/d"}: one more; "create": true where it is missing, "not_empty":
 *                                 true where it holds other things
 *     POST   /_/disks/DISK/drain  {"undo": true} takes it back
 *     POST   /_/disks/DISK/remove {"force": true}: even where it holds the only copy
 *
 * DISK is the beginning of an id, or "-" and in the document {"disk": "/mnt/d"}.
 */
#include <stdlib.h>
#include <string.h>

#include "api/admin/admin.h"
#include "base/hash.h"
#include "base/mem.h"
#include "disks/report.h"
#include "wire/json.h"

#define BODY_MAX KIB(16)
#define PAGE_MAX KIB(256)
#define ROOT     "/_/disks"

static void
admin_disk_put_one(struct json *j, const struct disks_one *d)
{
    json_open_object(j, NULL);
    json_text(j, "id", d->id);
    json_text(j, "path", d->path);
    json_text(j, "state", d->state);
    json_text(j, "health", disks_health_name(d));
    json_text(j, "why", d->health.why[0] != '\0' ? d->health.why : NULL);
    json_u64(j, "weight", d->weight);
    json_u64(j, "total_bytes", d->stat.total_bytes);
    json_u64(j, "free_bytes", d->stat.free_bytes);
    json_u64(j, "native_bytes", d->stat.native_bytes);
    json_u64(j, "cached_bytes", d->stat.cached_bytes);
    json_u64(j, "objects", d->stat.objects);
    json_text(j, "index", disks_index_name(d));
    json_u64(j, "index_percent", d->stat.index_percent);
    json_u64(j, "read_errors", d->health.read_errors);
    json_u64(j, "write_errors", d->health.write_errors);
    json_u64(j, "sync_errors", d->health.sync_errors);
    json_u64(j, "corrupt_blocks", d->health.corrupt_blocks);
    json_u64(j, "slow_ops", d->health.slow_ops);
    json_end(j);
}

static void
put_moving(struct json *j, const struct disks_status *s)
{
    json_bool(j, "converged", s->converged);
    json_open_object(j, "moving");
    json_u64(j, "pass", s->pass);
    json_u64(j, "seen", s->seen);
    json_u64(j, "total", s->total);
    json_u64(j, "elapsed_ms", s->elapsed_ms);
    json_u64(j, "moved", s->moved);
    json_u64(j, "moved_bytes", s->moved_bytes);
    json_u64(j, "failed", s->failed);
    json_bool(j, "waiting", s->waiting);
    json_text(j, "why", s->why[0] != '\0' ? s->why : NULL);
    json_end(j);
    json_u64(j, "repairs_waiting", s->repairs);
    json_u64(j, "repaired", s->repaired);
}

/* `job`: it tells of what moves by this request; "": none. */
static enum err
admin_disk_answer(struct request *q, const char *job)
{
    struct disks_status *s = xcalloc(1, sizeof *s);
    struct admin_page page;

    disks_status(q->api->options.disks, s);
    admin_page_begin(&page, PAGE_MAX);
    json_open_object(&page.j, NULL);
    json_open_array(&page.j, "disks");
    for (unsigned i = 0; i < s->count; i++)
        admin_disk_put_one(&page.j, &s->disks[i]);
    json_end(&page.j);
    put_moving(&page.j, s);
    if (job[0] != '\0')
        json_text(&page.j, "job", job);
    json_end(&page.j);
    free(s);
    return admin_page_answer(q, &page, 200);
}

enum err
admin_disk_list(struct request *q)
{
    return admin_disk_answer(q, "");
}

static void
admin_disk_report(struct request *q, const char *kind, const char *disk, uint64_t copied,
                  char job[JOB_ID_TEXT])
{
    admin_job_report(
        q, kind, json_pack("{s:s,s:I}", "disk", disk, "copied", (json_int_t)copied), job);
}

/* The records of all buckets, on a disk that has none yet: disks alone suffice to recover. */
static enum err
admin_disk_note_buckets(struct request *q, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (uint32_t i = 0; rc == ERR_OK; i++) {
        const struct map *m = map_now(q->api->options.map);
        const struct map_bucket *b;
        struct buf record;
        uint64_t id;

        if (i >= map_bucket_count(m))
            break;
        b = map_bucket_at(m, i);
        id = b->id;
        buf_init(&record, KIB(64));
        map_bucket_encode(b, &record);
        rc = disks_bucket_note(q->api->options.disks, id, buf_span(&record), eb);
        buf_fini(&record);
    }
    return rc;
}

static enum err
json_text_field(json_t *doc, const char *name, const char **out, struct errbuf *eb)
{
    const char *text = json_string_value(json_object_get(doc, name));

    if (text == NULL || text[0] == '\0' || strlen(text) > 4000)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is a text of 1 to 4000 bytes", name);
    *out = text;
    return ERR_OK;
}

#define NAME_BYTES_MAX 255 /* of one folder, on every file system of Linux */

static enum err
check_names_of(const char *path, struct errbuf *eb)
{
    for (const char *at = path; *at != '\0';) {
        size_t len = strcspn(at, "/");

        if (len > NAME_BYTES_MAX)
            return err_set(eb, ERR_BAD_REQUEST,
                           "\"path\" has a name of %zu bytes, at most %d are possible",
                           len, NAME_BYTES_MAX);
        at += len + (at[len] == '/');
    }
    return ERR_OK;
}

/* The caller is an administrator, and the path is the caller's own: the sentence says what is wrong with it. */
static enum err
admin_disk_refuse(struct request *q, enum err rc, const struct errbuf *eb)
{
    if (rc == ERR_NOT_FOUND)
        return fault_set(&q->fault, S3_NoSuchKey, "%s", eb->text);
    if (rc == ERR_EXISTS)
        return fault_set(&q->fault, S3_OperationAborted, "%s", eb->text);
    if (rc == ERR_IO)
        return fault_set(&q->fault, S3_InternalError, "%s", eb->text);
    return fault_from(q, rc, eb);
}

enum err
admin_disk_add(struct request *q)
{
    struct errbuf eb = {{0}};
    json_t *doc = NULL;
    const char *path = NULL;
    char job[JOB_ID_TEXT] = "";
    struct disks_folder_may may = {false, false};
    uint64_t copied = disks_copied_bytes(q->api->options.disks);
    uint8_t id[16];
    enum err rc = admin_read_object(q, BODY_MAX, &doc);

    if (rc != ERR_OK)
        return rc;
    rc = admin_flag_of(q, doc, "create", &may.be_missing);
    if (rc == ERR_OK)
        rc = admin_flag_of(q, doc, "not_empty", &may.have_others);
    if (rc != ERR_OK) {
        json_decref(doc);
        return rc;
    }
    rc = json_text_field(doc, "path", &path, &eb);
    if (rc == ERR_OK && path[0] != '/')
        rc = err_set(
            &eb, ERR_BAD_REQUEST,
            "\"%.200s\" is no path from the root: the server may stand elsewhere", path);
    if (rc == ERR_OK)
        rc = check_names_of(path, &eb);
    if (rc == ERR_OK)
        rc = disks_folder_check(path, &may, &eb);
    if (rc == ERR_OK)
        rc = disks_add(q->api->options.disks, path, id, &eb);
    if (rc == ERR_OK)
        rc = admin_disk_note_buckets(q, &eb);
    AUDIT_CHANGE(q, "disk.add", rc, L_TEXT("disk", path != NULL ? path : ""));
    if (rc == ERR_OK)
        admin_disk_report(q, "fill", path, copied, job);
    json_decref(doc);
    return rc == ERR_OK ? admin_disk_answer(q, job) : admin_disk_refuse(q, rc, &eb);
}

/* "/_/disks/DISK" with `tail` behind it. "-": it stands in the document. */
static enum err
which_disk(struct request *q, const char *tail, json_t *doc, const char **out,
           struct errbuf *eb)
{
    struct span name = span_from(q->http->head->path, strlen(ROOT "/"));
    size_t end = strlen(tail);

    if (name.len <= end || memcmp(name.at + name.len - end, tail, end) != 0)
        return err_set(eb, ERR_BAD_REQUEST, "expected " ROOT "/DISK%s", tail);
    name.len -= end;
    if (span_is(name, "-"))
        return json_text_field(doc, "disk", out, eb);
    *out = arena_strdup(q->http->arena, name);
    return ERR_OK;
}

static enum err
change_disk(struct request *q, const char *tail, const char *flag,
            enum err (*fn)(struct disks *ds, const char *which, bool flag,
                           struct errbuf *eb))
{
    struct errbuf eb = {{0}};
    uint64_t copied = disks_copied_bytes(q->api->options.disks);
    char job[JOB_ID_TEXT] = "";
    const char *which = NULL;
    json_t *doc = NULL;
    bool set = false;
    enum err rc = admin_read_object(q, BODY_MAX, &doc);

    if (rc != ERR_OK)
        return rc;
    rc = admin_flag_of(q, doc, flag, &set);
    if (rc != ERR_OK) {
        json_decref(doc);
        return rc;
    }
    rc = which_disk(q, tail, doc, &which, &eb);
    if (rc == ERR_OK)
        rc = fn(q->api->options.disks, which, set, &eb);
    AUDIT_CHANGE(q, fn == disks_drain ? "disk.drain" : "disk.remove", rc,
                 L_TEXT("disk", which != NULL ? which : ""),
                 L_TEXT(flag, set ? "yes" : "no"));
    if (rc == ERR_OK && fn == disks_drain)
        admin_disk_report(q, set ? "fill" : "drain", which, copied, job);
    json_decref(doc);
    return rc == ERR_OK ? admin_disk_answer(q, job) : admin_disk_refuse(q, rc, &eb);
}

enum err
admin_disk_change(struct request *q)
{
    struct span path = q->http->head->path;
    struct span drain = SPAN("/drain");

    if (path.len > drain.len && span_eq(span_from(path, path.len - drain.len), drain))
        return change_disk(q, "/drain", "undo", disks_drain);
    return change_disk(q, "/remove", "force", disks_remove);
}
