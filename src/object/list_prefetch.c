#include "object/list_prefetch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "object/fiber_group.h"
#include "rt/loop.h"

#define PAGES_MAX        8u /* of a loop; a listing has two */
#define LIST_PREFETCH_MS 1000
#define PAGE_BYTES       MIB(3) /* a thousand names of any length */
/* After so many unused pages in a row (clients that use another loop each time), only one of so many is requested. */
#define WASTED_MAX 4u
#define TRY_EACH   16u

enum { USED, DROPPED }; /* labels of M_LIST_PREFETCH */

/* One page. Its fiber, its taker and the page before reference it. */
struct list_page {
    struct list of_loop;
    unsigned users;
    struct object_service *s;
    const struct map_bucket *bucket; /* one reference */
    struct object_list_options
        o;               /* spans point into the arena; `after` once it is `placed` */
    struct span token;   /* requested by this token; empty: by o.after */
    struct arena *arena; /* owned */
    uint64_t writes, since_ns; /* when it was requested */
    bool placed;               /* the name before it is known */
    bool lost;                 /* the page before ended with another token */
    bool taken, there;
    struct rt_cond changed;
    struct list_follow follow; /* the page behind this one */
    struct s3_list_page found;
    enum err rc;
};

struct of_loop {
    struct list pages;
    unsigned wasted, passed_over;
};

struct list_prefetch {
    struct fiber_group *fibers; /* owned; one fiber a page */
    _Atomic uint64_t writes;
    struct of_loop *loops; /* owned; one a loop */
};

void
list_prefetch_invalidate(struct object_service *s)
{
    atomic_fetch_add(&s->list_prefetch->writes, 1);
}

static void
page_drop(struct list_page **pp)
{
    struct list_page *p = *pp;

    assert(p->users > 0);
    *pp = NULL;
    if (--p->users > 0)
        return;
    map_bucket_drop(&p->bucket);
    arena_free(&p->arena);
    free(p);
}

static bool
page_is_valid(const struct list_page *p)
{
    return !p->lost && atomic_load(&p->s->list_prefetch->writes) == p->writes &&
           rt_now_ns() - p->since_ns <= LIST_PREFETCH_MS * UINT64_C(1000000);
}

/* Is this an untaken page of the same listing: behind a name, or of a token if one is given? */
static bool
is_asked_for(const struct list_page *p, const struct map_bucket *b,
             const struct object_list_options *o, struct span token)
{
    bool there = token.len > 0 ? span_eq(p->token, token)
                               : p->placed && span_eq(p->o.after, o->after);

    return there && !p->taken && p->bucket == b && p->o.max == o->max &&
           span_eq(p->o.prefix, o->prefix) && span_eq(p->o.delimiter, o->delimiter);
}

static struct list_page *
page_find(struct of_loop *l, const struct map_bucket *b,
          const struct object_list_options *o, struct span token)
{
    LIST_EACH(&l->pages, n)
    {
        struct list_page *p = LIST_ENTRY(n, struct list_page, of_loop);

        if (is_asked_for(p, b, o, token) && page_is_valid(p))
            return p;
    }
    return NULL;
}

/* ---- asking ---- */

/* While it is valid: until it is taken. */
static void
wait_for_taker(struct list_page *p)
{
    while (!p->taken && p->rc == ERR_OK && page_is_valid(p)) {
        struct deadline end = {p->since_ns + LIST_PREFETCH_MS * UINT64_C(1000000) + 1};

        if (rt_cond_wait(&p->changed, end) != ERR_OK)
            break;
    }
}

static void
page_run(void *arg)
{
    struct list_page *p = arg;
    struct of_loop *l = &p->s->list_prefetch->loops[rt_loop_index()];
    struct errbuf eb = {{0}};
    bool down;

    assert(p->users > 0);
    assert(!p->there);
    rt_doing("a page of a listing, ahead");
    p->rc = p->lost
                ? ERR_CANCELLED
                : list_ask_backend(&p->follow, p->token, p->arena, &p->found, &down, &eb);
    p->there = true;
    if (p->taken)
        (void)list_follow_end(&p->follow, p->rc, &p->found);
    rt_cond_broadcast(&p->changed);
    wait_for_taker(p);
    if (!p->taken) {
        metric_add(M_LIST_PREFETCH, DROPPED, 1);
        l->wasted++;
    }
    list_remove(&p->of_loop);
    page_drop(&p);
}

static struct list_page *
page_new(const struct list_follow *f, struct span after)
{
    struct list_page *p = xcalloc(1, sizeof *p);

    assert(f->bucket->cached);
    p->users = 1;
    p->s = f->s;
    p->bucket = map_bucket_ref(f->bucket);
    p->arena = arena_new(KIB(16), PAGE_BYTES);
    p->o = *f->o;
    p->o.prefix = arena_span(p->arena, f->o->prefix);
    p->o.delimiter = arena_span(p->arena, f->o->delimiter);
    p->o.after = arena_span(p->arena, after);
    p->placed = after.len > 0;
    p->token = arena_span(p->arena, f->token);
    p->follow = (struct list_follow){.s = p->s, .bucket = p->bucket, .o = &p->o};
    p->writes = atomic_load(&p->s->list_prefetch->writes);
    p->since_ns = rt_now_ns();
    rt_cond_init(&p->changed);
    list_init(&p->of_loop);
    return p;
}

/* Requests the following page, at the next switch. `after`: the name before it; empty: not known yet. The page has
 * two references: f's and the fiber's. NULL: not now. */
