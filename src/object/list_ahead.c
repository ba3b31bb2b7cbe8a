#include "object/list_ahead.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "object/keys.h"
#include "rt/loop.h"

#define PAGES_MAX  4u /* of a loop */
#define AHEAD_MS   1000
#define PAGE_BYTES MIB(3) /* a thousand names of any length */
/* After so many in a row that nobody took (clients that come by another loop each time), one of so many is tried. */
#define WASTED_MAX 4u
#define TRY_EACH   16u

enum { USED, DROPPED }; /* labels of M_LIST_AHEAD */

/* One page. Its fiber and who takes it hold it. */
struct page {
    struct list of_loop;
    unsigned users;
    struct object_service *s;
    const struct map_bucket *bucket; /* one reference */
    struct object_list_options o;    /* spans lie in the arena */
    struct arena *arena;             /* owned */
    uint64_t writes, since_ns;       /* when it was asked for */
    struct fiber *fiber;             /* while it runs */
    bool taken, there;
    struct rt_cond changed;
    struct s3_list_page found;
    enum err rc;
};

struct of_loop {
    struct list pages;
    unsigned busy; /* fibers */
    unsigned wasted, passed_over;
    struct rt_cond ended;
};

struct list_ahead {
    _Atomic bool stopping;
    _Atomic uint64_t writes;
    struct of_loop *loops; /* owned; one a loop */
};

void
list_ahead_forget(struct object_service *s)
{
    atomic_fetch_add(&s->list_ahead->writes, 1);
}

static void
drop(struct page **pp)
{
    struct page *p = *pp;

    *pp = NULL;
    if (--p->users > 0)
        return;
    map_bucket_drop(&p->bucket);
    arena_free(&p->arena);
    free(p);
}

static bool
is_to_be_believed(const struct page *p)
{
    return atomic_load(&p->s->list_ahead->writes) == p->writes &&
           rt_now_ns() - p->since_ns <= AHEAD_MS * UINT64_C(1000000);
}

static bool
is_asked_for(const struct page *p, const struct map_bucket *b,
             const struct object_list_options *o)
{
    return !p->taken && p->bucket == b && p->o.max == o->max &&
           span_eq(p->o.after, o->after) && span_eq(p->o.prefix, o->prefix) &&
           span_eq(p->o.delimiter, o->delimiter);
}

static struct page *
find(struct of_loop *l, const struct map_bucket *b, const struct object_list_options *o)
{
    LIST_EACH(&l->pages, n)
    {
        struct page *p = LIST_ENTRY(n, struct page, of_loop);

        if (is_asked_for(p, b, o) && is_to_be_believed(p))
            return p;
    }
    return NULL;
}

/* ---- asking ---- */

/* Of a page that somebody takes: the one behind it, at once, so that the remote is never waited for twice. */
static void
begin_next(const struct page *p)
{
    if (p->rc == ERR_OK && p->found.truncated && p->found.count > 0)
        list_ahead_begin(p->s, p->bucket, &p->o,
                         p->found.entries[p->found.count - 1].key);
}

static void
run(void *arg)
{
    struct page *p = arg;
    struct of_loop *l = &p->s->list_ahead->loops[rt_loop_index()];
    struct errbuf eb = {{0}};
    bool down;

    rt_doing("a page of a listing, ahead");
    p->fiber = rt_self();
    p->rc =
        p->s->list_ahead->stopping
            ? ERR_CANCELLED
            : list_ask_backend(p->s, p->bucket, &p->o, p->arena, &p->found, &down, &eb);
    p->there = true;
    if (p->taken)
        begin_next(p); /* which runs before who takes this one writes it out */
    rt_cond_broadcast(&p->changed);
    while (!p->taken && p->rc == ERR_OK && is_to_be_believed(p)) {
        struct deadline end = {p->since_ns + AHEAD_MS * UINT64_C(1000000) + 1};

        if (rt_cond_wait(&p->changed, end) != ERR_OK)
            break;
    }
    p->fiber = NULL;
    if (!p->taken) {
        metric_add(M_LIST_AHEAD, DROPPED, 1);
        l->wasted++;
    }
    list_remove(&p->of_loop);
    drop(&p);
    if (--l->busy == 0)
        rt_cond_broadcast(&l->ended);
}

