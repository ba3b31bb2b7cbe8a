/* stat: what this node holds, for people's tools. */
#include <stdlib.h>

#include "api/admin/admin.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "disks/disks.h"
#include "disks/report.h"
#include "rt/loop.h"
#include "wire/json.h"

#define STAT_MAX (64u << 10)

static void
admin_stat_put_disk(struct json *j, const struct disks_one *d)
{
    json_open_object(j, NULL);
    json_text(j, "path", d->path);
    json_text(j, "state", disks_health_name(d));
    json_text(j, "why", disks_is_healthy(d) ? NULL : d->health.why);
    json_u64(j, "read_errors", d->health.read_errors);
    json_u64(j, "write_errors", d->health.write_errors);
    json_u64(j, "sync_errors", d->health.sync_errors);
    json_u64(j, "name_errors", d->health.name_errors);
    json_u64(j, "corrupt_blocks", d->health.corrupt_blocks);
    json_u64(j, "index_faults", d->health.index_faults);
    json_u64(j, "slow_operations", d->health.slow_ops);
    json_end(j);
}

/* Disks that have failed or left too: an operator looks for those. */
static void
put_disks(struct json *j, struct disks *ds)
{
    struct disks_status *s = xcalloc(1, sizeof *s);

    disks_status(ds, s);
    for (unsigned i = 0; i < s->count; i++)
        admin_stat_put_disk(j, &s->disks[i]);
    free(s);
}

/* What the block cache is, and what a larger one would have saved since the start. */
static void
put_block_cache(struct json *j, const struct request *q)
{
    struct disks_block_cache c = {0};

    if (q->api->options.disks != NULL)
        disks_block_cache(q->api->options.disks, &c);
    json_open_object(j, "block_cache");
    json_text(j, "size", q->api->options.block_cache_fixed ? "fixed" : "auto");
    json_u64(j, "most_bytes", q->api->options.block_cache_bytes);
    json_u64(j, "target_bytes", c.target);
    json_u64(j, "held_bytes", c.held);
    json_u64(j, "bytes", c.bytes);
    json_u64(j, "reads_memory", (uint64_t)metric_read(M_BLOCK_CACHE, 0));
    json_u64(j, "reads_disk", (uint64_t)metric_read(M_BLOCK_CACHE, 1));
    json_u64(j, "rereads_twice", (uint64_t)metric_read(M_BLOCK_CACHE_REREADS, 0));
    json_u64(j, "rereads_more", (uint64_t)metric_read(M_BLOCK_CACHE_REREADS, 1));
    json_end(j);
}

enum err
admin_stat(struct request *q)
{
    struct disks_sum s = {0};
    struct admin_page page;

    if (q->api->options.disks != NULL)
        disks_sum(q->api->options.disks, &s);
    admin_page_begin(&page, STAT_MAX);
    json_open_object(&page.j, NULL);
    json_text(&page.j, "version", FOREBAY_VERSION);
    json_text(&page.j, "engine", rt_engine_name(rt_engine_now()));
    json_u64(&page.j, "loops", rt_loop_count());
    json_text(&page.j, "region", q->api->options.region);
    json_text(&page.j, "credentials", q->api->options.credentials);
    json_u64(&page.j, "buckets", map_bucket_count(map_now(q->api->options.map)));
    json_open_object(&page.j, "disk");
    json_u64(&page.j, "total_bytes", s.of.total_bytes);
    json_u64(&page.j, "free_bytes", s.of.free_bytes);
    json_u64(&page.j, "native_bytes", s.of.native_bytes);
    json_u64(&page.j, "cached_bytes", s.of.cached_bytes);
    json_u64(&page.j, "objects", s.of.objects);
    json_u64(&page.j, "older", s.of.older);
    json_u64(&page.j, "open_parts", s.of.open_parts);
    json_u64(&page.j, "open_bytes", s.of.open_bytes);
    json_u64(&page.j, "memtable_bytes", s.of.memtable_bytes);
    json_u64(&page.j, "block_cache_bytes", s.of.block_cache_bytes);
    json_end(&page.j);
    put_block_cache(&page.j, q);
    json_open_array(&page.j, "disks");
    if (q->api->options.disks != NULL)
        put_disks(&page.j, q->api->options.disks);
    json_end(&page.j);
    json_end(&page.j);
    return admin_page_answer(q, &page, 200);
}
