/* metrics: counters, gauges and histograms, one table, no lock on the warm path.
 *
 * Every thread that counts has a block of its own (metrics_thread_begin; rt does it for
 * loops and workers), written with relaxed atomics by its owner only; metrics_write()
 * sums the blocks. Gauges are sums too: add and subtract. Labels are fixed in the table,
 * never built from what a peer sends. A room that has values to compute at scrape time
 * registers a collector.
 */
#pragma once
#include <stdint.h>

#include "base/buf.h"

/* X(id, name, type, help, label name or "", label values separated by '|' or "") */
#define METRIC_TABLE(X)                                                                  \
    X(M_FIBERS, "forebay_fibers", GAUGE, "fibers alive", "", "")                         \
    X(M_SWITCHES, "forebay_fiber_switches_total", COUNTER, "switches into fibers", "",   \
      "")                                                                                \
    X(M_CONNECTIONS, "forebay_connections", GAUGE, "open connections", "state",          \
      "active|idle")                                                                     \
    X(M_ACCEPTED, "forebay_connections_accepted_total", COUNTER, "connections accepted", \
      "", "")                                                                            \
    X(M_REQUESTS_BAD, "forebay_http_rejected_total", COUNTER,                            \
      "requests refused before routing", "why", "framing|header|timeout|busy|body")      \
    X(M_WAITED, "forebay_http_waited_total", COUNTER,                                    \
      "requests that waited for a slot of http.requests", "", "")                        \
    X(M_SHED, "forebay_connections_shed_total", COUNTER,                                 \
      "connections closed while memory was tight, longest stalled first", "", "")        \
    X(M_CACHE, "forebay_cache_requests_total", COUNTER,                                  \
      "reads of cached buckets by result", "result", "hit|miss|bypass|coalesced")        \
    X(M_CACHE_BYTES, "forebay_cache_bytes_total", COUNTER, "bytes of such reads",        \
      "result", "hit|miss|bypass|coalesced")                                             \
    X(M_ADMISSION, "forebay_cache_admissions_total", COUNTER,                            \
      "objects fetched into the cache, or passed through because others are read more",  \
      "result", "admitted|refused")                                                      \
    X(M_READAHEAD, "forebay_cache_readahead_total", COUNTER,                             \
      "objects fetched ahead of a reader that goes through them in order", "", "")       \
    X(M_LIST_PREFETCH, "forebay_list_prefetch_total", COUNTER,                           \
      "pages of remote listings asked for before the client did", "result",              \
      "used|dropped")                                                                    \
    X(M_EVICTED, "forebay_cache_evicted_total", COUNTER, "objects evicted", "", "")      \
    X(M_EVICTED_BYTES, "forebay_cache_evicted_bytes_total", COUNTER, "their bytes", "",  \
      "")                                                                                \
    X(M_BACKEND_BYTES, "forebay_backend_bytes_total", COUNTER,                           \
      "object bytes to and from backends", "direction", "in|out")                        \
    X(M_BACKEND_REQUESTS, "forebay_backend_requests_total", COUNTER,                     \
      "requests to backends", "op", "get|head|put|delete|list|other")                    \
    X(M_BACKEND_ERRORS, "forebay_backend_errors_total", COUNTER,                         \
      "failed requests to backends", "", "")                                             \
    X(M_DISK_IO_BYTES, "forebay_disk_io_bytes_total", COUNTER,                           \
      "bytes read and written on disks", "direction", "read|write")                      \
    X(M_READS_HEDGED, "forebay_reads_hedged_total", COUNTER,                             \
      "reads that took too long on one disk and were sent to another replica", "", "")   \
    X(M_DISK_SYNCS, "forebay_disk_syncs_total", COUNTER,                                 \
      "fdatasync calls of committers", "", "")                                           \
    X(M_DISK_COMMITS, "forebay_disk_commits_total", COUNTER, "records committed", "",    \
      "")                                                                                \
    X(M_DISK_APPENDED, "forebay_disk_appended_bytes_total", COUNTER,                     \
      "bytes of records and bodies written, by origin", "by", "user|compaction")         \
    X(M_DISK_RECLAIMED, "forebay_reclaimed_bytes_total", COUNTER,                        \
      "bytes of segments given back", "how", "unlink|punch|compact")                     \
    X(M_CHECKSUM_FAILURES, "forebay_checksum_failures_total", COUNTER,                   \
      "bytes refused because their sum is wrong", "where", "disk|backend|client")        \
    X(M_SCRUB_BYTES, "forebay_scrub_bytes_total", COUNTER, "bytes read by scrubs", "",   \
      "")                                                                                \
    X(M_SCRUB_FINDINGS, "forebay_scrub_findings_total", COUNTER,                         \
      "damaged versions that scrubs found, by what became of them", "outcome",           \
      "open|repaired|dropped")                                                           \
    X(M_BLOCK_CACHE, "forebay_block_cache_requests_total", COUNTER,                      \
      "reads by where the bytes were", "where", "memory|disk")                           \
    X(M_RESPONSE_CACHE_HITS, "forebay_response_cache_hits_total", COUNTER,               \
      "GETs answered from the response cache", "", "")                                   \
    X(M_ASYNC_READS, "forebay_async_reads_total", COUNTER,                               \
      "small GETs read from a disk asynchronously, without a fiber", "", "")             \
    X(M_BLOCK_CACHE_BYTES, "forebay_block_cache_bytes", GAUGE,                           \
      "bytes in the block cache", "", "")                                                \
    X(M_BLOCK_CACHE_HELD, "forebay_block_cache_held_bytes", GAUGE,                       \
      "memory of the block cache, unused parts included", "", "")                        \
    X(M_BLOCK_CACHE_TARGET, "forebay_block_cache_target_bytes", GAUGE,                   \
      "memory that the block cache may hold now", "", "")                                \
    X(M_BLOCK_CACHE_REREADS, "forebay_block_cache_rereads_total", COUNTER,               \
      "reads of a disk that a larger block cache would have saved: of twice the size, "  \
      "or more than that",                                                               \
      "size", "twice|more")                                                              \
    X(M_MD5_BYTES, "forebay_md5_bytes_total", COUNTER,                                   \
      "bytes hashed for ETags: a stream alone, or several in lanes", "how",              \
      "alone|lanes")                                                                     \
    X(M_SHARD_INDEXES, "forebay_shard_indexes_total", COUNTER,                           \
      "indexes of shards that were needed and not in memory, by where they came from",   \
      "from", "kept|built")                                                              \
    X(M_UNVERIFIED, "forebay_backend_unverified_total", COUNTER,                         \
      "objects fetched with nothing but their length to verify", "", "")

