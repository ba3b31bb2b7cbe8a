#include "store/recover/lost_keys.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/core/core.h"
#include "store/index/run.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/wal/flush.h"

#define LOST_BATCHES_MAX 4096u /* more: the whole disk is in doubt */

struct lost_batch {
    uint64_t
        *found; /* owned: hashes of the records that were read; 0 once it is matched */
    uint32_t found_count, found_room;
    char *keys; /* owned: its list; NULL: not known */
    size_t keys_len;
};
struct lost_keys {
    bool open;
    uint64_t first;
    struct lost_batch *at; /* owned */
    uint32_t count;
    bool too_many;
};

struct lost_keys *
lost_keys_new(void)
{
    return xcalloc(1, sizeof(struct lost_keys));
}

static void
lost_keys_clear(struct lost_keys *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        free(l->at[i].found);
        free(l->at[i].keys);
    }
    free(l->at);
    *l = (struct lost_keys){0};
}

void
lost_keys_free(struct lost_keys **lp)
{
    struct lost_keys *l = *lp;

    *lp = NULL;
    if (l == NULL)
        return;
    lost_keys_clear(l);
    free(l);
}

void
lost_keys_cancel(struct lost_keys *l)
{
    lost_keys_clear(l);
}

bool
lost_keys_is_open(const struct lost_keys *l)
{
    return l->open;
}

void
lost_keys_begin(struct lost_keys *l, uint64_t first, uint64_t below)
{
    uint64_t count;

    assert(first < below);
    if (!l->open)
        l->first = first;
    assert(first >= l->first);
    l->open = true;
    count = below - l->first;
    if (count > LOST_BATCHES_MAX) {
        l->too_many = true;
        return;
    }
    if (count <= l->count)
        return;
    l->at = xrealloc(l->at, count * sizeof *l->at);
    memset(l->at + l->count, 0, (count - l->count) * sizeof *l->at);
    l->count = (uint32_t)count;
}

static struct lost_batch *
lost_batch_of(struct lost_keys *l, uint64_t batch)
{
    return batch >= l->first && batch - l->first < l->count ? &l->at[batch - l->first]
                                                            : NULL;
}

void
lost_keys_list(struct lost_keys *l, uint64_t batch, struct span keys)
{
    struct lost_batch *b = lost_batch_of(l, batch);

    assert(keys.len % SUSPECT_ENTRY_BYTES == 0);
    if (b == NULL || b->keys != NULL)
        return;
    b->keys = xmemdup0(keys.at, keys.len);
    b->keys_len = keys.len;
}

void
lost_keys_saw(struct lost_keys *l, const struct log_record *m)
{
    struct lost_batch *b = lost_batch_of(l, m->batch);
    uint64_t hash;
    uint32_t bucket;

    if (m->kind == LOG_RECORD_KEYS) {
        lost_keys_list(l, m->batch, m->keys);
        /* The first batch of a start may not know the one before. */
        if (m->batch > 0 && m->keys_before.len > 0)
            lost_keys_list(l, m->batch - 1, m->keys_before);
        return;
    }
    if (b == NULL || !suspect_of(m, run_key_hash(m->bucket, m->key), &hash, &bucket))
        return;
    if (b->found_count == b->found_room) {
        b->found_room = b->found_room == 0 ? 16 : 2 * b->found_room;
        b->found = xrealloc(b->found, b->found_room * sizeof *b->found);
    }
    b->found[b->found_count++] = hash;
}

/* Each record explains one change. */
static bool
take_found(struct lost_batch *b, uint64_t hash)
{
    for (uint32_t i = 0; i < b->found_count; i++) {
        if (b->found[i] != hash)
            continue;
        b->found[i] = b->found[--b->found_count];
        return true;
    }
    return false;
}

static uint32_t
compare_batch(struct lost_batch *b, uint64_t batch, struct suspects *s)
{
    uint32_t lost = 0;

    for (size_t at = 0; at < b->keys_len; at += SUSPECT_ENTRY_BYTES) {
        uint64_t hash;
        uint32_t bucket;

        suspect_get(b->keys + at, &hash, &bucket);
        if (take_found(b, hash))
            continue;
        suspects_add(s, hash, bucket, batch);
        lost++;
    }
    return lost;
}

enum err
lost_keys_end(struct lost_keys *l, struct store *d, const struct version *bound,
              struct errbuf *eb)
{
    struct suspects *s = d->suspects;
    uint64_t last = l->first + MAX(l->count, 1u) - 1;
    uint32_t lost = 0, unlisted = l->too_many && !suspects_knows(s, l->first);

    assert(on_owner(d));
    if (!l->open)
        return ERR_OK;
    for (uint32_t i = 0; i < l->count; i++) {
        if (suspects_knows(s, l->first + i))
            continue;
        if (l->at[i].keys != NULL)
            lost += compare_batch(&l->at[i], l->first + i, s);
        else
            unlisted++;
    }
    if (unlisted > 0)
        suspects_bound_all(s, bound);
    if (!suspects_knows(s, l->first) || !suspects_knows(s, last))
        suspects_know(s, l->first, last);
    if (!d->read_only && (lost > 0 || unlisted > 0))
        LOG(LOG_ERROR, "store.changes_lost",
            unlisted > 0
                ? "acknowledged changes are lost, of keys that are not known: what may "
                  "be "
                  "older is an error until forebay disk check --repair accepts the loss"
                : "acknowledged changes are lost: their keys are errors until they are "
                  "written "
                  "again, or forebay disk check --repair accepts the loss",
            L_TEXT("disk", rt_dir_path(d->root)), L_U64("batch", l->first),
            L_U64("last", last), L_U64("changes", lost));
    lost_keys_clear(l);
    return d->read_only ? ERR_OK : suspects_persist(d, eb);
}
