/* The request of a call: its head, and the sending of it and of the body. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "http/call.h"

/* Larger sends are cut into slices of this size, each with its own deadline. */
#define SEND_SLICE (1u << 20)

/* ---- the head ---- */

/* A request to a proxy without a tunnel has an absolute target with the host: that of the Host header, if given, because
 * the signature covers it. */
static void
put_first_line(struct http_call *k, const struct http_call_request *req, bool usual,
               bool six)
{
    struct buf target;

    if (k->proxy == NULL || req->tls) {
        http_put_request(&k->lines, req->method, req->target);
        return;
    }
    buf_init(&target, CALL_LINES_MAX);
    if (req->host_header.len > 0)
        buf_printf(&target, "http://%.*s", SPAN_ARG(req->host_header));
    else if (usual)
        buf_printf(&target, six ? "http://[%s]" : "http://%s", req->host);
    else
        buf_printf(&target, six ? "http://[%s]:%u" : "http://%s:%u", req->host,
                   req->port);
    buf_put(&target, req->target.at, req->target.len);
    http_put_request(&k->lines, req->method, buf_span(&target));
    k->lines.bad = k->lines.bad || target.full;
    buf_fini(&target);
    if (k->proxy->authorization != NULL)
        http_put(&k->lines, "Proxy-Authorization", span_of(k->proxy->authorization));
}

void
call_build_head(struct http_call *k, const struct http_call_request *req)
{
    struct http_lines *l = &k->lines;
    bool usual = req->port == (req->tls ? 443 : 80);
    bool six = strchr(req->host, ':') != NULL && strncmp(req->host, "unix:", 5) != 0;

    *l = (struct http_lines){.at = k->lines_at, .room = CALL_LINES_MAX};
    k->proxy = pool_proxy(k->pool->client, req);
    put_first_line(k, req, usual, six);
    if (req->host_header.len > 0) {
        http_put(l, "Host", req->host_header);
    } else if (strncmp(req->host, "unix:", 5) == 0) {
        http_put(l, "Host", SPAN("localhost"));
    } else {
        char host[300];
        int n = snprintf(host, sizeof host, six ? "[%s]" : "%s", req->host);

        l->bad = l->bad || n < 0 || n > 280;
        if (!usual && !l->bad)
            n += snprintf(host + n, 8, ":%u", req->port);
        if (!l->bad)
            http_put(l, "Host", (struct span){host, (size_t)n});
    }
    for (size_t i = 0; i < req->headers.count && !l->bad; i++) {
        char *name = xmemdup0(req->headers.at[i].name.at, req->headers.at[i].name.len);

        http_put(l, name, req->headers.at[i].value);
        free(name);
    }
    if (req->length == HTTP_CHUNKED)
        http_put(l, "Transfer-Encoding", SPAN("chunked"));
    else if (req->length >= 0)
        http_put_u64(l, "Content-Length", (uint64_t)req->length);
    if (req->expect_continue)
        http_put(l, "Expect", SPAN("100-continue"));
    http_put_end(l);
}

/* ---- sending ---- */

/* Sends all bytes, in slices with a deadline each. May switch. */
static enum err
call_request_send_all(struct http_call *k, struct iovec *iov, int count,
                      struct errbuf *eb)
{
    enum err rc = ERR_OK;
    int i = 0;

    while (i < count && rc == ERR_OK) {
        struct iovec part[4];
        size_t len = 0;
        int n = 0;

        while (i < count && n < 4 && len < SEND_SLICE) {
            size_t take = MIN(iov[i].iov_len, SEND_SLICE - len);

            part[n++] = (struct iovec){iov[i].iov_base, take};
            len += take;
            iov[i].iov_base = (char *)iov[i].iov_base + take;
            iov[i].iov_len -= take;
            if (iov[i].iov_len == 0)
                i++;
        }
        rc = rt_sendv(k->conn->stream, part, n,
                      deadline_sooner(k->by, deadline_in_ms(k->between_ms)), eb);
    }
    if (rc != ERR_OK)
        k->broken = true;
    if (rc == ERR_IO)
        rc = ERR_CLOSED;
    return rc;
}

static struct iovec
piece(const void *at, size_t len)
{
    return (struct iovec){(void *)(uintptr_t)at, len};
}

enum err
call_send(struct http_call *k, const void *data, size_t len, bool last, struct errbuf *eb)
{
    bool coded = k->length == HTTP_CHUNKED;
    char chunk[HTTP_CHUNK_HEAD_ROOM];
    struct iovec all[4];
    int n = 0;

    if (k->held)
        all[n++] = piece(k->lines_at, k->lines.len);
    if (coded && len > 0)
        all[n++] = piece(chunk, http_chunk_head(chunk, len));
    if (len > 0)
        all[n++] = piece(data, len);
    if (coded && len > 0)
        all[n++] = piece("\r\n", 2);
    if (coded && last)
        all[n++] = piece("0\r\n\r\n", 5);
    k->held = false;
    return n > 0 ? call_request_send_all(k, all, n, eb) : ERR_OK;
}
