/* proxy: which proxy stands before a host, by the rules that curl, Go and Python share; and what a proxy says to CONNECT.
 *
 * A proxy is "http://[USER:PASSWORD@]HOST[:PORT]" ("http://" may be left out; the port is 80 then, as in a URL). Others
 * (https, socks) are refused by name. NO_PROXY is a list of what goes without, between commas or blanks: "*" (everything), a name
 * (it and all below it; ".name" the same, "*.name" only what is below), an address, a network "10.0.0.0/8"; each but a network
 * may have ":PORT". Names are not resolved for it. Loopback never goes through a proxy. Pure; any thread may ask.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define PROXY_TEXT_MAX      2048u  /* of a proxy's URL */
#define PROXY_EXCEPT_MAX    32768u /* of NO_PROXY */
#define PROXY_RESPONSE_ROOM 16384u /* of what a proxy says to CONNECT */

struct proxy {
    char *host; /* owned; NULL: none */
    char *name; /* owned: "HOST:PORT", for people: without credentials */
    uint16_t port;
    char *authorization; /* owned: "Basic ..."; NULL: none. Wiped */
};
struct proxies {
    struct proxy http, https; /* for URLs of these schemes */
    char *except;             /* owned: NO_PROXY; NULL: nothing */
};

/* NULL or "" for a URL: no such proxy. The sentence of an error never has credentials in it. */
enum err proxies_init(struct proxies *p, const char *http, const char *https,
                      const char *except, struct errbuf *eb) MUST_CHECK;
void proxies_fini(struct proxies *p);
/* "USER:PASSWORD" for the proxies that have none in their URL. */
void proxies_authorize(struct proxies *p, struct span user_and_password);
/* NULL: connect to the host itself. */
const struct proxy *proxies_for(const struct proxies *p, const char *host, uint16_t port,
                                bool tls);
bool proxy_is_excepted(const char *except, const char *host, uint16_t port);

/* What came of CONNECT so far: ERR_OK: the tunnel stands; ERR_BUSY: more bytes are needed; else why not. */
enum err proxy_response(const char *bytes, size_t len, struct errbuf *eb) MUST_CHECK;
