#include "api/audit.h"

#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/mem.h"
#include "rt/file.h"
#include "rt/loop.h"
#include "rt/sync.h"
#include "rt/time.h"
#include "wire/json.h"

#define PENDING_MAX MIB(4) /* unwritten lines; beyond this limit requests wait */
#define WRITE_BYTES KIB(256)

struct audit {
    struct rt_file *file; /* NULL: the log */
    /* On loop 0. */
    uint64_t size;             /* of the file: where the next line goes */
    struct buf pending;        /* not yet written */
    uint64_t taken;            /* total bytes ever appended to `pending` */
    uint64_t written, durable; /* how many of these are written, and synced */
    bool writing;
    bool sync_wanted;
    enum err failed; /* of the last write */
    struct rt_cond progress;
};

/* ---- life ---- */

static enum err
open_file(const char *path, struct audit *a, struct errbuf *eb)
{
    struct rt_dir *dir = NULL;
    const char *name;
    enum err rc = rt_dir_open_of(path, &dir, &name, eb);

    if (rc == ERR_OK)
        rc = rt_open(dir, name, RT_O_WRITE | RT_O_CREATE, 0600, &a->file, eb);
    if (rc == ERR_OK)
        rc = rt_file_size(a->file, &a->size, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "the audit log");
    rt_dir_close(&dir);
    return rc;
}

enum err
audit_open(const char *path, struct audit **out, struct errbuf *eb)
{
    struct audit *a = xcalloc(1, sizeof *a);
    enum err rc = ERR_OK;

    buf_init(&a->pending, PENDING_MAX);
    rt_cond_init(&a->progress);
    if (path != NULL)
        rc = open_file(path, a, eb);
    if (rc != ERR_OK)
        audit_close(&a);
    *out = a;
    return rc;
}

void
audit_close(struct audit **ap)
{
    struct audit *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    rt_file_close(&a->file);
    buf_fini(&a->pending);
    free(a);
}

/* ---- lines ---- */

static void
audit_put_field(struct json *j, const struct log_field *f)
{
    switch (f->kind) {
    case LOG_TEXT:
        json_text(j, f->name, f->as.text);
        break;
    case LOG_SPAN:
        json_span(j, f->name, f->as.span);
        break;
    case LOG_U64:
        json_u64(j, f->name, f->as.u64);
        break;
    case LOG_I64:
        json_i64(j, f->name, f->as.i64);
        break;
    case LOG_F64:
        json_f64(j, f->name, f->as.f64);
        break;
    }
}

static void
audit_put_line(struct request *q, const char *event, const char *outcome,
               const struct log_field *fields, unsigned count)
{
    char date[NUM_DATE_TEXT];
    size_t start = q->audit.len;
    struct json j;

    if (q->audit.limit == 0)
        buf_init(&q->audit, PENDING_MAX / 2);
    date_iso((int64_t)(rt_wall_ns() / 1000000u), date);
    json_begin(&j, &q->audit);
    json_open_object(&j, NULL);
    json_text(&j, "time", date);
    json_text(&j, "id", q->http->id);
    json_text(&j, "event", event);
    json_span(&j, "user", q->caller.name);
    if (q->caller.auth.access_key.len > 0)
        json_span(&j, "key", q->caller.auth.access_key);
    json_text(&j, "peer", q->http->peer);
    if (q->from != NULL)
        json_u64(&j, "gateway", q->from->from);
    json_span(&j, "method", q->http->head->method_text);
    json_span(&j, "path",
              q->http->head->path); /* without the query: it may hold a signature */
    json_text(&j, "outcome", outcome);
    for (unsigned i = 0; i < count; i++)
        audit_put_field(&j, &fields[i]);
    json_end(&j);
    buf_putc(&q->audit, '\n');
    if (q->audit.full) { /* drop an incomplete line */
        q->audit.len = start;
        q->audit.full = false;
    }
}

static bool
audit_is_delete(const char *event)
{
    return strcmp(event, "object.delete") == 0;
}

