/* Counting: every cell of every family has a number; a thread's block is an array of cells. */
#include "base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"
#include "base/metrics_process.h"

/* ---- the tables ---- */

enum kind { COUNTER, GAUGE };

static const struct family {
    const char *name;
    enum kind kind;
    const char *help;
    const char *label;
    const char *values;
} families[METRIC_COUNT_] = {
#define X(id, name, type, help, label, values) [id] = {name, type, help, label, values},
    METRIC_TABLE(X)
#undef X
};

static const char *const op_names[OP_COUNT_] = {
#define X(name) [OP_##name] = #name,
    METRIC_OPS(X)
#undef X
};

static const char *const api_names[API_COUNT_] = {
#define X(name) [API_##name] = #name,
    METRIC_APIS(X)
#undef X
};

/* Frequent ones first; 0 stands for all others. */
static const int codes[] = {200, 206, 304, 204, 404, 403, 503, 412, 416, 400, 201,
                            202, 301, 307, 401, 405, 408, 409, 411, 413, 414, 417,
                            429, 431, 500, 501, 502, 504, 505, 507, 0};

/* Upper bounds of the histograms. */
static const struct {
    uint64_t ns;
    const char *seconds;
} bounds[] = {
    {100000, "0.0001"},   {250000, "0.00025"}, {500000, "0.0005"},  {1000000, "0.001"},
    {2500000, "0.0025"},  {5000000, "0.005"},  {10000000, "0.01"},  {25000000, "0.025"},
    {50000000, "0.05"},   {100000000, "0.1"},  {250000000, "0.25"}, {500000000, "0.5"},
    {1000000000, "1"},    {2500000000, "2.5"}, {5000000000, "5"},   {10000000000, "10"},
    {UINT64_MAX, "+Inf"},
};

/* ---- the cells ---- */

enum { CODES = ARRAY_LEN(codes), BOUNDS = ARRAY_LEN(bounds) };
enum {
    CELL_FAMILIES = 0,
    CELL_REQUESTS = CELL_FAMILIES + METRIC_COUNT_ * METRIC_LABELS_MAX,
    CELL_DURATION = CELL_REQUESTS + (int)OP_COUNT_ * CODES * (int)API_COUNT_,
    CELL_FIRST_BYTE = CELL_DURATION + OP_COUNT_ * (BOUNDS + 1), /* the last is the sum */
    CELL_BYTES_IN = CELL_FIRST_BYTE + OP_COUNT_ * (BOUNDS + 1),
    CELL_BYTES_OUT = CELL_BYTES_IN + OP_COUNT_,
    CELLS = CELL_BYTES_OUT + OP_COUNT_
};

/* Only its owner writes it; a scrape reads it. A thread that ends leaves its block, with its counts, to the next
 * thread that begins. */
struct block {
    _Alignas(128) _Atomic int64_t cells[CELLS];
    struct block *next; /* of all blocks; never changes once the block is in the list */
    bool owned;         /* under blocks_lock */
};

#define COLLECTORS_MAX 16

static struct lock blocks_lock = LOCK_INIT(LOCK_BLOCKS);
static _Atomic(struct block *) blocks; /* prepended under blocks_lock */
static struct block shared; /* of threads without one: counted with atomic additions */
static _Thread_local struct block *mine;
static pthread_key_t at_thread_end;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static struct lock collectors_lock = LOCK_INIT(LOCK_COLLECTORS);
static struct {
    void (*collect)(struct buf *out, void *arg);
    void *arg;
} collectors[COLLECTORS_MAX];
static unsigned collector_count;
static _Atomic(const char *) engine = "none", commit = "unknown";

static void
leave_block(void *block)
{
    mine = NULL;
    lock_acquire(&blocks_lock);
    ((struct block *)block)->owned = false;
    lock_release(&blocks_lock);
}

static void
metrics_make_key(void)
{
    int rc = pthread_key_create(&at_thread_end, leave_block);

    assert(rc == 0);
    (void)rc;
}

static struct block *
metrics_block_new(void)
{
    struct block *b = aligned_alloc(_Alignof(struct block), sizeof *b);

    if (b == NULL)
        abort();
    memset(b, 0, sizeof *b);
    b->next = atomic_load(&blocks);
    atomic_store(&blocks, b);
    return b;
}

void
metrics_thread_begin(void)
{
    struct block *b;

    if (mine != NULL)
        return;
    pthread_once(&key_once, metrics_make_key);
    lock_acquire(&blocks_lock);
    for (b = atomic_load(&blocks); b != NULL && b->owned; b = b->next)
        ;
    if (b == NULL)
        b = metrics_block_new();
    b->owned = true;
    lock_release(&blocks_lock);
    mine = b;
    pthread_setspecific(at_thread_end, b);
}

