/* node: documents of the node: counters, capacity, disks, memory, its log. AIStore's names for them, from our counters. */
#include <stdlib.h>

#include "api/ais/documents.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "disks/report.h"
#include "rt/machine.h"
#include "rt/time.h"

/* ---- capacity ---- */

static unsigned
percent_used(uint64_t total, uint64_t available)
{
    return total > 0 && available <= total ? (unsigned)((total - available) * 100 / total)
                                           : 0;
}

static void
put_mountpath(struct json *j, const struct disks_one *d, unsigned index)
{
    uint64_t total = d->stat.total_bytes, available = d->stat.free_bytes;
    char disk[24];

    snprintf(disk, sizeof disk, "disk%u", index);
    json_open_object(j, d->path);
    json_text(j, "mountpath_label", "");
    json_open_object(j, "fs");
    json_text(j, "Fs", disk);
    json_text(j, "FsType", "");
    json_open_array(j, "FsID");
    json_u64(j, NULL, 0);
    json_u64(j, NULL, index);
    json_end(j);
    json_end(j);
    json_open_array(j, "disks");
    json_text(j, NULL, disk);
    json_end(j);
    ais_put_number(j, "used", total > available ? total - available : 0);
    ais_put_number(j, "avail", available);
    json_u64(j, "pct_used", percent_used(total, available));
    json_end(j);
}

/* The members of a capacity document. */
static void
put_capacity_members(struct json *j, const struct disks_status *s)
{
    uint64_t total = 0, available = 0;
    unsigned least = 100, most = 0, sum = 0;

    json_open_object(j, "mountpaths");
    for (unsigned i = 0; i < s->count; i++) {
        const struct disks_one *d = &s->disks[i];
        unsigned used = percent_used(d->stat.total_bytes, d->stat.free_bytes);

        put_mountpath(j, d, i);
        total += d->stat.total_bytes;
        available += d->stat.free_bytes;
        least = MIN(least, used);
        most = MAX(most, used);
        sum += used;
    }
    json_end(j);
    json_text(j, "cs_err", "");
    ais_put_number(j, "total_used", total > available ? total - available : 0);
    ais_put_number(j, "total_avail", available);
    json_u64(j, "pct_max", most);
    json_u64(j, "pct_avg", s->count > 0 ? sum / s->count : 0);
    json_u64(j, "pct_min", MIN(least, most));
}

/* The caller frees it. May switch. */
static struct disks_status *
read_disks(struct request *q)
{
    struct disks_status *s = xcalloc(1, sizeof *s);

    if (q->api->options.disks != NULL)
        disks_status(q->api->options.disks, s);
    return s;
}

/* ---- counters ---- */

static void
put_counter(struct json *j, const char *name, uint64_t value)
{
    json_open_object(j, name);
    ais_put_number(j, "v", value);
    json_end(j);
}

static const struct counted {
    enum metric_op op;
    const char *name;
} counted[] = {
    {OP_get, "get"},    {OP_put, "put"},  {OP_head, "head"},
    {OP_delete, "del"}, {OP_list, "lst"},
};

static const char *
counter_name(struct request *q, const char *before, const char *op, const char *after)
{
    return arena_printf(q->arena, "%s%s%s", before, op, after);
}

static void
put_tracker(struct request *q, struct json *j)
{
    json_open_object(j, "tracker");
    for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
        const char *op = counted[i].name;
        struct metric_request_sums s;

        metric_request_sums(counted[i].op, &s);
        put_counter(j, counter_name(q, "", op, ".n"), s.count);
        put_counter(j, counter_name(q, "err.", op, ".n"), s.failed);
        put_counter(j, counter_name(q, "", op, ".ns"), s.duration_ns);
        put_counter(j, counter_name(q, "", op, ".ns.total"), s.duration_ns);
        if (counted[i].op == OP_get || counted[i].op == OP_put) {
            uint64_t bytes = counted[i].op == OP_get ? s.bytes_out : s.bytes_in;

            put_counter(j, counter_name(q, "", op, ".size"), bytes);
            put_counter(j, counter_name(q, "", op, ".bps"), bytes);
        }
    }
    put_counter(j, "append.n", 0);
    put_counter(j, "ren.n", 0);
    put_counter(j, "up.ns.time", rt_now_ns() - q->api->began_ns);
    put_counter(j, "state.flags", 6);
    put_counter(j, "disk.disk0.read.bps", (uint64_t)metric_read(M_DISK_IO_BYTES, 0));
    put_counter(j, "disk.disk0.write.bps", (uint64_t)metric_read(M_DISK_IO_BYTES, 1));
    put_counter(j, "disk.disk0.util", 0);
    put_counter(j, "disk.disk0.avg.rsize", 0);
    put_counter(j, "disk.disk0.avg.wsize", 0);
    json_end(j);
}

