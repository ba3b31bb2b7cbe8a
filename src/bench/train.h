/* train: `forebay bench train`, emulated accelerators against a server. The parts: profile, dataset, accelerator, search, probe,
 * look, roofline; train.c puts them together, train_report.c tells. docs/train.md is the manual.
 */
#pragma once
#include <stdio.h>

#include "bench/checkpoint.h"
#include "bench/dataset.h"
#include "bench/look.h"
#include "bench/roofline.h"
#include "cli/session.h"

extern const struct cli_verb bench_train;

#define TRAIN_EPOCHS_MAX 64
#define TRAIN_TRIED_MAX  (TRAIN_EPOCHS_MAX + ROOFLINE_RUNS)
#define TRAIN_TRIALS_MAX (TRAIN_TRIED_MAX + 64)
#define TRAIN_RUNS_MAX   32
#define TRAIN_LOOPS_MAX  64u
#define TRAIN_STEADY     0.05 /* runs that differ by no more are steady */
/* One number of accelerators: an epoch, a try, or several runs. */
struct train_trial {
    unsigned accelerators, epoch; /* epoch 0: none, for so long */
    struct train_result
        *result;      /* owned; of several runs the one with the median utilisation */
    struct look used; /* by all of that one run */
    unsigned runs;    /* that count */
    struct {
        double samples_s, au;
    } each[TRAIN_RUNS_MAX]; /* in the order in which they ran */
    bool passed;
};
/* How far its runs are apart: the greatest samples/s less the least, as a share of the median's. */
double train_spread(const struct train_trial *trial);
/* Where samples end, on one loop. */
struct train_memory {
    char *at; /* owned */
    size_t next;
    char apart[48]; /* no two on one line of a cache */
};
struct train {
    struct session *s;
    struct place place;
    struct profile profile;
    const struct checkpoint_model *checkpoint; /* instead; NULL: none */
    double scale;                              /* of a checkpoint: 0.001 */
    struct dataset set;
    struct train_order order;
    /* Flags. */
    unsigned accelerators; /* 0: as many as can be kept busy */
    unsigned from;         /* then: the first number that is tried */
    unsigned readers, prefetch, most, runs, epochs, loops;
    uint64_t request_bytes, data_bytes, memory_bytes, duration_ms, probe_ms, seed, files;
    const char *svg, *disk, *keys;
    bool existing, keep;

    struct train_memory *memory; /* owned: one a loop */
    struct train_trial trials[TRAIN_TRIALS_MAX];
    unsigned trial_count;
    struct train_trial *best;     /* the largest that passed; NULL: none */
    struct train_trial *reported; /* whose limits the report names */
    struct roofline roofline;
    struct {
        const struct checkpoint_model *model; /* NULL: none is written meanwhile */
        struct train_trial trial;             /* its result is owned */
        unsigned checkpoints;                 /* whole ones */
        uint64_t bytes;
        double seconds;
    } beside;
    double backend_best; /* bytes a second that came from behind the server at most */
};

#define TRAIN_MEMORY MIB(64)
#define TRAIN_READ   KIB(256) /* at a time */

extern const struct verb train_verb; /* its flags, its help */
/* What the arguments ask for; defaults are there before. */
enum err train_take_flags(struct train *t) MUST_CHECK;
/* Reads a piece of the set to its end: a train_fetch, `arg` is the train. */
enum err train_read(void *arg, const struct train_piece *p, uint64_t *bytes,
                    struct errbuf *eb) MUST_CHECK;
/* The ceilings of t->reported; what has to be measured is measured now. May switch. */
void train_draw_roofline(struct train *t);

/* The same for t->checkpoint: a pass of writes, or of reads. */
void train_draw_limits(struct train *t, bool writes);
/* How much each rank of a model writes, in which parts; 0 ranks: the model's. */
enum err train_plan(struct train *t, const struct checkpoint_model *m, unsigned ranks,
                    uint64_t part_bytes, struct checkpoint *c) MUST_CHECK;
/* What was made goes, unless it is to be kept; says so where it does not. May switch. */
void train_remove(const struct train *t, struct checkpoint *c);
#define TRAIN_SCALE_TEXT 32
const char *train_scale_text(const struct train *t, char out[TRAIN_SCALE_TEXT]);
/* One run, an epoch or for so long. May switch. */
enum err train_once(struct train *t, unsigned accelerators, unsigned epoch,
                    struct train_trial *out) MUST_CHECK;
/* The accelerators of the result once more, while ranks write t->beside.model over and over. May switch. */
enum err train_beside(struct train *t) MUST_CHECK;
/* Writes and reads checkpoints, and tells. May switch. */
enum err train_checkpoint(struct train *t) MUST_CHECK;
void train_print_latency(FILE *out, const char *what, const struct histogram *h);
void train_json_latency(struct json *j, const char *key, const struct histogram *h);
void train_print(const struct train *t, FILE *out);
/* One line; `what`: "try". */
void train_print_trial(const struct train_trial *trial, const char *what, FILE *out);
void train_print_json(const struct train *t, FILE *out);
