/* bench: the verbs but train. Makes what it reads, measures one operation, prints it, cleans up behind itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "bench/load.h"
#include "bench/made.h"
#include "bench/server_cpu.h"
#include "bench/sizes.h"
#include "bench/train.h"
#include "cli/list_pages.h"
#include "rt/file.h"
#include "wire/json.h"

#define CONCURRENCY_MAX CONNECTIONS_MAX
#define SIZE_MAX_       (5ull << 30)
#define READ_ROOM       KIB(256)

static const struct flag flags[] = {
    {"size", 's', "SIZES", "4KiB unless given; 1KiB-1MiB, or a mix: 4KiB:70,1MiB:30",
     false},
    {"concurrency", 'c', "N", "requests at a time, 1 to 1024; 16 unless given", false},
    {"rate", 0, "N", "requests a second, on a fixed schedule (open loop)", false},
    {"duration", 'd', "TIME", "duration; default 10s, or until --count", false},
    {"count", 'n', "N", "number of requests instead of a duration", false},
    {"epochs", 'e', "N", "get: each object once in random order, N times over", false},
    {"mix", 0, "SHARES", "mixed: get=60,put=20,head=10,list=5,delete=5 unless given",
     false},
    {"objects", 0, "N", "objects to create first for get, list and mixed; default 1000",
     false},
    {"seed", 0, "N", "seed of the random order", false},
    {"pid", 0, "PID", "the server's process, when it is on this machine: its CPU seconds",
     false},
    {"existing", 0, NULL, "get and list: use the objects under the prefix, create none",
     false},
    {"keep", 0, NULL, "keep the objects that were created", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
#define MORE                                                                             \
    "Objects are made under PREFIX/forebay-bench-XXXXXXXX/ and deleted at the end. The " \
    "loop is closed: a worker asks again when it has its answer. get reads in random "   \
    "order. The first bytes of an answer are those of its body.\n"                       \
    "With --rate the loop is open: latency counts from when a request was due. CPU "     \
    "seconds of the server are shown when it is\na Forebay that lets us read "           \
    "/_/metrics, or by --pid."
#define VERB(NAME, SUMMARY, ...)                                                         \
    static const char *const NAME##_examples[] = {__VA_ARGS__, NULL};                    \
    static const struct verb NAME##_verb = {                                             \
        .name = "bench " #NAME,                                                          \
        .summary = SUMMARY,                                                              \
        .arguments = "s3://BUCKET[/PREFIX]",                                             \
        .least = 1,                                                                      \
        .most = 1,                                                                       \
        .examples = NAME##_examples,                                                     \
        .flags = flags,                                                                  \
        .more = MORE,                                                                    \
    }
VERB(get, "measure GETs of a server", "forebay bench get s3://train --size 100KB -c 32",
     "forebay bench get s3://train/images/ --existing --epochs 2 -c 64");
VERB(put, "measure PUTs",
     "forebay bench put s3://scratch --size 4KiB --duration 30s -o json");
VERB(mixed, "measure GETs, PUTs, HEADs, lists and DELETEs at a time",
     "forebay bench mixed s3://scratch --rate 2000 --duration 1m --size 1KiB-1MiB");
VERB(list, "measure pages of listings",
     "forebay bench list s3://scratch --objects 10000 -c 1");

enum op { GET, PUT, LIST, HEAD, DELETE, MIXED, OPS_ };
static const char *const op_names[] = {
    [GET] = "get",   [PUT] = "put",       [LIST] = "list",
    [HEAD] = "head", [DELETE] = "delete", [MIXED] = "mixed"};

struct bench {
    struct session *s;
    enum op op;
    struct place place;
    struct sizes sizes;
    uint64_t objects, epochs;
    unsigned shares[MIXED]; /* of mixed; their sum: */
    unsigned shares_sum;
    struct histogram *by_op[OPS_];            /* of mixed; owned */
    uint64_t put_next, put_done, delete_next; /* of mixed: numbers from `objects` on */
    uint32_t *order;                          /* owned: of this epoch */
    size_t order_next;
    double cpu; /* seconds of the server; below 0: not known */
    struct load_options load;
    bool existing, keep, measuring;

    struct made made;
    char **keys; /* owned: what is read */
    size_t key_count, key_room;
    uint64_t seed;
    struct progress progress;
};