static struct page *
new_page(struct object_service *s, const struct map_bucket *b,
         const struct object_list_options *o)
{
    struct page *p = xcalloc(1, sizeof *p);

    p->users = 1;
    p->s = s;
    p->bucket = map_bucket_ref(b);
    p->arena = arena_new(KIB(16), PAGE_BYTES);
    p->o = *o;
    p->o.prefix = arena_span(p->arena, o->prefix);
    p->o.delimiter = arena_span(p->arena, o->delimiter);
    p->o.after = arena_span(p->arena, o->after);
    p->writes = atomic_load(&s->list_ahead->writes);
    p->since_ns = rt_now_ns();
    rt_cond_init(&p->changed);
    list_init(&p->of_loop);
    return p;
}

void
list_ahead_begin(struct object_service *s, const struct map_bucket *b,
                 const struct object_list_options *o, struct span after)
{
    struct of_loop *l = &s->list_ahead->loops[rt_loop_index()];
    struct object_list_options next = *o;
    struct page *p;

    next.after = after;
    if (l->busy >= PAGES_MAX || s->list_ahead->stopping || find(l, b, &next) != NULL ||
        (l->wasted >= WASTED_MAX && l->passed_over++ % TRY_EACH != 0))
        return;
    p = new_page(s, b, &next);
    if (rt_spawn(run, p) != ERR_OK) {
        drop(&p);
        return;
    }
    l->busy++;
    list_push_back(&l->pages, &p->of_loop);
}

/* ---- taking ---- */

static bool
copy(const struct s3_list_page *from, struct arena *a, struct s3_list_page *out)
{
    *out = *from;
    out->next_token = (struct span){"", 0};
    out->entries = arena_try(a, (from->count + 1) * sizeof *out->entries);
    for (uint32_t i = 0; out->entries != NULL && i < from->count; i++) {
        const struct s3_list_entry *e = &from->entries[i];
        char *at = arena_try(a, e->key.len + e->etag.len + 1);

        if (at == NULL)
            return false;
        memcpy(at, e->key.at, e->key.len);
        if (e->etag.len > 0)
            memcpy(at + e->key.len, e->etag.at, e->etag.len);
        out->entries[i] = *e;
        out->entries[i].key.at = at;
        out->entries[i].etag.at = at + e->key.len;
    }
    return out->entries != NULL;
}

bool
list_ahead_take(struct object_service *s, const struct map_bucket *b,
                const struct object_list_options *o, struct arena *a,
                struct s3_list_page *out)
{
    struct of_loop *l = &s->list_ahead->loops[rt_loop_index()];
    struct page *p = find(l, b, o);
    enum err rc = ERR_OK;
    bool good;

    if (p == NULL)
        return false;
    p->taken = true;
    p->users++;
    l->wasted = 0;
    if (p->there) {
        begin_next(p);
        rt_yield(); /* its question goes out before this one is written out */
    }
    while (rc == ERR_OK && !p->there)
        rc = rt_cond_wait(&p->changed, DEADLINE_NEVER);
    good = rc == ERR_OK && p->rc == ERR_OK &&
           atomic_load(&s->list_ahead->writes) == p->writes && copy(&p->found, a, out);
    rt_cond_broadcast(&p->changed);
    drop(&p);
    metric_add(M_LIST_AHEAD, good ? USED : DROPPED, 1);
    return good;
}

/* ---- begin and end ---- */

struct list_ahead *
list_ahead_new(void)
{
    struct list_ahead *a = xcalloc(1, sizeof *a);

    a->loops = xcalloc(rt_loop_count(), sizeof *a->loops);
    for (unsigned i = 0; i < rt_loop_count(); i++) {
        list_init(&a->loops[i].pages);
        rt_cond_init(&a->loops[i].ended);
    }
    return a;
}

static void
end_on_loop(void *arg)
{
    struct list_ahead *a = arg;
    struct of_loop *l = &a->loops[rt_loop_index()];
    struct rt_shield shield;

    rt_shield_begin(&shield);
    LIST_EACH(&l->pages, n)
    {
        struct page *p = LIST_ENTRY(n, struct page, of_loop);

        if (p->fiber != NULL)
            rt_cancel(p->fiber);
    }
    while (l->busy > 0)
        if (rt_cond_wait(&l->ended, DEADLINE_NEVER) != ERR_OK)
            break;
    rt_shield_end(&shield);
}

void
list_ahead_free(struct list_ahead **ap)
{
    struct list_ahead *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    a->stopping = true;
    for (unsigned i = 0; i < rt_loop_count(); i++)
        while (key_on_home(i, end_on_loop, a) != ERR_OK)
            rt_yield(); /* out of stacks there: others are ending too */
    free(a->loops);
    free(a);
}
