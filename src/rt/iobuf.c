/* iobuf: pooled I/O buffers. Each loop keeps idle ones by size, last in first out: a fresh buffer of 128 KiB costs
 * 40 us of page faults. Buffers that other threads drop are freed.
 *
 * Buffers for small asynchronous reads are pieces of slabs, each of which is one registered buffer of the ring: the
 * kernel then looks up no pages per read (a twentieth of its CPU). They stay on their loop, and slabs live as long
 * as it.
 *
 * Buffers for large reads, and for commit batches, belong to one loop too: its ring pins their pages once, not per
 * operation (a ninth of the CPU of a 100 KB read that is sent). They are cut from huge pages (blocks.h), each of
 * which the ring knows as one buffer: a disk takes up to twice as long for scattered pages
 * (docs/decisions/0022-verify.md). */
#include "rt/internal.h"
#include "rt/test_io.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/account.h"
#include "base/mem.h"

#define IDLE_MAX      MIB(16) /* bytes that a loop keeps idle; at least IOBUF_MAX */
#define LIMIT_DEFAULT MIB(256)
enum { SMALLEST = 4096, PAGE = 4096, HUGE = 2 << 20, WAIT_MS = 5 };

struct pooled {
    struct iobuf buf;
    struct pooled *next; /* idle */
    unsigned class;
    uint64_t reads_of;   /* number of the loop that reads into it; 0: for any use */
    bool beyond;         /* from iobuf_get_beyond(): not counted in in_use */
    struct slab *slab;   /* the slab it belongs to, or NULL */
    struct block *block; /* the block it is cut from, or NULL: its memory is its own */
};

#define PIECE       (16u << 10)
#define SLAB_PIECES 64u
#define SLABS_MAX   4u /* per loop; beyond, small reads use ordinary buffers */
struct slab {
    struct slab *next;
    char *at;
    uint32_t slot;
    struct pooled pieces[SLAB_PIECES];
};

static_assert(IDLE_MAX >= IOBUF_MAX, "the largest buffer can be kept");
static_assert(PIECE * SLAB_PIECES == MIB(1), "docs/decisions/0011");

static _Atomic uint64_t in_use, limit = LIMIT_DEFAULT, loops_seen;

/* The last eighth of the limit is for work that everything waits for: a store's commits continue while slow clients
 * hold the rest. */
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
iobuf_left(void)
{
    uint64_t most = limit_now();

    return most - MIN(most, iobuf_in_use());
}

uint64_t
iobuf_in_use(void)
{
    return in_use;
}

static unsigned
iobuf_class_of(uint32_t size)
{
    unsigned class = 0;

    assert(size > 0);
    assert(size <= IOBUF_MAX);
    while ((uint32_t)SMALLEST << class < size)
        class += 1;
    assert(class < IOBUF_CLASSES);
    return class;
}

static uint64_t
iobuf_loop_number(struct loop *l)
{
    if (l->iobufs.number == 0)
        l->iobufs.number = atomic_fetch_add(&loops_seen, 1) + 1;
    return l->iobufs.number;
}

/* The number of this loop for a read buffer; 0: the buffer is for any use. */
static uint64_t
reads_of(struct loop *l, size_t room, bool for_read)
{
    return for_read && l != NULL && room >= BLOCKS_LEAST && room <= BLOCKS_MOST
               ? iobuf_loop_number(l)
               : 0;
}

static struct pooled *
iobuf_pop(struct loop *l, struct iobuf_list *list)
{
    struct pooled *p = list->first;

    if (p != NULL) {
        assert(l->iobufs.bytes >= p->buf.room);
        list->first = p->next;
        l->iobufs.bytes -= p->buf.room;
    }
    return p;
}

static struct pooled *
iobuf_pop_idle(struct loop *l, unsigned class)
{
    struct iobuf_list *list;

    if (l == NULL)
        return NULL;
    list = &l->iobufs.idle[class];
    list->wanted = ++l->iobufs.gets;
    return iobuf_pop(l, list);
}

/* A buffer with memory of its own. */
static struct pooled *
iobuf_alloc(unsigned class)
{
    size_t room = (size_t)SMALLEST << class;
    char *at = aligned_alloc(room < HUGE ? PAGE : HUGE, room);
    struct pooled *p;

    if (at == NULL)
        return NULL;
    if (room >= HUGE)
        (void)madvise(at, room, MADV_HUGEPAGE); /* the kernel looks up pages per read */
    p = xmalloc(sizeof *p);
    *p = (struct pooled){.buf = {.at = at, .room = (uint32_t)room}, .class = class};
    return p;
}

