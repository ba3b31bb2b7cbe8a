/* prefetch: fetches objects of an attached bucket before they are read.
 *
 * Arguments: those of names.h; a prefix is listed at the remote; {"rate": BYTES_A_SECOND, "parallel": N}. The
 * position is the last key of a listing, or the number of the next name.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/names.h"
#include "rt/loop.h"
#include "wire/json_get.h"

#define PARALLEL_DEFAULT 16
#define PARALLEL_MAX     256
#define KEY_MAX          NAMES_KEY_MAX
#define PAGE_KEYS        1000
#define ROW_FAILURES_MAX 64 /* in a row: the job fails */
#define NO_ROOM_MAX      16
#define ROOM_TRIES       5 /* for one object, one second apart: eviction makes room meanwhile */
#define ROOM_MS          1000
#define BUDGET_SHARE     90 /* percent of cache.budget that one job may fill */
#define WAY_MS           20 /* between two looks of a worker that gives way to readers */

/* The names to fetch, in stable order. */
struct source {
    struct names
        names;   /* a list; with a prefix, only the arguments: the remote is listed */
    bool taking; /* a worker is in source_next() */
    struct rt_cond taken;
    bool ended;
    char after[KEY_MAX + 1]; /* listed: the last name taken */

    struct arena *arena; /* listed: of the page */
    struct object_page page;
    uint32_t page_at;
    uint64_t pages;
    char *
        mark; /* owned: the last name of page 1, 2, 4, 8 ...; if it returns, the listing loops */
};

/* One worker. */
struct worker {
    struct work *work;
    bool busy;
    uint64_t turn;               /* in the order of taking names */
    char from[JOB_POSITION_MAX]; /* where to continue if this name is not done */
    char key[KEY_MAX + 1];
};

struct work {
    struct job *job;
    struct source source;
    struct worker *workers;
    unsigned parallel, busy;
    uint64_t turns;
    struct pace *pace; /* owned; for all transfers */
    unsigned row_failures, row_no_room;
    enum err rc;
    struct errbuf *eb;
    struct rt_group group;
};

/* ---- the source: names, in order ---- */

static enum err
prefetch_job_check(struct job_service *s, const json_t *args, struct span list,
                   struct buf *what, struct errbuf *eb)
{
    static const struct job_arg known[] = {
        {"rate", true, 0}, {"parallel", true, PARALLEL_MAX}, {NULL, false, 0}};

    return names_check(s, "prefetch", known, args, list, what, eb);
}

static enum err
source_open(struct source *s, struct job *j, struct errbuf *eb)
{
    rt_cond_init(&s->taken);
    s->arena = arena_new(KIB(64), MIB(16));
    if (j->position != NULL)
        snprintf(s->after, sizeof s->after, "%s", j->position);
    return names_open(&s->names, j, eb);
}

static void
source_close(struct source *s)
{
    names_close(&s->names);
    arena_free(&s->arena);
    free(s->mark);
}

static enum err
next_named(struct source *s, struct worker *w, struct errbuf *eb)
{
    enum err rc;

    snprintf(w->from, sizeof w->from, "%llu", (unsigned long long)s->names.number);
    rc = names_next(&s->names, w->key, eb);
    s->ended = s->ended || s->names.ended;
    return rc;
}

/* Each page is requested by the last name of the one before: if a name returns, the listing would loop forever. */
static enum err
check_progress(struct source *s, struct errbuf *eb)
{
    struct span last = s->page.entries[s->page.count - 1].name;

    if (s->mark != NULL && span_is(last, s->mark))
        return err_set(eb, ERR_BACKEND, "the backend's listing comes back to \"%.*s\"",
                       SPAN_ARG(last));
    s->pages++;
    if ((s->pages & (s->pages - 1)) == 0) {
        free(s->mark);
        s->mark = xmemdup0(last.at, last.len);
    }
    return ERR_OK;
}

static enum err
next_page(struct source *s, struct errbuf *eb)
{
    struct object_list_options o = {
        .prefix = span_of(s->names.prefix), .after = span_of(s->after), .max = PAGE_KEYS};
    enum err rc;

    arena_reset(s->arena);
    s->page_at = 0;
    rc = object_list(s->names.job->s->options.object, s->names.bucket, &o, s->arena,
                     &s->page, eb);
    if (rc == ERR_OK && s->page.stale)
        rc = err_set(eb, ERR_BACKEND,
                     "the backend cannot be reached: only what is here could be listed");
    return rc == ERR_OK && s->page.count > 0 ? check_progress(s, eb) : rc;
}

