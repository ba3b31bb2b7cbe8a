/* bench: the verb. Makes what it reads, measures one operation, prints it, cleans up behind itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "bench/load.h"
#include "cli/list_pages.h"
#include "rt/file.h"
#include "wire/json.h"

#define CONCURRENCY_MAX 64 /* the client's connections */
#define SIZE_MAX_       (5ull << 30)
#define READ_ROOM       KIB(256)
#define FILL_AT_ONCE    32

static const struct flag flags[] = {
    {"size", 's', "SIZE", "of each object; 4KiB unless given", false},
    {"concurrency", 'c', "N", "requests at a time, 1 to 64; 16 unless given", false},
    {"duration", 'd', "TIME", "how long; 10s unless given or counted", false},
    {"count", 'n', "N", "how many, instead of how long", false},
    {"objects", 0, "N", "objects to make first for get and list; 1000", false},
    {"existing", 0, NULL, "get and list: what is under the prefix; nothing is made",
     false},
    {"keep", 0, NULL, "leave the objects that were made", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay bench get s3://train --size 100KB -c 32",
    "forebay bench put s3://scratch --size 4KiB --duration 30s -o json",
    "forebay bench get s3://train/images/ --existing",
    "forebay bench list s3://scratch --objects 10000 -c 1",
    NULL,
};
static const struct verb verb = {
    .name = "bench",
    .summary = "measure a server: get, put or list",
    .arguments = "get|put|list s3://BUCKET[/PREFIX]",
    .least = 2,
    .most = 2,
    .examples = examples,
    .flags = flags,
    .more =
        "Objects are made under PREFIX/forebay-bench-XXXXXXXX/ and deleted at the end. "
        "The loop is closed: a worker asks again when it has its answer. get reads in "
        "random order. The first bytes of an answer are those of its body.",
};

enum op { GET, PUT, LIST };
static const char *const op_names[] = {[GET] = "get", [PUT] = "put", [LIST] = "list"};

struct bench {
    struct session *s;
    enum op op;
    struct place place;
    uint64_t size, objects;
    struct load_options load;
    bool existing, keep;

    char *prefix; /* owned: of what is made, or what is there */
    char *body;   /* owned: PUT's bytes */
    char **keys;  /* owned: what is read */
    size_t key_count, key_room;
    uint64_t made; /* numbers below it may exist, once one does */
    bool any;
    uint64_t seed;
    struct progress progress;
};

/* ---- flags ---- */

static enum err
take_u64(const struct args *a, const char *name, uint64_t least, uint64_t most,
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

static enum err
take_op(const char *text, enum op *out, struct errbuf *eb)
{
    for (size_t i = 0; i < ARRAY_LEN(op_names); i++)
        if (strcmp(text, op_names[i]) == 0) {
            *out = (enum op)i;
            return ERR_OK;
        }
    return err_set(eb, ERR_BAD_REQUEST, "\"%s\": expected get, put or list", text);
}

static enum err
take_flags(struct bench *b, struct errbuf *eb)
{
    const struct args *a = b->s->args;
    const char *size = args_value(a, "size"), *duration = args_value(a, "duration");
    uint64_t concurrency = 16;
    enum err rc = take_op(a->at[0], &b->op, eb);

    b->size = KIB(4);
    b->objects = 1000;
    b->existing = args_has(a, "existing");
    b->keep = args_has(a, "keep");
    if (rc == ERR_OK)
        rc = place_remote(a->at[1], false, &b->place, eb);
    if (rc == ERR_OK && size != NULL)
        rc = num_size(span_of(size), &b->size, eb);
    if (rc == ERR_OK && b->size > SIZE_MAX_)
        rc = err_set(eb, ERR_BAD_REQUEST, "--size \"%s\": at most 5GiB in one request",
                     size);
    if (rc == ERR_OK && duration != NULL)
        rc = num_duration_ms(span_of(duration), &b->load.duration_ms, eb);
    if (rc == ERR_OK)
        rc = take_u64(a, "concurrency", 1, CONCURRENCY_MAX, &concurrency, eb);
    if (rc == ERR_OK)
        rc = take_u64(a, "count", 1, UINT64_MAX, &b->load.count, eb);
    if (rc == ERR_OK)
        rc = take_u64(a, "objects", 1, 100000000, &b->objects, eb);
    if (rc == ERR_OK && b->existing && b->op == PUT)
        rc = err_set(eb, ERR_BAD_REQUEST, "--existing is for get and list");
    b->load.concurrency = (unsigned)concurrency;
    if (b->load.count == 0 && b->load.duration_ms == 0)
        b->load.duration_ms = 10000;
    return rc;
}

/* ---- keys and bodies ---- */

/* "PREFIX/forebay-bench-XXXXXXXX/": nobody else's names. */
static char *
own_prefix(const struct place *p)
{
    bool slash = p->key.len > 0 && p->key.at[p->key.len - 1] != '/';
    uint32_t mark;
    char *out;

    rt_random(&mark, sizeof mark);
    if (asprintf(&out, "%.*s%sforebay-bench-%08x/", SPAN_ARG(p->key), slash ? "/" : "",
                 mark) < 0)
        abort();
    return out;
}

static struct span
numbered(const struct bench *b, uint64_t number, struct arena *a)
{
    return span_of(arena_printf(a, "%s%010llu", b->prefix, (unsigned long long)number));
}

static uint64_t
next_random(struct bench *b)
{
    b->seed ^= b->seed << 13;
    b->seed ^= b->seed >> 7;
    b->seed ^= b->seed << 17;
    return b->seed;
}

/* One piece of random bytes serves all objects; only their first bytes tell them apart. */
static void
make_body(struct bench *b)
{
    size_t len = MAX(MIN(b->size, READ_ROOM), 8);

    b->body = xmalloc(len);
    rt_random(&b->seed, sizeof b->seed);
    b->seed |= 1;
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint64_t v = next_random(b);

        memcpy(b->body + i, &v, 8);
    }
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
send_body(struct bench *b, struct s3_call *call, uint64_t number, struct errbuf *eb)
{
    size_t room = MAX(MIN(b->size, READ_ROOM), 8);
    uint64_t left = b->size;
    enum err rc = ERR_OK;

    if (left >= 8) {
        rc = s3_write(call, &number, 8, eb);
        left -= 8;
    }
    while (rc == ERR_OK && left > 0) {
        size_t n = MIN(left, room);

        rc = s3_write(call, b->body, n, eb);
        left -= n;
    }
    return rc;
}

static enum err
put_one(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct bench *b = arg;
    struct arena *a = arena_new(KIB(8), MIB(1));
    struct s3_put p = {
        .bucket = b->place.bucket, .key = numbered(b, number, a), .size = b->size};
    struct s3_call *call = NULL;
    struct s3_failure f;
    struct span etag;
    enum err rc;

    b->made = MAX(b->made, number + 1);
    rc = s3_put_begin(b->s->s3, &p, &call, eb);
    if (rc == ERR_OK)
        rc = send_body(b, call, number, eb);
    if (rc == ERR_OK)
        rc = s3_put_finish(call, a, &etag, &f, eb);
    s3_end(&call);
    arena_free(&a);
    b->any = b->any || rc == ERR_OK;
    out->bytes = b->size;
    return rc;
}

/* Reads an answer to its end; the client has looked whether its length was right. */
static enum err
drain(struct s3_call *call, char *room, uint64_t began_ns, struct load_sample *out,
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

static enum err
get_one(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct bench *b = arg;
    struct arena *a = arena_new(KIB(8), MIB(1));
    const char *key = b->keys[next_random(b) % b->key_count];
    struct s3_get g = {.bucket = b->place.bucket, .key = span_of(key)};
    struct s3_object_info info;
    struct s3_call *call = NULL;
    struct s3_failure f;
    uint64_t began = rt_now_ns();
    char *room = xmalloc(READ_ROOM);
    enum err rc = s3_get_begin(b->s->s3, &g, a, &info, &call, &f, eb);

    (void)number;
    if (rc == ERR_OK)
        rc = drain(call, room, began, out, eb);
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
                        .prefix = span_of(b->prefix),
                        .start_after = span_of(b->keys[next_random(b) % b->key_count])};
    struct s3_list_page page = {0};
    struct s3_failure f;
    enum err rc;

    (void)number;
    rc = s3_list_objects(b->s->s3, &l, a, &page, &f, eb);
    out->items = page.count;
    arena_free(&a);
    return rc;
}

static enum err
delete_one(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct bench *b = arg;
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct s3_failure f;
    enum err rc = s3_delete(b->s->s3, b->place.bucket, numbered(b, number, a), &f, eb);

    (void)out;
    arena_free(&a);
    return rc;
}

/* ---- before and after ---- */

static void
on_step(void *arg, const struct load_sample *sample)
{
    struct bench *b = arg;

    progress_bytes(&b->progress, sample->bytes);
    progress_one(&b->progress);
}

/* `count` steps, beside what is measured. */
static enum err
many(struct bench *b, const char *what, load_step *step, uint64_t count,
     struct errbuf *eb)
{
    struct load_options o = {.concurrency = (unsigned)MIN(count, (uint64_t)FILL_AT_ONCE),
                             .count = count,
                             .on_step = on_step,
                             .arg = b};
    struct load_result *r = xcalloc(1, sizeof *r);
    enum err rc;

    progress_begin(&b->progress, what, b->s->quiet, count, 0);
    rc = load_run(&o, step, b, r, eb);
    if (rc == ERR_OK && r->errors > 0)
        rc = err_set(eb, ERR_IO, "%s %llu of %llu: %s", what, (unsigned long long)r->done,
                     (unsigned long long)count, r->first_error.text);
    progress_end(&b->progress);
    free(r);
    return rc;
}

static enum err
on_entry(void *arg, const struct s3_list_entry *e)
{
    if (!e->is_prefix)
        add_key(arg, e->key);
    return ERR_OK;
}

/* What the measured operation needs: a prefix of its own with objects, or a look at what is there. */
static enum err
prepare(struct bench *b, struct errbuf *eb)
{
    struct arena *a;
    enum err rc = ERR_OK;

    make_body(b);
    if (b->existing) {
        b->prefix = xmemdup0(b->place.key.at, b->place.key.len);
        rc = list_pages(b->s, b->place.bucket, b->place.key, SPAN(""), on_entry, b, eb);
        if (rc == ERR_OK && b->key_count == 0)
            rc = err_set(eb, ERR_NOT_FOUND, "there is nothing under \"%s\"",
                         b->place.text);
        return rc;
    }
    b->prefix = own_prefix(&b->place);
    if (b->op == PUT)
        return ERR_OK;
    rc = many(b, "made", put_one, b->objects, eb);
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
    struct rt_shield shield;
    enum err rc;

    if (b->existing || b->keep || !b->any)
        return ERR_OK;
    rt_shield_begin(&shield);
    rc = many(b, "deleted", delete_one, b->made, eb);
    rt_shield_end(&shield);
    return rc;
}

static void
bench_fini(struct bench *b)
{
    for (size_t i = 0; i < b->key_count; i++)
        free(b->keys[i]);
    free(b->keys);
    free(b->prefix);
    free(b->body);
}

/* ---- what is told ---- */

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

static void
print_json(const struct bench *b, const struct load_result *r)
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
        json_u64(&j, "size", b->size);
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
print_table(const struct bench *b, const struct load_result *r)
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
    if (r->errors > 0)
        printf("%-12s%llu; the first: %s\n", "errors", (unsigned long long)r->errors,
               r->first_error.text);
}

static enum err
measure(struct bench *b, struct load_result *r, struct errbuf *eb)
{
    static load_step *const steps[] = {
        [GET] = get_one, [PUT] = put_one, [LIST] = list_one};
    enum err rc;

    progress_begin(&b->progress, op_names[b->op], b->s->quiet, b->load.count, 0);
    b->load.on_step = on_step;
    b->load.arg = b;
    rc = load_run(&b->load, steps[b->op], b, r, eb);
    progress_end(&b->progress);
    return rc;
}

static enum exit_code
act(struct session *s)
{
    struct bench b = {.s = s};
    struct load_result *r;
    struct errbuf left = {{0}};
    enum exit_code code;
    enum err rc = take_flags(&b, &s->eb);

    if (rc != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    r = xcalloc(1, sizeof *r);
    rc = prepare(&b, &s->eb);
    if (rc == ERR_OK)
        rc = measure(&b, r, &s->eb);
    if (rc == ERR_OK && s->json)
        print_json(&b, r);
    else if (rc == ERR_OK)
        print_table(&b, r);
    code = rc != ERR_OK ? session_fail(s, rc) : r->errors > 0 ? EXIT_DIFFERS : EXIT_OK_;
    if (clean_up(&b, &left) != ERR_OK) {
        fprintf(stderr, "forebay: what was made under \"%s\" is not all gone: %s\n",
                b.prefix, left.text);
        code = code == EXIT_OK_ ? EXIT_DIFFERS : code;
    }
    bench_fini(&b);
    free(r);
    return code;
}

static enum exit_code
run(const struct args *a)
{
    return session_run(a, act, NULL);
}
const struct cli_verb cli_bench = {&verb, run};
