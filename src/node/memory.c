/* memory: fits pools and caches into the memory that this process may use, and the number of connections into its descriptors. */
#include "base/account.h"
#include "base/mem.h"
#include "node/internal.h"
#include "rt/limits.h"

#define OWN_BYTES     MIB(32) /* baseline: code, libraries, cluster maps */
#define SMALL_MACHINE MIB(96)
#define REQUEST_BYTES                                                                    \
    KIB(48) /* least memory of a request, with its stack; bounds the requests in flight and waiting */
#define LOOK_MS         1000u
#define FILES_MOST      4096u /* descriptors kept for files and remotes */
#define FILES_LEAST     16u
#define CONNECTIONS_LOW 4u

/* The configured limit, or nine tenths of the available memory. */
static uint64_t
limit_of(const struct node_options *o)
{
    uint64_t most = o->memory_limit > 0 ? o->memory_limit : rt_memory_max() / 10 * 9;

    if (most >= SMALL_MACHINE)
        return most;
    LOG(LOG_WARN, "node.memory_low",
        "less memory than this server needs: it goes on as if there were enough",
        L_U64("limit", most), L_U64("least", SMALL_MACHINE));
    return SMALL_MACHINE;
}

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
node_fit_memory(struct node_options *o)
{
    uint64_t limit = limit_of(o),
             rest = limit > 2 * OWN_BYTES ? limit - OWN_BYTES : limit / 2;
    uint64_t disks = MAX(o->dir_count, 1u), used, most;
    uint64_t buffers = o->rt.iobuf_bytes, block_cache = o->block_cache_bytes,
             memtable = o->memtable_bytes;

    o->rt.iobuf_bytes = MAX(MIN(buffers, rest / 4), MIB(8));
    o->block_cache_bytes = MIN(block_cache, rest / 5);
    o->memtable_bytes =
        MAX(MIN(memtable, rest / 16 / disks), MIB(1)); /* each disk has one */
    /* Page cache: the kernel reclaims it when other memory is needed. */
    o->index_resident_bytes = limit / 2 / disks;
    most = MAX(rest / 4 / REQUEST_BYTES, UINT64_C(16));
    o->http.requests_max = (uint32_t)MIN((uint64_t)o->http.requests_max, most);
    o->http.waiting_max = (uint32_t)MIN((uint64_t)o->http.waiting_max, most / 2);
    /* What peers make us hold besides is what is left of it. The memtable is twice its log while it is merged. */
    used = o->rt.iobuf_bytes + o->block_cache_bytes + 2 * disks * o->memtable_bytes;
    account_set_limit(MAX(rest - MIN(used, rest), rest / 4));
    if (o->rt.iobuf_bytes != buffers || o->block_cache_bytes != block_cache ||
        o->memtable_bytes != memtable)
        LOG(LOG_INFO, "node.memory",
            "memory.buffers, memory.block_cache or memory.memtable is cut to fit",
            L_U64("limit", limit), L_U64("buffers", o->rt.iobuf_bytes),
            L_U64("block_cache", o->block_cache_bytes),
            L_U64("memtable", o->memtable_bytes), L_U64("requests", o->http.requests_max),
            L_U64("peers", account_limit()));
}

struct look {
    struct node *node;
    bool pressed;
};

static void
memory_look_work(void *arg)
{
    struct look *l = arg;

    l->pressed = (account_tight() & TIGHT_MEMORY) != 0 || rt_memory_pressed();
    if (l->pressed)
        disks_shrink_block_cache(l->node->disks, l->node->o->block_cache_bytes / 8);
}

void
node_watch_memory(void *node)
{
    struct look l = {.node = node};
    bool said = false;

    rt_doing("memory watch");
    while (rt_sleep_ms(LOOK_MS) == ERR_OK) {
        if (rt_blocking(memory_look_work, &l, DEADLINE_NEVER) != ERR_OK)
            continue; /* the pool is full: retry in a second */
        if (l.pressed != said)
            LOG(LOG_INFO, "node.memory_pressure",
                l.pressed ? "memory is tight: the block cache shrinks"
                          : "memory is at ease",
                L_U64("clients", account_sum()), L_U64("limit", account_limit()));
        said = l.pressed;
    }
}
