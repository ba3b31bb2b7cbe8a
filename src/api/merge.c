#include "api/merge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/node_ask.h"
#include "api/share.h"
#include "base/mem.h"
#include "rt/fiber.h"

#define NAMES_MORE  32u /* than its part, of each node */
#define MERGE_TRIES 3u  /* with a later map each */

/* One node, and its page of which [at, count) is still to be taken. */
struct source {
    struct merging *m;
    struct nodes_route to;
    struct share_ask ask;
    struct share_page page;
    uint32_t at;
    bool wanted; /* its next page is to be fetched */
    /* Of the last fetch. */
    enum err rc;
    uint64_t stale;
    struct errbuf eb;
};
struct merging {
    struct request *q;
    const struct map_bucket *bucket;
    struct arena *arena;
    const struct share_ask *ask;
    struct source *sources;
    uint32_t count;
    struct share_page out;
};

/* ---- pages of nodes ---- */

static enum err
fetch_page(struct source *s)
{
    struct merging *m = s->m;
    struct buf body, page;
    enum err rc;

    if (s->to.here)
        return share_list_owned(m->q->api->options.nodes, m->q->api->options.object,
                                m->bucket, &s->ask, m->arena, &s->page, &s->eb);
    buf_init(&body, KIB(16));
    buf_init(&page, SHARE_PAGE_MAX);
    share_ask_put(&body, &s->ask);
    rc = node_ask(m->q, &s->to, "names", m->bucket, buf_span(&body), &page, &s->stale,
                  &s->eb);
    if (rc == ERR_OK)
        rc = share_page_decode(buf_span(&page), m->arena, &s->page, &s->eb);
    buf_fini(&body);
    buf_fini(&page);
    return rc;
}

static void
source_fetch(void *arg)
{
    struct source *s = arg;

    s->at = 0;
    s->wanted = false;
    s->rc = fetch_page(s);
    if (s->rc == ERR_OK && s->page.truncated &&
        span_cmp(s->page.next, s->ask.after) <= 0 &&
        span_eq(s->page.next_sub, s->ask.after_sub))
        s->rc = err_set(&s->eb, ERR_CORRUPT, "node %u lists the same names again",
                        s->to.number);
    if (s->rc == ERR_OK && s->page.truncated) {
        s->ask.after = s->page.next;
        s->ask.after_sub = s->page.next_sub;
    }
}

/* Fetches the next page of each source that has run out, all at once. */
static enum err
fetch_wanted(struct merging *m, uint64_t *stale, struct errbuf *eb)
{
    struct source *mine = NULL;
    struct rt_group g;
    enum err rc = ERR_OK;

    rt_group_begin(&g);
    for (uint32_t i = 0; i < m->count; i++) {
        struct source *s = &m->sources[i];

        if (!s->wanted)
            continue;
        if (mine == NULL && s->to.here)
            mine = s; /* by this fiber, while the others travel */
        else if (rt_group_start(&g, source_fetch, s) != ERR_OK)
            source_fetch(s);
    }
    if (mine != NULL)
        source_fetch(mine);
    rt_group_join(&g);
    for (uint32_t i = 0; i < m->count && rc == ERR_OK; i++) {
        rc = m->sources[i].rc;
        *stale = MAX(*stale, m->sources[i].stale);
        if (rc != ERR_OK)
            *eb = m->sources[i].eb;
    }
    return rc;
}

/* ---- merging ---- */

static const struct share_entry *
source_entry(const struct source *s)
{
    return s->at < s->page.count ? &s->page.entries[s->at] : NULL;
}

/* The same common prefix as the last entry that was taken. */
static bool
is_taken(const struct merging *m, const struct share_entry *e)
{
    const struct share_entry *last =
        m->out.count > 0 ? &m->out.entries[m->out.count - 1] : NULL;

    return e->is_prefix && last != NULL && last->is_prefix &&
           span_eq(e->name, last->name);
}

