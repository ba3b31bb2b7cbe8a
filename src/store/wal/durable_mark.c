#include "store/wal/durable_mark.h"

#include "base/log.h"
#include "store/core/core.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

enum err
truncated_persist(struct store *d, struct errbuf *eb)
{
    enum err rc = rt_sem_acquire(&d->wals->truncated_turn, DEADLINE_NEVER);

    if (rc != ERR_OK)
        return err_set(eb, rc, "the list of retired logs was not written: %s",
                       err_name(rc));
    rc = truncated_save(d->state, &d->wals->truncated, eb);
    if (rc == ERR_NO_SPACE) {
        space_ran_out(d->space, "the list of retired logs does not fit");
        if (space_give_ballast(d->space)) /* it makes room */
            rc = truncated_save(d->state, &d->wals->truncated, eb);
    }
    rt_sem_release(&d->wals->truncated_turn);
    return rc;
}

void
durable_mark_persist(struct store *d, bool closing)
{
    struct truncated *r = &d->wals->truncated;
    uint64_t before = r->durable_mark, mark = d->wals->of[STORE_CACHED].durable_mark,
             now = rt_now_ns();
    struct errbuf eb = {0};

    if (mark <= before || (!closing && now < d->wals->durable_mark_due_ns))
        return;
    d->wals->durable_mark_due_ns = now + d->o.durable_mark_interval_ms * 1000000;
    r->durable_mark = mark;
    if (truncated_persist(d, &eb) == ERR_OK)
        return;
    r->durable_mark = before; /* another time */
    LOG(LOG_WARN, "store.durable_mark_not_saved",
        "damage in the last groups of the cached log would not be noticed",
        L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
}
