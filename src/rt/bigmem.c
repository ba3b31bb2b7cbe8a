#include "rt/bigmem.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/mem.h"

#define HUGE_PAGE MIB(2)

/* Mapped with room to spare, so that it can begin where a huge page does. */
void *
bigmem_try(size_t bytes)
{
    size_t whole = align_up(bytes, HUGE_PAGE), room = whole + HUGE_PAGE, front;
    char *at = mmap(NULL, room, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert(bytes > 0);
    if (at == MAP_FAILED)
        return NULL;
    front = align_up((uintptr_t)at, HUGE_PAGE) - (uintptr_t)at;
    if (front > 0)
        munmap(at, front);
    munmap(at + front + whole, room - front - whole);
    (void)madvise(at + front, whole, MADV_HUGEPAGE); /* small pages will do */
    return at + front;
}

void *
bigmem_new(size_t bytes)
{
    void *at = bigmem_try(bytes);

    if (at == NULL) {
        fprintf(stderr, "forebay: no address space for %zu bytes\n", bytes);
        abort();
    }
    return at;
}

void
bigmem_free(void *p, size_t bytes)
{
    if (p != NULL)
        munmap(p, align_up(bytes, HUGE_PAGE));
}
