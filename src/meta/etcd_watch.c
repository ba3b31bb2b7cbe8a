/* etcd_watch: follows all changes under the prefix, on one fiber of loop 0.
 *
 * A watch continues with the revision behind the last one that it reported, so a broken connection loses nothing. Where
 * that revision is compacted, or a line is too long, every watch of this process is woken: what they follow is read again
 * as a whole. A connection that brings nothing for a while is closed, for the endpoint may be cut off from the others:
 * the heartbeats of the nodes are changes too, so a good one is never quiet for long.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "meta/etcd.h"
#include "rt/time.h"

#define RETRY_MS   200u
#define RETRY_MOST 3000u
#define LINE_READ  32768u

/* Everything may have changed. */
static void
wake_all(struct etcd *e)
{
    for (unsigned i = 0; i < META_WATCHES_MAX; i++) {
        struct meta_watch *w = &e->base.watches[i];

        if (atomic_load(&w->active))
            meta_changed(&e->base, (struct span){w->prefix, w->prefix_len});
    }
}

static enum err
watch_gap(struct etcd *e, uint64_t next, const char *why, struct errbuf *eb)
{
    assert(next > 0);

    LOG(LOG_WARN, "meta.etcd.gap", why, L_U64("from", e->watch.next), L_U64("to", next));
    e->watch.next = MAX(e->watch.next, next);
    wake_all(e);
    return err_set(eb, ERR_CLOSED, "%s", why);
}

/* ERR_CLOSED: the watch is over. */
static enum err
watch_line(struct etcd *e, struct span line, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, ETCD_REPLY_MAX);
    struct etcd_events v;
    enum err rc = etcd_events_parse(line, etcd_prefix(e), a, &v, eb);

    if (rc == ERR_OK)
        rc = etcd_check_head(e, v.cluster, MAX(v.revision, v.compacted), 0, eb);
    if (rc == ERR_TOO_LARGE) {
        rc = watch_gap(e, e->seen + 1, "a line of a watch is too long", eb);
    } else if (rc == ERR_OK && v.compacted > 0) {
        /* Later changes may be there already: what was seen so far covers what is read now. */
        rc =
            watch_gap(e, v.compacted, "changes were compacted before they were seen", eb);
    } else if (rc == ERR_OK && v.canceled) {
        rc = err_set(eb, ERR_CLOSED, "etcd ends the watch: %s", v.why);
    } else if (rc == ERR_OK && v.count > 0) {
        for (uint32_t i = 0; i < v.count; i++)
            meta_changed(&e->base, v.keys[i]);
        e->watch.next = MAX(e->watch.next, v.revision + 1);
    }
    arena_free(&a);
    return rc;
}

static enum err
watch_lines(struct etcd *e, struct buf *in, struct errbuf *eb)
{
    const char *end;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && (end = span_find(buf_span(in), '\n')) != NULL) {
        size_t len = (size_t)(end - in->at);

        if (len > 0)
            rc = watch_line(e, (struct span){in->at, len}, eb);
        buf_consume(in, len + 1);
    }
    return rc;
}

static enum err
watch_read(struct etcd *e, struct http_call *k, struct errbuf *eb)
{
    const struct http_head *head;
    struct buf in;
    size_t n = 1;
    enum err rc = http_call_finish(k, &head, eb);

    if (rc == ERR_OK && head->code != 200)
        rc = err_set(eb, ERR_UNAVAILABLE, "status %d", head->code);
    buf_init(&in, ETCD_REPLY_MAX);
    while (rc == ERR_OK && n > 0 && !e->watch.stopping) {
        char *room = buf_reserve(&in, LINE_READ);

        if (room == NULL) {
            rc = watch_gap(e, e->seen + 1, "a line of a watch is too long", eb);
            break;
        }
        rc = http_call_read(k, room, LINE_READ, &n, eb);
        if (rc == ERR_OK) {
            in.len += n;
            rc = watch_lines(e, &in, eb);
        }
    }
    buf_fini(&in);
    return rc == ERR_OK ? err_set(eb, ERR_CLOSED, "etcd has ended the watch") : rc;
}

/* One connection, until it ends. True: it has brought something. */
static bool
watch_once(struct etcd *e, struct errbuf *eb)
{
    struct etcd_request r = {.path = "/v3/watch"};
    uint64_t before = e->watch.next;
    struct http_call *k = NULL;
    struct buf body;
    enum err rc;

    buf_init(&body, KIB(4));
    etcd_put_watch(&body, etcd_prefix(e), e->watch.next);
    assert(!body.full);
    r.body = buf_span(&body);
    rc = etcd_stream_begin(e, &r, &k, eb);
    if (rc == ERR_OK)
        rc = watch_read(e, k, eb);
    http_call_end(&k);
    buf_fini(&body);
    assert(rc != ERR_OK);
    return e->watch.next > before;
}

/* A token that is not valid any more shows in a call: one renews it, and brings what was missed. */
static void
watch_probe(struct etcd *e)
{
    struct arena *a = arena_new(1024, KIB(64));
    struct meta_pair pair;

    (void)!meta_get(&e->base, SPAN("-"), a, &pair, NULL);
    arena_free(&a);
}

static void
etcd_watch_work(void *arg)
{
    struct etcd *e = arg;

    assert(e->watch.started);
    assert(e->watch.next > 0);

    uint64_t pause = RETRY_MS;

    while (!e->watch.stopping && !e->refused && !rt_cancelled()) {
        struct errbuf eb = {{0}};
        bool brought = watch_once(e, &eb);

        if (e->watch.stopping || rt_cancelled())
            break;
        LOG(LOG_INFO, "meta.etcd.watch", eb.text, L_U64("next", e->watch.next));
        etcd_elsewhere(e);
        if (brought)
            pause = RETRY_MS;
        else
            watch_probe(e);
        if (rt_sleep_ms(pause) != ERR_OK)
            break;
        pause = MIN(pause * 2, RETRY_MOST);
    }
}

enum err
etcd_watch_start(struct etcd *e, struct errbuf *eb)
{
    struct rt_shield shield;
    enum err rc;

    assert(!e->watch.started);
    assert(e->seen > 0);

    e->watch.next = e->seen + 1;
    rt_group_begin(&e->watch.group);
    e->watch.started = true;
    rt_shield_begin(&shield); /* the watch outlives the scope of this call */
    rc = rt_group_start(&e->watch.group, etcd_watch_work, e);
    rt_shield_end(&shield);
    return rc == ERR_OK
               ? ERR_OK
               : err_set(eb, ERR_BUSY, "no fiber to follow the state of the cluster");
}

void
etcd_watch_stop(struct etcd *e)
{
    if (!e->watch.started)
        return;
    e->watch.stopping = true;
    rt_group_cancel(&e->watch.group);
    rt_group_join(&e->watch.group);
    e->watch.started = false;
}