/* ---- flags ---- */

static enum err
bench_take_u64(const struct args *a, const char *name, uint64_t least, uint64_t most,
               uint64_t *out, struct errbuf *eb)
{
    const char *text = args_value(a, name);

    if (text == NULL)
        return ERR_OK;
    if (num_u64(span_of(text), out) == ERR_OK && *out >= least && *out <= most)
        return ERR_OK;
    return err_set(eb, ERR_BAD_REQUEST,
                   "--%s \"%s\": expected a number from %llu to %llu", name, text,
                   (unsigned long long)least, (unsigned long long)most);
}

/* "bench get": the second word of the verb. */
static enum op
op_of(const struct verb *v)
{
    const char *name = strchr(v->name, ' ') + 1;
    enum op op = GET;

    while (strcmp(op_names[op], name) != 0)
        op++;
    return op;
}

/* "get=70,put=30" */
static enum err
take_mix(struct bench *b, const char *text, struct errbuf *eb)
{
    struct span rest = span_of(text);

    while (rest.len > 0) {
        const char *comma = span_find(rest, ','), *equals = span_find(rest, '=');
        size_t len = comma != NULL ? (size_t)(comma - rest.at) : rest.len;
        uint64_t share = 0;
        size_t op = 0;

        while (equals != NULL && op < MIXED &&
               !span_is((struct span){rest.at, (size_t)(equals - rest.at)}, op_names[op]))
            op++;
        if (equals == NULL || op == MIXED || equals + 1 > rest.at + len ||
            num_u64((struct span){equals + 1, (size_t)(rest.at + len - equals) - 1},
                    &share) != ERR_OK ||
            share > 1000)
            return err_set(eb, ERR_BAD_REQUEST,
                           "--mix \"%s\": expected shares of get, put, list, head and "
                           "delete, as get=70,put=30",
                           text);
        b->shares[op] = (unsigned)share;
        b->shares_sum += (unsigned)share;
        rest = comma != NULL ? span_from(rest, len + 1) : SPAN("");
    }
    return b->shares_sum > 0
               ? ERR_OK
               : err_set(eb, ERR_BAD_REQUEST, "--mix \"%s\" has no share", text);
}

static enum err
take_more(struct bench *b, struct errbuf *eb)
{
    const struct args *a = b->s->args;
    const char *mix = args_value(a, "mix");
    enum err rc = bench_take_u64(a, "epochs", 1, 1000000, &b->epochs, eb);

    if (rc == ERR_OK)
        rc = bench_take_u64(a, "rate", 1, 10000000, &b->load.per_second, eb);
    if (rc == ERR_OK)
        rc = bench_take_u64(a, "seed", 1, UINT64_MAX, &b->seed, eb);
    if (rc == ERR_OK && b->op == MIXED)
        rc = take_mix(b, mix != NULL ? mix : "get=60,put=20,head=10,list=5,delete=5", eb);
    if (rc == ERR_OK && mix != NULL && b->op != MIXED)
        rc = err_set(eb, ERR_BAD_REQUEST, "--mix is for mixed");
    if (rc == ERR_OK && b->epochs > 0 && b->op != GET)
        rc = err_set(eb, ERR_BAD_REQUEST, "--epochs is for get");
    if (rc == ERR_OK && b->epochs > 0 && b->load.count > 0)
        rc = err_set(eb, ERR_BAD_REQUEST, "--epochs and --count exclude each other");
    return rc;
}

