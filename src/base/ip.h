/* ip: what an address is: of the whole network, or of a place that a name from outside must not lead to. Pure; any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

enum ip_class {
    IP_PUBLIC,
    IP_PRIVATE, /* 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7; what is kept for tests and documents */
    IP_LOOPBACK,   /* 127/8, ::1 */
    IP_LINK_LOCAL, /* 169.254/16, fe80::/10; metadata of clouds, fd00:ec2::/32 among them */
    IP_SPECIAL,    /* "this network", multicast, reserved, unspecified */
};
/* 4 or 16 bytes in network order. What carries an address of version 4 (mapped, NAT64, 6to4) is what that is. */
enum ip_class ip_class_of(const unsigned char *bytes, size_t len);
const char *ip_class_name(enum ip_class c); /* "link-local" */

/* An address as text, brackets of version 6 allowed: 4 or 16 bytes, or 0: it is none. */
size_t ip_parse(struct span text, unsigned char out[16]);
/* Do the first `bits` agree? */
bool ip_same_prefix(const unsigned char *a, const unsigned char *b, unsigned bits);