/* Drops what is taken already; *more: a page has to be fetched before the next entry is known. */
static struct source *
next_source(struct merging *m, bool *more)
{
    struct source *best = NULL;

    *more = false;
    for (uint32_t i = 0; i < m->count; i++) {
        struct source *s = &m->sources[i];
        const struct share_entry *e = source_entry(s);

        while (e != NULL && is_taken(m, e)) {
            s->at++;
            e = source_entry(s);
        }
        if (e == NULL && s->page.truncated)
            s->wanted = *more = true;
        else if (e != NULL &&
                 (best == NULL || span_cmp(e->name, source_entry(best)->name) < 0))
            best = s;
    }
    return best;
}

/* Versions and uploads of one key are those of one node, in its order. */
static enum err
merge_run(struct merging *m, uint64_t *stale, struct errbuf *eb)
{
    enum err rc = fetch_wanted(m, stale, eb);

    while (rc == ERR_OK) {
        bool more;
        struct source *s = next_source(m, &more);

        if (more && m->out.count < m->ask->max) {
            rc = fetch_wanted(m, stale, eb);
            continue;
        }
        if (m->out.count == m->ask->max || s == NULL) {
            m->out.truncated = s != NULL || more;
            break;
        }
        m->out.entries[m->out.count++] = *source_entry(s);
        s->at++;
    }
    for (uint32_t i = 0; i < m->count; i++)
        m->out.stale = m->out.stale || m->sources[i].page.stale;
    return rc;
}

static enum err
merge_open_sources(struct merging *m, struct errbuf *eb)
{
    struct nodes_route *to = arena_alloc(m->arena, MAP_NODES_MAX * sizeof *to);
    enum err rc = nodes_holders(m->q->api->options.nodes, false, to, &m->count, eb);

    if (rc != ERR_OK)
        return rc;
    assert(m->count > 0);
    m->out = (struct share_page){
        .entries = arena_alloc(m->arena, m->ask->max * sizeof *m->out.entries)};
    m->sources = arena_alloc(m->arena, m->count * sizeof *m->sources);
    for (uint32_t i = 0; i < m->count; i++) {
        struct source *s = &m->sources[i];
        uint32_t part = m->ask->max / m->count + NAMES_MORE;

        *s = (struct source){.m = m, .to = to[i], .ask = *m->ask, .wanted = true};
        if (!to[i].here)
            s->to.address = arena_strdup(m->arena, span_of(to[i].address));
        s->ask.max = MIN(part, m->ask->max);
    }
    return ERR_OK;
}

/* One page of the whole bucket. */
static enum err
merge_page(struct request *q, const struct map_bucket *b, const struct share_ask *ask,
           struct arena *a, struct share_page *out, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (unsigned i = 0; i < MERGE_TRIES; i++) {
        struct merging m = {.q = q, .bucket = b, .arena = a, .ask = ask};
        uint64_t stale = 0;

        rc = merge_open_sources(&m, eb);
        if (rc == ERR_OK)
            rc = merge_run(&m, &stale, eb);
        *out = m.out;
        if (rc == ERR_OK || stale == 0)
            return rc;
        rc = nodes_catch_up(q->api->options.nodes, stale, eb);
        if (rc != ERR_OK)
            return rc;
    }
    return err_set(eb, ERR_UNAVAILABLE,
                   "the map of the cluster is changing; retry later");
}

/* ---- the kinds ---- */

static bool
is_local(const struct request *q, const struct map_bucket *b)
{
    return q->api->options.nodes == NULL || b->cached;
}

enum err
merge_list(struct request *q, const struct map_bucket *b,
           const struct object_list_options *o, struct arena *a, struct object_page *out,
           struct errbuf *eb)
{
    struct share_ask ask = {.kind = SHARE_KEYS,
                            .prefix = o->prefix,
                            .delimiter = o->delimiter,
                            .after = o->after,
                            .max = o->max};
    struct share_page page;
    enum err rc;

