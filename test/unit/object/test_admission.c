/* The policy of the tier against traces: epochs in random order, a scan beside a block cache, Zipf, a working set that shifts.
 * The model has segments that go whole, as the disk does; Belady's optimum (which knows the future, and may pass an object
 * by) stands beside each hit ratio. */
#include <math.h>

#include "base/mem.h"
#include "check.h"
#include "object/admission.h"

#define CAPACITY 2000u
#define SEGMENTS 100000u
#define LOOK     50u /* reads between two looks of the evictor */

struct trace {
    uint32_t *keys;
    size_t count, room;
    uint64_t seed;
};

struct cache {
    struct admission a;
    uint32_t per_segment;
    uint32_t *segment_of; /* of a key; 0: not here */
    uint32_t keys;
    uint32_t *held;           /* objects of a segment */
    uint32_t *access_freq[2]; /* reads of a segment, this window and the one before */
    uint32_t now, newest, used;
    uint64_t reads, window_ends, admitted, evicted;
};

static uint64_t
next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void
add(struct trace *t, uint32_t key)
{
    if (t->count == t->room) {
        t->room = MAX(1024u, 2 * t->room);
        t->keys = xrealloc(t->keys, t->room * sizeof *t->keys);
    }
    t->keys[t->count++] = key;
}

/* [first, first + n), each once, in random order. */
static void
add_epoch(struct trace *t, uint32_t first, uint32_t n)
{
    size_t from = t->count;

    for (uint32_t i = 0; i < n; i++)
        add(t, first + i);
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)(next_random(&t->seed) % i);
        uint32_t *a = &t->keys[from + i - 1], *b = &t->keys[from + j], keep = *a;

        *a = *b;
        *b = keep;
    }
}

static void
add_zipf(struct trace *t, uint32_t n, uint32_t reads, double s)
{
    double *upto = xcalloc(n, sizeof *upto), sum = 0;

    for (uint32_t i = 0; i < n; i++)
        upto[i] = sum += pow(i + 1, -s);
    for (uint32_t r = 0; r < reads; r++) {
        double x = (double)(next_random(&t->seed) >> 11) / 9007199254740992.0 * sum;
        uint32_t lo = 0, hi = n - 1;

        while (lo < hi) {
            uint32_t mid = (lo + hi) / 2;

            if (upto[mid] < x)
                lo = mid + 1;
            else
                hi = mid;
        }
        add(t, lo * 7919u % n);
    }
    free(upto);
}

/* ---- the model ---- */

static uint64_t
hash_of(uint32_t key)
{
    return (key + 1) * 0x9e3779b97f4a7c15u;
}

static uint32_t
access_freq_of(const struct cache *c, uint32_t segment)
{
    return (c->access_freq[0][segment] + c->access_freq[1][segment]) * ACCESS_FREQ_ONE /
           MAX(c->held[segment], 1u);
}

static uint32_t
coldest(const struct cache *c)
{
    uint32_t best = 0;

    for (uint32_t s = 1; s <= c->newest; s++)
        if (c->held[s] > 0 && s != c->newest &&
            (best == 0 || access_freq_of(c, s) < access_freq_of(c, best)))
            best = s;
    return best;
}

static void
evict_segment(struct cache *c, uint32_t segment)
{
    uint32_t access_freq = access_freq_of(c, segment);

    for (uint32_t k = 0; k < c->keys; k++)
        if (c->segment_of[k] == segment &&
            !admission_stays(&c->a, hash_of(k), access_freq)) {
            c->held[segment]--;
            c->segment_of[k] = 0;
            c->used--;
            c->evicted++;
        }
}

static void
look(struct cache *c)
{
    uint32_t next;

    if (c->reads >= c->window_ends) {
        c->window_ends = c->reads + admission_window(c->used);
        admission_rotate(&c->a);
        c->now = 1 - c->now;
        memset(c->access_freq[c->now], 0, SEGMENTS * sizeof **c->access_freq);
    }
    if (c->used > CAPACITY * 97 / 100) {
        atomic_store(&c->a.room, ROOM_NONE);
        while (c->used > CAPACITY * 95 / 100 && (next = coldest(c)) != 0)
            evict_segment(c, next);
    }
    if (atomic_load(&c->a.room) != ROOM_NEW)
        atomic_store(&c->a.room, c->used < CAPACITY * 96 / 100 ? ROOM_LEFT : ROOM_NONE);
    next = coldest(c);
    atomic_store(&c->a.coldest, next != 0 ? access_freq_of(c, next) : 0);
}

