#include "object/keys.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "object/fetch.h"
#include "rt/loop.h"

unsigned
key_owner_loop(const struct map_bucket *b, struct span key)
{
    assert(b->id != 0);
    return (unsigned)(hash_xxh3(key.at, key.len, b->id) % rt_loop_count());
}

enum err
key_run_on_owner(unsigned owner, fiber_fn *fn, void *arg)
{
    assert(owner < rt_loop_count());
    if (rt_loop_index() != owner)
        return rt_call(owner, fn, arg);
    fn(arg);
    return ERR_OK;
}

enum err
key_run_on_owner_cancellable(unsigned owner, fiber_fn *fn, void *arg)
{
    assert(owner < rt_loop_count());
    if (rt_loop_index() != owner)
        return rt_call_cancellable(owner, fn, arg);
    fn(arg);
    return ERR_OK;
}

enum err
key_tables_start(struct object_service *s)
{
    assert(s->keys == NULL);
    s->keys = xcalloc(rt_loop_count(), sizeof(struct key_table *));
    for (unsigned i = 0; i < rt_loop_count(); i++) {
        s->keys[i] = xcalloc(1, sizeof *s->keys[i]);
        table_init(&s->keys[i]->slots, KEYS_BUSY_MAX);
        list_init(&s->keys[i]->fetches);
        rt_cond_init(&s->keys[i]->emptied);
    }
    return ERR_OK;
}

static void
key_table_end(void *arg)
{
    struct key_table *t = arg;

    assert(t->slots.count <= KEYS_BUSY_MAX);
    t->stopping = true;
    LIST_EACH(&t->fetches, at)
    {
        struct fetch *f = LIST_ENTRY(at, struct fetch, all);

        if (f->fiber != NULL)
            rt_cancel(f->fiber);
    }
}

/* Ends the fetches of a loop, and waits until no key is referenced. */
static void
key_table_stop(void *arg)
{
    struct key_table *t = arg;
    struct rt_shield shield;

    key_table_end(t);
    rt_shield_begin(&shield);
    while (t->slots.count > 0)
        if (rt_cond_wait(&t->emptied, DEADLINE_NEVER) != ERR_OK)
            break;
    rt_shield_end(&shield);
}

void
object_end_fetches(struct object_service *s)
{
    for (unsigned i = 0; i < rt_loop_count(); i++)
        while (key_run_on_owner(i, key_table_end, s->keys[i]) != ERR_OK)
            rt_yield(); /* no stack is free there: others are ending too */
}

void
key_tables_stop(struct object_service *s)
{
    for (unsigned i = 0; s->keys != NULL && i < rt_loop_count(); i++) {
        while (key_run_on_owner(i, key_table_stop, s->keys[i]) != ERR_OK)
            rt_yield(); /* no stack is free there: others are ending too */
        assert(s->keys[i]->slots.count == 0);
        table_fini(&s->keys[i]->slots);
        free(s->keys[i]);
    }
    free(s->keys);
    s->keys = NULL;
}

enum err
key_slot_get(struct object_service *s, uint64_t bucket, struct span key,
             struct key_slot **out, struct errbuf *eb)
{
    struct key_table *t = s->keys[rt_loop_index()];
    char name[8 + STORE_KEY_MAX];
    struct key_slot *slot;

    assert(bucket != 0);
    *out = NULL;
    assert(key.len <= STORE_KEY_MAX);
    for (unsigned i = 0; i < 8; i++)
        name[i] = (char)(bucket >> (8 * (7 - i)));
    memcpy(name + 8, key.at, key.len);
    slot = table_get(&t->slots, (struct span){name, 8 + key.len});
    if (slot == NULL) {
        slot = xcalloc(1, sizeof *slot);
        slot->name = xmemdup0(name, 8 + key.len);
        slot->name_len = 8 + key.len;
        slot->table = t;
        rt_cond_init(&slot->changed);
        if (!table_put(&t->slots, (struct span){slot->name, slot->name_len}, slot)) {
            free(slot->name);
            free(slot);
            return err_set(eb, ERR_BUSY, "over %u keys are being fetched or written",
                           KEYS_BUSY_MAX);
        }
    }
    assert(slot->table == t);
    slot->refs++;
    *out = slot;
    return ERR_OK;
}

void
key_slot_drop(struct key_slot **sp)
{
    struct key_slot *slot = *sp;

    *sp = NULL;
    if (slot == NULL || --slot->refs > 0)
        return;
    assert(slot->fetch == NULL);
    assert(!slot->writing);
    assert(!slot->asking);
    assert(slot->table->slots.count > 0);
    table_erase(&slot->table->slots, (struct span){slot->name, slot->name_len});
    if (slot->table->slots.count == 0)
        rt_cond_broadcast(&slot->table->emptied);
    free(slot->name);
    free(slot);
}
