/* iobuf: pooled I/O buffers. Each loop keeps some idle ones by size, last in first out: a
 * fresh buffer of 128 KiB costs 40 us of page faults. What threads other than loops drop
 * goes back to the system. */
#include "rt/iobuf.h"

#include <assert.h>
#include <stdlib.h>

#include "base/account.h"
#include "base/mem.h"

#define IDLE_MAX      MIB(16) /* bytes a loop keeps */
#define LIMIT_DEFAULT MIB(256)
enum { SMALLEST = 4096, PAGE = 4096, WAIT_MS = 5 };

struct pooled {
    struct iobuf buf;
    struct pooled *next; /* idle */
    unsigned class;
};

static _Atomic uint64_t in_use, limit = LIMIT_DEFAULT;

/* The last eighth is for what everybody waits for: the commits of a disk go on while slow clients hold the rest. */
static uint64_t
limit_now(void)
{
    struct fiber *f = loop_self != NULL ? loop_self->self : NULL;

    return f != NULL && f->essential ? limit : limit - limit / 8;
}

void
iobuf_set_limit(uint64_t bytes)
{
    limit = bytes > 0 ? bytes : LIMIT_DEFAULT;
    account_set_buffer_limit(limit);
}

uint64_t
iobuf_in_use(void)
{
    return in_use;
}

static unsigned
class_of(uint32_t size)
{
    unsigned class = 0;

    while ((uint32_t)SMALLEST << class < size)
        class += 1;
    return class;
}

static struct pooled *
take_idle(unsigned class)
{
    struct loop *l = loop_self;
    struct pooled *p = l != NULL ? l->iobufs.idle[class] : NULL;

    if (p != NULL) {
        l->iobufs.idle[class] = p->next;
        l->iobufs.bytes -= p->buf.room;
    }
    return p;
}

static struct pooled *
make(unsigned class)
{
    size_t room = (size_t)SMALLEST << class;
    char *at = aligned_alloc(PAGE, room);
    struct pooled *p;

    if (at == NULL)
        return NULL;
    p = xmalloc(sizeof *p);
    *p = (struct pooled){.buf = {.at = at, .room = (uint32_t)room}, .class = class};
    return p;
}

void
rt_essential(void)
{
    loop_self->self->essential = true;
}

enum err
iobuf_get(uint32_t size, struct iobuf **out)
{
    unsigned class = class_of(size);
    uint64_t room = (uint64_t)SMALLEST << class;
    struct pooled *p = NULL;

    assert(size > 0 && size <= IOBUF_MAX);
    *out = NULL;
    if (atomic_fetch_add(&in_use, room) + room <= limit_now()) {
        p = take_idle(class);
        if (p == NULL)
            p = make(class);
    }
    if (p == NULL) {
        atomic_fetch_sub(&in_use, room);
        return ERR_BUSY;
    }
    account_add(ACCOUNT_BUFFERS, (int64_t)room);
    p->buf.refs = 1;
    *out = &p->buf;
    return ERR_OK;
}

enum err
iobuf_wait(uint32_t size, struct deadline by, struct iobuf **out)
{
    enum err rc = iobuf_get(size, out);

    /* Asked again and again: they come back on any loop, and whoever drops one must not look for who waits. */
    while (rc == ERR_BUSY && !deadline_passed(by)) {
        enum err slept = rt_sleep_ms(WAIT_MS);

        if (slept != ERR_OK)
            return slept;
        rc = iobuf_get(size, out);
    }
    return rc;
}

struct iobuf *
iobuf_ref(struct iobuf *b)
{
    uint32_t before = __atomic_fetch_add(&b->refs, 1, __ATOMIC_RELAXED);

    assert(before > 0);
    (void)before;
    return b;
}

static void
discard(struct pooled *p)
{
    free(p->buf.at);
    free(p);
}

void
iobuf_drop(struct iobuf **bp)
{
    struct iobuf *b = *bp;
    struct loop *l = loop_self;
    struct pooled *p;

    *bp = NULL;
    if (b == NULL || __atomic_fetch_sub(&b->refs, 1, __ATOMIC_ACQ_REL) > 1)
        return;
    atomic_fetch_sub(&in_use, b->room);
    account_add(ACCOUNT_BUFFERS, -(int64_t)b->room);
    p = CONTAINER_OF(b, struct pooled, buf);
    if (l == NULL || l->iobufs.bytes + b->room > IDLE_MAX) {
        discard(p);
        return;
    }
    p->next = l->iobufs.idle[p->class];
    l->iobufs.idle[p->class] = p;
    l->iobufs.bytes += b->room;
}

void
iobuf_free_idle(struct loop *l)
{
    for (unsigned i = 0; i < IOBUF_CLASSES; i++)
        for (struct pooled *p = l->iobufs.idle[i], *next; p != NULL; p = next) {
            next = p->next;
            discard(p);
        }
    l->iobufs = (struct iobuf_cache){0};
}
