#include "base/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "base/mem.h"

struct block {
    struct block *older;
    size_t size; /* usable bytes behind this header */
    size_t used;
    size_t pad_;
};

struct arena {
    struct block *now;
    size_t first_block;
    size_t limit;
    size_t total; /* sum of `used` of all blocks */
};

static struct block *
arena_block_new(size_t size, struct block *older)
{
    struct block *b = xmalloc(sizeof *b + size);

    *b = (struct block){.older = older, .size = size};
    account_add(ACCOUNT_ARENAS, (int64_t)(sizeof *b + size));
    return b;
}

static void
block_free(struct block *b)
{
    account_add(ACCOUNT_ARENAS, -(int64_t)(sizeof *b + b->size));
    free(b);
}

struct arena *
arena_new(size_t first_block, size_t limit)
{
    struct arena *a = xcalloc(1, sizeof *a);

    *a = (struct arena){.first_block = first_block, .limit = limit};
    a->now = arena_block_new(first_block, NULL);
    return a;
}

void
arena_free(struct arena **ap)
{
    struct arena *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    while (a->now != NULL) {
        struct block *older = a->now->older;

        block_free(a->now);
        a->now = older;
    }
    free(a);
}

void
arena_reset(struct arena *a)
{
    while (a->now->older != NULL) {
        struct block *older = a->now->older;

        block_free(a->now);
        a->now = older;
    }
    a->now->used = 0;
    a->total = 0;
}

/* NULL beyond the limit. */
static void *
arena_bump(struct arena *a, size_t size)
{
    size_t need = align_up(size > 0 ? size : 1, 16);
    char *p;

    if (need < size || need > a->limit - a->total)
        return NULL;
    if (need > a->now->size - a->now->used)
        a->now = arena_block_new(MAX(need, a->first_block), a->now);
    p = (char *)(a->now + 1) + a->now->used;
    a->now->used += need;
    a->total += need;
    memset(p, 0, need);
    return p;
}

#ifdef FB_TEST_HOOKS
static _Atomic uint64_t tries, refused_try;

void
arena_test_refuse(uint64_t nth)
{
    atomic_store(&tries, 0);
    atomic_store(&refused_try, nth);
}

uint64_t
arena_test_tries(void)
{
    return atomic_load(&tries);
}

static bool
is_refused(void)
{
    return atomic_fetch_add(&tries, 1) + 1 == atomic_load(&refused_try);
}
#else
static bool
is_refused(void)
{
    return false;
}
#endif

void *
arena_try(struct arena *a, size_t size)
{
    return is_refused() ? NULL : arena_bump(a, size);
}

void *
arena_alloc(struct arena *a, size_t size)
{
    void *p = arena_bump(a, size);

    assert(p != NULL); /* the caller promised to stay inside the limit */
    return p;
}

char *
arena_strdup(struct arena *a, struct span s)
{
    char *p = arena_alloc(a, s.len + 1);

    if (s.len > 0)
        memcpy(p, s.at, s.len);
    return p;
}

struct span
arena_span(struct arena *a, struct span s)
{
    return (struct span){s.len > 0 ? arena_strdup(a, s) : "", s.len};
}

char *
arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    assert(fmt != NULL);
    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    assert(n >= 0);
    p = arena_alloc(a, (size_t)n + 1);
    va_start(ap, fmt);
    (void)vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}
