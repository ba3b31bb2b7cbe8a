#include "store/segment/reading.h"

#include "store/core/core.h"
#include <assert.h>
#include <stdlib.h>

struct readings_of_loop {
    _Alignas(64) struct list list;
};
struct readings {
    unsigned loops;
    struct readings_of_loop *of; /* owned */
};

struct readings *
readings_new(void)
{
    struct readings *r = xcalloc(1, sizeof *r);

    r->loops = rt_loop_count();
    r->of = aligned_alloc(64, r->loops * sizeof *r->of);
    if (r->of == NULL)
        abort(); /* out of memory, as for every small allocation */
    for (unsigned i = 0; i < r->loops; i++)
        list_init(&r->of[i].list);
    return r;
}

void
readings_free(struct readings **rp)
{
    if (*rp == NULL)
        return;
    free((*rp)->of);
    free(*rp);
    *rp = NULL;
}

void
reading_begin(struct store *d, struct reading *r)
{
    assert(d->readings != NULL);
    list_push_back(&d->readings->of[rt_loop_index()].list, &r->of_loop);
}

void
reading_end(struct reading *r)
{
    if (r->of_loop.next != NULL)
        list_remove(&r->of_loop);
}

static bool
is_at(const struct reading_place *p, uint32_t segment, uint64_t offset)
{
    return segment == p->segment && (p->offset == UINT64_MAX || offset == p->offset);
}

static bool
reading_is_of(const struct reading *r, const struct reading_place *p)
{
    if (is_at(p, r->segment, r->offset))
        return true;
    for (uint32_t i = 0; r->manifest != NULL && i < r->manifest->count; i++) {
        const struct manifest_entry *e = &r->manifest->entries[i];

        if (is_at(p, e->segment, e->offset))
            return true;
    }
    return false;
}

struct ask {
    struct store *disk;
    struct reading_place *at;
    uint32_t count;
};

static void
reading_ask_here(void *arg)
{
    struct ask *a = arg;

    LIST_EACH(&a->disk->readings->of[rt_loop_index()].list, n)
    {
        const struct reading *r = LIST_ENTRY(n, struct reading, of_loop);

        for (uint32_t i = 0; i < a->count; i++)
            a->at[i].busy = a->at[i].busy || reading_is_of(r, &a->at[i]);
    }
}

enum err
readings_ask(struct store *d, struct reading_place *at, uint32_t count)
{
    struct ask a = {.disk = d, .at = at, .count = count};

    assert(on_owner(d));
    assert(count > 0 || at == NULL || count == 0);
    for (unsigned i = 0; i < d->readings->loops; i++) {
        enum err rc = ERR_OK;

        if (i == rt_loop_index())
            reading_ask_here(&a);
        else
            rc = rt_call(i, reading_ask_here, &a);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}
