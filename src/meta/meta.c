#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "meta/backend.h"
#include "rt/fiber.h"

#define LIST_TRIES 8u /* while keys change between two pages of a list */

void
meta_close(struct meta **mp)
{
    struct meta *m = *mp;

    *mp = NULL;
    if (m == NULL)
        return;
    for (unsigned i = 0; i < META_WATCHES_MAX; i++) {
        struct meta_watch *w = &m->watches[i];

        assert(!atomic_load(&w->active));
        while (atomic_load(&w->posted))
            rt_yield();
        free(w->prefix);
    }
    m->ops->close(m);
}

/* ---- reading ---- */

enum err
meta_page(struct meta *m, const struct meta_range *r, struct arena *a,
          struct meta_page *out, struct errbuf *eb)
{
    struct meta_range range = *r;
    enum err rc;

    assert(r->after.len == 0 || span_starts(r->after, r->prefix));
    if (range.max == 0 || range.max > META_PAGE_MAX)
        range.max = META_PAGE_MAX;
    *out = (struct meta_page){0};
    rc = m->ops->page(m, &range, a, out, eb);
    if (rc != ERR_OK)
        return rc;
    assert(out->count <= range.max);
    assert(!out->more || out->count > 0);
    for (uint32_t i = 0; i < out->count; i++)
        assert(span_starts(out->pairs[i].key, r->prefix));
    return ERR_OK;
}

enum err
meta_get(struct meta *m, struct span key, struct arena *a, struct meta_pair *out,
         struct errbuf *eb)
{
    struct meta_result result;
    enum err rc = meta_apply_txn(m, &(struct meta_txn){.reads = &key, .read_count = 1}, a,
                                 &result, eb);

    if (rc != ERR_OK)
        return rc;
    if (result.reads[0].revision == 0)
        return err_set(eb, ERR_NOT_FOUND, "no key \"%.*s\" in the node's state",
                       SPAN_ARG(key));
    *out = result.reads[0];
    return ERR_OK;
}

/* Adds a page to what was read so far. */
static enum err
list_add(struct arena *a, const struct meta_page *page, struct meta_pair **all,
         uint32_t *count, struct errbuf *eb)
{
    struct meta_pair *more;

    if (*count == 0) {
        *all = page->pairs;
        *count = page->count;
        return ERR_OK;
    }
    more = arena_try(a, (*count + page->count) * sizeof *more);
    if (more == NULL)
        return err_set(eb, ERR_TOO_LARGE,
                       "%u keys of the node's state are over the limit",
                       *count + page->count);
    memcpy(more, *all, *count * sizeof *more);
    memcpy(more + *count, page->pairs, page->count * sizeof *more);
    *all = more;
    *count += page->count;
    return ERR_OK;
}

/* ERR_BUSY: the revision of the first page is gone. */
static enum err
list_once(struct meta *m, struct span prefix, struct arena *a, struct meta_pair **out,
          uint32_t *count, uint64_t *revision, struct errbuf *eb)
{
    struct meta_range range = {.prefix = prefix};
    struct meta_page page;
    enum err rc;

    *out = NULL;
    *count = 0;
    do {
        rc = meta_page(m, &range, a, &page, eb);
        if (rc != ERR_OK)
            return rc;
        assert(range.revision == 0 || page.revision == range.revision);
        *revision = range.revision = page.revision;
        rc = list_add(a, &page, out, count, eb);
        if (rc == ERR_OK && page.more)
            range.after = page.pairs[page.count - 1].key;
    } while (rc == ERR_OK && page.more);
    return rc;
}

enum err
meta_list(struct meta *m, struct span prefix, struct arena *a, struct meta_pair **out,
          uint32_t *count, uint64_t *revision, struct errbuf *eb)
{
    enum err rc = ERR_BUSY;

    for (unsigned i = 0; i < LIST_TRIES && rc == ERR_BUSY; i++)
        rc = list_once(m, prefix, a, out, count, revision, eb);
    return rc;
}

/* ---- changing ---- */

static enum err
check_change(const struct meta_change *c, struct errbuf *eb)
{
    assert(c != NULL);

    if (c->key.len == 0 || c->key.len > META_KEY_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a key of %zu bytes, 1 to %u are possible",
                       c->key.len, META_KEY_MAX);
    if (c->value.len > META_VALUE_MAX)
        return err_set(eb, ERR_TOO_LARGE, "a value of %zu bytes, at most %u are possible",
                       c->value.len, META_VALUE_MAX);
    assert(!c->remove || c->value.len == 0);
    return ERR_OK;
}