static enum err
bench_take_flags(struct bench *b, struct errbuf *eb)
{
    const struct args *a = b->s->args;
    const char *size = args_value(a, "size"), *duration = args_value(a, "duration");
    uint64_t concurrency = 16;
    enum err rc = place_remote(a->at[0], false, &b->place, eb);

    b->op = op_of(a->verb);
    b->objects = 1000;
    b->existing = args_has(a, "existing");
    b->keep = args_has(a, "keep");
    if (rc == ERR_OK)
        rc = sizes_parse(size != NULL ? size : "4KiB", SIZE_MAX_, &b->sizes, eb);
    if (rc == ERR_OK && duration != NULL)
        rc = num_duration_ms(span_of(duration), &b->load.duration_ms, eb);
    if (rc == ERR_OK)
        rc = bench_take_u64(a, "concurrency", 1, CONCURRENCY_MAX, &concurrency, eb);
    if (rc == ERR_OK)
        rc = bench_take_u64(a, "count", 1, UINT64_MAX, &b->load.count, eb);
    if (rc == ERR_OK)
        rc = bench_take_u64(a, "objects", 1, 100000000, &b->objects, eb);
    if (rc == ERR_OK)
        rc = take_more(b, eb);
    if (rc == ERR_OK && b->existing && (b->op == PUT || b->op == MIXED))
        rc = err_set(eb, ERR_BAD_REQUEST, "--existing is for get and list");
    b->load.concurrency = (unsigned)concurrency;
    if (b->load.count == 0 && b->load.duration_ms == 0 && b->epochs == 0)
        b->load.duration_ms = 10000;
    return rc;
}

/* ---- keys and bodies ---- */

static struct span
numbered(const struct bench *b, uint64_t number, struct arena *a)
{
    return made_key(&b->made, number, a);
}

static uint64_t
next_random(struct bench *b)
{
    b->seed ^= b->seed << 13;
    b->seed ^= b->seed >> 7;
    b->seed ^= b->seed << 17;
    return b->seed;
}

static void
add_key(struct bench *b, struct span key)
{
    if (b->key_count == b->key_room) {
        b->key_room = b->key_room > 0 ? b->key_room * 2 : 1024;
        b->keys = xrealloc(b->keys, b->key_room * sizeof *b->keys);
    }
    b->keys[b->key_count++] = xmemdup0(key.at, key.len);
}

/* ---- one operation ---- */

static enum err
put_one(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct bench *b = arg;

    out->bytes = sizes_of(&b->sizes, number);
    out->kind = PUT;
    return made_put(&b->made, number, out->bytes, eb);
}

/* Reads an answer to its end; the client has looked whether its length was right. */
static enum err
bench_drain(struct s3_call *call, char *room, uint64_t began_ns, struct load_sample *out,
            struct errbuf *eb)
{
    size_t n = 0;
    enum err rc;

    do {
        rc = s3_read(call, room, READ_ROOM, &n, eb);
        if (out->bytes == 0 && n > 0)
            out->first_ns = MAX(rt_now_ns() - began_ns, 1);
        out->bytes += n;
    } while (rc == ERR_OK && n > 0);
    return rc;
}

/* The next of this epoch; a new order when all were read. */
static size_t
next_of_epoch(struct bench *b)
{
    if (b->order == NULL) {
        b->order = xmalloc(b->key_count * sizeof *b->order);
        for (size_t i = 0; i < b->key_count; i++)
            b->order[i] = (uint32_t)i;
        b->order_next = b->key_count;
    }
    if (b->order_next == b->key_count) {
        for (size_t i = b->key_count; i > 1; i--) {
            size_t other = next_random(b) % i;
            uint32_t swap = b->order[i - 1];

            b->order[i - 1] = b->order[other];
            b->order[other] = swap;
        }
        b->order_next = 0;
    }
    return b->order[b->order_next++];
}

static const char *
next_key(struct bench *b)
{
    return b->keys[b->epochs > 0 ? next_of_epoch(b) : next_random(b) % b->key_count];
}

