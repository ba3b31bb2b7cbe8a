/* inline: requests answered without a fiber.
 *
 *     parked -> conn_inline_read: bytes, a known head -> pending
 *        |                                            | GROUP of them, or all edges of this iteration are read
 *        |                          conn_inline_answer: the handler's try_inline -> waits
 *        |                                            | no                        | at once, or what else is to be done soon
 *        |                                            |         conn_send_replies: all of it sent, nothing more there -> parked
 *        v                                            v                           | more bytes, more to send, the end
 *     a fiber: on_ready, conn_resume <----------------+---------------------------+
 *
 * A fiber whose handler called http_reply_last() parks the connection; its reply enters at "waits".
 *
 * The connection stays parked meanwhile and keeps its work set. The loop reads, answers and sends requests in groups: this
 * saves wake-ups of the client, reads the clock twice for a group, and overlaps the cache misses of the handler. A group
 * takes no more work sets than the loop keeps.
 */
#include "http/internal.h"
#include "rt/sendable.h"

#define GROUP WORKS_POOLED
#define LINE  64 /* of cache */

/* Undoes the parse: a fiber reads the request again. */
static void
undo(struct work *w)
{
    w->in.at = 0;
    arena_reset(w->arena);
}

/* Schedules the send of this iteration's replies at its end. */
static void
send_soon(struct http_conn *c)
{
    struct http_loop *l = c->loop;

    assert(c->work->reply.state == REPLY_HELD || c->work->reply.state == REPLY_SENDS);
    assert(list_empty(&c->work->waits));
    c->work->conn = c;
    if (!l->send_due)
        rt_after_poll(&l->send);
    l->send_due = true;
    list_push_back(&l->waiting, &c->work->waits);
}

/* The reply is sent or abandoned. */
static void
leave_place(struct http_conn *c)
{
    if (c->work->has_place)
        admit_over(c);
    c->work->has_place = false;
}

/* Prefetches a body before the kernel copies it, because that copy has too few loads in flight. The prefetch evicts nothing
 * from the caches (docs/decisions/0021-get-16k.md). It takes one line after the other: the CPU drops prefetches in
 * bursts. Pieces that are sent by reference are not read here. */
static void
ask_for(struct span body)
{
    for (size_t at = 0; at < body.len && body.len < RT_ZERO_COPY_MIN; at += LINE)
        __builtin_prefetch(body.at + at, 0, 0);
}

static void
send_now(struct work *w)
{
    struct iovec all[1 + HTTP_ZERO_COPY_MAX];

    for (unsigned i = 0; i < w->reply.zero_copy_count; i++)
        ask_for(w->reply.lent[i]);
    w->reply.state = REPLY_SENDS;
    w->reply.sent = rt_try_sendv(w->conn->stream, all, reply_rest(w, 0, all));
}

/* Parks the connection again, or starts a fiber if something is left to do. */
static void
pass_on(struct http_conn *c, uint64_t now_ns)
{
    struct work *w = c->work;

    assert(c->fiber == NULL);
    assert(w->reply.state == REPLY_SENDS);
    assert(w->reply.sent <= w->reply.head.len + w->reply.zero_copy_bytes);
    if (w->reply.sent < w->reply.head.len + w->reply.zero_copy_bytes) {
        rt_resume(c->stream);
        return;
    }
    reply_release(w);
    w->reply.state = REPLY_DONE;
    w->reply.whole = true;
    w->reply.first_ns = w->reply.last_ns = now_ns;
    leave_place(c);
    conn_report_done(c);
    if (w->reply.close_after || inbuf_here(&w->in) > 0 || conn_is_ending(c)) {
        rt_resume(c->stream);
        return;
    }
    work_release(c->loop, &c->work);
    (void)rt_park_later(
        c->stream, (struct deadline){now_ns + c->server->options.idle_ms * 1000000u});
}

static void
inline_send_all(struct http_loop *l)
{
    struct list *n;
    uint64_t now_ns;

    LIST_EACH(&l->waiting, each)
    send_now(LIST_ENTRY(each, struct work, waits));
    now_ns = rt_now_ns();
    while ((n = list_pop_front(&l->waiting)) != NULL)
        pass_on(LIST_ENTRY(n, struct work, waits)->conn, now_ns);
}

/* For a single request a prefetch gains nothing. */
static void
look_ahead(struct http_loop *l)
{
    const struct http_handler *h = &l->server->handler;

    if (l->inline_count < 2 || h->prefetch == NULL)
        return;
    for (unsigned step = 0; step < HTTP_PREFETCH_STEPS; step++)
        LIST_EACH(&l->pending, each)
    h->prefetch(&LIST_ENTRY(each, struct work, waits)->request, step, h->arg);
}

/* Answers inline: the reply is batched or deferred. Otherwise starts a fiber. */
static void
inline_answer(struct http_conn *c)
{
    const struct http_handler *h = &c->server->handler;
    struct work *w = c->work;
    bool asked = admit_inline(c), answered;

    w->is_inline = true;
    answered = asked && h->try_inline(&w->request, h->arg);
    w->is_inline = w->later;
    if (!answered) {
        undo(w);
        w->tried = asked;
        rt_resume(c->stream);
    } else if (!w->later) {
        conn_count_event(&c->loop->requests);
        send_soon(c);
    }
}

static void
inline_answer_batch(struct http_loop *l)
{
    struct list *n;

    look_ahead(l);
    while ((n = list_pop_front(&l->pending)) != NULL)
        inline_answer(LIST_ENTRY(n, struct work, waits)->conn);
    l->inline_count = 0;
}

