/* tunnel: connections through a proxy: to it for http, by CONNECT through it for https. Inside `http` only. */
#pragma once
#include "rt/net.h"
#include "wire/proxy.h"

/* `host` NULL: to the proxy, no tunnel. Every sentence names the proxy. May switch. */
enum err tunnel_connect(const struct proxy *p, const char *host, uint16_t port,
                        struct deadline by, struct stream **out,
                        struct errbuf *eb) MUST_CHECK;