static enum err
next_listed(struct source *s, struct worker *w, struct errbuf *eb)
{
    const struct object_entry *e;

    assert(s->page_at <= s->page.count);
    snprintf(w->from, sizeof w->from, "%s", s->after);
    if (s->page_at == s->page.count) {
        enum err rc = ERR_OK;

        if (s->page.entries == NULL || s->page.truncated)
            rc = next_page(s, eb);
        else
            s->ended = true;
        if (rc != ERR_OK || s->ended)
            return rc;
        if (s->page.count == 0) {
            s->ended = true;
            return ERR_OK;
        }
    }
    e = &s->page.entries[s->page_at++];
    snprintf(s->after, sizeof s->after, "%.*s", (int)MIN(e->name.len, KEY_MAX),
             e->name.at);
    memcpy(w->key, s->after, sizeof w->key);
    return ERR_OK;
}

/* Takes the next name into w->key; s->ended: there is none. One worker at a time, because a page of a listing
 * takes a while. */
static enum err
source_next(struct source *s, struct worker *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && s->taking)
        rc = rt_cond_wait(&s->taken, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "waiting for a name");
    if (s->ended)
        return ERR_OK;
    s->taking = true;
    rc = s->names.prefix != NULL ? next_listed(s, w, eb) : next_named(s, w, eb);
    assert(s->taking);
    s->taking = false;
    if (rc != ERR_OK)
        s->ended = true; /* the next name is unknown */
    if (s->ended)
        rt_cond_broadcast(&s->taken);
    else
        rt_cond_signal(&s->taken);
    return rc;
}

/* ---- the work ---- */

/* Everything before the oldest name in flight is done. */
static void
update_position(struct work *w)
{
    const struct worker *oldest = NULL;
    char number[24];

    assert(w->busy <= w->parallel);
    for (unsigned i = 0; i < w->parallel; i++)
        if (w->workers[i].busy && (oldest == NULL || w->workers[i].turn < oldest->turn))
            oldest = &w->workers[i];
    if (oldest != NULL) {
        job_set_position(w->job, span_of(oldest->from));
    } else if (w->source.names.prefix != NULL) {
        job_set_position(w->job, span_of(w->source.after));
    } else {
        snprintf(number, sizeof number, "%llu",
                 (unsigned long long)w->source.names.number);
        job_set_position(w->job, span_of(number));
    }
}

static void
stop_work(struct work *w, enum err rc)
{
    if (w->rc == ERR_OK)
        w->rc = rc;
    w->source.ended = true;
}

static void
count_failure(struct work *w, const struct worker *at, enum err rc,
              const struct errbuf *eb)
{
    job_add_error(w->job, span_of(at->key), eb);
    if (rc == ERR_NOT_FOUND || ++w->row_failures < ROW_FAILURES_MAX || w->rc != ERR_OK)
        return;
    err_set(w->eb, rc, "%u objects one after the other failed, the last with: %s",
            w->row_failures, eb->text);
    stop_work(w, rc);
}

/* Is this more than the cache holds? The first objects would be evicted again. */
static bool
is_too_much(const struct work *w)
{
    uint64_t budget = object_cache_budget(w->job->s->options.object);

    return budget > 0 && w->job->counts.bytes > budget / 100 * BUDGET_SHARE;
}

static void
count_done(struct work *w, const struct worker *at, enum object_prefetched how,
           uint64_t bytes)
{
    struct job_counts *c = &w->job->counts;

    w->job->changed = true;
    w->row_failures = 0;
    c->bytes += bytes;
    if (how == PREFETCHED_NO_ROOM) {
        struct errbuf why = {{0}};

        err_set(
            &why, ERR_NO_SPACE,
            "the cache has no room for it: cache.budget, or the bucket's cache budget, "
            "is used up by objects that stay");
        job_add_error(w->job, span_of(at->key), &why);
        if (++w->row_no_room >= NO_ROOM_MAX && w->rc == ERR_OK)
            stop_work(w, err_set(w->eb, ERR_NO_SPACE,
                                 "the cache takes no more: %llu objects are here (see "
                                 "cache.budget, or evict something)",
                                 (unsigned long long)c->objects));
        return;
    }
    w->row_no_room = 0;
    c->objects++;
    c->present += how == PREFETCHED_BEFORE;
    if (is_too_much(w) && w->rc == ERR_OK)
        stop_work(w, err_set(w->eb, ERR_NO_SPACE,
                             "it is more than the cache holds: %llu bytes were brought, "
                             "%u %% of cache.budget",
                             (unsigned long long)c->bytes, (unsigned)BUDGET_SHARE));
}