void
conn_inline_answer(struct rt_after_poll *s)
{
    inline_answer_batch(CONTAINER_OF(s, struct http_loop, answer));
}

/* Queues the buffered request, which may be answered inline, for its group. */
static void
add_pending(struct http_conn *c)
{
    struct http_loop *l = c->loop;
    struct work *w = c->work;

    assert(c->fiber == NULL);
    assert(w->head.len <= w->in.end);
    assert(list_empty(&w->waits));
    w->in.body_at = w->in.at = w->head.len;
    if (l->inline_count == 0)
        l->inline_ns = rt_now_ns();
    conn_begin_request(c, l->inline_ns);
    w->conn = c;
    list_push_back(&l->pending, &w->waits);
    if (list_empty(&l->answer.link))
        rt_before_submit(&l->answer);
    if (++l->inline_count < GROUP)
        return;
    inline_answer_batch(l);
    inline_send_all(l);
}

bool
conn_inline_read(void *conn)
{
    struct http_conn *c = conn;
    struct http_loop *l = c->loop;
    struct work *w;

    if (c->work != NULL) /* a reply is pending: later bytes are read after it */
        return true;
    if (!admit_inline(c))
        return false;
    w = c->work = work_acquire(l);
    w->reply.state = REPLY_NONE;
    w->reply.last_ns = 0;
    w->head.status = 0;
    w->in.end = rt_try_recv(c->stream, w->in.buf, w->in.room);
    if (w->in.end == 0) {
        work_release(l, &c->work);
        return !rt_may_have_bytes(c->stream);
    }
    if (w->in.buf[0] != 'G' || /* only GETs are answered inline */
        !http_head_cache_parse(l->known, &c->head_cache_at, &w->head, w->in.buf,
                               w->in.end))
        return false;
    add_pending(c);
    return true;
}

bool
conn_may_batch_reply(const struct http_conn *c)
{
    const struct work *w = c->work;

    return c->server->handler.try_inline != NULL && c->server->options.tls == NULL &&
           (rt_others_ready() || !list_empty(&c->loop->waiting)) &&
           !w->reply.close_after && w->body.state == BODY_ENDED &&
           inbuf_here(&w->in) == 0 && !rt_may_have_bytes(c->stream) && !conn_is_ending(c);
}

void
conn_batch_reply(struct http_conn *c)
{
    assert(!c->work->has_place);
    assert(c->work->reply.state == REPLY_HELD);
    c->work->has_place = true;
    send_soon(c);
}

void
conn_send_replies(struct rt_after_poll *s)
{
    struct http_loop *l = CONTAINER_OF(s, struct http_loop, send);

    l->send_due = false;
    inline_send_all(l);
}

/* Runs outside any fiber. A large reply is sent at once: batching gains nothing, and its bytes would leave the CPU cache. */
static void
send_deferred(struct http_conn *c)
{
    struct work *w = c->work;

    conn_count_event(&c->loop->requests);
    if (w->reply.zero_copy_bytes <= BATCHED_REPLY_MAX) {
        send_soon(c);
        return;
    }
    w->conn = c;
    send_now(w);
    pass_on(c, rt_now_ns());
}

/* ---- deferred replies ---- */

void
http_defer(struct http_request *r, void (*on_abandon)(struct http_request *r))
{
    struct work *w = r->conn->work;

    assert(w->is_inline);
    assert(!w->later);
    assert(w->reply.state == REPLY_NONE);
    assert(on_abandon != NULL);
    w->later = true;
    w->on_abandon = on_abandon;
    rt_cond_init(&w->deferred_over);
    admit_counted(r->conn);
}

bool
conn_wait_deferred(struct http_conn *c)
{
    struct work *w = c->work;
    enum err rc = ERR_OK;

    assert(c->fiber == NULL);
    assert(!w->has_place);
    c->fiber = rt_self();
    while (w->later && rc == ERR_OK)
        rc = rt_cond_wait(&w->deferred_over, DEADLINE_NEVER);
    if (!w->later)
        return true;
    w->later = w->is_inline = false;
    admit_over(c);
    w->on_abandon(&w->request);
    return false;
}

void
http_deferred_done(struct http_request *r, bool answered)
{
    struct http_conn *c = r->conn;
    struct work *w = c->work;

    assert(w->later);
    w->later = w->is_inline = false;
    admit_over(c);
    if (!answered) {
        undo(w);
        w->tried = true;
    }
    if (c->fiber == NULL) {
        if (answered)
            send_deferred(c); /* another connection may use the work set now */
        else
            rt_resume(c->stream);
        return;
    }
    if (answered)
        w->reply.state = REPLY_SENDS; /* by that fiber */
    rt_cond_broadcast(&w->deferred_over);
}

bool
conn_resume(struct http_conn *c)
{
    struct work *w = c->work;
    bool keep;

    if (!list_empty(
            &w->waits)) { /* read or answered in the iteration in which the idle time ended */
        list_remove(&w->waits);
        if (w->reply.state == REPLY_NONE)
            undo(w);
        else
            w->reply.state = REPLY_SENDS;
    }
    if (w->reply.state == REPLY_NONE)
        return true; /* first bytes received, nothing done yet */
    if (w->reply.state == REPLY_SENDS) {
        if (!w->has_place)
            admit_counted(c);
        w->has_place = true;
        reply_send_rest(c);
        leave_place(c);
        conn_report_done(c);
    }
    keep = w->reply.state == REPLY_DONE && !w->reply.close_after;
    arena_reset(w->arena);
    return keep;
}