static bool
read_one(struct cache *c, uint32_t key)
{
    uint32_t segment = c->segment_of[key], seen;

    if (c->reads++ % LOOK == 0)
        look(c);
    if (segment != 0) {
        c->access_freq[c->now][segment]++;
        (void)admission_count(&c->a, hash_of(key));
        return true;
    }
    seen = admission_count(&c->a, hash_of(key));
    if (!admission_allows(&c->a, seen) || c->used >= CAPACITY)
        return false;
    if (c->held[c->newest] == c->per_segment || c->newest == 0)
        c->newest++;
    c->segment_of[key] = c->newest;
    c->held[c->newest]++;
    c->access_freq[c->now][c->newest] += seen + 1;
    c->used++;
    c->admitted++;
    return false;
}

static void
cache_init(struct cache *c, uint32_t keys, uint32_t per_segment)
{
    *c = (struct cache){.per_segment = per_segment, .keys = keys};
    admission_init(&c->a);
    c->segment_of = xcalloc(keys, sizeof *c->segment_of);
    c->held = xcalloc(SEGMENTS, sizeof *c->held);
    for (int i = 0; i < 2; i++)
        c->access_freq[i] = xcalloc(SEGMENTS, sizeof **c->access_freq);
    c->window_ends = admission_window(0);
}

static void
cache_fini(struct cache *c)
{
    admission_fini(&c->a);
    free(c->segment_of);
    free(c->held);
    free(c->access_freq[0]);
    free(c->access_freq[1]);
}

/* Hits of t->keys[from, count). */
static uint64_t
hits_of(struct cache *c, const struct trace *t, size_t from)
{
    uint64_t hits = 0;

    for (size_t i = 0; i < t->count; i++)
        hits += read_one(c, t->keys[i]) && i >= from;
    return hits;
}

/* Belady: what is read again last is passed by, or goes. */
static uint64_t
optimum(const struct trace *t, uint32_t keys, size_t from)
{
    size_t *next = xcalloc(t->count, sizeof *next);
    size_t *when = xcalloc(keys, sizeof *when); /* next read of a key */
    uint32_t *here = xcalloc(CAPACITY, sizeof *here);
    uint32_t *place = xcalloc(keys, sizeof *place), used = 0; /* place + 1 */
    uint64_t hits = 0;

    for (uint32_t k = 0; k < keys; k++)
        when[k] = SIZE_MAX;
    for (size_t i = t->count; i-- > 0;) {
        next[i] = when[t->keys[i]];
        when[t->keys[i]] = i;
    }
    for (size_t i = 0; i < t->count; i++) {
        uint32_t key = t->keys[i], worst = 0;

        when[key] = next[i];
        if (place[key] != 0) {
            hits += i >= from;
            continue;
        }
        if (used < CAPACITY) {
            here[used++] = key;
            place[key] = used;
            continue;
        }
        for (uint32_t p = 1; p < used; p++)
            if (when[here[p]] > when[here[worst]])
                worst = p;
        if (when[here[worst]] > next[i]) {
            place[here[worst]] = 0;
            here[worst] = key;
            place[key] = worst + 1;
        }
    }
    free(next);
    free(when);
    free(here);
    free(place);
    return hits;
}

static double
ratio(const char *what, const struct trace *t, uint32_t keys, uint32_t per_segment,
      size_t from, double *best)
{
    struct cache c;
    double reads = (double)(t->count - from), got;

    cache_init(&c, keys, per_segment);
    got = (double)hits_of(&c, t, from) / reads;
    *best = (double)optimum(t, keys, from) / reads;
    printf("  %-34s %4u a segment: hit ratio %.3f, optimum %.3f; %llu admitted, "
           "%llu evicted\n",
           what, per_segment, got, *best, (unsigned long long)c.admitted,
           (unsigned long long)c.evicted);
    cache_fini(&c);
    return got;
}

/* ---- traces ---- */

static const uint32_t per_segment[] = {1, 20, 100};

static void
test_epochs_in_random_order_keep_what_fits(void)
{
    static const uint32_t times[] = {2, 4, 8};

    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        for (size_t s = 0; s < ARRAY_LEN(per_segment); s++) {
            uint32_t n = times[i] * CAPACITY;
            struct trace t = {.seed = 77 + i};
            double got, best;
            char what[64];

            for (int e = 0; e < 8; e++)
                add_epoch(&t, 0, n);
            snprintf(what, sizeof what, "epochs over %ux the cache", times[i]);
            got = ratio(what, &t, n, per_segment[s], n, &best);
            CHECK(got >= 0.9 / times[i]); /* of the share that fits */
            free(t.keys);
        }
}

