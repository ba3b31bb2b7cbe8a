#include "disk/ahead.h"

#include <stdlib.h>

#include "base/log.h"
#include "disk/segment.h"
#include "disk/space.h"

struct ahead {
    struct disk *disk;
    struct rt_cond wake;
    struct rt_daemon daemon;
    uint32_t made_for; /* the log that asked last: one attempt each */
    bool wanted, stop;
};

void
ahead_log_grew(struct disk *d, const struct segment *log)
{
    struct ahead *a = d->ahead;

    if (a == NULL || a->made_for == log->id || log->home.used < log->home.size / 4)
        return;
    a->made_for = log->id;
    a->wanted = true;
    rt_cond_signal(&a->wake);
}

static void
make(struct ahead *a)
{
    struct disk *d = a->disk;
    struct errbuf eb = {0};
    enum err rc;

    if (d->home.spare[DISK_NATIVE] != NULL || space_is_tight(d->space))
        return;
    rc = segment_make_spare(d, DISK_NATIVE, &a->stop, &eb);
    if (rc != ERR_OK && rc != ERR_CANCELLED)
        LOG(LOG_INFO, "disk.no_log_ahead", "the next log is made when it is needed",
            L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
}

static void
ahead_run(void *arg)
{
    struct ahead *a = arg;
    enum err rc = ERR_OK;

    rt_doing("log ahead");
    while (!a->stop && rc == ERR_OK) {
        if (a->wanted) {
            struct rt_shield shield;

            a->wanted = false;
            rt_shield_begin(&shield);
            make(a);
            rt_shield_end(&shield);
        } else {
            rc = rt_cond_wait(&a->wake, DEADLINE_NEVER);
        }
    }
    rt_daemon_over(&a->daemon);
}

enum err
ahead_start(struct disk *d, struct errbuf *eb)
{
    struct ahead *a = xcalloc(1, sizeof *a);
    enum err rc;

    a->disk = d;
    rt_cond_init(&a->wake);
    d->ahead = a;
    rc = rt_daemon_start(&a->daemon, ahead_run, a);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber to make logs ahead");
    return ERR_OK;
}

void
ahead_stop(struct disk *d)
{
    struct ahead *a = d->ahead;

    if (a == NULL)
        return;
    a->stop = true;
    rt_cond_signal(&a->wake);
    rt_daemon_join(&a->daemon);
}

void
ahead_free(struct ahead **ap)
{
    free(*ap);
    *ap = NULL;
}