void
audit_note(struct request *q, const char *event, const char *outcome,
           const struct log_field *fields, unsigned count)
{
    struct log_field all[12] = {
        L_TEXT("id", q->http->id),           L_SPAN("user", q->caller.name),
        L_TEXT("peer", q->http->peer),       L_SPAN("method", q->http->head->method_text),
        L_SPAN("path", q->http->head->path), L_TEXT("outcome", outcome)};

    if (q->api->options.audit != NULL && q->api->options.audit->file != NULL) {
        audit_put_line(q, event, outcome, fields, count);
        return;
    }
    if (audit_is_delete(event))
        return;
    for (unsigned i = 0; i < count && i < 6; i++)
        all[6 + i] = fields[i];
    log_event(strcmp(outcome, "ok") == 0 ? LOG_INFO : LOG_WARN, event, "audit", all,
              6 + MIN(count, 6));
}

/* ---- writing: on loop 0 ---- */

/* Writes the pending lines, and syncs if a request waits for durability. May switch. */
static enum err
write_pending(struct audit *a, struct errbuf *eb)
{
    struct iobuf *b = NULL;
    uint64_t upto = a->taken;
    bool sync = a->sync_wanted;
    enum err rc = iobuf_get(WRITE_BYTES, &b);

    a->sync_wanted = false;
    while (rc == ERR_OK && a->pending.len > 0) {
        size_t n = MIN(a->pending.len, WRITE_BYTES);

        memcpy(b->at, a->pending.at, n);
        buf_consume(&a->pending, n);
        rc = rt_write(a->file, a->size, b, 0, (uint32_t)n, RT_WRITE, eb);
        if (rc == ERR_OK)
            a->size += n;
        upto = a->taken - a->pending.len;
    }
    iobuf_drop(&b);
    if (rc == ERR_OK && sync)
        rc = rt_sync(a->file, eb);
    a->written = MAX(a->written, upto);
    if (rc == ERR_OK && sync)
        a->durable = MAX(a->durable, upto);
    return rc;
}

struct writing {
    struct audit *audit;
    struct span lines;
    bool durable;
    enum err rc;
    struct errbuf eb;
};

static void
audit_on_loop0(void *arg)
{
    struct writing *w = arg;
    struct audit *a = w->audit;
    struct rt_shield shield;
    uint64_t mine;

    rt_shield_begin(
        &shield); /* the line of a completed change is written even if its client disconnected */
    while (a->pending.len + w->lines.len > PENDING_MAX && a->writing)
        (void)!rt_cond_wait(&a->progress, DEADLINE_NEVER);
    buf_put_span(&a->pending, w->lines);
    a->taken += w->lines.len;
    mine = a->taken;
    a->sync_wanted = a->sync_wanted || w->durable;
    while ((w->durable ? a->durable : a->written) < mine && w->rc == ERR_OK) {
        if (a->writing) {
            (void)!rt_cond_wait(&a->progress, DEADLINE_NEVER);
            continue;
        }
        a->writing = true;
        a->sync_wanted = a->sync_wanted || w->durable;
        w->rc = write_pending(a, &w->eb);
        a->writing = false;
        rt_cond_broadcast(&a->progress);
    }
    rt_shield_end(&shield);
}

static void
write_lines(struct request *q, bool durable)
{
    struct writing w = {
        .audit = q->api->options.audit, .durable = durable, .lines = buf_span(&q->audit)};
    enum err rc = rt_call(0, audit_on_loop0, &w);

    if (rc == ERR_OK)
        rc = w.rc;
    if (rc != ERR_OK)
        LOG(LOG_ERROR, "audit.lost", "lines of the audit log could not be written",
            L_TEXT("id", q->http->id), L_TEXT("why", w.eb.text),
            L_TEXT("code", err_name(rc)));
    buf_clear(&q->audit);
}

void
audit_write(struct request *q, bool durable)
{
    if (q->audit.len > 0)
        write_lines(q, durable);
}

void
audit_change(struct request *q, const char *event, enum err rc,
             const struct log_field *fields, unsigned count)
{
    audit_note(q, event, rc == ERR_OK ? "ok" : err_name(rc), fields, count);
    audit_write(q, true);
}