static inline void
metrics_count(unsigned cell, int64_t delta)
{
    struct block *b = mine;

    if (b == NULL) {
        atomic_fetch_add_explicit(&shared.cells[cell], delta, memory_order_relaxed);
        return;
    }
    atomic_store_explicit(&b->cells[cell],
                          atomic_load_explicit(&b->cells[cell], memory_order_relaxed) +
                              delta,
                          memory_order_relaxed);
}

static int64_t
metrics_sum_of(unsigned cell)
{
    int64_t sum = atomic_load_explicit(&shared.cells[cell], memory_order_relaxed);

    for (struct block *b = atomic_load(&blocks); b != NULL; b = b->next)
        sum += atomic_load_explicit(&b->cells[cell], memory_order_relaxed);
    return sum;
}

static unsigned
family_cell(enum metric_id id, unsigned label)
{
    assert(id < METRIC_COUNT_);
    assert(label < METRIC_LABELS_MAX);
    return CELL_FAMILIES + id * METRIC_LABELS_MAX + label;
}

void
metric_add(enum metric_id id, unsigned label, int64_t delta)
{
    metrics_count(family_cell(id, label), delta);
}

int64_t
metric_read(enum metric_id id, unsigned label)
{
    return metrics_sum_of(family_cell(id, label));
}

static unsigned
request_cell(unsigned op, unsigned code, unsigned api)
{
    return CELL_REQUESTS + (op * CODES + code) * API_COUNT_ + api;
}

static void
count_time(unsigned first_cell, uint64_t ns)
{
    unsigned i = 0;

    while (ns > bounds[i].ns)
        i++;
    metrics_count(first_cell + i, 1);
    metrics_count(first_cell + BOUNDS, (int64_t)MIN(ns, (uint64_t)INT64_MAX / 2));
}

void
metric_request_done(const struct metric_request *r)
{
    unsigned code = 0;

    assert(r->op < OP_COUNT_);
    assert(r->api < API_COUNT_);
    while (codes[code] != r->status && codes[code] != 0)
        code++;
    metrics_count(request_cell(r->op, code, r->api), 1);
    count_time(CELL_DURATION + r->op * (BOUNDS + 1), r->duration_ns);
    count_time(CELL_FIRST_BYTE + r->op * (BOUNDS + 1), r->first_byte_ns);
    metrics_count(CELL_BYTES_IN + r->op, (int64_t)r->bytes_in);
    metrics_count(CELL_BYTES_OUT + r->op, (int64_t)r->bytes_out);
}

void
metric_request_sums(enum metric_op op, struct metric_request_sums *out)
{
    unsigned first = CELL_DURATION + op * (BOUNDS + 1);

    assert(op < OP_COUNT_);
    *out = (struct metric_request_sums){
        .bytes_in = (uint64_t)metrics_sum_of(CELL_BYTES_IN + op),
        .bytes_out = (uint64_t)metrics_sum_of(CELL_BYTES_OUT + op),
        .duration_ns = (uint64_t)metrics_sum_of(first + BOUNDS),
    };
    for (unsigned code = 0; code < CODES; code++)
        for (unsigned api = 0; api < API_COUNT_; api++) {
            uint64_t n = (uint64_t)metrics_sum_of(request_cell(op, code, api));

            out->count += n;
            out->failed += codes[code] >= 400 ? n : 0;
        }
}

/* ---- collectors ---- */

void
metrics_register(void (*collect)(struct buf *out, void *arg), void *arg)
{
    lock_acquire(&collectors_lock);
    assert(collector_count < COLLECTORS_MAX);
    collectors[collector_count].collect = collect;
    collectors[collector_count++].arg = arg;
    lock_release(&collectors_lock);
}

void
metrics_unregister(void *arg)
{
    lock_acquire(&collectors_lock);
    for (unsigned i = 0; i < collector_count;) {
        if (collectors[i].arg == arg)
            collectors[i] = collectors[--collector_count];
        else
            i++;
    }
    lock_release(&collectors_lock);
}

void
metrics_set_engine(const char *name)
{
    atomic_store(&engine, name);
}

void
metrics_set_commit(const char *name)
{
    atomic_store(&commit, name);
}

const char *
metrics_commit(void)
{
    return atomic_load(&commit);
}

/* ---- the page ---- */