    if (is_local(q, b))
        return object_list(q->api->options.object, b, o, a, out, eb);
    rc = merge_page(q, b, &ask, a, &page, eb);
    if (rc != ERR_OK)
        return rc;
    *out = (struct object_page){.truncated = page.truncated, .stale = page.stale};
    out->entries = arena_alloc(a, (page.count + 1) * sizeof *out->entries);
    for (; out->count < page.count; out->count++) {
        const struct share_entry *e = &page.entries[out->count];

        out->entries[out->count] = (struct object_entry){.name = e->name,
                                                         .is_prefix = e->is_prefix,
                                                         .size = e->size,
                                                         .mtime_ms = e->time_ms,
                                                         .etag = e->etag};
    }
    if (page.count > 0)
        out->next_after = page.entries[page.count - 1].name;
    return ERR_OK;
}

static void
version_of_entry(const struct share_entry *e, struct object_version_entry *out)
{
    *out = (struct object_version_entry){.name = e->name,
                                         .is_prefix = e->is_prefix,
                                         .is_marker = e->is_marker,
                                         .latest = e->latest,
                                         .size = e->size,
                                         .mtime_ms = e->time_ms};
    snprintf(out->etag, sizeof out->etag, "%.*s", SPAN_ARG(e->etag));
}

enum err
merge_versions(struct request *q, const struct map_bucket *b,
               const struct object_version_list *o, struct arena *a,
               struct object_version_page *out, struct errbuf *eb)
{
    char after[OBJECT_VERSION_TEXT] = "";
    struct share_ask ask = {.kind = SHARE_VERSIONS,
                            .prefix = o->prefix,
                            .delimiter = o->delimiter,
                            .after = o->after,
                            .max = o->max};
    struct share_page page;
    enum err rc;

    if (is_local(q, b))
        return object_version_list(q->api->options.object, b, o, a, out, eb);
    if (o->after_version != NULL)
        object_version_text(o->after_version, after);
    ask.after_sub = span_of(after);
    rc = merge_page(q, b, &ask, a, &page, eb);
    if (rc != ERR_OK)
        return rc;
    *out = (struct object_version_page){.truncated = page.truncated, .stale = page.stale};
    out->entries = arena_alloc(a, (page.count + 1) * sizeof *out->entries);
    for (; out->count < page.count; out->count++) {
        const struct share_entry *e = &page.entries[out->count];
        struct object_version_entry *v = &out->entries[out->count];

        version_of_entry(e, v);
        if (!e->is_prefix && !object_version_parse(span_of(e->version), &v->version))
            return err_set(eb, ERR_CORRUPT, "another node sent the version \"%s\"",
                           e->version);
    }
    return ERR_OK;
}

enum err
merge_uploads(struct request *q, const struct map_bucket *b,
              const struct object_upload_list_options *o, struct arena *a,
              struct object_upload_page *out, struct errbuf *eb)
{
    struct share_ask ask = {.kind = SHARE_UPLOADS,
                            .prefix = o->prefix,
                            .delimiter = o->delimiter,
                            .after = o->after_key,
                            .after_sub = o->after_id,
                            .max = o->max};
    struct share_page page;
    enum err rc;

    if (is_local(q, b))
        return object_upload_list(q->api->options.object, b, o, a, out, eb);
    rc = merge_page(q, b, &ask, a, &page, eb);
    if (rc != ERR_OK)
        return rc;
    *out = (struct object_upload_page){.truncated = page.truncated};
    out->entries = arena_alloc(a, (page.count + 1) * sizeof *out->entries);
    for (; out->count < page.count; out->count++) {
        const struct share_entry *e = &page.entries[out->count];
        struct span id = e->is_prefix ? (struct span){"", 0} : e->etag;

        out->entries[out->count] =
            (struct object_upload){.key = e->name,
                                   .upload_id = id,
                                   .begun_ms = e->time_ms,
                                   .checksum_algorithm = e->algorithm,
                                   .checksum_type = e->type};
    }
    return ERR_OK;
}
