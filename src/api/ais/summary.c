/* summary: how much is in a bucket. Clients ask twice: the first time they get the id of a job (202), then, with it, the
 * result. The second request of HEAD repeats neither prefix nor flags, so they are remembered by id. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/ais/documents.h"
#include "api/ais/ops.h"
#include "api/ais/summary.h"
#include "api/merge.h"
#include "base/lock.h"
#include "base/mem.h"
#include "disks/report.h"
#include "rt/fiber.h"

#define SUMMARIES_MAX 1024u /* remembered; the oldest goes first */
#define ID_TEXT       24
#define WALK_MAX                                                                         \
    1000000u /* names that are looked at; larger counts come from the bucket's own */

struct asked {
    char id[ID_TEXT];
    char *prefix; /* owned */
};
struct ais_summaries {
    struct lock lock;
    struct asked at[SUMMARIES_MAX]; /* under the lock */
    uint64_t next;
};

struct ais_summaries *
ais_summaries_new(void)
{
    struct ais_summaries *s = xcalloc(1, sizeof *s);

    lock_init(&s->lock, LOCK_SUMMARIES);
    return s;
}

void
ais_summaries_free(struct ais_summaries **sp)
{
    struct ais_summaries *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    for (unsigned i = 0; i < SUMMARIES_MAX; i++)
        free(s->at[i].prefix);
    lock_fini(&s->lock);
    free(s);
}

static const char *
summary_keep(struct request *q, struct span prefix)
{
    struct ais_summaries *s = q->api->summaries;
    char *id = arena_printf(q->arena, "sum-%.12s", q->http->id);
    struct asked *a;

    lock_acquire(&s->lock);
    a = &s->at[s->next++ % SUMMARIES_MAX];
    free(a->prefix);
    a->prefix = xmemdup0(prefix.at, prefix.len);
    snprintf(a->id, sizeof a->id, "%s", id);
    lock_release(&s->lock);
    assert(strlen(id) < ID_TEXT);
    return id;
}

/* False: no such id, or it is too old. */
static bool
summary_find(struct request *q, struct span id, struct span *prefix)
{
    struct ais_summaries *s = q->api->summaries;
    bool found = false;

    lock_acquire(&s->lock);
    for (unsigned i = 0; i < SUMMARIES_MAX && !found; i++)
        if (s->at[i].prefix != NULL && span_is(id, s->at[i].id)) {
            *prefix = arena_span(q->arena, span_of(s->at[i].prefix));
            found = true;
        }
    lock_release(&s->lock);
    return found;
}

/* ---- counting ---- */

struct counted {
    uint64_t count, bytes, least, most;
};

static enum err
count_objects(struct request *q, const struct map_bucket *b, struct span prefix,
              struct counted *out, struct errbuf *eb)
{
    struct object_list_options o = {.prefix = prefix, .max = 1000};
    struct arena *a = arena_new(KIB(64), WORK_BYTES_MAX);
    char last[OBJECT_KEY_MAX];
    bool more = true;
    enum err rc = ERR_OK;

    *out = (struct counted){.least = UINT64_MAX};
    while (rc == ERR_OK && more && out->count < WALK_MAX) {
        struct object_page page = {0};

        arena_reset(a);
        rc = merge_list(q, b, &o, a, &page, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < page.count; i++) {
            out->count++;
            out->bytes += page.entries[i].size;
            out->least = MIN(out->least, page.entries[i].size);
            out->most = MAX(out->most, page.entries[i].size);
        }
        more = rc == ERR_OK && page.truncated;
        if (more) {
            memcpy(last, page.next_after.at, page.next_after.len);
            o.after = (struct span){last, page.next_after.len};
        }
        rt_yield();
    }
    arena_free(&a);
    if (rc == ERR_OK && more && !b->cached && prefix.len == 0)
        disks_bucket_usage(q->api->options.disks, b->id, USAGE_LIVE, b->copies,
                           &out->count, &out->bytes);
    if (out->count == 0)
        out->least = 0;
    return rc;
}

