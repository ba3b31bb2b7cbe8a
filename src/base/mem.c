#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
or_stop(void *p, size_t size)
{
    if (p == NULL) {
        fprintf(stderr, "forebay: out of memory, wanted %zu bytes\n", size);
        abort();
    }
    return p;
}

void *
xmalloc(size_t size)
{
    return or_stop(malloc(size > 0 ? size : 1), size);
}

void *
xcalloc(size_t count, size_t size)
{
    return or_stop(calloc(count > 0 ? count : 1, size > 0 ? size : 1), count * size);
}

void *
xrealloc(void *old, size_t size)
{
    return or_stop(realloc(old, size > 0 ? size : 1), size);
}

char *
xmemdup0(const void *data, size_t len)
{
    char *p = xmalloc(len + 1);

    if (len > 0)
        memcpy(p, data, len);
    p[len] = '\0';
    return p;
}

char *
xstrdup(const char *s)
{
    return xmemdup0(s, strlen(s));
}

char *
xasprintf(const char *fmt, ...)
{
    va_list ap;
    char *p = NULL;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&p, fmt, ap);
    va_end(ap);
    return or_stop(n < 0 ? NULL : p, (size_t)(n < 0 ? 0 : n));
}
