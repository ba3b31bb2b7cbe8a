#include "meta/follow.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "meta/backend.h"
#include "rt/loop.h"
#include "rt/sync.h"
#include "rt/time.h"

#define RETRY_MS 1000u

struct meta_follower {
    struct meta *meta;
    struct span prefix; /* a literal of the caller */
    meta_refresh_fn *refresh;
    void *arg;
    struct meta_watch *watch; /* owned */
    struct rt_group group;    /* one fiber */
    struct rt_cond wake, refreshed;
    bool changed; /* since the latest refresh began */
    bool stopping;
    uint64_t published; /* revision of the snapshot; only grows */
    uint64_t rounds;    /* refreshes that have ended */
    enum err rc;        /* of the latest one */
    struct errbuf why;  /* of its error */
};

static void
on_follow_change(void *arg)
{
    struct meta_follower *f = arg;

    f->changed = true;
    rt_cond_signal(&f->wake);
}

static void
refresh_once(struct meta_follower *f)
{
    const struct meta_adoption *a = &f->meta->adoption;
    uint64_t revision = 0;

    f->changed = false;
    f->rc = a->before != NULL ? a->before(a->arg, &f->why) : ERR_OK;
    if (f->rc == ERR_OK)
        f->rc = f->refresh(f->arg, &revision, &f->why);
    assert(f->rc != ERR_OK || revision >= f->published);
    if (f->rc == ERR_OK)
        f->published = revision;
    else
        f->changed = true; /* still to be read */
    f->rounds++;
    if (f->rc == ERR_OK && a->published != NULL)
        a->published(a->arg, f->prefix, f->published);
    rt_cond_broadcast(&f->refreshed);
}

static void
follow_run(void *arg)
{
    struct meta_follower *f = arg;

    while (!f->stopping) {
        enum err rc = ERR_OK;

        if (!f->changed) {
            rc = rt_cond_wait(&f->wake, DEADLINE_NEVER);
        } else {
            refresh_once(f);
            if (f->rc != ERR_OK && !f->stopping) {
                LOG(LOG_WARN, "meta.follow", f->why.text,
                    L_U64("revision", f->published));
                rc = rt_cond_wait(&f->wake, deadline_in_ms(RETRY_MS));
            }
        }
        if (rc == ERR_CANCELLED)
            break;
    }
    f->stopping = true; /* no refresh follows: waiting calls return */
    rt_cond_broadcast(&f->refreshed);
}

enum err
meta_follow_start(struct meta *m, struct span prefix, meta_refresh_fn *refresh, void *arg,
                  struct meta_follower **out, struct errbuf *eb)
{
    struct meta_follower *f = xcalloc(1, sizeof *f);
    enum err rc;

    assert(rt_loop_index() == 0);
    *out = NULL;
    f->meta = m;
    f->prefix = prefix;
    f->refresh = refresh;
    f->arg = arg;
    rt_cond_init(&f->wake);
    rt_cond_init(&f->refreshed);
    rt_group_begin(&f->group);
    rc = meta_watch_start(m, prefix, on_follow_change, f, &f->watch, eb);
    if (rc == ERR_OK) { /* after the watch: no change falls in between */
        refresh_once(f);
        rc = f->rc;
        if (rc != ERR_OK && eb != NULL)
            *eb = f->why;
    }
    if (rc == ERR_OK && rt_group_start(&f->group, follow_run, f) != ERR_OK)
        rc = err_set(eb, ERR_BUSY, "no fiber to follow the node's state");
    if (rc != ERR_OK) {
        meta_follow_stop(&f);
        return rc;
    }
    *out = f;
    return ERR_OK;
}

/* Waits for the end of a refresh that begins from here on, or for `revision`. */
static enum err
wait_round(struct meta_follower *f, uint64_t revision, struct errbuf *eb)
{
    uint64_t rounds = f->rounds;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && f->published < revision && f->rounds == rounds)
        rc = f->stopping ? ERR_CANCELLED : rt_cond_wait(&f->refreshed, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "the change is made, and was not published yet");
    if (f->published >= revision || f->rc == ERR_OK)
        return ERR_OK;
    if (eb != NULL)
        *eb = f->why;
    return f->rc;
}

enum err
meta_follow_wait(struct meta_follower *f, uint64_t revision, struct errbuf *eb)
{
    const struct meta_adoption *a = &f->meta->adoption;
    enum err rc = ERR_OK;

    assert(rt_loop_index() == 0);

    while (rc == ERR_OK && f->published < revision)
        rc = wait_round(f, revision, eb);
    return rc == ERR_OK && a->wait != NULL ? a->wait(a->arg, f->prefix, revision, eb)
                                           : rc;
}

void
meta_adoption_set(struct meta *m, const struct meta_adoption *a)
{
    m->adoption = *a;
}

enum err
meta_follow_refresh(struct meta_follower *f, struct errbuf *eb)
{
    assert(rt_loop_index() == 0);

    on_follow_change(f);
    return wait_round(f, UINT64_MAX, eb);
}

void
meta_follow_stop(struct meta_follower **fp)
{
    struct meta_follower *f = *fp;

    *fp = NULL;
    if (f == NULL)
        return;
    meta_watch_stop(&f->watch);
    f->stopping = true;
    rt_group_cancel(&f->group);
    rt_group_join(&f->group);
    free(f);
}
