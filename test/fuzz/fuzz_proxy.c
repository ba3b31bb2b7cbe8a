/* Any bytes as a proxy's URL, a list of what goes without, and a proxy's answer to CONNECT. The three stand in lines; the
 * answer is the rest. Whole and in pieces agree; what holds of all: no credentials in a sentence, loopback never by proxy. */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *
line(const char **at, const char *end)
{
    const char *lf = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
    char *text;

    if (lf == NULL)
        lf = end;
    text = xmemdup0(*at, (size_t)(lf - *at));
    *at = lf < end ? lf + 1 : end;
    return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = size > 0 ? (const char *)data : "", *end = at + size;
    char *url = line(&at, end), *except = line(&at, end), *host = line(&at, end);
    size_t len = (size_t)(end - at);
    struct proxies p;
    struct errbuf eb = {{0}};
    enum err rc = proxies_init(&p, url, url, except, &eb), again = ERR_BUSY;

    assert((rc == ERR_OK) == (eb.text[0] == '\0'));
    if (rc == ERR_OK && p.http.host != NULL) {
        assert(p.http.port != 0 && strchr(p.http.name, '@') == NULL);
        assert(proxies_for(&p, "127.0.0.1", 80, false) == NULL);
        assert(proxies_for(&p, "localhost", 80, true) == NULL);
        if (except[0] == '*' && except[1] == '\0')
            assert(proxies_for(&p, host, 443, true) == NULL);
    }
    if (rc == ERR_OK)
        (void)proxies_for(&p, host, 443, true);
    proxies_fini(&p);

    rc = proxy_response(at, len, NULL);
    /* Bytes behind the head are a fault only once they are there. */
    for (size_t n = 0; again == ERR_BUSY && n < len; n++)
        again = proxy_response(at, n, NULL);
    if (rc == ERR_BUSY)
        assert(again == ERR_BUSY);
    if (rc == ERR_OK)
        assert(len > 0 && again == ERR_BUSY);
    free(url);
    free(except);
    free(host);
    return 0;
}
