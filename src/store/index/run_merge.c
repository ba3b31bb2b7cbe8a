/* Several runs as one: walked in order, or merged. */
#include "store/index/entry.h"
#include "store/index/run.h"
#include "store/index/run_internal.h"
#include "store/record/keys.h"
#include <assert.h>
#include <stdlib.h>

/* ---- several as one ---- */

struct run_place {
    const struct run *run;
    uint64_t first; /* of the item's key, behind w->skip */
    uint32_t item;
    uint32_t age; /* of the run: 0 is the oldest */
};

static bool
comes_first(const struct run_place *a, const struct run_place *b)
{
    const struct item *i = &a->run->items[a->item], *j = &b->run->items[b->item];
    int c;

    if (a->first != b->first)
        return a->first < b->first;
    c = item_compare_place((enum table)i->table, i->bucket, item_key(a->run, i),
                           (enum table)j->table, j->bucket, item_key(b->run, j));

    return c != 0 ? c < 0 : a->age < b->age;
}

static void
walk_sift_down(struct run_walk *w, uint32_t at)
{
    for (;;) {
        uint32_t first = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < w->count;
             child++) {
            if (comes_first(&w->heap[child], &w->heap[first]))
                first = child;
        }
        if (first == at)
            return;
        struct run_place moved = w->heap[at];
        w->heap[at] = w->heap[first];
        w->heap[first] = moved;
        at = first;
    }
}