static enum err
get_one(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct bench *b = arg;
    struct arena *a = arena_new(KIB(8), MIB(1));
    struct s3_get g = {.bucket = b->place.bucket, .key = span_of(next_key(b))};
    struct s3_object_info info;
    struct s3_call *call = NULL;
    struct s3_failure f;
    uint64_t began = rt_now_ns();
    char *room = xmalloc(READ_ROOM);
    enum err rc = s3_get_begin(b->s->s3, &g, a, &info, &call, &f, eb);

    (void)number;
    out->kind = GET;
    if (rc == ERR_OK)
        rc = bench_drain(call, room, began, out, eb);
    s3_end(&call);
    free(room);
    arena_free(&a);
    return rc;
}

/* One page, from anywhere. */
static enum err
list_one(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct bench *b = arg;
    struct arena *a = arena_new(KIB(64), MIB(64));
    struct s3_list l = {.bucket = b->place.bucket,
                        .prefix = b->existing ? b->place.key : span_of(b->made.prefix),
                        .start_after = span_of(b->keys[next_random(b) % b->key_count])};
    struct s3_list_page page = {0};
    struct s3_failure f;
    enum err rc;

    (void)number;
    rc = s3_list_objects(b->s->s3, &l, a, &page, &f, eb);
    out->items = page.count;
    out->kind = LIST;
    arena_free(&a);
    return rc;
}

static enum err
head_one(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct bench *b = arg;
    struct arena *a = arena_new(KIB(8), MIB(1));
    struct s3_object_info info;
    struct s3_failure f;
    enum err rc =
        s3_head(b->s->s3, b->place.bucket, span_of(next_key(b)), a, &info, &f, eb);

    (void)number;
    out->kind = HEAD;
    arena_free(&a);
    return rc;
}

/* By its share. What is put is new, what is deleted was put here before; where nothing is left to delete, something is put. */
static enum err
mixed_one(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct bench *b = arg;
    uint64_t left = next_random(b) % b->shares_sum;
    unsigned op = 0;

    (void)number;
    for (; left >= b->shares[op]; op++)
        left -= b->shares[op];
    if (op == DELETE && b->delete_next < b->put_done) {
        out->kind = DELETE;
        return made_delete(&b->made, b->objects + b->delete_next++, eb);
    }
    if (op == PUT || op == DELETE) {
        enum err rc = put_one(b, b->objects + b->put_next++, out, eb);

        b->put_done = b->put_next > b->load.concurrency
                          ? b->put_next - b->load.concurrency
                          : 0; /* those are there for certain, or failed */
        return rc;
    }
    return op == GET    ? get_one(b, 0, out, eb)
           : op == HEAD ? head_one(b, 0, out, eb)
                        : list_one(b, 0, out, eb);
}

/* ---- before and after ---- */

static void
bench_on_step(void *arg, const struct load_sample *sample)
{
    struct bench *b = arg;

    progress_bytes(&b->progress, sample->bytes);
    progress_one(&b->progress);
    if (b->measuring && b->by_op[sample->kind] != NULL)
        histogram_add(b->by_op[sample->kind], sample->took_ns);
}

static uint64_t
bench_size_of(const void *arg, uint64_t number)
{
    return sizes_of(arg, number);
}

static enum err
bench_on_entry(void *arg, const struct s3xml_list_entry *e)
{
    if (!e->is_prefix)
        add_key(arg, e->key);
    return ERR_OK;
}

/* What the measured operation needs: a prefix of its own with objects, or a look at what is there. */
static enum err
bench_prepare(struct bench *b, struct errbuf *eb)
{
    struct arena *a;
    enum err rc = ERR_OK;

    b->seed = made_init(&b->made, b->s, &b->place, b->seed);
    if (b->existing) {
        rc = list_pages(b->s, b->place.bucket, b->place.key, SPAN(""), bench_on_entry, b,
                        eb);
        if (rc == ERR_OK && b->key_count == 0)
            rc = err_set(eb, ERR_NOT_FOUND, "no objects under \"%s\"", b->place.text);
        return rc;
    }
    if (b->op == PUT)
        return ERR_OK;
    rc = made_fill(&b->made, b->objects, bench_size_of, &b->sizes, eb);
    a = arena_new(KIB(64), MIB(1));
    for (uint64_t i = 0; rc == ERR_OK && i < b->objects; i++) {
        add_key(b, numbered(b, i, a));
        arena_reset(a);
    }
    arena_free(&a);
    return rc;
}