static struct list_page *
request_page(const struct list_follow *f, struct span after)
{
    struct of_loop *l = &f->s->list_prefetch->loops[rt_loop_index()];
    struct object_list_options next = *f->o;
    struct list_page *p;

    next.after = after;
    if (fiber_group_busy(f->s->list_prefetch->fibers) >= PAGES_MAX ||
        page_find(l, f->bucket, &next, after.len > 0 ? (struct span){"", 0} : f->token) !=
            NULL ||
        (l->wasted >= WASTED_MAX && l->passed_over++ % TRY_EACH != 0))
        return NULL;
    p = page_new(f, after);
    if (fiber_group_spawn(f->s->list_prefetch->fibers, page_run, p) != ERR_OK) {
        page_drop(&p);
        return NULL;
    }
    assert(p->users == 1);
    p->users++;
    list_push_back(&l->pages, &p->of_loop);
    return p;
}

void
list_follow_token(struct list_follow *f, struct span token)
{
    f->token = token;
    if (f->wanted && f->next == NULL)
        f->next = request_page(f, (struct span){"", 0});
}

bool
list_follow_end(struct list_follow *f, enum err rc, const struct s3_list_page *found)
{
    bool more = rc == ERR_OK && found->truncated && found->count > 0, now = false;
    struct span last = more ? found->entries[found->count - 1].key : SPAN("");
    struct list_page *p;

    assert(rc != ERR_OK || found != NULL);
    f->token = more ? found->next_token : last;
    if (f->next == NULL && more && f->wanted) {
        f->next = request_page(f, last);
        now = f->next != NULL;
    }
    p = f->next;
    if (p == NULL)
        return false;
    if (!more || !span_eq(p->token, f->token)) {
        p->lost = true; /* a retried request ended with another token */
        rt_cond_broadcast(&p->changed);
    } else if (!p->placed) {
        p->o.after = arena_span(p->arena, last);
        p->placed = true;
    }
    page_drop(&f->next);
    return now;
}

/* ---- taking ---- */

static char *
copy_span(char *at, struct span from, struct span *to)
{
    if (from.len > 0)
        memcpy(at, from.at, from.len);
    *to = (struct span){at, from.len};
    return at + from.len;
}

static bool
page_copy(const struct s3_list_page *from, struct arena *a, struct s3_list_page *out)
{
    size_t room = 1;
    char *at;

    assert(from->entries != NULL || from->count == 0);
    for (uint32_t i = 0; i < from->count; i++)
        room += from->entries[i].key.len + from->entries[i].etag.len;
    *out = *from;
    out->next_token = (struct span){"", 0};
    out->entries = arena_try(a, (from->count + 1) * sizeof *out->entries);
    at = arena_try(a, room);
    if (out->entries == NULL || at == NULL)
        return false;
    for (uint32_t i = 0; i < from->count; i++) {
        struct s3xml_list_entry *e = &out->entries[i];

        *e = from->entries[i];
        at = copy_span(at, e->key, &e->key);
        at = copy_span(at, e->etag, &e->etag);
    }
    return true;
}

/* A remote may confuse the tokens of two pages. */
static bool
page_continues(const struct list_page *p)
{
    return p->found.count == 0 || span_cmp(p->found.entries[0].key, p->o.after) > 0;
}

/* Requests the page behind one that a client wants now, as soon as possible. */
static void
page_follow(struct list_page *p)
{
    assert(p->taken);
    p->follow.wanted = true;
    if (!p->there && p->follow.token.len > 0)
        list_follow_token(&p->follow, p->follow.token);
    else if (p->there && list_follow_end(&p->follow, p->rc, &p->found))
        rt_yield(); /* its request goes out before this page is written */
}

bool
list_prefetch_take(struct object_service *s, const struct map_bucket *b,
                   const struct object_list_options *o, struct arena *a,
                   struct s3_list_page *out)
{
    struct of_loop *l = &s->list_prefetch->loops[rt_loop_index()];
    struct list_page *p = page_find(l, b, o, (struct span){"", 0});
    enum err rc = ERR_OK;
    bool good;

    if (p == NULL)
        return false;
    assert(!p->taken);
    p->taken = true;
    p->users++;
    page_follow(p);
    while (rc == ERR_OK && !p->there)
        rc = rt_cond_wait(&p->changed, DEADLINE_NEVER);
    good = rc == ERR_OK && p->rc == ERR_OK && page_continues(p) &&
           atomic_load(&s->list_prefetch->writes) == p->writes &&
           page_copy(&p->found, a, out);
    l->wasted = good ? 0 : l->wasted + 1;
    rt_cond_broadcast(&p->changed);
    page_drop(&p);
    metric_add(M_LIST_PREFETCH, good ? USED : DROPPED, 1);
    return good;
}

/* ---- begin and end ---- */

struct list_prefetch *
list_prefetch_new(void)
{
    struct list_prefetch *a = xcalloc(1, sizeof *a);

    a->fibers = fiber_group_new();
    a->loops = xcalloc(rt_loop_count(), sizeof *a->loops);
    for (unsigned i = 0; i < rt_loop_count(); i++)
        list_init(&a->loops[i].pages);
    return a;
}

void
list_prefetch_free(struct list_prefetch **ap)
{
    struct list_prefetch *a = *ap;

    if (a == NULL)
        return;
    fiber_group_end(&a->fibers);
    *ap = NULL; /* only now: ending fibers read it */
    free(a->loops);
    free(a);
}
