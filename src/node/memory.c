/* memory: fits pools and caches into the memory that this process may use, and the number of connections into its
 * descriptors; and moves the target of the block cache while it serves. */
#include "rt/memory.h"
#include "base/account.h"
#include "base/mem.h"
#include "node/cache_policy.h"
#include "node/fit.h"
#include "node/internal.h"
#include "rt/limits.h"
#include "rt/time.h"

#define FILES_MOST      4096u /* descriptors kept for files and remotes */
#define FILES_LEAST     16u
#define CONNECTIONS_LOW 4u

void
node_fit_descriptors(struct http_server_options *h)
{
    uint64_t most = rt_descriptors_max(), open = rt_descriptors_open();
    uint64_t left = most > open ? most - open : 0;
    uint64_t files = MIN(MAX(left / 4, (uint64_t)FILES_LEAST), (uint64_t)FILES_MOST);
    uint64_t room = MAX(left > files ? left - files : 0, (uint64_t)CONNECTIONS_LOW);
    /* Connections that get 503 because there are too many need descriptors as well. */
    uint64_t told = MIN(room / 8, UINT64_C(64)) + 1;

    if (h->connections_max + told <= room)
        return;
    LOG(LOG_WARN, "node.descriptors",
        "fewer connections than http.connections: the limit of descriptors is low",
        L_U64("connections", room - MIN(told, room - 1)), L_U64("descriptors", most),
        L_U64("open", open));
    h->connections_max = (uint32_t)(room - MIN(told, room - 1));
    h->rejected_max = (uint32_t)told;
}

void
node_fit_memory(struct node_options *o, bool *block_cache_fixed)
{
    struct node_machine m = {rt_memory_max(), rt_cpus()};
    struct node_fitted f;

    node_fit(o, &m, &f);
    account_set_limit(f.clients);
    *block_cache_fixed = f.block_cache_fixed;
    if (f.low)
        LOG(LOG_WARN, "node.memory_low",
            "less memory than this server needs: it goes on as if there were enough",
            L_U64("memory", m.memory), L_U64("least", f.limit));
    if (f.cut)
        LOG(LOG_INFO, "node.memory",
            "memory.buffers, memory.block_cache or memory.memtable is cut to fit",
            L_U64("limit", f.limit), L_U64("buffers", o->rt.iobuf_bytes),
            L_U64("block_cache", o->block_cache_bytes),
            L_U64("memtable", o->memtable_bytes), L_U64("requests", o->http.requests_max),
            L_U64("clients", f.clients));
}

struct look {
    struct node *node;
    struct cache_policy policy;
    struct cache_sample sample;
};

static void
memory_look_work(void *arg)
{
    struct look *l = arg;
    struct disks_block_cache cache;

    disks_block_cache(l->node->disks, &cache);
    rt_memory_look(&l->sample.memory);
    l->sample.at_ms = rt_now_ns() / 1000000u;
    l->sample.held = cache.held;
    l->sample.clients_tight = (account_tight() & TIGHT_MEMORY) != 0;
    disks_block_cache_target(l->node->disks, cache_policy_step(&l->policy, &l->sample));
}

void
node_watch_memory(void *node)
{
    struct look l = {.node = node};
    bool said = false;

    rt_doing("memory watch");
    cache_policy_init(&l.policy, l.node->o->block_cache_bytes, l.node->block_cache_fixed);
    while (rt_sleep_ms(cache_policy_wait_ms(&l.sample)) == ERR_OK) {
        if (rt_blocking(memory_look_work, &l, DEADLINE_NEVER) != ERR_OK)
            continue; /* the pool is full: retry soon */
        if (l.policy.tight != said)
            LOG(LOG_INFO, "node.memory_pressure",
                l.policy.tight ? "memory is tight: the block cache gives back"
                               : "memory is at ease",
                L_U64("available", l.sample.memory.available),
                L_U64("block_cache", l.sample.held), L_U64("clients", account_sum()),
                L_U64("limit", account_limit()));
        said = l.policy.tight;
    }
}
