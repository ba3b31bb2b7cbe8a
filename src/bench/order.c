#include "bench/order.h"

#include <assert.h>

#include "base/hash.h"
#include "base/mem.h"

#define ROUNDS 4u

void
train_order_init(struct train_order *o, const struct train_file *files, uint32_t count,
                 const struct train_layout *layout, uint64_t seed)
{
    assert(count > 0);
    assert(layout->sample_bytes > 0);
    assert(layout->columns == 0 || layout->batch > 0);
    *o = (struct train_order){
        .files = files, .file_count = count, .layout = *layout, .seed = seed};
}

void
train_order_again(struct train_order *o, bool once)
{
    o->seed++;
    o->once = once;
    atomic_store_explicit(&o->next, 0, memory_order_relaxed);
}

/* ---- a permutation ---- */

static uint64_t
scrambled(const struct train_order *o, uint64_t pass, unsigned round, uint64_t half)
{
    uint64_t words[3] = {pass, round, half};

    return hash_xxh3(words, sizeof words, o->seed);
}

/* One of 0 to count - 1: two halves that scramble each other in turn give each number of their bits once; what is too large
 * goes through again until it is not, which is soon: there are fewer than four times as many. */
static uint32_t
permuted(const struct train_order *o, uint64_t pass, uint32_t index)
{
    unsigned bits = 1;
    uint64_t at = index, mask, left, right, swap;

    while ((1ull << (2 * bits)) < o->file_count)
        bits++;
    mask = (1ull << bits) - 1;
    do {
        left = at >> bits;
        right = at & mask;
        for (unsigned i = 0; i < ROUNDS; i++) {
            swap = left ^ (scrambled(o, pass, i, right) & mask);
            left = right;
            right = swap;
        }
        at = left << bits | right;
    } while (at >= o->file_count);
    return (uint32_t)at;
}

static bool
order_next_file(struct train_order *o, uint32_t *out)
{
    uint64_t n = atomic_fetch_add_explicit(&o->next, 1, memory_order_relaxed);

    if (o->once && n >= o->file_count)
        return false;
    *out = permuted(o, n / o->file_count, (uint32_t)(n % o->file_count));
    return true;
}

/* ---- pieces ---- */

/* Samples in a row, or all there is. Returns how many samples the cursor is behind them. */
static uint32_t
cut_samples(const struct train_order *o, const struct train_cursor *c, uint32_t most,
            struct train_piece *out)
{
    const struct train_file *f = &o->files[c->file];
    const struct train_layout *l = &o->layout;
    uint64_t samples = MAX(l->request_bytes / l->sample_bytes, 1u);

    samples = MIN(samples, (uint64_t)most);
    samples = MIN(samples, (uint64_t)(f->samples - c->sample));
    out->samples = (uint32_t)samples;
    out->whole = f->samples == 1;
    out->bytes = out->whole ? f->bytes : samples * l->sample_bytes;
    out->offset = out->whole ? 0 : c->sample * l->sample_bytes;
    return out->samples;
}

/* The chunk of one column; of the last one the cursor is behind the group. */
static uint32_t
cut_chunk(const struct train_order *o, struct train_cursor *c, uint32_t most,
          struct train_piece *out)
{
    const struct train_file *f = &o->files[c->file];
    const struct train_layout *l = &o->layout;
    uint64_t rows = MIN(l->batch, f->samples - c->sample), i = c->column;

    out->bytes = MAX(rows * l->read_bytes / l->columns, 1u);
    out->offset = c->sample * l->sample_bytes + rows * (i * l->sample_bytes / l->columns);
    out->offset = MIN(out->offset, f->bytes - MIN(out->bytes, f->bytes));
    out->bytes = MIN(out->bytes, f->bytes);
    /* Its share of the group's rows, so that all chunks together are all rows. */
    out->samples = (uint32_t)(rows * (i + 1) / l->columns - rows * i / l->columns);
    out->samples = MIN(out->samples, most);
    out->whole = false;
    c->column = c->column + 1 < l->columns ? c->column + 1 : 0;
    return c->column == 0 ? (uint32_t)rows : 0;
}

bool
train_order_cut(struct train_order *o, struct train_cursor *c, uint32_t most,
                struct train_piece *out)
{
    assert(most > 0);
    if (!c->has_file && !order_next_file(o, &c->file))
        return false;
    *out = (struct train_piece){.file = c->file};
    c->sample +=
        o->layout.columns > 0 ? cut_chunk(o, c, most, out) : cut_samples(o, c, most, out);
    c->has_file = c->sample < o->files[c->file].samples;
    c->sample = c->has_file ? c->sample : 0;
    return true;
}