enum metric_id {
#define X(id, name, type, help, label, values) id,
    METRIC_TABLE(X)
#undef X
        METRIC_COUNT_
};
#define METRIC_LABELS_MAX 8

void metrics_thread_begin(void); /* before the first count of a thread; again is fine */
/* `label` is the index of the value in the table, 0 where there are none. A thread
 * without a block counts into a shared one. */
void metric_add(enum metric_id id, unsigned label, int64_t delta);
int64_t metric_read(enum metric_id id, unsigned label); /* sum over threads */

/* Requests: forebay_requests_total{op,code,api}, forebay_request_duration_seconds{op},
 * forebay_first_byte_seconds{op}, forebay_{request,response}_bytes_total{op}. A status
 * that is not in the table of metrics.c counts as code "other". */
#define METRIC_APIS(X) X(s3) X(admin) X(ais)
enum metric_api {
#define X(name) API_##name,
    METRIC_APIS(X)
#undef X
        API_COUNT_
};
#define METRIC_OPS(X)                                                                    \
    X(get) X(head) X(put) X(delete) X(list) X(mpu) X(bucket) X(admin) X(other)
enum metric_op {
#define X(name) OP_##name,
    METRIC_OPS(X)
#undef X
        OP_COUNT_
};
struct metric_request {
    enum metric_op op;
    enum metric_api api; /* zero is s3 */
    int status;
    uint64_t duration_ns;
    uint64_t first_byte_ns;
    uint64_t bytes_in;
    uint64_t bytes_out;
};
void metric_request_done(const struct metric_request *r);
/* Sums of one operation over all protocols and codes; `failed` are those with a status of 400 and more. */
struct metric_request_sums {
    uint64_t count, failed, bytes_in, bytes_out, duration_ns;
};
void metric_request_sums(enum metric_op op, struct metric_request_sums *out);

/* Adds lines at scrape time; `collect` writes whole families in text format. At most 16 collectors. It runs with a
 * lock held, so it neither waits nor registers; after metrics_unregister() it is not running any more. */
void metrics_register(void (*collect)(struct buf *out, void *arg), void *arg);
void metrics_unregister(void *arg);
/* "uring" or "epoll", a literal: for forebay_build_info. */
void metrics_set_engine(const char *name);
/* The commit that this program was built of, a literal; "unknown" until it is set. */
void metrics_set_commit(const char *name);
const char *metrics_commit(void);
/* Prometheus text format 0.0.4, process_* and forebay_build_info included. Reads a few
 * files of /proc: they are memory, and this is the one place outside rt that does. `out`
 * should take 256 KiB. */
void metrics_write(struct buf *out);
/* One label value of a collector: escaped for the text format, quotes not included. */
void metrics_put_label(struct buf *out, struct span value);
