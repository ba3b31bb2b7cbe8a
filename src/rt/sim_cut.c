/* sim_cut: the power goes: each change that was not synced is kept, lost or torn, as the lottery says. */
#include "base/mem.h"
#include "rt/sim_disk_internal.h"

#define PAGE 4096u

struct odds {
    const struct sim_lottery *l;
    unsigned kept,
        torn; /* of 1,000: drawn for each node, so that all or nothing happens as well */
};

static bool
sim_cut_chance(const struct odds *o, unsigned permille)
{
    return o->l->draw(o->l->arg) % 1000 < permille;
}

static void
sim_cut_tear(const struct odds *o, const struct sim_change *c, struct sim_image *m)
{
    uint64_t unit = sim_cut_chance(o, 500) ? SIM_SECTOR : PAGE;
    uint64_t end = c->offset + c->len;

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
        if (c->size < size) /* what is cut off comes back as zeros */
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
    sim_image_zero(&f->file.now, size, f->file.now.room);
    f->file.now.size = size;
    /* When a truncation was lost there may be less than no space left. */
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
    sim_names_copy(&dir->dir.now, &dir->dir.stable);
}

/* Writes in flight become done ones, or have never been. */
static void
settle_in_flight(struct sim_node *n, const struct odds *o)
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
    { /* no node goes before its turn while its directory changes */
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
        settle_in_flight(n, &o);
        if (n->is_dir)
            cut_dir(n, &o);
        else
            cut_file(n, &o);
        for (; in_flight > 0; in_flight--) { /* the references of their writers */
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
