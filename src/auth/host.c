/* host: whose name a Host header holds. */
#include <stdlib.h>
#include <string.h>

#include "auth/auth.h"

/* "[::1]:9000" -> "::1", "host:80" -> "host". */
static struct span
host_without_port(struct span host)
{
    if (host.len > 0 && host.at[0] == '[') {
        const char *end = memchr(host.at, ']', host.len);

        return end != NULL ? (struct span){host.at + 1, (size_t)(end - host.at) - 1}
                           : (struct span){host.at, 0};
    }
    for (size_t i = 0; i < host.len; i++)
        if (host.at[i] == ':')
            return (struct span){host.at, i};
    return host;
}

static bool
ends_with_domain(struct span host, struct span domain)
{
    struct span tail;

    if (host.len < domain.len)
        return false;
    tail = span_from(host, host.len - domain.len);
    if (strncasecmp(tail.at, domain.at, domain.len) != 0)
        return false;
    return host.len == domain.len || host.at[host.len - domain.len - 1] == '.';
}

/* 127.0.0.0/8 in the plain four-part form. */
static bool
is_loopback_v4(struct span host)
{
    unsigned parts = 0;
    size_t i = 0;

    if (!span_starts(host, SPAN("127.")))
        return false;
    while (i < host.len) {
        unsigned value = 0, digits = 0;

        for (; i < host.len && host.at[i] >= '0' && host.at[i] <= '9' && digits < 4;
             i++, digits++)
            value = value * 10 + (unsigned)(host.at[i] - '0');
        if (digits == 0 || digits > 3 || value > 255)
            return false;
        parts++;
        if (i < host.len && (host.at[i] != '.' || ++i == host.len))
            return false;
    }
    return parts == 4;
}

bool
auth_host_ok(const struct auth *a, struct span host, const char *const *domains,
             unsigned count)
{
    struct span name = host_without_port(host);

    (void)a;
    if (span_eq(name, SPAN("127.0.0.1"))) /* nearly always */
        return true;
    if (is_loopback_v4(name) || ends_with_domain(name, SPAN("localhost")) ||
        span_is(name, "::1"))
        return true;
    for (unsigned i = 0; i < count; i++)
        if (ends_with_domain(name, span_of(domains[i])))
            return true;
    return false;
}
