#include "base/table.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "base/hash.h"
#include "base/mem.h"

enum { ROOM_FIRST = 16 };

/* The kernel hands sixteen random bytes to every process. */
static uint64_t
table_seed(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t v = 0;

    if (random != NULL)
        memcpy(&v, random, sizeof v);
    return v;
}

static struct table_slot
table_slot_of(struct span key)
{
    return (struct table_slot){
        .hash = hash_xxh3(key.at, key.len, table_seed()),
        .key = key.at != NULL ? key.at : "",
        .len = key.len,
    };
}

static struct table_slot
slot_of_u64(uint64_t key)
{
    return (struct table_slot){.hash = hash_xxh3(&key, sizeof key, table_seed()),
                               .len = key};
}

static bool
same_key(const struct table_slot *a, const struct table_slot *b)
{
    if (a->hash != b->hash || a->len != b->len)
        return false;
    if (a->key == NULL || b->key == NULL)
        return a->key == b->key;
    return memcmp(a->key, b->key, a->len) == 0;
}

/* Where the key is, or the free slot where it would be. */
static size_t
table_find(const struct table *m, const struct table_slot *key)
{
    size_t mask = m->room - 1;
    size_t i = key->hash & mask;

    while (m->slots[i].value != NULL && !same_key(&m->slots[i], key))
        i = (i + 1) & mask;
    return i;
}

/* At most three quarters are used, so that a search for what is not there ends soon. */
static void
table_grow(struct table *m)
{
    struct table old = *m;

    m->room = MAX(old.room * 2, ROOM_FIRST);
    m->slots = xcalloc(m->room, sizeof *m->slots);
    TABLE_EACH(&old, s)
    {
        m->slots[table_find(m, s)] = *s;
    }
    free(old.slots);
}

static void *
table_lookup(const struct table *m, struct table_slot key)
{
    return m->room > 0 ? m->slots[table_find(m, &key)].value : NULL;
}

static bool
table_insert(struct table *m, struct table_slot key, void *value)
{
    size_t i;

    assert(value != NULL);
    key.value = value;
    if (m->room > 0) {
        i = table_find(m, &key);
        if (m->slots[i].value != NULL) {
            m->slots[i] = key;
            return true;
        }
    }
    if (m->count == m->limit)
        return false;
    if ((m->count + 1) * 4 > m->room * 3)
        table_grow(m);
    m->slots[table_find(m, &key)] = key;
    m->count++;
    return true;
}

/* Closes the hole by moving back what was pushed beyond it: no tombstones, so the table
 * never wears out. */
static void
table_shift_back(struct table *m, size_t hole)
{
    size_t mask = m->room - 1;

    for (size_t i = (hole + 1) & mask; m->slots[i].value != NULL; i = (i + 1) & mask) {
        size_t first_slot = m->slots[i].hash & mask;

        if (((i - first_slot) & mask) < ((i - hole) & mask))
            continue; /* its first_slot lies behind the hole: it is well where it is */
        m->slots[hole] = m->slots[i];
        hole = i;
    }
    m->slots[hole] = (struct table_slot){0};
}

static void *
table_remove_at(struct table *m, struct table_slot key)
{
    void *value;
    size_t i;

    if (m->room == 0)
        return NULL;
    i = table_find(m, &key);
    value = m->slots[i].value;
    if (value != NULL) {
        table_shift_back(m, i);
        m->count--;
    }
    return value;
}

void
table_init(struct table *m, size_t limit)
{
    *m = (struct table){.limit = limit};
}

void
table_fini(struct table *m)
{
    free(m->slots);
    *m = (struct table){.limit = m->limit};
}

void *
table_get(const struct table *m, struct span key)
{
    return table_lookup(m, table_slot_of(key));
}

bool
table_put(struct table *m, struct span key, void *value)
{
    return table_insert(m, table_slot_of(key), value);
}

void *
table_erase(struct table *m, struct span key)
{
    return table_remove_at(m, table_slot_of(key));
}

void *
table_get_u64(const struct table *m, uint64_t key)
{
    return table_lookup(m, slot_of_u64(key));
}

bool
table_put_u64(struct table *m, uint64_t key, void *value)
{
    return table_insert(m, slot_of_u64(key), value);
}

void *
table_erase_u64(struct table *m, uint64_t key)
{
    return table_remove_at(m, slot_of_u64(key));
}
