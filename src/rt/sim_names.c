#include "rt/sim_disk_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/sim_disk.h"

/* The place of `name`, or where it would go. */
static unsigned
sim_names_place(const struct sim_names *s, const char *name, bool *found)
{
    unsigned low = 0, high = s->count;

    while (low < high) {
        unsigned mid = (low + high) / 2;

        if (strcmp(s->at[mid].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *found = low < s->count && strcmp(s->at[low].name, name) == 0;
    return low;
}

struct sim_node *
sim_names_find(const struct sim_names *s, const char *name)
{
    bool found;
    unsigned i = sim_names_place(s, name, &found);

    return found ? s->at[i].node : NULL;
}

void
sim_names_set(struct sim_names *s, const char *name, struct sim_node *node)
{
    bool found;
    unsigned i = sim_names_place(s, name, &found);

    sim_node_ref(node);
    if (found) {
        sim_node_drop(&s->at[i].node);
        s->at[i].node = node;
        return;
    }
    if (s->count == s->room) {
        s->room = s->room == 0 ? 8 : s->room * 2;
        s->at = xrealloc(s->at, s->room * sizeof *s->at);
    }
    memmove(&s->at[i + 1], &s->at[i], (s->count - i) * sizeof *s->at);
    s->at[i] = (struct sim_name){xstrdup(name), node};
    s->count++;
}

void
sim_names_clear(struct sim_names *s, const char *name, const struct sim_node *node)
{
    bool found;
    unsigned i = sim_names_place(s, name, &found);

    if (!found || s->at[i].node != node)
        return;
    free(s->at[i].name);
    sim_node_drop(&s->at[i].node);
    s->count--;
    memmove(&s->at[i], &s->at[i + 1], (s->count - i) * sizeof *s->at);
}

void
sim_names_fini(struct sim_names *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        free(s->at[i].name);
        sim_node_drop(&s->at[i].node);
    }
    free(s->at);
    *s = (struct sim_names){0};
}

void
sim_names_copy(struct sim_names *dst, const struct sim_names *src)
{
    struct sim_names old = *dst;

    *dst = (struct sim_names){0};
    for (unsigned i = 0; i < src->count; i++)
        sim_names_set(dst, src->at[i].name, src->at[i].node);
    sim_names_fini(&old);
}
