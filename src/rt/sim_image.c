#include "rt/sim_disk_internal.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

#define PAGE      4096u
#define IDLE_MOST 64u
#define IDLE_BYTES                                                                       \
    MIB(2) /* reached at most: clearing these by hand is faster than by the kernel */
#define ZERO_BY_HAND KIB(256)

/* Of this process, which runs one world at a time; all zeros. */
static struct sim_image idle[IDLE_MOST];
static unsigned idle_count;

static bool
sim_image_keep(struct sim_image *m)
{
    if (idle_count == IDLE_MOST || m->reached > IDLE_BYTES)
        return false;
    memset(m->at, 0, m->reached);
    assert(m->reached <= m->room);
    idle[idle_count++] = (struct sim_image){.at = m->at, .room = m->room};
    return true;
}

static void
image_reuse(struct sim_image *m)
{
    if (idle_count == 0)
        return;
    idle_count--;
    m->at = idle[idle_count].at;
    m->room = idle[idle_count].room;
}

void
sim_image_reach(struct sim_image *m, uint64_t end)
{
    uint64_t room;

    m->reached = MAX(m->reached, end);
    if (m->at == NULL)
        image_reuse(m);
    if (end <= m->room)
        return;
    room = MAX(m->room, MIB(1));
    while (room < end)
        room *= 2;
    if (m->at == NULL)
        m->at = mmap(NULL, room, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    else
        m->at = mremap(m->at, m->room, room, MREMAP_MAYMOVE);
    if (m->at == MAP_FAILED)
        abort(); /* as xmalloc() */
    m->room = room;
    assert(m->reached <= m->room);
}

void
sim_image_zero(struct sim_image *m, uint64_t from, uint64_t to)
{
    uint64_t first, last;

    to = MIN(to, m->reached);
    if (from >= to)
        return;
    assert(to <= m->room);
    first = align_up(from, PAGE);
    last = align_down(to, PAGE);
    if (to - from <= ZERO_BY_HAND || first >= last) {
        memset(m->at + from, 0, to - from);
        return;
    }
    memset(m->at + from, 0, first - from);
    memset(m->at + last, 0, to - last);
    if (madvise(m->at + first, last - first, MADV_DONTNEED) != 0)
        memset(m->at + first, 0, last - first);
}

void
sim_image_put(struct sim_image *m, uint64_t offset, const char *data, uint64_t len)
{
    sim_image_reach(m, offset + len);
    assert(offset + len <= m->room);
    memcpy(m->at + offset, data, len);
}

void
sim_image_copy(struct sim_image *dst, const struct sim_image *src, uint64_t from,
               uint64_t to)
{
    uint64_t have = MIN(to, src->reached);

    if (from < have)
        sim_image_put(dst, from, src->at + from, have - from);
    sim_image_zero(dst, MAX(from, have), to);
}

void
sim_image_set_size(struct sim_image *m, uint64_t size)
{
    if (size < m->size)
        sim_image_zero(m, size, m->reached);
    m->size = size;
}

void
sim_image_fini(struct sim_image *m)
{
    if (m->at != NULL && !sim_image_keep(m))
        munmap(m->at, m->room);
    *m = (struct sim_image){0};
}
