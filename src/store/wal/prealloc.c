#include "store/wal/prealloc.h"

#include <stdlib.h>

#include "base/log.h"
#include "store/core/core.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_entry.h"

struct prealloc {
    struct store *disk;
    struct rt_cond wake;
    struct rt_daemon daemon;
    uint32_t made_for; /* the log of the last attempt; one attempt per log */
    bool wanted, stop;
};

void
prealloc_wal_grew(struct store *d, const struct segment *log)
{
    struct prealloc *a = d->prealloc;

    if (a == NULL || a->made_for == log->id || log->owner.used < log->owner.size / 4)
        return;
    a->made_for = log->id;
    a->wanted = true;
    rt_cond_signal(&a->wake);
}

static void
prealloc_make_spare(struct prealloc *a)
{
    struct store *d = a->disk;
    struct errbuf eb = {0};
    enum err rc;

    if (d->segments->spare[STORE_NATIVE] != NULL || space_is_tight(d->space))
        return;
    rc = segment_make_spare(d, STORE_NATIVE, &a->stop, &eb);
    if (rc != ERR_OK && rc != ERR_CANCELLED)
        LOG(LOG_INFO, "store.wal_prealloc_failed",
            "the next log is made when it is needed",
            L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
}

static void
prealloc_run(void *arg)
{
    struct prealloc *a = arg;
    enum err rc = ERR_OK;

    rt_doing("wal prealloc");
    while (!a->stop && rc == ERR_OK) {
        if (a->wanted) {
            struct rt_shield shield;

            a->wanted = false;
            rt_shield_begin(&shield);
            prealloc_make_spare(a);
            rt_shield_end(&shield);
        } else {
            rc = rt_cond_wait(&a->wake, DEADLINE_NEVER);
        }
    }
    rt_daemon_over(&a->daemon);
}

enum err
prealloc_start(struct store *d, struct errbuf *eb)
{
    struct prealloc *a = xcalloc(1, sizeof *a);
    enum err rc;

    a->disk = d;
    rt_cond_init(&a->wake);
    d->prealloc = a;
    rc = rt_daemon_start(&a->daemon, prealloc_run, a);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber to make logs ahead");
    return ERR_OK;
}

void
prealloc_stop(struct store *d)
{
    struct prealloc *a = d->prealloc;

    if (a == NULL)
        return;
    a->stop = true;
    rt_cond_signal(&a->wake);
    rt_daemon_join(&a->daemon);
}

void
prealloc_free(struct prealloc **ap)
{
    free(*ap);
    *ap = NULL;
}
