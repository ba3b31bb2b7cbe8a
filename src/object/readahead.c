#include "object/readahead.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "object/fiber_group.h"
#include "object/tier.h"
#include "rt/loop.h"

#define STREAMS     64u /* sequences that a loop watches */
#define RUN         3u  /* reads in order that make a sequence */
#define GAP         8u  /* names that may be missing in between */
#define READERS_MAX 8u  /* waiting for backends; with more, only readers fetch */
#define DIGITS_MAX  18u

/* One sequence: names that differ only in digits. */
struct stream {
    uint64_t like; /* hash of bucket and name with its digits taken out; 0: unused */
    size_t len;
    unsigned run;
    uint64_t last, fetched_to; /* numbers: last read, last fetched */
    uint64_t end;              /* no number from this on exists; UINT64_MAX: not known */
    uint64_t bytes;            /* kept at once of the last object read */
    size_t at, digits;         /* of the number in the name */
    char name[STORE_KEY_MAX];
};

struct watch {
    struct stream streams[STREAMS];
    unsigned busy; /* fetches in flight */
};

struct readahead {
    unsigned window;
    struct fiber_group *fibers; /* owned */
    struct watch **watches;     /* one a loop; owned */
};

/* ---- names ---- */

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t
digits_at(struct span s, size_t at)
{
    size_t n = 0;

    while (at + n < s.len && is_digit(s.at[at + n]))
        n++;
    return n;
}

static uint64_t
number_at(struct span s, size_t at, size_t digits)
{
    uint64_t n = 0;

    assert(at + digits <= s.len);
    assert(digits <= DIGITS_MAX);
    for (size_t i = 0; i < digits; i++)
        n = n * 10 + (uint64_t)(s.at[at + i] - '0');
    return n;
}

bool
readahead_compare(struct span a, struct span b, struct readahead_step *out)
{
    size_t i = 0, k = 0;

    assert(a.len <= STORE_KEY_MAX);
    assert(b.len <= STORE_KEY_MAX);
    *out = (struct readahead_step){0};
    while (i < a.len && k < b.len) {
        size_t n = digits_at(a, i), m = digits_at(b, k);

        if (n == 0 || m == 0) {
            if (a.at[i++] != b.at[k++])
                return false;
            continue;
        }
        if (n != m || memcmp(a.at + i, b.at + k, n) != 0) {
            if (out->digits != 0 || n > DIGITS_MAX || m > DIGITS_MAX)
                return false;
            *out = (struct readahead_step){.at = k,
                                           .digits = m,
                                           .from = number_at(a, i, n),
                                           .to = number_at(b, k, m)};
        }
        i += n;
        k += m;
    }
    return i == a.len && k == b.len && out->digits != 0;
}

/* The same value for all names of a sequence. 0: the name has no number. */
static uint64_t
likeness(const struct map_bucket *b, struct span key)
{
    char text[STORE_KEY_MAX];
    size_t len = 0;
    uint64_t hash;

    assert(key.len <= STORE_KEY_MAX);
    for (size_t i = 0; i < key.len; i++)
        if (!is_digit(key.at[i]))
            text[len++] = key.at[i];
        else if (i == 0 || !is_digit(key.at[i - 1]))
            text[len++] = '\0';
    if (len == key.len && memchr(text, '\0', len) == NULL)
        return 0;
    hash = hash_xxh3(text, len, b->id ^ 0x72656164u);
    return hash != 0 ? hash : 1;
}

/* The name with another number in its place, zero-padded to the same width. False: too long. */
static bool
name_of(const struct stream *t, uint64_t number, char out[STORE_KEY_MAX], size_t *len)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%0*llu", (int)t->digits,
                     (unsigned long long)number);
    size_t rest = t->len - t->at - t->digits;

    assert(t->at + t->digits <= t->len);
    if (t->len - t->digits + (size_t)n > STORE_KEY_MAX)
        return false;
    memcpy(out, t->name, t->at);
    memcpy(out + t->at, digits, (size_t)n);
    memcpy(out + t->at + n, t->name + t->at + t->digits, rest);
    *len = t->at + (size_t)n + rest;
    return true;
}

/* ---- fetching ---- */

struct readahead_fetch {
    struct object_service *s;
    const struct map_bucket *bucket; /* one reference */
    struct watch *watch;
    uint64_t like, number;
    size_t len;
    char name[STORE_KEY_MAX];
};

static void readahead_advance(struct object_service *s, const struct map_bucket *b,
                              struct watch *w, struct stream *t);

