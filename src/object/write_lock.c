/* write_lock: writes to cached buckets, one at a time for each key. */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "object/fetch.h"
#include "rt/loop.h"

struct write_lock {
    struct object_service *s;
    const struct map_bucket *bucket; /* borrowed */
    struct span key;
    unsigned owner;
    struct key_slot *slot; /* one reference, used on `owner` only */
    enum err rc;
    struct errbuf *eb;
};

/* Is a fetch being committed? It no longer looks at `obsolete`, and its commit must not follow the in-doubt record
 * of this write. */
static bool
is_being_kept(const struct key_slot *slot)
{
    const struct fetch *f = slot->fetch;

    return f != NULL && f->sealed &&
           (f->state == FETCH_STREAMING || f->state == FETCH_STARTING);
}

static void
begin_on_owner(void *arg)
{
    struct write_lock *t = arg;

    assert(rt_loop_index() == t->owner);
    assert(t->slot == NULL);
    t->rc = key_slot_get(t->s, t->bucket->id, t->key, &t->slot, t->eb);
    if (t->rc != ERR_OK)
        return;
    while (t->rc == ERR_OK && (t->slot->writing || is_being_kept(t->slot)))
        t->rc = rt_cond_wait(&t->slot->changed, DEADLINE_NEVER);
    if (t->rc != ERR_OK) {
        err_set(t->eb, t->rc, "waiting for another write of the same key was given up");
        key_slot_drop(&t->slot);
        return;
    }
    assert(!t->slot->writing);
    assert(t->slot->refs > 0);
    t->slot->writing = true;
    if (t->slot->fetch != NULL)
        t->slot->fetch->obsolete =
            true; /* its readers began before this write: they may finish */
}

enum err
write_lock_begin(struct object_service *s, const struct map_bucket *b, struct span key,
                 struct write_lock **out, struct errbuf *eb)
{
    struct write_lock *t = xcalloc(1, sizeof *t);
    enum err rc;

    *out = NULL;
    *t = (struct write_lock){
        .s = s, .bucket = b, .key = key, .owner = key_owner_loop(b, key), .eb = eb};
    rc = key_run_on_owner(t->owner, begin_on_owner, t);
    if (rc != ERR_OK)
        err_set(eb, rc, "no fiber is free for the write");
    else
        rc = t->rc;
    if (rc != ERR_OK) {
        free(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

struct end_msg {
    struct rt_msg msg;
    struct key_slot *slot;
};

static void
on_end(struct rt_msg *msg)
{
    struct end_msg *m = CONTAINER_OF(msg, struct end_msg, msg);

    assert(m->slot->writing);
    assert(m->slot->refs > 0);
    m->slot->writing = false;
    rt_cond_broadcast(&m->slot->changed);
    key_slot_drop(&m->slot);
    free(m);
}

void
write_lock_end(struct write_lock **tp)
{
    struct write_lock *t = *tp;
    struct end_msg *m;

    *tp = NULL;
    if (t == NULL)
        return;
    m = xcalloc(1, sizeof *m);
    assert(t->slot != NULL);
    m->slot = t->slot;
    m->msg.fn = on_end;
    rt_post(t->owner, &m->msg); /* cannot fail and does not wait, on any loop */
    free(t);
}
