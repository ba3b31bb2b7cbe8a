/* close_bucket: what goes before the removal of a bucket on all nodes of a cluster: it is closing by the map, every node has
 * ended its writes, and it is empty on each. Where one step fails, it is opened again everywhere. */
#include <string.h>

#include "api/node_ask.h"
#include "base/log.h"
#include "base/mem.h"

/* Asks each other node that may hold keys. Stops at the first error. May switch. */
static enum err
ask_holders(struct request *q, const struct map_bucket *b, const char *op,
            bool despite_errors, struct errbuf *eb)
{
    struct nodes *nodes = q->api->options.nodes;
    struct nodes_route *all = arena_alloc(q->arena, MAP_NODES_MAX * sizeof *all);
    uint32_t count = 0;
    enum err rc = nodes_holders(nodes, b->cached, all, &count, eb), first = rc;

    /* The addresses are the snapshot's. */
    for (uint32_t i = 0; i < count; i++)
        if (!all[i].here)
            all[i].address = arena_strdup(q->arena, span_of(all[i].address));
    for (uint32_t i = 0; i < count && (rc == ERR_OK || despite_errors); i++) {
        struct buf out;
        uint64_t stale;

        if (all[i].here)
            continue;
        buf_init(&out, KIB(4));
        rc = node_ask(q, &all[i], op, b, SPAN(""), &out, &stale, eb);
        buf_fini(&out);
        if (rc == ERR_UNAVAILABLE && stale != 0)
            rc = err_set(eb, ERR_UNAVAILABLE,
                         "the map of the cluster is changing; retry later");
        first = first == ERR_OK ? rc : first;
    }
    return first;
}

void
bucket_reopen_everywhere(struct request *q, const struct map_bucket *b)
{
    struct errbuf eb = {{0}};
    enum err rc;

    object_bucket_reopen(q->api->options.object, b);
    if (q->api->options.nodes == NULL || b->cached)
        return;
    rc = ask_holders(q, b, "reopen", true, &eb);
    if (rc != ERR_OK)
        LOG(LOG_WARN, "bucket.reopen", eb.text, L_TEXT("bucket", b->name),
            L_TEXT("id", q->http->id));
}

enum err
bucket_close_everywhere(struct request *q, const struct map_bucket *b, struct errbuf *eb)
{
    enum err rc = object_bucket_close(q->api->options.object, b, eb);

    if (rc != ERR_OK || q->api->options.nodes == NULL || b->cached)
        return rc;
    rc = ask_holders(q, b, "close", false, eb);
    if (rc != ERR_OK)
        bucket_reopen_everywhere(q, b);
    return rc;
}