/* A block cache of 60 % is read in epochs. From the fourth on, beside each of its reads stand two of a scan that never ends. */
static void
test_a_scan_takes_little_from_a_working_set(void)
{
    for (size_t s = 0; s < ARRAY_LEN(per_segment); s++) {
        uint32_t hot = CAPACITY * 60 / 100, at = hot;
        struct trace t = {.seed = 5}, epochs = {.seed = 6};
        struct cache c;
        uint64_t with = 0, without = 0;

        for (int e = 0; e < 3; e++)
            add_epoch(&t, 0, hot);
        for (int e = 0; e < 12; e++)
            add_epoch(&epochs, 0, hot);
        cache_init(&c, hot + 2 * (uint32_t)epochs.count, per_segment[s]);
        (void)hits_of(&c, &t, 0);
        for (size_t i = 0; i < epochs.count; i++) {
            with += read_one(&c, epochs.keys[i]);
            without++; /* all of it fits */
            (void)read_one(&c, at++);
            (void)read_one(&c, at++);
        }
        printf(
            "  scan beside a block cache              %4u a segment: %llu of %llu hits "
            "stay\n",
            per_segment[s], (unsigned long long)with, (unsigned long long)without);
        CHECK(with * 100 >= without * 95);
        cache_fini(&c);
        free(epochs.keys);
        free(t.keys);
    }
}

static void
test_zipf_comes_near_the_optimum(void)
{
    static const double skew[] = {0.7, 1.0};

    for (size_t z = 0; z < ARRAY_LEN(skew); z++)
        for (size_t s = 0; s < ARRAY_LEN(per_segment); s++) {
            struct trace t = {.seed = 99};
            double got, best;
            char what[64];

            add_zipf(&t, 10 * CAPACITY, 200000, skew[z]);
            snprintf(what, sizeof what, "Zipf %.1f over 10x the cache", skew[z]);
            got = ratio(what, &t, 10 * CAPACITY, per_segment[s], 100000, &best);
            CHECK(got >= 0.6 * best);
            free(t.keys);
        }
}

/* One training run ends, another begins: the new set gets its place within some epochs. */
static void
test_a_new_working_set_comes_in(void)
{
    for (size_t s = 0; s < ARRAY_LEN(per_segment); s++) {
        uint32_t n = CAPACITY * 80 / 100;
        struct trace t = {.seed = 31};
        size_t from;
        double got, best;

        for (int e = 0; e < 10; e++)
            add_epoch(&t, 0, n);
        for (int e = 0; e < 12; e++)
            add_epoch(&t, n, n);
        from = t.count;
        for (int e = 0; e < 4; e++)
            add_epoch(&t, n, n);
        got =
            ratio("another set, 12 epochs later", &t, 2 * n, per_segment[s], from, &best);
        CHECK(got >= 0.9);
        free(t.keys);
    }
}

static void
test_a_full_one_wants_more_than_what_goes(void)
{
    struct admission a;

    admission_init(&a);
    CHECK(admission_allows(&a, 0)); /* there is room */
    atomic_store(&a.room, ROOM_LEFT);
    CHECK(!admission_allows(&a, 0));
    CHECK(admission_allows(&a, 1));
    atomic_store(&a.room, ROOM_NONE);
    CHECK(!admission_allows(&a, 0));
    CHECK(!admission_allows(&a, 1));
    CHECK(admission_allows(&a, 2)); /* what would go was never read */
    atomic_store(&a.coldest, 3 * ACCESS_FREQ_ONE);
    CHECK(!admission_allows(&a, 4));
    CHECK(admission_allows(&a, 5));

    CHECK_U64(admission_count(&a, 42), 0);
    CHECK_U64(admission_count(&a, 42), 1);
    CHECK_U64(admission_seen(&a, 42), 2);
    CHECK_U64(admission_seen(&a, 43), 0);
    admission_rotate(&a);
    CHECK_U64(admission_count(&a, 42), 2);
    admission_rotate(&a);
    CHECK_U64(admission_seen(&a, 42), 1);
    admission_rotate(&a);
    CHECK_U64(admission_seen(&a, 42), 0);
    for (int i = 0; i < 300; i++)
        (void)admission_count(&a, 7);
    CHECK_U64(admission_seen(&a, 7), 255);
    admission_fini(&a);
}

/* As many keys as a window has reads: few are believed to have been seen who were not. */
static void
test_the_sketch_tells_keys_apart(void)
{
    struct admission a;
    uint64_t seed = 12345, n = admission_window(UINT32_MAX), wrong = 0;

    admission_init(&a);
    for (uint64_t i = 0; i < n; i++)
        (void)admission_count(&a, next_random(&seed));
    for (uint64_t i = 0; i < 100000; i++)
        wrong += admission_seen(&a, next_random(&seed)) >= 2;
    printf("  %llu keys in a window: %llu of 100,000 others look as if seen twice\n",
           (unsigned long long)n, (unsigned long long)wrong);
    CHECK(wrong < 1000);
    admission_fini(&a);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_a_full_one_wants_more_than_what_goes);
    RUN(test_the_sketch_tells_keys_apart);
    RUN(test_epochs_in_random_order_keep_what_fits);
    RUN(test_a_scan_takes_little_from_a_working_set);
    RUN(test_zipf_comes_near_the_optimum);
    RUN(test_a_new_working_set_comes_in);
    return check_done();
}