/* The first item at or behind a place. */
static uint32_t
run_lower_bound(const struct run *r, enum table table, uint64_t bucket, struct span from)
{
    uint32_t low = 0, high = r->count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct item *i = &r->items[mid];

        if (item_compare_place((enum table)i->table, i->bucket, item_key(r, i), table,
                               bucket, from) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* What all keys from the heap's places on begin with. A run is sorted: its first and its last key tell. */
static size_t
common_of_walk(const struct run_walk *w)
{
    const struct run *one = w->count > 0 ? w->heap[0].run : NULL;
    const struct item *i = w->count > 0 ? &one->items[w->heap[0].item] : NULL;
    size_t common = w->count > 0 ? i->key_len : 0;

    for (uint32_t k = 0; k < w->count; k++) {
        const struct run *r = w->heap[k].run;
        const struct item *ends[] = {&r->items[w->heap[k].item], &r->items[r->count - 1]};

        for (unsigned e = 0; e < ARRAY_LEN(ends); e++) {
            if (ends[e]->table != i->table || ends[e]->bucket != i->bucket)
                return SIZE_MAX;
            common = common_part(item_key(one, i), item_key(r, ends[e]), common);
        }
    }
    return common;
}

#define KEYS_AHEAD 8u

/* Keys of runs that were not merged yet lie in the order in which they came: those that are next are asked for. */
static void
note_first(const struct run_walk *w, struct run_place *p)
{
    uint32_t next = MIN(p->item + KEYS_AHEAD, p->run->count - 1);
    const char *at = p->run->bytes + p->run->items[next].at;

    __builtin_prefetch(at);
    __builtin_prefetch(at + 64); /* where its value ends, about */
    p->first = w->skip == SIZE_MAX
                   ? 0
                   : bytes_behind(item_key(p->run, &p->run->items[p->item]), w->skip);
}

void
run_walk_begin(struct run_walk *w, const struct run *const *runs, uint32_t count,
               enum table table, uint64_t bucket, struct span from)
{
    *w = (struct run_walk){.heap = xcalloc(MAX(count, 1u), sizeof *w->heap)};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t item = run_lower_bound(runs[i], table, bucket, from);

        assert(runs[i]->finished);
        if (item < runs[i]->count)
            w->heap[w->count++] =
                (struct run_place){.run = runs[i], .item = item, .age = i};
    }
    w->skip = common_of_walk(w);
    for (uint32_t i = 0; i < w->count; i++)
        note_first(w, &w->heap[i]);
    for (uint32_t i = w->count / 2; i-- > 0;)
        walk_sift_down(w, i);
}

static void
walk_step(struct run_walk *w)
{
    if (++w->heap[0].item == w->heap[0].run->count)
        w->heap[0] = w->heap[--w->count];
    else
        note_first(w, &w->heap[0]);
    walk_sift_down(w, 0);
    assert(w->count == 0 || w->heap[0].item < w->heap[0].run->count);
}

bool
run_walk_next(struct run_walk *w, struct coded_entry *out)
{
    const struct run *r;
    const struct item *i;
    uint64_t first;

    if (w->count == 0)
        return false;
    first = w->heap[0].first;
    r = w->heap[0].run;
    i = &r->items[w->heap[0].item];
    *out = (struct coded_entry){(enum table)i->table, i->bucket, item_key(r, i),
                                item_value(r, i)};
    walk_step(w);
    while (w->count > 0 && w->heap[0].first == first) {
        r = w->heap[0].run;
        i = &r->items[w->heap[0].item];
        if (item_compare_place((enum table)i->table, i->bucket, item_key(r, i),
                               out->table, out->bucket, out->key) != 0)
            break;
        if (entry_is_newer(out->table, out->value, item_value(r, i)))
            out->value = item_value(r, i);
        walk_step(w);
    }
    return true;
}

void
run_walk_end(struct run_walk *w)
{
    free(w->heap);
    *w = (struct run_walk){0};
}

/* ---- several made one ---- */

/* What is left of a run that goes into another. */
struct source {
    const struct run *run;
    const struct item *at, *end;
    uint64_t first; /* of the key at `at`, behind what all begin with */
};

/* What all keys of these runs begin with; SIZE_MAX: they are of several tables or buckets. Runs are sorted: the first and the
 * last key tell. */
static size_t
common_of_runs(const struct source *s, unsigned count)
{
    const struct item *one = s[0].at;
    size_t common = one->key_len;

    for (unsigned k = 0; k < count; k++) {
        const struct item *ends[] = {s[k].at, s[k].end - 1};

        for (unsigned e = 0; e < ARRAY_LEN(ends); e++) {
            if (ends[e]->table != one->table || ends[e]->bucket != one->bucket)
                return SIZE_MAX;
            common =
                common_part(item_key(s[0].run, one), item_key(s[k].run, ends[e]), common);
        }
    }
    return common;
}

static void
note_first_of(struct source *s, size_t skip)
{
    if (s->end - s->at > KEYS_AHEAD)
        __builtin_prefetch(s->run->bytes + s->at[KEYS_AHEAD].at);
    s->first = skip == SIZE_MAX ? 0 : bytes_behind(item_key(s->run, s->at), skip);
}

/* Of the same key? */
static bool
is_same(const struct run *r, const struct item *i, const struct run *other,
        const struct item *j)
{
    return i->table == j->table && i->bucket == j->bucket &&
           span_eq(item_key(r, i), item_key(other, j));
}

/* The source whose key comes first; of several with the same key the oldest. */
static struct source *
walk_first_of(struct source *s, unsigned count)
{
    struct source *first = s;

    for (struct source *x = s + 1; x < s + count; x++)
        if (x->first < first->first ||
            (x->first == first->first &&
             item_compare_place((enum table)x->at->table, x->at->bucket,
                                item_key(x->run, x->at), (enum table)first->at->table,
                                first->at->bucket, item_key(first->run, first->at)) < 0))
            first = x;
    return first;
}

/* Key and value stand behind each other there as here; there is room for all. */
static void
merge_append(struct run *r, const struct source *s)
{
    size_t len = (size_t)s->at->key_len + s->at->value_len;
    struct item *item = &r->items[r->count++];
    struct buf *b = &r->run_buffer->buf;

    *item = *s->at;
    item->at = (uint32_t)b->len;
    memcpy(b->at + b->len, s->run->bytes + s->at->at, len);
    b->len += len;
}

/* The next item; if it is of the key that came last, whose `first` that was, the newer one of both stays. */
static void
merge_take_item(struct run *r, const struct source *s, uint64_t first)
{
    struct item *last = r->count > 0 ? &r->items[r->count - 1] : NULL;

    if (s->first == first && last != NULL && is_same(r, last, s->run, s->at)) {
        if (!entry_is_newer((enum table)last->table, item_value(r, last),
                            item_value(s->run, s->at)))
            return;
        r->run_buffer->buf.len = last->at;
        r->count--;
    }
    merge_append(r, s);
}

/* Room for all of them, so that nothing grows in the middle. */
static void
merge_reserve(struct run *r, const struct run *const *runs, uint32_t count)
{
    size_t bytes = 1;
    char *at;

    for (uint32_t i = 0; i < count; i++) {
        r->room += runs[i]->count;
        bytes += runs[i]->run_buffer->buf.len;
    }
    r->items = xmalloc(MAX(r->room, 1u) * sizeof *r->items);
    at = buf_reserve(&r->run_buffer->buf, bytes);
    assert(at != NULL);
    r->bytes = r->run_buffer->buf.at;
}

struct run *
run_merge(const struct run *const *runs, uint32_t count)
{
    struct run *r = run_new();
    struct source from[RUN_MERGE_MOST];
    unsigned left = 0;
    uint64_t first = 0;
    size_t skip;

    assert(count <= RUN_MERGE_MOST);
    merge_reserve(r, runs, count);
    for (uint32_t i = 0; i < count; i++) {
        assert(runs[i]->finished);
        assert(runs[i] != r);
        run_add_segments(r, runs[i]);
        if (runs[i]->count > 0)
            from[left++] = (struct source){.run = runs[i],
                                           .at = runs[i]->items,
                                           .end = runs[i]->items + runs[i]->count};
    }
    skip = left > 0 ? common_of_runs(from, left) : 0;
    for (unsigned i = 0; i < left; i++)
        note_first_of(&from[i], skip);
    while (left > 0) {
        struct source *s = walk_first_of(from, left);

        merge_take_item(r, s, first);
        first = s->first;
        if (++s->at < s->end)
            note_first_of(s, skip);
        else
            memmove(s, s + 1, (size_t)(&from[--left] - s) * sizeof *s);
    }
    assert(left == 0 && r->count <= r->room);
    run_build_slots(r, 2 * r->count); /* they came in order, each key once */
    r->finished = true;
    return r;
}
