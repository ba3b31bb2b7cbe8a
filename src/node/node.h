/* node: one server from start to end: opens its state and its disk, listens, drains at a signal, closes in reverse.
 *
 * node_serve() blocks the calling thread until the server has ended. A second signal ends the drain at once. SIGHUP reloads the options that may change while it serves: all of them, or none.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "cloud/cloud.h"
#include "http/server.h"
#include "rt/loop.h"
#include "store/store.h"

struct node_ready {
    const char *const *dirs;
    unsigned dir_count;
    const char *addr;
    uint16_t port;
    const char *credentials; /* path of the keys, as a person would type it */
    bool first_start;        /* the keys were made just now */
    bool keys_needed;        /* no anonymous caller */
    bool tls;
    uint64_t free_bytes;
    const char *engine;
    uint64_t buckets, objects;
};

/* What a reload may change. */
struct node_live {
    const char *credentials;        /* one more file of users, or NULL */
    const char *tls_cert, *tls_key; /* PEM files, or both NULL: no TLS */
    bool access_log;
    enum log_level log_level;
    enum log_format log_format;
};

/* Of a size: by the machine (fit.h). Of a count, 0 means the same. */
#define NODE_AUTO UINT64_MAX

/* The cluster that the node belongs to. */
struct node_cluster_options {
    const char *
        etcd; /* addresses of the members of etcd, between commas; NULL: this node is alone */
    const char *name, *key_file;
    const char *node;         /* its name; NULL: as its folder says ... */
    const char *node_default; /* ... or this one */
    const char *peer_addr;    /* NULL: the address of the node */
    uint16_t peer_port;       /* 0: the node's + 1 */
    const char *domain;       /* NULL: a failure domain of its own */
    uint32_t weight;
    const char *etcd_user, *etcd_password_file, *etcd_ca_file; /* NULL: none */
};
struct node_options {
    const char *const *dirs; /* the disks, in any order; made when missing */
    unsigned dir_count;
    bool dirs_not_empty; /* a new one may hold other things */
    const char *const
        *without; /* disks that are lost, by path or id: it starts without them */
    unsigned without_count;
    uint64_t rebalance_rate; /* bytes a second between disks at most */
    const char *addr;        /* "127.0.0.1" */
    uint16_t port;
    struct node_live live;
    /* Reads the configuration again, on a worker, at SIGHUP. *out is lent until the next call. NULL: no configuration. */
    enum err (*reload)(struct node_live *out, void *arg, struct errbuf *eb);
    /* Reports the result: the new values are in force, or (`taken` false) all were rejected. */
    void (*reloaded)(bool taken, void *arg);
    const char *audit;  /* file of the audit log, or NULL: the log */
    bool auth;          /* no anonymous caller on loopback either */
    bool insecure_http; /* explicit permission for plain HTTP off loopback */
    const char *
        advertise; /* "HOST:PORT" for AIS clients and other nodes; NULL: as they reach it */
    struct node_cluster_options cluster;
    const char *token_key_file; /* of the key of bearer tokens; NULL: none is taken */
    const char *promote_dir;    /* files of this folder may become objects; NULL: none */
    bool download_private; /* downloads may come from addresses that are not public */
    uint64_t skew_s;       /* tolerated difference of a client's clock; 0: 15 minutes */
    const char *region;    /* NULL: us-east-1 */
    const char *const *domains;
    unsigned domain_count;
    bool bench_objects;
    struct store_limits store_limits;
    uint64_t scrub_rate, scrub_pass_ms;
    uint64_t
        memory_limit; /* of the process; 0: what its control group or the machine says */
    unsigned cache_high, cache_low;
    uint64_t cache_large, cache_chunk;
    uint64_t shard_index_bytes; /* of the folder of indexes; 0: none */
    uint64_t reshard_memory, reshard_spill;
    unsigned readahead;
    uint64_t block_cache_bytes, cache_budget, segment_bytes, index_map_bytes,
        index_interval_ms, memtable_bytes,
        index_resident_bytes; /* by node_fit_memory(): an index larger than that is not read on a loop */
    uint64_t drain_grace_ms;      /* full service after readyz says no */
    uint64_t drain_ms;            /* for what is in flight */
    struct cloud_options backend; /* without secrets */
    const char *congestion;
    struct http_server_options http;
    struct rt_options rt;
    void (*on_ready)(const struct node_ready *r, void *arg);
    void *arg;
};
enum err node_serve(const struct node_options *o, struct errbuf *eb) MUST_CHECK;
