/* evict: removes cached objects of an attached bucket; the remote is not changed.
 *
 * Arguments: those of names.h; a prefix selects cached keys. `present` counts what stays: pinned objects, in-doubt
 * writes, and names that are not cached. The position is the last key of a page, or the number of the next name.
 */
#include "object/evict.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/names.h"
#include "object/local.h"
#include "rt/fiber.h"

static enum err
evict_job_check(struct job_service *s, const json_t *args, struct span list,
                struct buf *what, struct errbuf *eb)
{
    static const struct job_arg known[] = {{NULL, false, 0}};

    return names_check(s, "evict", known, args, list, what, eb);
}

struct work {
    struct job *job;
    struct names names;
    struct object_evicting e;
    struct job_counts before; /* of the job when this run began */
};

static void
evict_job_count(struct work *w)
{
    struct job_counts *c = &w->job->counts;

    c->objects = w->before.objects + w->e.objects + w->e.kept + w->e.absent;
    c->present = w->before.present + w->e.kept + w->e.absent;
    c->bytes = w->before.bytes + w->e.bytes;
    w->job->changed = true;
}

/* Counts the keys, for the estimate of the time left; once for all runs. */
static enum err
count_total(struct work *w, struct errbuf *eb)
{
    struct object_service *s = w->job->s->options.object;
    struct arena *a = arena_new(KIB(64), MIB(4));
    struct span prefix = span_of(w->names.prefix);
    char from[STORE_KEY_MAX + 1];
    size_t from_len = 0;
    uint64_t total = 0;
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct object_local_entry *entries = NULL;
        uint32_t n = 0;

        arena_reset(a);
        rc = object_local_page(s, w->names.bucket, prefix, (struct span){from, from_len},
                               OBJECT_LOCAL_PAGE, a, &entries, &n, &more, eb);
        total += n;
        if (rc == ERR_OK && more && n > 0) {
            from_len = entries[n - 1].key.len;
            memcpy(from, entries[n - 1].key.at, from_len);
            from[from_len++] = '\0'; /* the key directly behind it */
        }
        if (rc == ERR_OK && rt_cancelled())
            rc = err_set(eb, ERR_CANCELLED, "the job was cancelled");
    }
    arena_free(&a);
    w->job->counts.total = total;
    return rc;
}

/* Evicts the next page, or these names; completes it even when the job is cancelled. */
static enum err
evict_some(struct work *w, const struct span *keys, uint32_t n, struct errbuf *eb)
{
    struct object_service *s = w->job->s->options.object;
    struct rt_shield shield;
    enum err rc;

    assert(n <= OBJECT_EVICT_NAMES);
    rt_shield_begin(&shield);
    rc = keys != NULL ? object_evict_names(s, w->names.bucket, keys, n, &w->e, eb)
                      : object_evict_page(s, w->names.bucket, &w->e, eb);
    rt_shield_end(&shield);
    evict_job_count(w);
    return rc;
}

static enum err
evict_prefix(struct work *w, struct errbuf *eb)
{
    struct job *j = w->job;
    struct object_evicting *e = &w->e;
    enum err rc = j->counts.total == 0 ? count_total(w, eb) : ERR_OK;

    e->prefix = span_of(w->names.prefix);
    if (j->position != NULL) {
        e->begun = true;
        e->after_len = MIN(strlen(j->position), sizeof e->after);
        assert(e->after_len <= sizeof e->after);
        memcpy(e->after, j->position, e->after_len);
    }
    while (rc == ERR_OK && !e->over && !rt_cancelled()) {
        rc = evict_some(w, NULL, 0, eb);
        if (rc == ERR_OK)
            job_set_position(j, (struct span){e->after, e->after_len});
    }
    return rc;
}

static enum err
take_names(struct work *w, char (*keys)[NAMES_KEY_MAX + 1], struct span *spans,
           uint32_t *n, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (*n = 0; rc == ERR_OK && *n < OBJECT_EVICT_NAMES;) {
        rc = names_next(&w->names, keys[*n], eb);
        if (rc != ERR_OK || w->names.ended)
            break;
        spans[*n] = span_of(keys[*n]);
        ++*n;
    }
    return rc;
}

static enum err
evict_names(struct work *w, struct errbuf *eb)
{
    char(*keys)[NAMES_KEY_MAX + 1] = xcalloc(OBJECT_EVICT_NAMES, sizeof *keys);
    struct span *spans = xcalloc(OBJECT_EVICT_NAMES, sizeof *spans);
    struct job *j = w->job;
    char number[24];
    enum err rc = ERR_OK;

    while (rc == ERR_OK && !w->names.ended && !rt_cancelled()) {
        uint32_t n;

        rc = take_names(w, keys, spans, &n, eb);
        if (rc == ERR_OK)
            rc = evict_some(w, spans, n, eb);
        snprintf(number, sizeof number, "%llu", (unsigned long long)w->names.number);
        if (rc == ERR_OK)
            job_set_position(j, span_of(number));
    }
    free(spans);
    free(keys);
    return rc;
}

static enum err
evict_job_run(struct job *j, struct errbuf *eb)
{
    struct work *w = xcalloc(1, sizeof *w);
    enum err rc;

    w->job = j;
    w->before = j->counts;
    rc = names_open(&w->names, j, eb);
    if (rc == ERR_OK)
        rc = w->names.prefix != NULL ? evict_prefix(w, eb) : evict_names(w, eb);
    if (rc == ERR_OK && rt_cancelled() && !w->names.ended && !w->e.over)
        rc = err_set(eb, ERR_CANCELLED, "the job was cancelled");
    names_close(&w->names);
    free(w);
    return rc;
}

const struct job_kind job_evict = {
    .name = "evict", .takes_list = true, .check = evict_job_check, .run = evict_job_run};
