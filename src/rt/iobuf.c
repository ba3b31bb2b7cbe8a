/* iobuf: pooled I/O buffers. Each loop keeps some idle ones by size, last in first out: a
 * fresh buffer of 128 KiB costs 40 us of page faults. What threads other than loops drop
 * goes back to the system.
 *
 * Buffers for small reads that no fiber waits for are pieces of slabs, which the ring knows as one each: their pages are not
 * looked up for each read (a twentieth of its CPU). They stay on their loop, and slabs as long as it.
 *
 * Buffers for large reads, and for groups of records, are a loop's own: its ring pins their
 * pages once, not for each operation (a ninth of the CPU of a read of 100 KB that is sent). They are
 * cut from huge pages (blocks.h), each of which the ring knows as one: what lies in pages here and there a disk gets up to
 * twice as long for (docs/decisions/0022-verify.md). */
#include "rt/iobuf.h"
#include "rt/test_io.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/account.h"
#include "base/mem.h"

#define IDLE_MAX      MIB(16) /* bytes a loop keeps; at least IOBUF_MAX */
#define LIMIT_DEFAULT MIB(256)
enum { SMALLEST = 4096, PAGE = 4096, HUGE = 2 << 20, WAIT_MS = 5 };

struct pooled {
    struct iobuf buf;
    struct pooled *next; /* idle */
    unsigned class;
    uint64_t reads_of; /* number of the loop that reads into it; 0: for any use */
    bool beyond;       /* iobuf_get_beyond(): not part of in_use */
    struct slab *slab; /* that it is a piece of; NULL: none */
    struct block *
        block; /* that it is cut from, until it is dropped; NULL: its memory is its own */
};

#define PIECE       (16u << 10)
#define SLAB_PIECES 64u
#define SLABS_MAX   4u /* a loop; beyond, small reads go into buffers like any */
struct slab {
    struct slab *next;
    char *at;
    uint32_t slot;
    struct pooled pieces[SLAB_PIECES];
};

static _Atomic uint64_t in_use, limit = LIMIT_DEFAULT, loops_seen;

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

    while ((uint32_t)SMALLEST << class < size)
        class += 1;
    return class;
}

static uint64_t
iobuf_loop_number(struct loop *l)
{
    if (l->iobufs.number == 0)
        l->iobufs.number = atomic_fetch_add(&loops_seen, 1) + 1;
    return l->iobufs.number;
}

/* The number under which buffers for reads are this loop's; 0: this one is for any use. */
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

/* Memory of its own. */
static struct pooled *
iobuf_alloc(unsigned class)
{
    size_t room = (size_t)SMALLEST << class;
    char *at = aligned_alloc(room < HUGE ? PAGE : HUGE, room);
    struct pooled *p;

    if (at == NULL)
        return NULL;
    if (room >= HUGE)
        (void)madvise(at, room, MADV_HUGEPAGE); /* pages are looked up for each read */
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

static bool
iobuf_charge(uint64_t room)
{
    if (test_io_no_buffer())
        return false;
    if (atomic_fetch_add(&in_use, room) + room <= limit_now())
        return true;
    atomic_fetch_sub(&in_use, room);
    return false;
}

static struct iobuf *
iobuf_hand_out(struct pooled *p, bool beyond)
{
    p->beyond = beyond;
    account_add(ACCOUNT_BUFFERS, (int64_t)p->buf.room);
    p->buf.refs = 1;
    return &p->buf;
}

/* Without a look at the limit. */
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

    assert(size > 0 && size <= IOBUF_MAX);
    *out = NULL;
    if (!iobuf_charge(room))
        return ERR_BUSY;
    rc = iobuf_take_any(class, reads_of(loop_self, room, for_read), false, out);
    if (rc != ERR_OK)
        atomic_fetch_sub(&in_use, room);
    return rc;
}

/* ---- pieces ---- */

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

    /* Asked again and again: they come back on any loop, and whoever drops one must not look for who waits. */
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
    if (p->block != NULL)
        block_put(p->block, p->buf.at, p->buf.room);
    else
        free(p->buf.at);
    free(p);
}

/* The size that nobody has asked for longest, of those with idle ones; NULL: there are none. */
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

/* Makes room for `bytes` more idle ones: what other work has left goes first, or a loop that has taken in objects would make
 * the buffers of all its reads anew. */
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
            return; /* the ring is busy with what is idle in blocks; they come to it another time */
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
        atomic_fetch_sub(&in_use, b->room);
    account_add(ACCOUNT_BUFFERS, -(int64_t)b->room);
    if (p->slab != NULL) {
        assert(l != NULL && p->reads_of == l->iobufs.number);
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
