/* train: `forebay bench train`, emulated accelerators against a server. The parts: profile, dataset, accelerator, search, probe,
 * look, roofline; train.c puts them together, train_report.c tells. docs/train.md is the manual.
 */
#pragma once
#include <stdio.h>

#include "bench/dataset.h"
#include "bench/look.h"
#include "bench/roofline.h"
#include "cli/session.h"

extern const struct cli_verb bench_train;

#define TRAIN_EPOCHS_MAX 64
#define TRAIN_RUNS_MAX   32
/* One number of accelerators, tried or through an epoch. */
struct train_trial {
    unsigned accelerators, epoch; /* epoch 0: none, for so long */
    struct train_result
        *result;      /* owned; of several runs the one with the median utilisation */
    struct look used; /* by all of that one run */
    double au_least, au_most; /* of the runs */
    bool passed;
};
struct train {
    struct session *s;
    struct place place;
    struct profile profile;
    struct dataset set;
    struct train_order order;
    /* Flags. */
    unsigned accelerators; /* 0: as many as can be kept busy */
    unsigned readers, prefetch, most, runs, epochs;
    uint64_t request_bytes, data_bytes, duration_ms, probe_ms, seed, files;
    const char *svg, *disk, *keys;
    bool existing, keep;

    char *memory; /* owned: where samples end */
    size_t memory_next;
    struct train_trial trials[ROOFLINE_RUNS + TRAIN_EPOCHS_MAX];
    unsigned trial_count;
    struct train_trial *best;   /* the largest that passed; NULL: none */
    struct train_trial *judged; /* whose limits are told */
    struct roofline roofline;
    double backend_best; /* bytes a second that came from behind the server at most */
};

#define TRAIN_MEMORY MIB(64)

extern const struct verb train_verb; /* its flags, its help */
/* What the arguments ask for; defaults are there before. */
enum err train_take_flags(struct train *t) MUST_CHECK;
/* Reads a piece of the set to its end: a train_fetch, `arg` is the train. */
enum err train_read(void *arg, const struct train_piece *p, uint64_t *bytes,
                    struct errbuf *eb) MUST_CHECK;
/* The ceilings of t->judged; what has to be measured is measured now. May switch. */
void train_draw_roofline(struct train *t);

void train_print(const struct train *t, FILE *out);
void train_print_trial(const struct train_trial *trial, FILE *out);
void train_print_json(const struct train *t, FILE *out);
