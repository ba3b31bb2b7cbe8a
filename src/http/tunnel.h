/* tunnel: connections through a proxy: to it for http, by CONNECT through it for https. Inside `http` only. */
#pragma once
#include "rt/net.h"
#include "wire/proxy.h"

/* `host` NULL: connects to the proxy without a tunnel. Every error message names the proxy. May switch. */
enum err tunnel_connect(const struct proxy *p, const char *host, uint16_t port,
                        struct deadline by, struct stream **out,
                        struct errbuf *eb) MUST_CHECK;
