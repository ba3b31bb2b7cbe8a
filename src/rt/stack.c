#include "rt/internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/account.h"
#include "base/log.h"
#include "base/mem.h"
#include "rt/sanitize.h"

enum {
    PAGE = 4096,
    ADVICE_GUARD =
        102, /* MADV_GUARD_INSTALL, Linux 6.13: a guard without a mapping of its own */
    SAMPLE_EACH = 1024,
    COLOURS = 16,
    COLOUR_BYTES = 128,
};
#define TOUCHED_BYTES 16384 /* of a stack, about: once touched, pages stay */
#if FB_ASAN || FB_TSAN
enum { STACK = 256 << 10 };
#define DEFAULT_MOST 4096u /* gcc 12's TSan dies at 8,128 fibers */
#else
enum { STACK = 64 << 10 };
#define DEFAULT_MOST FIBERS_MOST
#endif
#define CANARY 0x0f1be40ddeadc0deu
static_assert(STACK % PAGE == 0, "whole pages");

/* Guards by mprotect cost two mappings a stack, and the kernel bounds those of a
 * process. */
static size_t
most_by_mprotect(unsigned loops)
{
    unsigned long maps = 65530;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");

    if (f != NULL) {
        if (fscanf(f, "%lu", &maps) != 1)
            maps = 65530;
        fclose(f);
    }
    return maps > 8192 ? (maps - 4096) / 2 / loops : 64;
}

enum err
stacks_init(struct stacks *st, unsigned fibers_max, unsigned loops, struct errbuf *eb)
{
    size_t most = fibers_max > 0 ? MIN(fibers_max, FIBERS_MOST) : DEFAULT_MOST;

    assert(loops > 0);
    *st = (struct stacks){.slot_size = STACK + PAGE};
    list_init(&st->idle);
    for (;; most /= 2) {
        st->base = mmap(NULL, most * st->slot_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (st->base != MAP_FAILED)
            break;
        if (most <= 64) {
            st->base = NULL;
            return err_errno(eb, ERR_BUSY, errno, "no address space for %zu fiber stacks",
                             most);
        }
    }
    /* A huge page would make a touched stack cost 2 MiB. Refused where there are none:
     * fine. */
    (void)madvise(st->base, most * st->slot_size, MADV_NOHUGEPAGE);
    st->slots = most;
    if (madvise(st->base, PAGE, ADVICE_GUARD) != 0) {
        st->guard_by_mprotect = true;
        st->slots = MIN(most, most_by_mprotect(loops));
    }
    return ERR_OK;
}

void
stacks_fini(struct stacks *st)
{
    if (st->base == NULL)
        return;
    LIST_EACH(&st->idle, n)
    {
        struct fiber *f = LIST_ENTRY(n, struct fiber, link);

        TSAN_DESTROY(f->tsan_fiber);
        st->used--;
    }
    assert(st->used == 0); /* every fiber has ended */
    assert(st->slot <= st->slots);
    account_add(ACCOUNT_STACKS, -(int64_t)st->slot * TOUCHED_BYTES);
    munmap(st->base, st->slots * st->slot_size);
    *st = (struct stacks){0};
}

static bool
stack_protect(struct stacks *st, char *low)
{
    if (!st->guard_by_mprotect)
        return madvise(low, PAGE, ADVICE_GUARD) == 0;
    return mprotect(low, PAGE, PROT_NONE) == 0;
}

/* A stack that was never used. Equal places in all stacks would share few cache sets:
 * tops are shifted. */
static struct fiber *
stack_map_guard(struct stacks *st)
{
    char *low = st->base + st->slot * st->slot_size;
    char *top = low + st->slot_size - st->slot % COLOURS * COLOUR_BYTES;
    struct fiber *f = (void *)(top - align_up(sizeof *f, 64));

    assert(st->slot < st->slots);
    assert(st->used <= st->slot);
    if (!stack_protect(st, low)) {
        LOG(LOG_WARN, "rt.stacks",
            "the kernel refuses more guard pages; fewer fibers can run",
            L_U64("fibers", st->slot));
        st->slots = st->slot;
        return NULL;
    }
    st->slot++;
    st->used++;
    account_add(ACCOUNT_STACKS, TOUCHED_BYTES);
    f->stack_low = low + PAGE;
    f->stack_size = (size_t)((char *)f - f->stack_low);
    assert(f->stack_size > STACK / 2);
    assert(f->stack_size < st->slot_size);
    f->tsan_fiber = TSAN_CREATE();
    return f;
}

struct fiber *
stacks_get(struct stacks *st)
{
    struct list *n = list_pop_front(&st->idle);
    struct fiber *f = n != NULL              ? LIST_ENTRY(n, struct fiber, link)
                      : st->slot < st->slots ? stack_map_guard(st)
                                             : NULL;

#ifdef FB_TEST_HOOKS
    if (f != NULL)
        *(uint64_t *)(void *)f->stack_low = CANARY;
#endif
    return f;
}

/* How deep this stack has ever been: pages that were never touched are not resident. */
static void
stack_sample(struct stacks *st, const struct fiber *f)
{
    unsigned char resident[STACK / PAGE];
    size_t pages = STACK / PAGE, first = 0;

    if (mincore(f->stack_low, pages * PAGE, resident) != 0)
        return;
    while (first < pages && (resident[first] & 1) == 0)
        first++;
    if ((pages - first) * PAGE > st->high_water)
        st->high_water = (pages - first) * PAGE;
}

void
stacks_put(struct stacks *st, struct fiber *f)
{
    assert((char *)f >= st->base);
    assert((char *)f < st->base + st->slots * st->slot_size);
    assert(f->fn == NULL); /* it has ended */
#ifdef FB_TEST_HOOKS
    assert(*(uint64_t *)(void *)f->stack_low ==
           CANARY); /* else the fiber used its whole stack */
#endif
    ASAN_CLEAN(f->stack_low, f->stack_size); /* frames that never returned left poison */
    if (st->recycled++ % SAMPLE_EACH == 0)
        stack_sample(st, f);
    list_push_front(&st->idle, &f->link);
}

bool
stacks_in_guard(const struct stacks *st, const void *address)
{
    uintptr_t at = (uintptr_t)address, base = (uintptr_t)st->base;

    return at >= base && at < base + st->slot * st->slot_size &&
           (at - base) % st->slot_size < PAGE;
}
