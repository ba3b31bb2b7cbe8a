#include "disks/report.h"

#include "base/mem.h"

const char *
disks_health_name(const struct disks_one *d)
{
    return store_state_name(d->health.state);
}

bool
disks_is_healthy(const struct disks_one *d)
{
    return d->health.state == STORE_OK;
}

const char *
disks_index_name(const struct disks_one *d)
{
    static const char *const names[] = {
        [STORE_INDEX_UNPROVEN] = "unproven",
        [STORE_INDEX_PROVEN] = "proven",
        [STORE_INDEX_DAMAGED] = "damaged",
    };

    return names[d->stat.index];
}

void
disks_sum(struct disks *ds, struct disks_sum *out)
{
    disks_stat(ds, &out->of);
}

struct each {
    void (*fn)(void *arg, const char *path, const struct scrub_status *s);
    void *arg;
    struct errbuf *eb;
    enum err rc;
};

static void
report_scrub(void *arg, unsigned slot, struct store *d)
{
    struct each *e = arg;
    struct scrub_status s;
    struct arena *a;

    (void)slot;
    if (e->rc != ERR_OK)
        return;
    a = arena_new(KIB(4), MIB(1));
    e->rc = store_scrub_status(d, a, &s, e->eb);
    if (e->rc == ERR_OK)
        e->fn(e->arg, store_path(d), &s);
    arena_free(&a);
}

enum err
disks_scrub_each(struct disks *ds,
                 void (*fn)(void *arg, const char *path, const struct scrub_status *s),
                 void *arg, struct errbuf *eb)
{
    struct each e = {.fn = fn, .arg = arg, .eb = eb, .rc = ERR_OK};

    disks_each(ds, report_scrub, &e);
    return e.rc;
}

static void
start_scrub(void *arg, unsigned slot, struct store *d)
{
    struct each *e = arg;
    enum err rc = store_scrub_start(d, e->eb);

    (void)slot;
    if (rc != ERR_OK)
        e->rc = rc;
}

enum err
disks_scrub_start(struct disks *ds, struct errbuf *eb)
{
    struct each e = {.eb = eb, .rc = ERR_OK};

    disks_each(ds, start_scrub, &e);
    return e.rc;
}
