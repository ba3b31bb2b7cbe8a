/* sim_cut: a power cut. Each change that was not synced is kept, lost or torn, as the lottery decides. */
#include <assert.h>

#include "base/mem.h"
#include "rt/sim_disk_internal.h"

#define PAGE 4096u

struct odds {
    const struct sim_lottery *l;
    unsigned kept,
        torn; /* of 1,000: drawn per node, so that all or nothing happens as well */
};

static bool
sim_cut_chance(const struct odds *o, unsigned permille)
{
    assert(permille <= 1000);
    return o->l->draw(o->l->arg) % 1000 < permille;
}

static void
sim_cut_tear(const struct odds *o, const struct sim_change *c, struct sim_image *m)
{
    uint64_t unit = sim_cut_chance(o, 500) ? SIM_SECTOR : PAGE;
    uint64_t end = c->offset + c->len;

    assert(c->kind == CHANGE_WRITE);
    assert(c->data != NULL);
    for (uint64_t at = c->offset, next; at < end; at = next) {
        next = MIN(align_down(at, unit) + unit, end);
        if (sim_cut_chance(o, 500))
            sim_image_put(m, at, c->data + (at - c->offset), next - at);
    }
}

static void
cut_file(struct sim_node *f, const struct odds *o)
{
    struct sim_image *stable = &f->file.stable;
    uint64_t size = stable->size;

    LIST_EACH(&f->changes, at)
    {
        struct sim_change *c = LIST_ENTRY(at, struct sim_change, link);
        bool kept = sim_cut_chance(o, o->kept) && !c->doomed;

        if (kept && c->kind == CHANGE_WRITE && sim_cut_chance(o, o->torn))
            sim_cut_tear(o, c, stable);
        else if (kept)
            sim_change_bytes(c, stable);
        if (!c->sets_size || c->doomed || !sim_cut_chance(o, o->kept))
            continue;
        if (c->size < size) /* what is cut off returns as zeros */
            sim_image_zero(stable, c->size, stable->room);
        size = c->size;
    }
    sim_image_zero(stable, size, stable->room);
    stable->size = size;
    LIST_EACH(&f->changes, at) /* `now` differed nowhere else */
    {
        struct sim_change *c = LIST_ENTRY(at, struct sim_change, link);

        sim_image_copy(&f->file.now, stable, c->offset, c->offset + c->len);
        sim_change_forget(c);
    }
    assert(list_empty(&f->changes));
    assert(f->change_count == 0);
    sim_image_zero(&f->file.now, size, f->file.now.room);
    f->file.now.size = size;
    /* When a truncation was lost, more than the free space may be used. */
    if (size > f->file.allocated) {
        f->room->used += size - f->file.allocated;
        f->file.allocated = size;
    }
}

static void
cut_dir(struct sim_node *dir, const struct odds *o)
{
    bool journal = sim_cut_chance(o, 500);
    bool stopped = false;

    LIST_EACH(&dir->changes, at)
    {
        struct sim_change *c = LIST_ENTRY(at, struct sim_change, link);
        bool kept = sim_cut_chance(o, o->kept) && !c->doomed;

        stopped = stopped || (journal && !kept);
        if (kept && !stopped)
            sim_change_names(c, &dir->dir.stable);
        sim_change_forget(c);
    }
    assert(list_empty(&dir->changes));
    sim_names_copy(&dir->dir.now, &dir->dir.stable);
}

/* Writes in flight become done, or have never happened. */
static void
end_in_flight(struct sim_node *n, const struct odds *o)
{
    LIST_EACH(&n->in_flight, at)
    {
        struct sim_change *c = LIST_ENTRY(at, struct sim_change, link);
        bool begun =
            sim_cut_chance(o, 500) && sim_file_reserve(n, c->offset + c->len) == 0;

        if (begun)
            sim_change_write(c);
        else
            sim_change_free(c);
    }
}

void
sim_disk_cut(struct sim_disk *d, const struct sim_lottery *l)
{
    static const unsigned levels[] = {0, 100, 500, 500, 900, 1000};

    LIST_EACH(&d->nodes, at)
    { /* keeps every node alive while its directory changes */
        sim_node_ref(LIST_ENTRY(at, struct sim_node, of_disk));
    }
    LIST_EACH(&d->nodes, at)
    {
        struct sim_node *n = LIST_ENTRY(at, struct sim_node, of_disk);
        struct odds o = {.l = l};
        unsigned in_flight = 0;

        if (sim_node_is_synced(n))
            continue;
        o.kept = l->lossy ? levels[l->draw(l->arg) % ARRAY_LEN(levels)] : 1000;
        o.torn = l->lossy ? levels[l->draw(l->arg) % ARRAY_LEN(levels)] : 0;
        LIST_EACH(&n->in_flight, w)
        {
            (void)w;
            in_flight++;
        }
        end_in_flight(n, &o);
        assert(list_empty(&n->in_flight));
        if (n->is_dir)
            cut_dir(n, &o);
        else
            cut_file(n, &o);
        for (; in_flight > 0; in_flight--) { /* drops the references of their writers */
            struct sim_node *ref = n;

            sim_node_drop(&ref);
        }
    }
    LIST_EACH(&d->nodes, at)
    {
        struct sim_node *n = LIST_ENTRY(at, struct sim_node, of_disk);

        sim_node_drop(&n);
    }
}
