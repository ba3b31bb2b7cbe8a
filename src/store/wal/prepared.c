/* The table of prepared versions, and the calls of store_replica.h that prepare, commit and
 * abort a version. */

#include "store/wal/prepared.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "store/core/core.h"
#include "store/index/list.h"
#include "store/record/format.h"
#include "store/store_entry.h"
#include "store/store_upload.h"
#include "store/wal/commit.h"

#define CHAINS 4096u /* per look-up way; a power of two */
static_assert((CHAINS & (CHAINS - 1)) == 0, "a hash is cut to a chain");

enum way { BY_CONTENT, BY_KEY, BY_UPLOAD, WAYS_ };

struct prepared_item {
    struct content_id content;
    struct upload_id upload;
    uint64_t hash[WAYS_];
    struct prepared_item *next[WAYS_];
};

struct prepared {
    /* Owner loop. The BY_CONTENT chains own the items. */
    struct prepared_item *chain[WAYS_][CHAINS];

    /* Read by any loop: for most look-ups these show that their key has no prepared version. */
    _Atomic uint32_t count;
    _Atomic uint32_t keys_in[CHAINS];
};

static uint64_t
id_hash(const struct content_id *id)
{
    return hash_xxh3(id->bytes, sizeof id->bytes, 0);
}

static uint64_t
prepared_key_hash(uint64_t bucket, struct span key)
{
    return hash_xxh3(key.at, key.len, bucket);
}

struct prepared *
prepared_new(void)
{
    return xcalloc(1, sizeof(struct prepared));
}

void
prepared_free(struct prepared **pp)
{
    struct prepared *p = *pp;

    *pp = NULL;
    for (uint32_t i = 0; p != NULL && i < CHAINS; i++) {
        struct prepared_item *u = p->chain[BY_CONTENT][i], *next;

        for (; u != NULL; u = next) {
            next = u->next[BY_CONTENT];
            free(u);
        }
    }
    free(p);
}

static struct prepared_item **
prepared_head_of(struct prepared *p, enum way way, uint64_t hash)
{
    return &p->chain[way][hash % CHAINS];
}

static struct prepared_item *
prepared_find(const struct prepared *p, const struct content_id *content)
{
    struct prepared_item *u = p->chain[BY_CONTENT][id_hash(content) % CHAINS];

    while (u != NULL && !content_eq(&u->content, content))
        u = u->next[BY_CONTENT];
    return u;
}

void
prepared_add(struct prepared *p, const struct prepared_who *who)
{
    static const struct content_id none;
    struct prepared_item *u;

    assert(atomic_load_explicit(&p->count, memory_order_relaxed) < UINT32_MAX);
    if (prepared_find(p, &who->content) != NULL)
        return;
    u = xcalloc(1, sizeof *u);
    u->content = who->content;
    u->upload = who->upload;
    u->hash[BY_CONTENT] = id_hash(&who->content);
    u->hash[BY_KEY] = prepared_key_hash(who->bucket, who->key);
    /* Items without an upload are spread over the chains; no look-up by upload needs them. */
    u->hash[BY_UPLOAD] = content_eq(&who->upload.id, &none) ? u->hash[BY_CONTENT]
                                                            : id_hash(&who->upload.id);
    for (unsigned way = 0; way < WAYS_; way++) {
        struct prepared_item **head = prepared_head_of(p, (enum way)way, u->hash[way]);

        u->next[way] = *head;
        *head = u;
    }
    atomic_fetch_add(&p->keys_in[u->hash[BY_KEY] % CHAINS], 1);
    atomic_fetch_add(&p->count, 1);
}

void
prepared_drop(struct prepared *p, const struct content_id *content)
{
    struct prepared_item *u = prepared_find(p, content);

    if (u == NULL)
        return;
    for (unsigned way = 0; way < WAYS_; way++) {
        struct prepared_item **at = prepared_head_of(p, (enum way)way, u->hash[way]);

        assert(*at != NULL); /* every item is in every chain */
        while (*at != u)
            at = &(*at)->next[way];
        *at = u->next[way];
    }
    assert(atomic_load(&p->keys_in[u->hash[BY_KEY] % CHAINS]) > 0);
    assert(prepared_count(p) > 0);
    atomic_fetch_sub(&p->keys_in[u->hash[BY_KEY] % CHAINS], 1);
    atomic_fetch_sub(&p->count, 1);
    free(u);
}

bool
prepared_has(const struct prepared *p, const struct content_id *content)
{
    return prepared_find(p, content) != NULL;
}

bool
prepared_has_upload(const struct prepared *p, const struct upload_id *id)
{
    const struct prepared_item *u = p->chain[BY_UPLOAD][id_hash(&id->id) % CHAINS];

    while (u != NULL && !content_eq(&u->upload.id, &id->id))
        u = u->next[BY_UPLOAD];
    return u != NULL;
}

uint32_t
prepared_count(const struct prepared *p)
{
    return atomic_load_explicit(&p->count, memory_order_relaxed);
}

struct ask {
    struct prepared *prepared;
    uint64_t hash;
    bool found;
};

static void
prepared_ask_on_owner(void *arg)
{
    struct ask *a = arg;
    const struct prepared_item *u = a->prepared->chain[BY_KEY][a->hash % CHAINS];

    /* A key with the same 64-bit hash is harmless: resolving it with its owner finds nothing to
     * do. */
    while (u != NULL && u->hash[BY_KEY] != a->hash)
        u = u->next[BY_KEY];
    a->found = u != NULL;
}

enum err
prepared_mark(struct store *d, const struct store_key *k, enum err found,
              struct entry *entry, struct errbuf *eb)
{
    struct ask a = {.prepared = d->prepared,
                    .hash = prepared_key_hash(k->bucket, k->key)};
    enum err rc;

    if (found != ERR_OK && found != ERR_NOT_FOUND)
        return found;
    if (found == ERR_NOT_FOUND)
        *entry = (struct entry){0};
    if (atomic_load_explicit(&a.prepared->keys_in[a.hash % CHAINS],
                             memory_order_acquire) == 0)
        return found;
    rc = on_owner_loop(d, prepared_ask_on_owner, &a);
    if (rc != ERR_OK)
        return err_set(eb, rc, "stopped asking for prepared versions");
    if (a.found)
        entry->flags |= ENTRY_PREPARED;
    return found;
}

enum err
prepared_load(struct store *d, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    struct content_id after;
    bool more = true, first = true;
    enum err rc = ERR_OK;

    assert(prepared_count(d->prepared) == 0);
    assert(on_owner(d));
    while (rc == ERR_OK && more) {
        struct store_prepared *page;
        uint32_t count;

        arena_reset(a);
        rc = list_prepared(d->memtable, d->index, first ? NULL : &after, 1000, a, &page,
                           &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
            prepared_add(d->prepared, &(struct prepared_who){.content = page[i].content,
                                                             .bucket = page[i].bucket,
                                                             .key = page[i].key,
                                                             .upload = page[i].upload});
        if (rc == ERR_OK && count > 0)
            after = page[count - 1].content;
        first = false;
    }
    arena_free(&a);
    return rc;
}
