/* reshard: what the files of the job "reshard" share: the samples of many shards become new shards, in another order.
 *
 *     LIST     which shards, and in which version: file "ID-inputs"
 *     EXTRACT  one record a sample, sorted runs of them on disk: "ID-run-N"; members of compressed shards are copied: "ID-data-N"
 *     SORT     the runs are merged into one order, which is cut into shards: "ID-order", "ID-shards"
 *     CREATE   shards are written, some at a time
 *
 * Every step can be repeated and gives the same bytes: versions are fixed by LIST, records are ordered without ties, and what a run
 * holds does not change the order. A phase, or a part of it, is noted in the job's position behind a sync of its files. Files lie in
 * the folder `spill` of the node's state, and leave with the job's record, or when it is done.
 *
 * Memory: records up to `reshard.memory` and those of one more shard; the list of shards; an order file. Loop 0 only.
 */
#pragma once
#include "base/table.h"
#include "job/names.h"
#include "shard/build.h"
#include "shard/sample.h"
#include "shard/spill.h"

#define RESHARD_INPUTS_MAX 100000u
#define RESHARD_SHARDS_MAX 1000000u
#define RESHARD_SIZE_MIN   KIB(1)
#define RESHARD_LINES_MAX  1000000u
#define RESHARD_ORDER_MAX  MIB(64) /* bytes of an order file */
#define RESHARD_KEY_BYTES  KIB(4)  /* of a content key */

enum reshard_by {
    RESHARD_BY_NONE,
    RESHARD_BY_NAME,
    RESHARD_BY_SIZE,
    RESHARD_BY_CONTENT,
    RESHARD_BY_CHECKSUM,
    RESHARD_BY_MD5, /* of the name */
    RESHARD_BY_SHUFFLE,
    RESHARD_BY_LIST,
};
enum reshard_key { RESHARD_KEY_STRING, RESHARD_KEY_INT, RESHARD_KEY_FLOAT };

/* The request; texts lie in the job's arguments. */
struct reshard_spec {
    const char *to,
        *name; /* bucket and template of the new shards; with RESHARD_BY_LIST a prefix */
    uint64_t
        size; /* bytes of a shard, as a tar without compression; 0: with RESHARD_BY_LIST, no limit */
    enum reshard_by by;
    enum reshard_key key_type;
    const char *ext;   /* of the member that has the key: ".cls" */
    const char *order; /* key of the order file, in the bucket of the inputs */
    const char *separator;
    uint64_t seed;
    bool descending, dry_run, overwrite, skip_missing, skip_unlisted;
};
/* ERR_BAD_REQUEST. */
enum err reshard_spec_of(const json_t *args, struct reshard_spec *out,
                         struct errbuf *eb) MUST_CHECK;
/* Key `number` of a template: "a-{000..999}.tar" or "a-%03d.tar". ERR_BAD_REQUEST: it has no number, or the braces have fewer. */
enum err reshard_name(const char *template, uint64_t number, struct buf *out,
                      struct errbuf *eb) MUST_CHECK;
bool reshard_has_number(const char *template);

enum reshard_phase {
    RESHARD_LIST,
    RESHARD_EXTRACT,
    RESHARD_SORT,
    RESHARD_CREATE,
    RESHARD_PLANNED
};
/* The job's position. */
struct reshard_state {
    enum reshard_phase phase;
    uint64_t inputs, extracted;       /* shards, and those whose records are on disk */
    uint64_t samples, members, bytes; /* of the extracted ones; bytes of members */
    uint64_t copied;                  /* bytes of members of compressed shards, on disk */
    uint64_t runs;                    /* files of sorted records */
    uint64_t shards, created;         /* new ones */
    uint64_t shard_bytes;             /* of all new shards, as tars */
    uint64_t begun_ms, sorting_ms, creating_ms; /* when each phase began, since 1970 */
};
void reshard_state_put(const struct reshard_state *s, struct buf *out);
/* False: it is none, so the job begins. */
bool reshard_state_of(const char *text, struct reshard_state *out);

struct reshard_input {
    char *key; /* owned */
    struct shard_version version;
    bool copied; /* its members are in "ID-data-N" */
};
struct reshard_shard {
    uint64_t at; /* of its first record in "ID-order" */
    uint64_t bytes;
    uint32_t samples;
    uint32_t class,
        number; /* its name: of the order file's shards, and the number within; class 0 without one */
};

/* An order file: which sample goes into which shard, and where. */
struct reshard_order;
struct reshard_line {
    struct span name, shard; /* the sample; the name of its shard, or a template */
    uint32_t class;          /* which shard, by first appearance */
    uint32_t rank;           /* among all lines, by class, then by line */
    uint32_t line;
};

struct reshard {
    struct job *job;
    struct rt_dir *dir;
    struct shard_service *shards;       /* owned */
    const struct map_bucket *from, *to; /* one reference each */
    struct reshard_spec spec;
    struct reshard_state state;
    struct reshard_input *inputs; /* owned */
    uint32_t input_room;
    struct reshard_shard *out; /* owned; state.shards */
    uint32_t out_room;
    struct reshard_order *order; /* owned; NULL: no order file */
    bool may_exist; /* new shards may be there already: an interrupted run wrote them */
};
/* The name of a temporary file. */
#define RESHARD_FILE 64u
const char *reshard_file(const struct reshard *w, const char *what, uint64_t number,
                         char out[RESHARD_FILE]);
/* Notes how far it is, durably. */
void reshard_note(struct reshard *w);
/* ERR_CANCELLED when the job is to stop; lets other fibers run. */
enum err reshard_turn(struct reshard *w, struct errbuf *eb) MUST_CHECK;

/* The phases. Each begins where the state says, and moves it on. */
enum err reshard_list(struct reshard *w, struct errbuf *eb) MUST_CHECK;
enum err reshard_extract(struct reshard *w, struct errbuf *eb) MUST_CHECK;
enum err reshard_sort(struct reshard *w, struct errbuf *eb) MUST_CHECK;
enum err reshard_create(struct reshard *w, struct errbuf *eb) MUST_CHECK;
/* Reads "ID-inputs" and "ID-shards" again. ERR_CORRUPT: they are gone or damaged. */
enum err reshard_load_inputs(struct reshard *w, struct errbuf *eb) MUST_CHECK;
enum err reshard_load_shards(struct reshard *w, struct errbuf *eb) MUST_CHECK;
/* The key of a new shard. */
enum err reshard_output(const struct reshard *w, const struct reshard_shard *s,
                        struct buf *out, struct errbuf *eb) MUST_CHECK;

/* order: reads the order file. */
enum err reshard_order_open(struct reshard *w, struct errbuf *eb) MUST_CHECK;
/* The same of a text, which it takes. ERR_BAD_REQUEST, ERR_TOO_LARGE: it names the line. */
enum err reshard_order_parse(struct buf *text, const char *separator,
                             struct reshard_order **out, struct errbuf *eb) MUST_CHECK;
void reshard_order_free(struct reshard_order **op); /* NULL is fine */
const struct reshard_line *reshard_order_find(const struct reshard_order *o,
                                              struct span sample);
uint32_t reshard_order_count(const struct reshard_order *o);
const struct reshard_line *reshard_order_rank(const struct reshard_order *o,
                                              uint32_t rank);
/* The first line of a class: its shard. */
const struct reshard_line *reshard_order_class(const struct reshard_order *o,
                                               uint32_t class);