static enum err
check_txn(const struct meta_txn *t, struct errbuf *eb)
{
    size_t bytes = 0;

    if (t->change_count > META_CHANGE_MAX || t->read_count > META_READ_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a change of %u keys, 1 to %u are possible",
                       MAX(t->change_count, t->read_count), META_CHANGE_MAX);
    for (uint32_t i = 0; i < t->change_count; i++) {
        enum err rc = check_change(&t->changes[i], eb);

        if (rc != ERR_OK)
            return rc;
        bytes += t->changes[i].key.len + t->changes[i].value.len;
    }
    for (uint32_t i = 0; i < t->read_count; i++)
        assert(t->reads[i].len > 0 && t->reads[i].len <= META_KEY_MAX);
    return bytes <= META_TXN_BYTES_MAX
               ? ERR_OK
               : err_set(eb, ERR_TOO_LARGE,
                         "a change of %zu bytes, at most %u are possible", bytes,
                         META_TXN_BYTES_MAX);
}

enum err
meta_apply_txn(struct meta *m, const struct meta_txn *t, struct arena *a,
               struct meta_result *out, struct errbuf *eb)
{
    enum err rc;

    *out = (struct meta_result){0};
    rc = check_txn(t, eb);
    if (rc != ERR_OK)
        return rc;
    rc = m->ops->apply(m, t, a, out, eb);
    assert(!out->unknown || (rc != ERR_OK && rc != ERR_PRECONDITION));
    assert(rc != ERR_PRECONDITION || out->failed < t->change_count);
    assert(rc != ERR_OK || t->change_count == 0 || out->revision > 0);
    assert(rc != ERR_OK || t->read_count == 0 || out->reads != NULL);
    if (out->unknown)
        err_prefix(eb, "whether the change was made is unknown");
    if (rc == ERR_OK && t->change_count > 0 && m->after != NULL)
        m->after(m->after_arg);
    return rc;
}

enum err
meta_apply(struct meta *m, const struct meta_change *changes, uint32_t count,
           uint64_t *revision, struct errbuf *eb)
{
    struct meta_txn t = {.changes = changes, .change_count = count};
    struct meta_result result;
    enum err rc;

    if (count == 0)
        return err_set(eb, ERR_BAD_REQUEST, "a change of 0 keys, 1 to %u are possible",
                       META_CHANGE_MAX);
    rc = meta_apply_txn(m, &t, NULL, &result, eb);
    if (rc == ERR_OK && revision != NULL)
        *revision = result.revision;
    return rc;
}

/* ---- hearing of changes ---- */

void
meta_after(struct meta *m, void (*fn)(void *arg), void *arg)
{
    m->after = fn;
    m->after_arg = arg;
}

static void
on_watch(struct rt_msg *msg)
{
    struct meta_watch *w = CONTAINER_OF(msg, struct meta_watch, msg);

    assert(atomic_load(&w->posted));
    atomic_store(&w->posted, false); /* before the call: a later change posts again */
    if (atomic_load(&w->active))
        w->on_change(w->arg);
}

void
meta_changed(struct meta *m, struct span key)
{
    for (unsigned i = 0; i < META_WATCHES_MAX; i++) {
        struct meta_watch *w = &m->watches[i];

        if (!atomic_load(&w->active) ||
            !span_starts(key, (struct span){w->prefix, w->prefix_len}) ||
            atomic_exchange(&w->posted, true))
            continue;
        w->msg.fn = on_watch;
        rt_post(0, &w->msg);
    }
}

enum err
meta_watch_start(struct meta *m, struct span prefix, void (*on_change)(void *arg),
                 void *arg, struct meta_watch **out, struct errbuf *eb)
{
    assert(rt_loop_index() == 0);
    *out = NULL;
    for (unsigned i = 0; i < META_WATCHES_MAX; i++) {
        struct meta_watch *w = &m->watches[i];

        if (w->prefix != NULL)
            continue;
        w->prefix = xmemdup0(prefix.at, prefix.len);
        w->prefix_len = prefix.len;
        w->on_change = on_change;
        w->arg = arg;
        atomic_store(&w->active, true);
        *out = w;
        return ERR_OK;
    }
    return err_set(eb, ERR_BUSY, "%u watches of the node's state, the limit",
                   META_WATCHES_MAX);
}

/* The watch itself stays until meta_close(): another loop may compare with its prefix, or its message may be under way. */
void
meta_watch_stop(struct meta_watch **wp)
{
    struct meta_watch *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    assert(rt_loop_index() == 0);
    assert(atomic_load(&w->active));
    atomic_store(&w->active, false);
}
