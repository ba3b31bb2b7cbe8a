/* scrub: what the scrubs of the node's disks do and found, with the names of what is damaged. */
#include "api/admin/admin.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "disks/report.h"
#include "wire/json.h"

#define STATUS_MAX (8u << 20)

struct page {
    struct request *q;
    struct admin_page page;
};

/* Without a switch between the two: a bucket that is gone has no name any more. */
static void
put_bucket_name(struct request *q, struct json *j, uint64_t id)
{
    const struct map *m = map_now(q->api->options.map);

    for (uint32_t i = 0; i < map_bucket_count(m); i++)
        if (map_bucket_at(m, i)->id == id) {
            json_text(j, "bucket", map_bucket_at(m, i)->name);
            return;
        }
    json_text(j, "bucket", NULL);
}

static void
admin_scrub_put_pass(struct json *j, const char *key, const struct scrub_pass *p)
{
    json_open_object(j, key);
    json_u64(j, "number", p->number);
    admin_put_time(j, "began", (int64_t)p->began_ms);
    admin_put_time(j, "ended", (int64_t)p->ended_ms);
    json_u64(j, "objects", p->objects);
    json_u64(j, "parts", p->parts);
    json_u64(j, "bytes", p->bytes);
    json_u64(j, "findings", p->findings);
    json_u64(j, "repaired", p->repaired);
    json_end(j);
}

static void
admin_scrub_put_finding(struct request *q, struct json *j, const struct scrub_finding *f)
{
    static const char *const outcomes[] = {[FINDING_OPEN] = "open",
                                           [FINDING_REPAIRED] = "repaired",
                                           [FINDING_DROPPED] = "dropped"};

    json_open_object(j, NULL);
    json_u64(j, "pass", f->pass);
    admin_put_time(j, "found", f->found_ms);
    put_bucket_name(q, j, f->bucket);
    json_span(j, "key", (struct span){f->key, f->key_len});
    json_u64(j, "part", f->part);
    json_u64(j, "block", f->block);
    json_text(j, "what", f->what);
    json_text(j, "outcome", outcomes[f->outcome]);
    json_end(j);
}

static void
admin_scrub_put_disk(void *arg, const char *path, const struct scrub_status *s)
{
    struct page *p = arg;

    json_open_object(&p->page.j, NULL);
    json_text(&p->page.j, "disk", path);
    json_text(&p->page.j, "state", s->running ? "running" : "waiting");
    json_bool(&p->page.j, "asked", s->asked);
    json_u64(&p->page.j, "rate", s->rate);
    json_u64(&p->page.j, "total_bytes", s->total_bytes);
    admin_put_time(&p->page.j, "next", s->running ? 0 : s->next_ms);
    admin_scrub_put_pass(&p->page.j, "pass", &s->pass);
    admin_scrub_put_pass(&p->page.j, "last", &s->last);
    json_open_array(&p->page.j, "findings");
    for (uint32_t i = 0; i < s->count; i++)
        admin_scrub_put_finding(p->q, &p->page.j, &s->findings[i]);
    json_end(&p->page.j);
    json_end(&p->page.j);
}

enum err
admin_scrub_status(struct request *q)
{
    struct page p = {.q = q};
    struct errbuf eb = {{0}};
    enum err rc;

    admin_page_begin(&p.page, STATUS_MAX);
    json_open_object(&p.page.j, NULL);
    json_open_array(&p.page.j, "disks");
    rc = disks_scrub_each(q->api->options.disks, admin_scrub_put_disk, &p, &eb);
    json_end(&p.page.j);
    json_end(&p.page.j);
    if (rc == ERR_OK)
        return admin_page_answer(q, &p.page, 200);
    buf_fini(&p.page.text);
    return fault_from(q, rc, &eb);
}

enum err
admin_scrub_start(struct request *q)
{
    struct errbuf eb = {{0}};
    enum err rc = disks_scrub_start(q->api->options.disks, &eb);

    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    LOG(LOG_INFO, "scrub.requested", "a pass begins on every disk",
        L_TEXT("id", q->http->id), L_SPAN("user", q->caller.name));
    return admin_scrub_status(q);
}