static struct pooled *
iobuf_cut_block(struct iobuf_cache *c, unsigned class)
{
    size_t room = (size_t)SMALLEST << class;
    struct block *of = NULL;
    char *at = blocks_cut(&c->blocks, room, &of);
    struct pooled *p;

    if (at == NULL)
        return NULL;
    c->blocks_wanted = ++c->gets;
    p = xmalloc(sizeof *p);
    *p = (struct pooled){.buf = {.at = at, .room = (uint32_t)room},
                         .class = class,
                         .reads_of = c->number,
                         .block = of};
    return p;
}

void
rt_essential(void)
{
    loop_self->self->essential = true;
}

static void
iobuf_uncharge(uint64_t room)
{
    uint64_t before = atomic_fetch_sub(&in_use, room);

    assert(before >= room);
    (void)before;
}

static bool
iobuf_charge(uint64_t room)
{
    if (test_io_no_buffer())
        return false;
    if (atomic_fetch_add(&in_use, room) + room <= limit_now())
        return true;
    iobuf_uncharge(room);
    return false;
}

static struct iobuf *
iobuf_hand_out(struct pooled *p, bool beyond)
{
    assert(p->buf.refs == 0);
    p->beyond = beyond;
    account_add(ACCOUNT_BUFFERS, (int64_t)p->buf.room);
    p->buf.refs = 1;
    return &p->buf;
}

/* Does not check the limit. */
static enum err
iobuf_take_any(unsigned class, uint64_t reads, bool beyond, struct iobuf **out)
{
    struct pooled *p = reads != 0 ? iobuf_cut_block(&loop_self->iobufs, class)
                                  : iobuf_pop_idle(loop_self, class);

    if (p == NULL && reads == 0)
        p = iobuf_alloc(class);
    if (p == NULL)
        return ERR_BUSY;
    *out = iobuf_hand_out(p, beyond);
    return ERR_OK;
}

static enum err
iobuf_get_charged(uint32_t size, bool for_read, struct iobuf **out)
{
    unsigned class = iobuf_class_of(size);
    uint64_t room = (uint64_t)SMALLEST << class;
    enum err rc;

    *out = NULL;
    if (!iobuf_charge(room))
        return ERR_BUSY;
    rc = iobuf_take_any(class, reads_of(loop_self, room, for_read), false, out);
    if (rc != ERR_OK)
        iobuf_uncharge(room);
    return rc;
}

/* ---- pieces of slabs ---- */

static void
add_slab(struct loop *l)
{
    struct slab *s;
    char *at = aligned_alloc(PAGE, (size_t)PIECE * SLAB_PIECES);

    if (at == NULL)
        return;
    s = xcalloc(1, sizeof *s);
    s->at = at;
    s->next = l->iobufs.slabs;
    l->iobufs.slabs = s;
    l->iobufs.slab_count++;
    assert(l->iobufs.slab_count <= SLABS_MAX);
    for (unsigned i = SLAB_PIECES; i-- > 0;) {
        struct pooled *p = &s->pieces[i];

        *p = (struct pooled){.buf = {.at = at + (size_t)i * PIECE, .room = PIECE},
                             .next = l->iobufs.pieces,
                             .reads_of = iobuf_loop_number(l),
                             .slab = s};
        l->iobufs.pieces = p;
    }
}

enum err
iobuf_get_pinned(uint32_t size, struct iobuf **out)
{
    struct loop *l = loop_self;
    struct pooled *p;

    *out = NULL;
    if (size > PIECE)
        return iobuf_get_charged(size, true, out);
    if (l->iobufs.pieces == NULL && l->iobufs.slab_count < SLABS_MAX)
        add_slab(l);
    p = l->iobufs.pieces;
    if (p == NULL)
        return iobuf_get_charged(size, true, out);
    if (!iobuf_charge(PIECE))
        return ERR_BUSY;
    assert(p->slab != NULL);
    l->iobufs.pieces = p->next;
    *out = iobuf_hand_out(p, false);
    return ERR_OK;
}

static void
free_slabs(struct loop *l)
{
    while (l->iobufs.slabs != NULL) {
        struct slab *s = l->iobufs.slabs;

        l->iobufs.slabs = s->next;
        free(s->at);
        free(s);
    }
}

enum err
iobuf_get(uint32_t size, struct iobuf **out)
{
    return iobuf_get_charged(size, false, out);
}

