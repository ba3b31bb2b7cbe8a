#include "node/fit.h"

#include <assert.h>

#include "base/mem.h"

#define OWN_BYTES     MIB(32) /* baseline: code, libraries, cluster maps */
#define SMALL_MACHINE MIB(96)
/* Least memory of a request, with its stack; bounds the requests in flight and waiting. */
#define REQUEST_BYTES       KIB(48)
#define BUFFERS_LEAST       MIB(256)
#define CLIENTS_LEAST       MIB(96)
#define BUFFERS_A_LOOP      MIB(32)
#define REQUESTS_LEAST      4096u
#define REQUESTS_A_LOOP     64u
#define WORKERS_LEAST       8u
#define WORKERS_MOST        64u
#define WORKERS_A_DISK      2u
#define BACKEND_CONNECTIONS 1024u /* to one remote, of all loops */
#define BACKEND_MOST        64u   /* each loop */
#define BACKEND_LEAST       16u
/* Unfinished heads: one for each MiB. */
#define HEADS_LEAST UINT64_C(64)
#define HEADS_MOST  UINT64_C(4096)

/* The configured limit, or nine tenths of the available memory. */
static uint64_t
limit_of(const struct node_options *o, const struct node_machine *m, bool *low)
{
    uint64_t most = o->memory_limit > 0 ? o->memory_limit : m->memory / 10 * 9;

    *low = most < SMALL_MACHINE;
    return *low ? SMALL_MACHINE : most;
}

static void
fit_counts(struct node_options *o, unsigned loops, uint64_t disks, uint64_t rest)
{
    uint64_t most = MAX(rest / 4 / REQUEST_BYTES, UINT64_C(16));
    uint32_t usual = MAX(REQUESTS_LEAST, REQUESTS_A_LOOP * loops);

    if (o->http.requests_max == 0)
        o->http.requests_max = usual;
    if (o->http.waiting_max == 0)
        o->http.waiting_max = usual;
    o->http.requests_max = (uint32_t)MIN((uint64_t)o->http.requests_max, most);
    o->http.waiting_max = (uint32_t)MIN((uint64_t)o->http.waiting_max, most / 2);
    if (o->rt.workers == 0)
        o->rt.workers = (unsigned)MIN(
            MAX(MAX(WORKERS_LEAST, loops / 2), WORKERS_A_DISK * disks), WORKERS_MOST);
    if (o->backend.connections == 0)
        o->backend.connections =
            MIN(MAX(BACKEND_CONNECTIONS / loops, BACKEND_LEAST), BACKEND_MOST);
}

/* Half of what there is, of what buffers, memtables and clients leave. On a small machine clients keep more than a quarter: a
 * thousand slow ones of them must not leave the others without memory. A ninth of it is for its tables and for the
 * response cache. */
static uint64_t
block_cache_room(const struct node_options *o, const struct node_machine *m,
                 uint64_t rest, uint64_t disks)
{
    uint64_t clients = o->block_cache_bytes == NODE_AUTO
                           ? MAX(rest / 4, MIN(rest * 2 / 5, CLIENTS_LEAST))
                           : rest / 4;
    uint64_t others = o->rt.iobuf_bytes + 2 * disks * o->memtable_bytes + clients;
    uint64_t room = (rest - MIN(others, rest)) / 9 * 8;

    return o->block_cache_bytes == NODE_AUTO
               ? MIN((o->memory_limit > 0 ? o->memory_limit : m->memory) / 2, room)
               : MIN(o->block_cache_bytes, room);
}

void
node_fit(struct node_options *o, const struct node_machine *m, struct node_fitted *out)
{
    uint64_t disks = MAX(o->dir_count, 1u), rest, buffers, memtable, used;
    unsigned loops = o->rt.loops > 0 ? o->rt.loops : MAX(m->cpus, 1u);
    uint64_t asked = o->block_cache_bytes;

    *out = (struct node_fitted){.block_cache_fixed = asked != NODE_AUTO};
    out->limit = limit_of(o, m, &out->low);
    rest = out->limit > 2 * OWN_BYTES ? out->limit - OWN_BYTES : out->limit / 2;
    buffers = o->rt.iobuf_bytes == NODE_AUTO ? MAX(BUFFERS_LEAST, BUFFERS_A_LOOP * loops)
                                             : o->rt.iobuf_bytes;
    out->cut = o->rt.iobuf_bytes != NODE_AUTO && buffers > rest / 4;
    o->rt.iobuf_bytes = MAX(MIN(buffers, rest / 4), MIB(8));
    memtable =
        o->memtable_bytes; /* each disk has one, and twice its log while it is merged */
    o->memtable_bytes = MAX(MIN(memtable, rest / 16 / disks), MIB(1));
    o->block_cache_bytes = block_cache_room(o, m, rest, disks);
    out->cut = out->cut || o->memtable_bytes < memtable ||
               (asked != NODE_AUTO && o->block_cache_bytes < asked);
    used =
        o->rt.iobuf_bytes + o->block_cache_bytes / 8 * 9 + 2 * disks * o->memtable_bytes;
    out->clients = MAX(rest - MIN(used, rest), rest / 4);
    /* Page cache: what the kernel has left for the index. */
    o->index_resident_bytes =
        (out->limit - MIN(o->rt.iobuf_bytes + o->block_cache_bytes, out->limit / 2)) / 2 /
        disks;
    fit_counts(o, loops, disks, rest);
    if (o->http.heads_max == 0)
        o->http.heads_max =
            (uint32_t)MIN(MAX(out->limit / MIB(1), HEADS_LEAST), HEADS_MOST);
    assert(o->http.requests_max > 0);
    assert(o->block_cache_bytes <= out->limit);
}