static void
readahead_run(void *arg)
{
    struct readahead_fetch *a = arg;
    struct stream *t = &a->watch->streams[a->like % STREAMS];
    struct errbuf eb = {{0}};
    enum err rc;

    assert(a->watch->busy > 0);
    rt_doing("readahead");
    rc = prefetch_first_bytes(a->s, a->bucket, (struct span){a->name, a->len}, &eb);
    a->watch->busy--;
    if (rc == ERR_NOT_FOUND && t->like == a->like)
        t->end = MIN(t->end, a->number);
    if (rc == ERR_OK && t->like == a->like && t->run >= RUN)
        readahead_advance(a->s, a->bucket, a->watch,
                          t); /* what had no room in the window then */
    map_bucket_drop(&a->bucket);
    free(a);
}

/* False: not now. */
static bool
readahead_start(struct object_service *s, const struct map_bucket *b, struct watch *w,
                const struct stream *t, uint64_t number)
{
    struct readahead_fetch *a = xcalloc(1, sizeof *a);

    *a = (struct readahead_fetch){.s = s, .watch = w, .like = t->like, .number = number};
    if (!name_of(t, number, a->name, &a->len) ||
        !tier_would_keep(s, b, (struct span){a->name, a->len}, t->bytes)) {
        free(a);
        return false;
    }
    a->bucket = map_bucket_ref(b);
    w->busy++;
    if (fiber_group_spawn(s->readahead->fibers, readahead_run, a) != ERR_OK) {
        w->busy--;
        map_bucket_drop(&a->bucket);
        free(a);
        return false;
    }
    metric_add(M_READAHEAD, 0, 1);
    return true;
}

static void
readahead_advance(struct object_service *s, const struct map_bucket *b, struct watch *w,
                  struct stream *t)
{
    unsigned window = s->readahead->window;
    uint64_t number = MAX(t->fetched_to, t->last) + 1;

    assert(w->busy <= window);
    assert(t->run >= RUN);
    for (; number <= t->last + window && number < t->end && w->busy < window; number++) {
        if (object_readers_waiting(s) > READERS_MAX ||
            !readahead_start(s, b, w, t, number))
            return;
        t->fetched_to = number;
    }
}

/* ---- watching ---- */

static void
begin_stream(struct stream *t, uint64_t like, struct span key)
{
    assert(key.len <= sizeof t->name);
    assert(like != 0);
    t->like = like;
    t->run = 1;
    t->fetched_to = 0;
    t->end = UINT64_MAX;
    t->len = key.len;
    memcpy(t->name, key.at, key.len);
}

void
readahead_observe(struct object_service *s, const struct map_bucket *b, struct span key,
                  uint64_t bytes)
{
    struct readahead *r = s->readahead;
    struct watch *w = r->watches[rt_loop_index()];
    struct readahead_step step;
    struct stream *t;
    uint64_t like;

    assert(key.len <= STORE_KEY_MAX);
    assert(b->cached);
    if (r->window == 0 || fiber_group_is_ending(r->fibers))
        return;
    like = likeness(b, key);
    t = &w->streams[like % STREAMS];
    if (like == 0 ||
        (t->like == like && t->len == key.len && memcmp(t->name, key.at, key.len) == 0))
        return;
    if (t->like != like ||
        !readahead_compare((struct span){t->name, t->len}, key, &step)) {
        begin_stream(t, like, key);
        return;
    }
    if (step.to < step.from && step.from - step.to <= GAP)
        return; /* one that was missing in between */
    if (step.to < step.from || step.to - step.from > GAP) {
        begin_stream(t, like, key);
        return;
    }
    t->run++;
    t->bytes =
        bytes > s->options.large_bytes ? MIN(bytes, s->options.chunk_bytes) : bytes;
    t->last = step.to;
    t->at = step.at;
    t->digits = step.digits;
    t->len = key.len;
    memcpy(t->name, key.at, key.len);
    if (t->run >= RUN)
        readahead_advance(s, b, w, t);
}

/* ---- begin and end ---- */

struct readahead *
readahead_new(unsigned window)
{
    struct readahead *r = xcalloc(1, sizeof *r);

    r->window = window;
    r->fibers = fiber_group_new();
    r->watches = xcalloc(rt_loop_count(), sizeof *r->watches);
    for (unsigned i = 0; i < rt_loop_count(); i++)
        r->watches[i] = xcalloc(1, sizeof *r->watches[i]);
    return r;
}

void
readahead_free(struct readahead **rp)
{
    struct readahead *r = *rp;

    if (r == NULL)
        return;
    fiber_group_end(&r->fibers);
    *rp = NULL; /* only now: ending fibers read it */
    for (unsigned i = 0; i < rt_loop_count(); i++)
        free(r->watches[i]);
    assert(r->fibers == NULL);
    free(r->watches);
    free(r);
}
