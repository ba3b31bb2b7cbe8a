#include "rt/sim_trouble.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rt/sim_engine.h"

struct sim_mount {
    struct list link;
    char *name;            /* owned; without the "/" */
    struct sim_node *node; /* borrowed: a mount point is never removed */
    struct sim_trouble trouble;
};

struct sim_mount *
sim_mount_of(struct sim *s, const char *path)
{
    struct sim_mount *m;
    size_t len;

    path += strspn(path, "/");
    len = strcspn(path, "/");
    LIST_EACH(&s->mounts, n)
    {
        m = LIST_ENTRY(n, struct sim_mount, link);
        if (strlen(m->name) == len && memcmp(m->name, path, len) == 0)
            return m;
    }
    if (len == 0)
        return NULL;
    m = xcalloc(1, sizeof *m);
    m->name = xasprintf("%.*s", (int)len, path);
    m->node = sim_disk_mount(s->disk, m->name);
    list_push_back(&s->mounts, &m->link);
    return m;
}

void
sim_mounts_free(struct sim *s)
{
    LIST_EACH(&s->mounts, n)
    {
        struct sim_mount *m = LIST_ENTRY(n, struct sim_mount, link);

        list_remove(n);
        free(m->name);
        free(m);
    }
}

uint64_t
sim_mount_device(const struct sim_mount *m)
{
    return m != NULL ? sim_node_id(m->node) : 1;
}

static unsigned
odds_of(const struct sim_trouble *t, enum sim_io deed)
{
    switch (deed) {
    case SIM_READS:
        return t->read_errors;
    case SIM_WRITES:
        return t->write_errors;
    case SIM_SYNCS:
        return t->sync_errors;
    }
    abort();
}

bool
sim_mount_fails(const struct sim_mount *m, enum sim_io deed)
{
    unsigned odds;

    if (m == NULL)
        return false;
    if (m->trouble.gone)
        return true;
    odds = odds_of(&m->trouble, deed);
    return odds > 0 && sim_rng_next(&sim_world->shared->rng) % 10000 < odds;
}

bool
sim_mount_lies(const struct sim_mount *m)
{
    return m != NULL && m->trouble.lies;
}

uint64_t
sim_mount_slow_ns(const struct sim_mount *m)
{
    return m != NULL ? m->trouble.slow_us * UINT64_C(1000) : 0;
}

void
sim_trouble(struct sim *s, const char *mount, const struct sim_trouble *t)
{
    struct sim_mount *m = sim_mount_of(s, mount);

    assert(m != NULL);
    m->trouble = *t;
    sim_node_fill(m->node, t->full);
}

void
sim_jump_clock(struct sim *s, int64_t ms)
{
    s->wall_base_ns += (uint64_t)ms * UINT64_C(1000000);
}