enum err
ais_show_metric_names(struct request *q)
{
    static const char *const kinds[][2] = {
        {".n", "counter"}, {".ns", "latency"}, {".ns.total", "total"}};
    struct ais_document d;

    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
        const char *op = counted[i].name;

        for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
            json_text(&d.j, counter_name(q, "", op, kinds[k][0]), kinds[k][1]);
        json_text(&d.j, counter_name(q, "err.", op, ".n"), "counter");
        if (counted[i].op != OP_get && counted[i].op != OP_put)
            continue;
        json_text(&d.j, counter_name(q, "", op, ".size"), "size");
        json_text(&d.j, counter_name(q, "", op, ".bps"), "bw");
    }
    json_text(&d.j, "append.n", "counter");
    json_text(&d.j, "ren.n", "counter");
    json_text(&d.j, "up.ns.time", "special");
    json_text(&d.j, "state.flags", "gauge");
    json_text(&d.j, "disk.disk0.read.bps", "compbw");
    json_text(&d.j, "disk.disk0.write.bps", "compbw");
    json_text(&d.j, "disk.disk0.util", "gauge");
    json_text(&d.j, "disk.disk0.avg.rsize", "gauge");
    json_text(&d.j, "disk.disk0.avg.wsize", "gauge");
    json_end(&d.j);
    return ais_document_answer(q, &d);
}

/* ---- the machine ---- */

/* The members of MemCPUInfo. */
static void
put_machine(struct json *j)
{
    struct rt_machine m;
    uint64_t used;

    rt_machine_now(&m);
    used = m.memory_bytes > m.available_bytes ? m.memory_bytes - m.available_bytes : 0;
    json_u64(j, "mem_used", used);
    json_u64(j, "mem_avail", m.available_bytes);
    json_f64(j, "pct_mem_used",
             m.memory_bytes > 0 ? (double)used * 100 / (double)m.memory_bytes : 0);
    json_f64(j, "pct_cpu_used", m.cpus > 0 ? MIN(m.load[0] * 100 / m.cpus, 100.0) : 0);
    json_open_object(j, "load_avg");
    json_f64(j, "One", m.load[0]);
    json_f64(j, "Five", m.load[1]);
    json_f64(j, "Fifteen", m.load[2]);
    json_end(j);
    json_i64(j, "cpu_util",
             m.cpus > 0 ? (int64_t)MIN(m.load[0] * 100 / m.cpus, 100.0) : 0);
    json_i64(j, "cpu_throttled", 0);
}

static void
put_space(struct json *j, const struct disks_status *s)
{
    uint64_t total = 0, available = 0;

    for (unsigned i = 0; i < s->count; i++) {
        total += s->disks[i].stat.total_bytes;
        available += s->disks[i].stat.free_bytes;
    }
    ais_put_number(j, "fs_used", total > available ? total - available : 0);
    ais_put_number(j, "fs_capacity", total);
    json_u64(j, "pct_fs_used", percent_used(total, available));
}

enum err
ais_show_node_sysinfo(struct request *q)
{
    struct ais_document d;

    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    put_machine(&d.j);
    json_end(&d.j);
    return ais_document_answer(q, &d);
}

enum err
ais_show_cluster_sysinfo(struct request *q)
{
    struct disks_status *s = read_disks(q);
    struct ais_document d;
    struct ais_ids ids;

    ais_ids(q->api, &ids);
    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    json_open_object(&d.j, "proxy");
    json_open_object(&d.j, ids.gateway);
    put_machine(&d.j);
    json_end(&d.j);
    json_end(&d.j);
    json_open_object(&d.j, "target");
    json_open_object(&d.j, ids.target);
    put_machine(&d.j);
    put_space(&d.j, s);
    json_end(&d.j);
    json_end(&d.j);
    json_end(&d.j);
    free(s);
    return ais_document_answer(q, &d);
}

/* ---- counters and status of a node ---- */

/* `target` decides which of the two nodes that we are. */
static void
put_stats(struct request *q, struct json *j, bool target, const struct disks_status *s)
{
    ais_put_snode(j, "snode", q, target);
    put_tracker(q, j);
    json_open_object(j, "capacity");
    if (target)
        put_capacity_members(j, s);
    json_end(j);
}

enum err
ais_show_node_stats(struct request *q)
{
    struct disks_status *s = read_disks(q);
    struct ais_document d;

    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    put_stats(q, &d.j, ais_asks_target(q), s);
    json_end(&d.j);
    free(s);
    return ais_document_answer(q, &d);
}

