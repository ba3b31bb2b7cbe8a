#include "bench/made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/load.h"
#include "rt/fiber.h"
#include "rt/file.h"

#define BODY        KIB(256)
#define CONCURRENCY 32

static void
fill_body(char *body, uint64_t seed)
{
    for (size_t i = 0; i + 8 <= BODY; i += 8) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        memcpy(body + i, &seed, 8);
    }
}

uint64_t
made_init(struct made *m, struct session *s, const struct place *p, uint64_t seed)
{
    bool slash = p->key.len > 0 && p->key.at[p->key.len - 1] != '/';
    uint32_t mark;

    *m = (struct made){.s = s, .bucket = p->bucket};
    if (seed == 0)
        rt_random(&seed, sizeof seed);
    seed |= 1;
    rt_random(&mark, sizeof mark);
    m->prefix =
        xasprintf("%.*s%sforebay-bench-%08x/", SPAN_ARG(p->key), slash ? "/" : "", mark);
    m->body = xmalloc(BODY);
    fill_body(m->body, seed);
    return seed;
}

void
made_fini(struct made *m)
{
    free(m->prefix);
    free(m->body);
    *m = (struct made){0};
}

struct span
made_key(const struct made *m, uint64_t number, struct arena *a)
{
    return span_of(arena_printf(a, "%s%010llu", m->prefix, (unsigned long long)number));
}

static enum err
made_send_body(const struct made *m, struct s3_call *call, uint64_t number, uint64_t left,
               struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (left >= 8) {
        rc = s3_write(call, &number, 8, eb);
        left -= 8;
    }
    while (rc == ERR_OK && left > 0) {
        size_t n = MIN(left, (uint64_t)BODY);

        rc = s3_write(call, m->body, n, eb);
        left -= n;
    }
    return rc;
}

enum err
made_put(struct made *m, uint64_t number, uint64_t size, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(8), MIB(1));
    struct s3_put p = {.bucket = m->bucket, .key = made_key(m, number, a), .size = size};
    struct s3_call *call = NULL;
    struct s3_failure f;
    struct span etag;
    enum err rc;

    m->count = MAX(m->count, number + 1);
    rc = s3_put_begin(m->s->s3, &p, &call, eb);
    if (rc == ERR_OK)
        rc = made_send_body(m, call, number, size, eb);
    if (rc == ERR_OK)
        rc = s3_put_finish(call, a, &etag, &f, eb);
    s3_end(&call);
    arena_free(&a);
    m->any = m->any || rc == ERR_OK;
    return rc;
}

enum err
made_delete(struct made *m, uint64_t number, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct s3_failure f;
    enum err rc = s3_delete(m->s->s3, m->bucket, made_key(m, number, a), &f, eb);

    arena_free(&a);
    return rc;
}

/* ---- many of them ---- */

struct many {
    struct made *m;
    made_size *size; /* NULL: they are deleted */
    const void *arg;
    struct progress progress;
};

static enum err
made_step(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct many *w = arg;

    if (w->size == NULL)
        return made_delete(w->m, number, eb);
    out->bytes = w->size(w->arg, number);
    return made_put(w->m, number, out->bytes, eb);
}

static void
made_on_step(void *arg, const struct load_sample *sample)
{
    struct many *w = arg;

    progress_bytes(&w->progress, sample->bytes);
    progress_one(&w->progress);
}

static enum err
run_many(struct many *w, const char *what, uint64_t count, struct errbuf *eb)
{
    struct load_options o = {.concurrency = (unsigned)MIN(count, (uint64_t)CONCURRENCY),
                             .count = count,
                             .on_step = made_on_step,
                             .arg = w};
    struct load_result *r = xcalloc(1, sizeof *r);
    enum err rc;

    progress_begin(&w->progress, what, w->m->s->quiet, count, 0);
    rc = load_run(&o, made_step, w, r, eb);
    if (rc == ERR_OK && r->errors > 0)
        rc = err_set(eb, ERR_IO, "%s %llu of %llu: %s", what, (unsigned long long)r->done,
                     (unsigned long long)count, r->first_error.text);
    progress_end(&w->progress);
    free(r);
    return rc;
}

enum err
made_fill(struct made *m, uint64_t count, made_size *size, const void *arg,
          struct errbuf *eb)
{
    struct many w = {.m = m, .size = size, .arg = arg};

    return run_many(&w, "made", count, eb);
}

enum err
made_remove(struct made *m, struct errbuf *eb)
{
    struct many w = {.m = m};
    struct rt_shield shield;
    enum err rc;

    if (!m->any)
        return ERR_OK;
    rt_shield_begin(&shield);
    rc = run_many(&w, "deleted", m->count, eb);
    rt_shield_end(&shield);
    return rc;
}