static void
put_summary(struct request *q, struct json *j, const struct map_bucket *b,
            const struct counted *c)
{
    struct disks_sum disks = {0};
    uint64_t total;

    if (q->api->options.disks != NULL)
        disks_sum(q->api->options.disks, &disks);
    total = disks.of.total_bytes;
    json_open_object(j, NULL);
    json_text(j, "name", b->name);
    json_text(j, "provider", map_provider_name(b->provider));
    json_open_object(j, "namespace");
    json_text(j, "uuid", "");
    json_text(j, "name", b->ns);
    json_end(j);
    json_open_object(j, "ObjCount");
    ais_put_number(j, "obj_count_present", b->cached ? 0 : c->count);
    ais_put_number(j, "obj_count_remote", b->cached ? c->count : 0);
    json_end(j);
    json_open_object(j, "ObjSize");
    json_u64(j, "obj_min_size", c->least);
    json_u64(j, "obj_avg_size", c->count > 0 ? c->bytes / c->count : 0);
    json_u64(j, "obj_max_size", c->most);
    json_end(j);
    json_open_object(j, "TotalSize");
    ais_put_number(j, "size_on_disk", b->cached ? 0 : c->bytes * MAX(b->copies, 1u));
    ais_put_number(j, "size_all_present_objs", b->cached ? 0 : c->bytes);
    ais_put_number(j, "size_all_remote_objs", b->cached ? c->bytes : 0);
    ais_put_number(j, "total_disks_size", total);
    json_end(j);
    json_u64(j, "used_pct", total > 0 && !b->cached ? c->bytes * 100 / total : 0);
    json_bool(j, "is_present", true);
    json_end(j);
}

static enum err
add_summary(struct request *q, struct json *j, const struct map_bucket *b,
            struct span prefix)
{
    struct counted c;
    struct errbuf eb = {{0}};
    enum err rc = count_objects(q, b, prefix, &c, &eb);

    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    put_summary(q, j, b, &c);
    return ERR_OK;
}

static enum err
no_summary(struct request *q, struct span id)
{
    return ais_fault(q, 404, "ErrXactNotFound",
                     "job \"%.*s\" not found: ask for a new summary",
                     (int)MIN(id.len, 64u), id.at);
}

/* ---- HEAD ---- */

/* HEAD of a bucket with bsumm_remote; the result is in a header. */
enum err
ais_head_summary(struct request *q)
{
    struct span id = query_get(&q->query, "uuid"), prefix = SPAN("");
    struct buf text;
    struct json j;
    enum err rc;

    ais_put_props_header(q);
    if (id.len == 0) {
        http_header(q->http, "ais-xaction-id", span_of(summary_keep(q, q->ais->object)));
        return ais_answer_empty(q, 202);
    }
    if (!summary_find(q, id, &prefix))
        return no_summary(q, id);
    buf_init(&text, KIB(4));
    json_begin(&j, &text);
    rc = add_summary(q, &j, q->bucket, prefix);
    if (rc == ERR_OK) {
        http_header(q->http, "ais-bucket-summ", buf_span(&text));
        rc = ais_answer_empty(q, 200);
    }
    buf_fini(&text);
    return rc;
}

/* ---- GET ---- */

/* The buckets of the request: one, or all of a provider that the caller may list. */
static enum err
summarize_buckets(struct request *q, struct json *j, struct span prefix)
{
    struct span provider = query_get(&q->query, "provider");
    enum map_provider p = MAP_AIS;
    enum err rc = ERR_OK;

    if (q->bucket != NULL)
        return add_summary(q, j, q->bucket, prefix);
    if (!ais_provider_of(provider, &p))
        return ais_fault(q, 400, NULL, "provider \"%.*s\"", (int)MIN(provider.len, 40u),
                         provider.at);
    for (uint32_t i = 0;
         rc == ERR_OK && i < map_bucket_count(map_now(q->api->options.map)); i++) {
        const struct map_bucket *b = map_bucket_at(map_now(q->api->options.map), i);

        if (b->closing || (provider.len > 0 && b->provider != p) ||
            !caller_may(q, AUTH_LIST, span_of(b->uname), SPAN("")))
            continue;
        b = map_bucket_ref(b);
        rc = add_summary(q, j, b, prefix);
        map_bucket_drop(&b);
    }
    return rc;
}

enum err
ais_summary(struct request *q)
{
    const json_t *v = q->ais->value;
    const char *id, *prefix;
    struct ais_document d;
    enum err rc;

    if (v != NULL && !json_is_object(v))
        return ais_fault(q, 400, NULL, "the value of \"summary-bck\" must be an object");
    rc = ais_text(q, v, "uuid", &id);
    if (rc == ERR_OK)
        rc = ais_text(q, v, "prefix", &prefix);
    if (rc != ERR_OK)
        return rc;
    if (id[0] == '\0')
        return ais_answer_text(q, 202, span_of(summary_keep(q, span_of(prefix))));
    ais_document_begin(&d);
    json_open_array(&d.j, NULL);
    rc = summarize_buckets(q, &d.j, span_of(prefix));
    json_end(&d.j);
    if (rc == ERR_OK)
        return ais_document_answer(q, &d);
    buf_fini(&d.text);
    return rc;
}