/* Readers come first: while one waits for the backend, only one worker continues. */
static enum err
yield_to_readers(struct work *w)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && w->busy > 0 &&
           object_readers_waiting(w->job->s->options.object) > 0)
        rc = rt_sleep_ms(WAY_MS);
    if (rc == ERR_OK && pace_due(w->pace) > rt_now_ns())
        rc = rt_sleep_until((struct deadline){pace_due(w->pace)});
    return rc;
}

/* In a full cache the prefetch waits a moment for the eviction of the coldest segments. */
static enum err
prefetch_or_wait(struct work *w, const char *key, enum object_prefetched *how,
                 uint64_t *bytes, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (int i = 0; i < ROOM_TRIES && rc == ERR_OK; i++) {
        rc = object_prefetch(w->job->s->options.object, w->source.names.bucket,
                             span_of(key), w->pace, how, bytes, eb);
        if (rc != ERR_OK || *how != PREFETCHED_NO_ROOM || w->source.ended)
            return rc;
        rc = rt_sleep_ms(ROOM_MS);
    }
    return rc;
}

static enum err
prefetch_one(struct worker *at)
{
    struct work *w = at->work;
    enum object_prefetched how = PREFETCHED_NO_ROOM;
    struct errbuf eb = {0};
    uint64_t bytes = 0;
    enum err rc;

    assert(!at->busy);
    assert(w->busy < w->parallel);
    at->turn = w->turns++;
    at->busy = true;
    w->busy++;
    rc = prefetch_or_wait(w, at->key, &how, &bytes, &eb);
    assert(w->busy > 0);
    w->busy--;
    if (rc == ERR_CANCELLED || rt_cancelled() || (rc != ERR_OK && w->job->s->stopping))
        return ERR_CANCELLED; /* still busy: the next start begins with this name */
    at->busy = false;
    if (rc == ERR_OK)
        count_done(w, at, how, bytes);
    else
        count_failure(w, at, rc, &eb);
    update_position(w);
    return ERR_OK;
}

static void
work_on(void *arg)
{
    struct worker *at = arg;
    struct work *w = at->work;
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        rc = yield_to_readers(w);
        if (rc == ERR_OK)
            rc = source_next(&w->source, at, w->eb);
        if (rc == ERR_OK && w->source.ended)
            return;
        if (rc == ERR_OK)
            rc = prefetch_one(at);
    }
    stop_work(w, rc);
}

static enum err
prefetch_job_run(struct job *j, struct errbuf *eb)
{
    uint64_t parallel = json_get_u64(j->args, "parallel");
    struct work w = {.job = j,
                     .parallel = parallel > 0 ? (unsigned)parallel : PARALLEL_DEFAULT,
                     .pace = pace_new(json_get_u64(j->args, "rate")),
                     .eb = eb};

    w.workers = xcalloc(w.parallel, sizeof *w.workers);
    w.rc = source_open(&w.source, j, eb);
    if (w.rc == ERR_OK) {
        unsigned begun = 0;

        rt_group_begin(&w.group);
        for (; begun < w.parallel; begun++) {
            w.workers[begun].work = &w;
            if (rt_group_start(&w.group, work_on, &w.workers[begun]) != ERR_OK)
                break;
        }
        if (begun == 0)
            w.rc = err_set(eb, ERR_BUSY, "no fiber is free for a prefetch");
        rt_group_join(&w.group);
    }
    source_close(&w.source);
    pace_drop(&w.pace);
    free(w.workers);
    return w.rc;
}

const struct job_kind job_prefetch = {.name = "prefetch",
                                      .takes_list = true,
                                      .check = prefetch_job_check,
                                      .run = prefetch_job_run};
