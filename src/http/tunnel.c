#include "http/tunnel.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "wire/http.h"

static enum err
send_connect(struct stream *s, const struct proxy *p, const char *to, struct deadline by,
             struct errbuf *eb)
{
    struct http_lines l = {.at = xmalloc(PROXY_RESPONSE_ROOM),
                           .room = PROXY_RESPONSE_ROOM};
    enum err rc;

    http_put_request(&l, "CONNECT", span_of(to));
    http_put(&l, "Host", span_of(to));
    if (p->authorization != NULL)
        http_put(&l, "Proxy-Authorization", span_of(p->authorization));
    http_put_end(&l);
    rc = l.bad ? err_set(eb, ERR_BAD_REQUEST, "\"%.200s\" is no name of a host", to)
               : rt_send(s, l.at, l.len, by, eb);
    hash_wipe(l.at, l.len);
    free(l.at);
    return rc;
}

static enum err
tunnel_await_answer(struct stream *s, struct deadline by, struct errbuf *eb)
{
    char *answer = xmalloc(PROXY_RESPONSE_ROOM);
    size_t len = 0, n = 0;
    enum err rc = ERR_BUSY;

    while (rc == ERR_BUSY) {
        rc = rt_recv(s, answer + len, PROXY_RESPONSE_ROOM - len, by, &n, eb);
        if (rc == ERR_TIMEOUT)
            rc = err_set(eb, rc, "it did not answer CONNECT in time");
        else if (rc == ERR_OK && n == 0)
            rc = err_set(eb, ERR_CLOSED, "it closed the connection before its answer");
        else if (rc == ERR_OK) {
            len += n;
            rc = proxy_response(answer, len, eb);
        }
    }
    free(answer);
    return rc;
}

enum err
tunnel_connect(const struct proxy *p, const char *host, uint16_t port, struct deadline by,
               struct stream **out, struct errbuf *eb)
{
    enum err rc = rt_connect(p->host, p->port, by, out, eb);
    char *to;

    if (rc != ERR_OK) {
        err_prefix(eb, "the proxy %s", p->name);
        return rc;
    }
    if (host == NULL)
        return ERR_OK;
    to = xasprintf(strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, port);
    rc = send_connect(*out, p, to, by, eb);
    if (rc == ERR_OK)
        rc = tunnel_await_answer(*out, by, eb);
    if (rc != ERR_OK) {
        rt_stream_close(out);
        err_prefix(eb, "the proxy %s, on the way to %s", p->name, to);
    }
    free(to);
    return rc;
}