/* Also after Ctrl-C: what was made goes, unless that is not wanted. */
static enum err
clean_up(struct bench *b, struct errbuf *eb)
{
    return b->existing || b->keep ? ERR_OK : made_remove(&b->made, eb);
}

static void
bench_fini(struct bench *b)
{
    for (size_t i = 0; i < b->key_count; i++)
        free(b->keys[i]);
    for (size_t i = 0; i < OPS_; i++)
        free(b->by_op[i]);
    free(b->order);
    free(b->keys);
    made_fini(&b->made);
}

/* ---- the report ---- */

static const struct {
    const char *name, *json;
    double q;
} shares[] = {{"p50", "p50_us", 0.5},
              {"p90", "p90_us", 0.9},
              {"p99", "p99_us", 0.99},
              {"p99.9", "p999_us", 0.999},
              {"max", "max_us", 1}};

static void
json_latency(struct json *j, const char *key, const struct histogram *h)
{
    json_open_object(j, key);
    json_f64(j, "mean_us", histogram_mean(h) / 1000);
    for (size_t i = 0; i < ARRAY_LEN(shares); i++)
        json_f64(j, shares[i].json, (double)histogram_at(h, shares[i].q) / 1000);
    json_end(j);
}

static const char *
size_text(const struct bench *b)
{
    const char *text = args_value(b->s->args, "size");

    return text != NULL ? text : "4KiB";
}

static void
bench_print_json(const struct bench *b, const struct load_result *r)
{
    struct buf text;
    struct json j;

    buf_init(&text, KIB(16));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "operation", op_names[b->op]);
    json_text(&j, "endpoint", b->s->endpoint);
    json_u64(&j, "concurrency", b->load.concurrency);
    if (!b->existing)
        json_text(&j, "size", size_text(b));
    if (b->load.per_second > 0)
        json_u64(&j, "rate", b->load.per_second);
    if (b->epochs > 0)
        json_u64(&j, "epochs", b->epochs);
    json_u64(&j, "requests", r->done);
    json_u64(&j, "errors", r->errors);
    json_f64(&j, "seconds", r->seconds);
    json_f64(&j, "requests_per_second", (double)r->done / r->seconds);
    if (b->op == LIST)
        json_f64(&j, "keys_per_second", (double)r->items / r->seconds);
    else
        json_f64(&j, "bytes_per_second", (double)r->bytes / r->seconds);
    json_latency(&j, "latency", &r->took);
    if (r->first.total > 0)
        json_latency(&j, "first_byte", &r->first);
    for (size_t i = 0; i < OPS_; i++)
        if (b->by_op[i] != NULL && b->by_op[i]->total > 0)
            json_latency(&j, op_names[i], b->by_op[i]);
    if (b->cpu >= 0) {
        json_f64(&j, "server_cpu_seconds", b->cpu);
        json_f64(&j, "server_cpu_us_per_request",
                 b->cpu * 1e6 / (double)MAX(r->done, 1u));
    }
    json_end(&j);
    printf("%.*s\n", (int)text.len, text.at);
    buf_fini(&text);
}

static void
print_latency(const char *what, const struct histogram *h)
{
    printf("%-12s", what);
    for (size_t i = 0; i < ARRAY_LEN(shares); i++)
        printf("  %s %.3f ms", shares[i].name,
               (double)histogram_at(h, shares[i].q) / 1e6);
    putchar('\n');
}

