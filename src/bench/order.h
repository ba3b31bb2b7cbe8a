/* order: the files that emulated accelerators read, in an order that all of them share, cut into pieces of a request each.
 *
 * File n of pass e is a number that follows from the seed alone (a permutation by a small cipher), and n is one atomic
 * counter: accelerators of several loops take from one order, each file comes once in a pass, nothing is locked.
 *
 * A file is one sample, whatever its size; or many of the same size, read one behind the other; or rows in columns: then a row group has as
 * many rows as a batch, and of each of the columns that are read, spread evenly over the group, its chunk is one piece.
 * Plain data; any thread, but for the cursor, which is one accelerator's.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct train_file {
    char *key; /* the set's */
    uint64_t bytes;
    uint32_t samples;
};
struct train_piece {
    uint32_t file;
    uint64_t offset, bytes;
    bool whole; /* of the file: whatever its size is */
    uint32_t samples;
};
struct train_layout {
    uint64_t sample_bytes;
    uint64_t request_bytes; /* a piece of a file with many samples is about so large */
    uint32_t columns;       /* that are read; 0: samples lie whole */
    uint64_t read_bytes;    /* of a sample, by all columns together */
    uint32_t batch;         /* rows of a group, where there are columns */
};
struct train_order {
    const struct train_file *files; /* borrowed */
    uint32_t file_count;
    struct train_layout layout;
    uint64_t seed;
    bool once; /* one pass, then no more */
    _Atomic uint64_t next;
};
/* How far one accelerator is in its file; zeroed at first. */
struct train_cursor {
    bool has_file;
    uint32_t file, sample, column;
};

void train_order_init(struct train_order *o, const struct train_file *files,
                      uint32_t count, const struct train_layout *layout, uint64_t seed);
/* A new order, from its start. No reader may use it meanwhile. */
void train_order_again(struct train_order *o, bool once);
/* The next piece, of at most so many samples; false: the order has ended. A column's chunk may count for no sample at all. */
bool train_order_cut(struct train_order *o, struct train_cursor *c, uint32_t most,
                     struct train_piece *out);
