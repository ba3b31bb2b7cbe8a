#include "base/table.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "base/hash.h"
#include "base/mem.h"

enum { ROOM_FIRST = 16 };

/* The kernel gives sixteen random bytes to every process. */
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

static bool
same_key(const struct table_slot *a, const struct table_slot *b)
{
    return a->hash == b->hash && a->len == b->len && memcmp(a->key, b->key, a->len) == 0;
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

/* Backward-shift deletion: moves entries back over the free slot. There are no tombstones, so the table never wears out. */
static void
table_shift_back(struct table *m, size_t free_slot)
{
    size_t mask = m->room - 1;

    for (size_t i = (free_slot + 1) & mask; m->slots[i].value != NULL;
         i = (i + 1) & mask) {
        size_t first_slot = m->slots[i].hash & mask;

        if (((i - first_slot) & mask) < ((i - free_slot) & mask))
            continue; /* a search for it does not cross the free slot */
        m->slots[free_slot] = m->slots[i];
        free_slot = i;
    }
    m->slots[free_slot] = (struct table_slot){0};
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
    struct table_slot k = table_slot_of(key);

    return m->room > 0 ? m->slots[table_find(m, &k)].value : NULL;
}

bool
table_put(struct table *m, struct span key, void *value)
{
    struct table_slot k = table_slot_of(key);
    size_t i;

    assert(value != NULL);
    assert(m->count <= m->limit);
    k.value = value;
    if (m->room > 0) {
        i = table_find(m, &k);
        if (m->slots[i].value != NULL) {
            m->slots[i] = k;
            return true;
        }
    }
    if (m->count == m->limit)
        return false;
    if ((m->count + 1) * 4 > m->room * 3)
        table_grow(m);
    m->slots[table_find(m, &k)] = k;
    m->count++;
    assert(m->count < m->room); /* a search ends at a free slot */
    return true;
}

void *
table_erase(struct table *m, struct span key)
{
    struct table_slot k = table_slot_of(key);
    void *value;
    size_t i;

    if (m->room == 0)
        return NULL;
    i = table_find(m, &k);
    value = m->slots[i].value;
    if (value != NULL) {
        assert(m->count > 0);
        table_shift_back(m, i);
        m->count--;
    }
    return value;
}
