#include "disk/promised.h"

#include "base/log.h"
#include "disk/space.h"

enum err
retired_keep(struct disk *d, struct errbuf *eb)
{
    enum err rc = rt_sem_take(&d->home.retired_turn, DEADLINE_NEVER);

    if (rc != ERR_OK)
        return err_set(eb, rc, "the list of retired logs was not written: %s",
                       err_name(rc));
    rc = retired_save(d->state, &d->home.retired, eb);
    if (rc == ERR_NO_SPACE) {
        space_ran_out(d->space, "the list of retired logs does not fit");
        if (space_give_ballast(d->space)) /* it makes room */
            rc = retired_save(d->state, &d->home.retired, eb);
    }
    rt_sem_give(&d->home.retired_turn);
    return rc;
}

void
promised_keep(struct disk *d, bool closing)
{
    struct retired *r = &d->home.retired;
    uint64_t before = r->promised, promised = d->home.log[DISK_CACHED].promised,
             now = rt_now_ns();
    struct errbuf eb = {0};

    if (promised <= before || (!closing && now < d->home.promise_due_ns))
        return;
    d->home.promise_due_ns = now + d->o.promise_interval_ms * 1000000;
    r->promised = promised;
    if (retired_keep(d, &eb) == ERR_OK)
        return;
    r->promised = before; /* another time */
    LOG(LOG_WARN, "disk.promise_not_kept",
        "damage in the last groups of the cached log would not be noticed",
        L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
}