enum err
iobuf_get_beyond(uint32_t size, struct iobuf **out)
{
    enum err rc = iobuf_get_charged(size, false, out);

    return rc == ERR_BUSY ? iobuf_take_any(iobuf_class_of(size), 0, true, out) : rc;
}

enum err
iobuf_wait(uint32_t size, struct deadline by, struct iobuf **out)
{
    enum err rc = iobuf_get_charged(size, true, out);

    /* Polls: buffers are released on any loop, and a release must not have to search for waiters. */
    while (rc == ERR_BUSY && !deadline_passed(by)) {
        enum err slept = rt_sleep_ms(WAIT_MS);

        if (slept != ERR_OK)
            return slept;
        rc = iobuf_get_charged(size, true, out);
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

uint32_t *
iobuf_slot(struct iobuf *b, struct iovec *memory)
{
    struct pooled *p = CONTAINER_OF(b, struct pooled, buf);

    if (p->reads_of == 0 || p->reads_of != loop_self->iobufs.number)
        return NULL;
    if (p->block != NULL)
        return block_slot(p->block, memory);
    *memory = (struct iovec){p->slab->at, (size_t)PIECE * SLAB_PIECES};
    return &p->slab->slot;
}

static void
iobuf_discard(struct pooled *p)
{
    assert(p->slab == NULL);
    assert(p->buf.refs == 0);
    if (p->block != NULL)
        block_put(p->block, p->buf.at, p->buf.room);
    else
        free(p->buf.at);
    free(p);
}

/* Of the sizes with idle buffers, the one requested longest ago; NULL: there are none. */
static struct iobuf_list *
least_wanted(struct loop *l)
{
    struct iobuf_list *least = NULL;

    for (unsigned i = 0; i < IOBUF_CLASSES; i++) {
        struct iobuf_list *list = &l->iobufs.idle[i];

        if (list->first != NULL && (least == NULL || list->wanted < least->wanted))
            least = list;
    }
    return least;
}

/* Makes room for `bytes` more idle memory. What other work left goes first; otherwise a loop that has taken in
 * objects would allocate the buffers of all its reads again. */
static void
iobuf_make_room(struct loop *l, uint64_t bytes)
{
    struct iobuf_cache *c = &l->iobufs;

    while (c->bytes + c->blocks.idle > IDLE_MAX - bytes) {
        struct iobuf_list *list = least_wanted(l);

        if ((list == NULL || c->blocks_wanted < list->wanted) &&
            blocks_shrink(l, &c->blocks))
            continue;
        if (list == NULL)
            return; /* the ring still uses the idle blocks; a later call frees them */
        iobuf_discard(iobuf_pop(l, list));
    }
}

static bool
iobuf_is_reusable(const struct loop *l, const struct pooled *p)
{
    return l != NULL && (p->reads_of == 0 || p->reads_of == l->iobufs.number);
}

static void
iobuf_keep_idle(struct loop *l, struct pooled *p)
{
    struct iobuf_list *list = &l->iobufs.idle[p->class];

    iobuf_make_room(l, p->buf.room);
    p->next = list->first;
    list->first = p;
    l->iobufs.bytes += p->buf.room;
    assert(l->iobufs.bytes <= IDLE_MAX);
}

static void
iobuf_recycle_block(struct loop *l, struct pooled *p)
{
    blocks_recycle(&l->iobufs.blocks, p->block, p->buf.at, p->buf.room);
    free(p);
    iobuf_make_room(l, 0);
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
    p = CONTAINER_OF(b, struct pooled, buf);
    if (!p->beyond)
        iobuf_uncharge(b->room);
    account_add(ACCOUNT_BUFFERS, -(int64_t)b->room);
    if (p->slab != NULL) {
        assert(l != NULL);
        assert(p->reads_of == l->iobufs.number);
        p->next = l->iobufs.pieces;
        l->iobufs.pieces = p;
        return;
    }
    if (!iobuf_is_reusable(l, p)) {
        iobuf_discard(p);
        return;
    }
    if (p->block != NULL)
        iobuf_recycle_block(l, p);
    else
        iobuf_keep_idle(l, p);
}

static void
free_list(struct pooled *p)
{
    while (p != NULL) {
        struct pooled *next = p->next;

        iobuf_discard(p);
        p = next;
    }
}

void
iobuf_free_idle(struct loop *l)
{
    for (unsigned i = 0; i < IOBUF_CLASSES; i++)
        free_list(l->iobufs.idle[i].first);
    free_slabs(l);
    blocks_end(&l->iobufs.blocks);
    l->iobufs = (struct iobuf_cache){0};
}
