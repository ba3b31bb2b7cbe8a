/* mem: allocation that never returns NULL, and the few macros everybody uses.
 *
 * Small allocations of set-up stop the process when memory is out. Memory whose size a peer chooses does
 * not come from here but from a pool or an arena with a limit. Any thread.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member)                                                  \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define KIB(n)    ((uint64_t)(n) << 10)
#define MIB(n)    ((uint64_t)(n) << 20)
#define GIB(n)    ((uint64_t)(n) << 30)

/* `align` is a power of two. */
static inline uint64_t
align_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) & ~(align - 1);
}
static inline uint64_t
align_down(uint64_t n, uint64_t align)
{
    return n & ~(align - 1);
}

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *old, size_t size);
char *xstrdup(const char *s);
char *xmemdup0(const void *data, size_t len); /* adds a NUL */
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
