#include "store/index/index_call.h"

#include <assert.h>

#include "store/index/index.h"
#include "store/index/index_internal.h"
#include "store/index/index_resident.h"

#define LOOKS_EACH 32u
/* Pages that one look-up has read before the pool is asked: all there are on its way, where none is in memory. */
#define LOOKS_MOST 16u
#define READ_LEAST 8u /* bytes: the kernel brings all of the page */

static struct index_reader *
my_reader(struct index *x)
{
    return rt_on_loop() ? &x->readers[rt_loop_index()] : NULL;
}

static int
call_begin(struct index *x, struct index_reader *mine, MDB_txn **out)
{
    if (mine == NULL)
        return mdb_txn_begin(x->env, NULL, MDB_RDONLY, out);
    assert(mine->txn != NULL);
    *out = mine->txn;
    return mdb_txn_renew(mine->txn);
}

static void
call_end(struct index_reader *mine, MDB_txn *txn)
{
    if (mine != NULL)
        mdb_txn_reset(txn);
    else
        mdb_txn_abort(txn);
}

static void
call_guarded(void *arg)
{
    struct index_call *c = arg;
    MDB_txn *txn;

    assert(c->run != NULL);
    assert(!c->looks || (c->look != NULL && c->mine != NULL));
    c->seen = c->looks ? index_resident_begin(c->x, &c->page) : INDEX_PAGE_RESIDENT;
    if (c->seen != INDEX_PAGE_RESIDENT)
        return;
    c->rc = call_begin(c->x, c->mine, &txn);
    if (c->rc != 0)
        return;
    if (c->looks)
        c->seen = c->look(c, txn, &c->page);
    if (c->seen == INDEX_PAGE_RESIDENT)
        c->rc = c->run(c, txn);
    call_end(c->mine, txn);
}

static void
call_work(void *arg)
{
    struct index_call *c = arg;

    c->mine = my_reader(c->x);
    c->faulted = !index_guard(c->x, call_guarded, c);
}

static enum err
call_result(struct index_call *c, enum err rc, const char *what, struct errbuf *eb)
{
    if (rc != ERR_OK)
        return err_set(eb, rc, "index: %s: %s", what, err_name(rc));
    if (c->faulted)
        return err_set(eb, ERR_IO, "index: %s: the disk failed", what);
    return index_code(c->x, c->rc, what, eb);
}

/* May it touch what it likes? Of what is taken for resident one call in some looks all the same: the kernel takes back what it
 * wants. */
static bool
is_at_ease(const struct index_call *c)
{
    struct index *x = c->x;

    if (!atomic_load_explicit(&x->resident, memory_order_relaxed))
        return false;
    return c->look == NULL || !rt_on_loop() ||
           ++x->readers[rt_loop_index()].asked % LOOKS_EACH != 0 ||
           atomic_load_explicit(&x->replaying, memory_order_relaxed);
}

/* Runs on this loop, or tells by c->seen why it may not. */
static bool
call_here(struct index_call *c)
{
    c->looks = !is_at_ease(c);
    if (c->looks && (c->look == NULL || !rt_on_loop())) {
        c->seen = INDEX_PAGE_UNREADABLE;
        return false;
    }
    call_work(c);
    if (c->seen == INDEX_PAGE_ABSENT)
        index_is_absent(c->x);
    return c->faulted || c->seen == INDEX_PAGE_RESIDENT;
}

bool
index_page_begin(struct index *x, uint64_t page, struct iobuf **buf,
                 struct rt_async_read *reading)
{
    *buf = NULL;
    if (x->pages == NULL || iobuf_get_pinned(READ_LEAST, buf) != ERR_OK)
        return false;
    reading->prefetch_span = SPAN("");
    if (rt_read_begin(x->pages, page * x->page_bytes, *buf, 0, READ_LEAST, RT_READ,
                      reading) == ERR_OK)
        return true;
    iobuf_drop(buf);
    return false;
}

/* The page comes into the page cache; what is read of it is not looked at. */
static bool
call_fetch_page(struct index *x, uint64_t page)
{
    struct iobuf *b;
    uint32_t n = 0;
    bool came;

    if (x->pages == NULL || iobuf_get_pinned(READ_LEAST, &b) != ERR_OK)
        return false;
    came = rt_read(x->pages, page * x->page_bytes, b, 0, READ_LEAST, RT_READ,
                   DEADLINE_NEVER, &n, NULL) == ERR_OK;
    iobuf_drop(&b);
    return came && n > 0;
}

enum err
index_call(struct index_call *c, const char *what, struct errbuf *eb)
{
    enum err rc;

    c->page = INDEX_NO_PAGE;
    for (unsigned i = 0; i < LOOKS_MOST; i++) {
        if (call_here(c))
            return call_result(c, ERR_OK, what, eb);
        if (c->seen != INDEX_PAGE_ABSENT || !call_fetch_page(c->x, c->page))
            break;
    }
    c->looks = false;
    rc = rt_blocking(call_work, c, DEADLINE_NEVER);
    return call_result(c, rc, what, eb);
}

enum err
index_call_now(struct index_call *c, struct index_want *want, const char *what,
               struct errbuf *eb)
{
    bool here;

    assert(want != NULL);
    c->page = want->known ? want->page : INDEX_NO_PAGE;
    here = call_here(c);
    *want = (struct index_want){.known = !here && c->seen == INDEX_PAGE_ABSENT,
                                .page = c->page};
    if (here)
        return call_result(c, ERR_OK, what, eb);
    return err_set(eb, ERR_BUSY, "index: %s: not in memory", what);
}