enum err
ais_show_cluster_stats(struct request *q)
{
    struct disks_status *s = read_disks(q);
    struct ais_document d;
    struct ais_ids ids;

    ais_ids(q->api, &ids);
    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    json_open_object(&d.j, "proxy");
    put_stats(q, &d.j, false, s);
    json_end(&d.j);
    json_open_object(&d.j, "target");
    json_open_object(&d.j, ids.target);
    put_stats(q, &d.j, true, s);
    json_end(&d.j);
    json_end(&d.j);
    json_end(&d.j);
    free(s);
    return ais_document_answer(q, &d);
}

enum err
ais_show_node_status(struct request *q)
{
    struct disks_status *s = read_disks(q);
    struct ais_document d;

    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    put_stats(q, &d.j, ais_asks_target(q), s);
    json_put_null(&d.j, "rebalance_snap");
    json_text(&d.j, "status", "online");
    json_text(&d.j, "deployment", "linux");
    json_text(&d.j, "ais_version", AIS_VERSION_TEXT);
    json_text(&d.j, "build_time", "forebay " FOREBAY_VERSION);
    json_text(&d.j, "k8s_pod_name", "");
    ais_put_node_state(q, &d.j, "cluster");
    json_open_object(&d.j, "sys_info");
    put_machine(&d.j);
    json_end(&d.j);
    json_text(&d.j, "smap_version", "3");
    json_end(&d.j);
    free(s);
    return ais_document_answer(q, &d);
}

/* ---- disks ---- */

static void
put_paths(struct json *j, const struct disks_status *s)
{
    json_open_array(j, "available");
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->disks[i].state, "active") == 0)
            json_text(j, NULL, s->disks[i].path);
    json_end(j);
    json_open_array(j, "waiting_dd");
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->disks[i].state, "draining") == 0)
            json_text(j, NULL, s->disks[i].path);
    json_end(j);
    json_open_array(j, "disabled");
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->disks[i].state, "active") != 0 &&
            strcmp(s->disks[i].state, "draining") != 0)
            json_text(j, NULL, s->disks[i].path);
    json_end(j);
}

enum err
ais_show_mountpaths(struct request *q)
{
    struct disks_status *s = read_disks(q);
    struct ais_document d;

    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    put_paths(&d.j, s);
    json_end(&d.j);
    free(s);
    return ais_document_answer(q, &d);
}

enum err
ais_show_cluster_mountpaths(struct request *q)
{
    struct disks_status *s = read_disks(q);
    struct ais_document d;
    struct ais_ids ids;

    ais_ids(q->api, &ids);
    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    json_open_object(&d.j, "targets");
    json_open_object(&d.j, ids.target);
    put_paths(&d.j, s);
    json_end(&d.j);
    json_end(&d.j);
    json_end(&d.j);
    free(s);
    return ais_document_answer(q, &d);
}

enum err
ais_show_disks(struct request *q)
{
    static const char *const rates[] = {"RBps", "Ravg", "WBps", "Wavg", "Util"};
    struct disks_status *s = read_disks(q);
    struct ais_document d;

    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    json_open_object(&d.j, "AllDiskStats");
    for (unsigned i = 0; i < s->count; i++) {
        json_open_object(&d.j, arena_printf(q->arena, "disk%u", i));
        for (size_t k = 0; k < ARRAY_LEN(rates); k++)
            json_u64(&d.j, rates[k], 0);
        json_end(&d.j);
    }
    json_end(&d.j);
    put_capacity_members(&d.j, s);
    json_end(&d.j);
    free(s);
    return ais_document_answer(q, &d);
}

/* ---- the rest ---- */

/* Our log goes to standard error: it cannot be read back here. */
enum err
ais_show_log(struct request *q)
{
    struct span severity = query_get(&q->query, "severity");
    struct ais_ids ids;

    if (span_is(severity, "error") || span_is(severity, "warning"))
        return ais_answer_text(q, 200, SPAN(""));
    ais_ids(q->api, &ids);
    return ais_answer_text(
        q, 200,
        span_of(arena_printf(
            q->arena,
            "forebay %s, node %s: the log of this server is on its standard "
            "error; a service's is in the journal (journalctl -u forebay)\n",
            FOREBAY_VERSION, ais_asks_target(q) ? ids.target : ids.gateway)));
}

enum err
ais_show_certificate(struct request *q)
{
    struct ais_document d;

    if (!q->http->is_tls)
        return ais_fault(q, 400, NULL,
                         "this node serves without TLS: there is no certificate");
    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    json_end(&d.j);
    return ais_document_answer(q, &d);
}