static void
metrics_put_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void
metrics_put_label(struct buf *out, struct span value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];

        if (c == '\n')
            buf_puts(out, "\\n");
        else if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else
            buf_putc(out, c);
    }
}

static void
put_family(struct buf *out, enum metric_id id)
{
    const struct family *f = &families[id];
    struct span rest = span_of(f->values);

    metrics_put_head(out, f->name, f->kind == COUNTER ? "counter" : "gauge", f->help);
    if (rest.len == 0) {
        buf_printf(out, "%s %" PRId64 "\n", f->name, metric_read(id, 0));
        return;
    }
    for (unsigned label = 0; rest.len > 0; label++) {
        const char *bar = memchr(rest.at, '|', rest.len);
        struct span value = {rest.at, bar != NULL ? (size_t)(bar - rest.at) : rest.len};

        buf_printf(out, "%s{%s=\"%.*s\"} %" PRId64 "\n", f->name, f->label,
                   SPAN_ARG(value), metric_read(id, label));
        rest = span_from(rest, value.len + 1);
    }
}

/* Only what has happened: the full product would be hundreds of lines of zeros. */
static void
put_requests(struct buf *out)
{
    const char *name = "forebay_requests_total";

    metrics_put_head(out, name, "counter", "requests answered");
    for (unsigned op = 0; op < OP_COUNT_; op++) {
        for (unsigned code = 0; code < CODES; code++) {
            for (unsigned api = 0; api < API_COUNT_; api++) {
                int64_t n = metrics_sum_of(request_cell(op, code, api));
                char text[16] = "other";

                if (n == 0)
                    continue;
                if (codes[code] != 0)
                    snprintf(text, sizeof text, "%d", codes[code]);
                buf_printf(out, "%s{op=\"%s\",code=\"%s\",api=\"%s\"} %" PRId64 "\n",
                           name, op_names[op], text, api_names[api], n);
            }
        }
    }
}

/* The count is the last bucket, not a cell of its own, so that the two agree while others
 * count. */
static void
put_histogram(struct buf *out, const char *name, const char *help, unsigned cells)
{
    metrics_put_head(out, name, "histogram", help);
    for (unsigned op = 0; op < OP_COUNT_; op++) {
        unsigned first = cells + op * (BOUNDS + 1);
        int64_t total = 0;

        for (unsigned i = 0; i < BOUNDS; i++) {
            total += metrics_sum_of(first + i);
            buf_printf(out, "%s_bucket{op=\"%s\",le=\"%s\"} %" PRId64 "\n", name,
                       op_names[op], bounds[i].seconds, total);
        }
        buf_printf(out, "%s_sum{op=\"%s\"} %.9f\n%s_count{op=\"%s\"} %" PRId64 "\n", name,
                   op_names[op], (double)metrics_sum_of(first + BOUNDS) / 1e9, name,
                   op_names[op], total);
    }
}

static void
put_by_op(struct buf *out, const char *name, const char *help, unsigned cells)
{
    metrics_put_head(out, name, "counter", help);
    for (unsigned op = 0; op < OP_COUNT_; op++)
        buf_printf(out, "%s{op=\"%s\"} %" PRId64 "\n", name, op_names[op],
                   metrics_sum_of(cells + op));
}

static void
put_build(struct buf *out)
{
    metrics_put_head(out, "forebay_build_info", "gauge", "what is running; always 1");
    buf_printf(out, "forebay_build_info{version=\"%s\",commit=\"%s\",engine=\"%s\"} 1\n",
               FOREBAY_VERSION, atomic_load(&commit), atomic_load(&engine));
}

void
metrics_write(struct buf *out)
{
    put_build(out);
    for (unsigned id = 0; id < METRIC_COUNT_; id++)
        put_family(out, (enum metric_id)id);
    put_requests(out);
    put_histogram(out, "forebay_request_duration_seconds",
                  "from the first byte of a request to the last byte of its answer",
                  CELL_DURATION);
    put_histogram(out, "forebay_first_byte_seconds",
                  "from the first byte of a request to the first byte of its answer",
                  CELL_FIRST_BYTE);
    put_by_op(out, "forebay_request_bytes_total", "body bytes received", CELL_BYTES_IN);
    put_by_op(out, "forebay_response_bytes_total", "body bytes sent", CELL_BYTES_OUT);
    metrics_put_process(out);
    lock_acquire(&collectors_lock);
    for (unsigned i = 0; i < collector_count; i++)
        collectors[i].collect(out, collectors[i].arg);
    lock_release(&collectors_lock);
}