static void
bench_print_table(const struct bench *b, const struct load_result *r)
{
    char rate[NUM_SIZE_TEXT];

    printf("%-12s%llu in %.1f s, %u at a time: %.0f requests/s", op_names[b->op],
           (unsigned long long)r->done, r->seconds, b->load.concurrency,
           (double)r->done / r->seconds);
    if (b->op == LIST)
        printf(", %.0f keys/s\n", (double)r->items / r->seconds);
    else
        printf(", %s/s\n",
               num_size_text((uint64_t)((double)r->bytes / r->seconds), rate));
    print_latency("latency", &r->took);
    if (r->first.total > 0)
        print_latency("first byte", &r->first);
    for (size_t i = 0; i < OPS_; i++)
        if (b->by_op[i] != NULL && b->by_op[i]->total > 0)
            print_latency(op_names[i], b->by_op[i]);
    if (b->cpu >= 0)
        printf("%-12s%.2f s of CPU, %.1f us a request\n", "server", b->cpu,
               b->cpu * 1e6 / (double)MAX(r->done, 1u));
    if (r->errors > 0)
        printf("%-12s%llu; the first: %s\n", "errors", (unsigned long long)r->errors,
               r->first_error.text);
}

static enum err
bench_measure(struct bench *b, struct load_result *r, struct errbuf *eb)
{
    static load_step *const steps[] = {
        [GET] = get_one, [PUT] = put_one, [LIST] = list_one, [MIXED] = mixed_one};
    double before;
    enum err rc;

    if (b->epochs > 0)
        b->load.count = b->epochs * b->key_count;
    for (size_t i = 0; b->op == MIXED && i < MIXED; i++)
        b->by_op[i] = xcalloc(1, sizeof *b->by_op[i]);
    b->measuring = true;
    before = server_cpu(b->s, args_value(b->s->args, "pid"));
    progress_begin(&b->progress, op_names[b->op], b->s->quiet, b->load.count, 0);
    b->load.on_step = bench_on_step;
    b->load.arg = b;
    rc = load_run(&b->load, steps[b->op], b, r, eb);
    progress_end(&b->progress);
    b->measuring = false;
    b->cpu = before >= 0 ? server_cpu(b->s, args_value(b->s->args, "pid")) - before : -1;
    return rc;
}

static enum exit_code
bench_act(struct session *s)
{
    struct bench b = {.s = s};
    struct load_result *r;
    struct errbuf left = {{0}};
    enum exit_code code;
    enum err rc = bench_take_flags(&b, &s->eb);

    if (rc != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    r = xcalloc(1, sizeof *r);
    rc = bench_prepare(&b, &s->eb);
    if (rc == ERR_OK)
        rc = bench_measure(&b, r, &s->eb);
    if (rc == ERR_OK && s->json)
        bench_print_json(&b, r);
    else if (rc == ERR_OK)
        bench_print_table(&b, r);
    code = rc != ERR_OK ? session_fail(s, rc) : r->errors > 0 ? EXIT_DIFFERS : EXIT_OK_;
    if (clean_up(&b, &left) != ERR_OK) {
        fprintf(stderr,
                "forebay: some objects created under \"%s\" could not be deleted: %s\n",
                b.made.prefix, left.text);
        code = code == EXIT_OK_ ? EXIT_DIFFERS : code;
    }
    bench_fini(&b);
    free(r);
    return code;
}

static enum exit_code
bench_run(const struct args *a)
{
    return session_run(a, bench_act, NULL);
}
static const struct cli_verb bench_get = {&get_verb, bench_run},
                             bench_put = {&put_verb, bench_run},
                             bench_mixed = {&mixed_verb, bench_run},
                             bench_list = {&list_verb, bench_run};
static const struct verb group = {
    .name = "bench",
    .summary = "measure a server: get, put, mixed or list; train: emulated accelerators",
    .arguments = "VERB",
};
static const struct cli_verb *const verbs[] = {&bench_get,  &bench_put,   &bench_mixed,
                                               &bench_list, &bench_train, NULL};
const struct cli_group cli_bench_group = {&group, verbs};
