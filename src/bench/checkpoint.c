#include "bench/checkpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/spread.h"
#include "rt/fiber.h"
#include "rt/file.h"
#include "rt/loop.h"
#include "rt/time.h"

#define BLOCK    KIB(256)
#define HEAD     16u /* of a block: whose it is, and where */
#define RETRY_MS 20

static const struct checkpoint_model models[] = {
    {"checkpoint-8b", 105000000000u, 8},
    {"checkpoint-70b", 912000000000u, 64},
    {"checkpoint-405b", 5290000000000u, 512},
    {"checkpoint-1t", 18000000000000u, 1024},
};

const struct checkpoint_model *
checkpoint_at(unsigned i)
{
    return i < ARRAY_LEN(models) ? &models[i] : NULL;
}

const struct checkpoint_model *
checkpoint_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(models); i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

void
checkpoint_init(struct checkpoint *c, struct session *s, const struct place *p,
                unsigned total, uint64_t seed)
{
    seed = made_init(&c->made, s, p, seed);
    c->made.count = (uint64_t)total * c->ranks;
    c->block = xmalloc(BLOCK);
    for (size_t i = 0; i < BLOCK; i += sizeof seed) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        memcpy(c->block + i, &seed, sizeof seed);
    }
    c->lanes = xcalloc(c->loops, sizeof *c->lanes);
}

void
checkpoint_fini(struct checkpoint *c)
{
    made_fini(&c->made);
    free(c->block);
    free(c->lanes);
    *c = (struct checkpoint){0};
}

/* ---- content ---- */

static void
checkpoint_head_of(unsigned number, unsigned rank, uint64_t offset, char out[HEAD])
{
    uint64_t whose = (uint64_t)number << 32 | rank, where = offset - offset % BLOCK;

    memcpy(out, &whose, 8);
    memcpy(out + 8, &where, 8);
}

uint64_t
checkpoint_bytes(const struct checkpoint *c, unsigned number, unsigned rank,
                 uint64_t offset, uint64_t len, char *out)
{
    uint64_t at = offset % BLOCK;
    char head[HEAD];

    len = MIN(len, BLOCK - at);
    memcpy(out, c->block + at, len);
    if (at < HEAD) {
        checkpoint_head_of(number, rank, offset, head);
        memcpy(out, head + at, MIN(len, HEAD - at));
    }
    return len;
}

bool
checkpoint_is(const struct checkpoint *c, unsigned number, unsigned rank, uint64_t offset,
              const char *at, uint64_t len)
{
    char head[HEAD];

    while (len > 0) {
        uint64_t in = offset % BLOCK;
        uint64_t n = MIN(len, (in < HEAD ? HEAD : BLOCK) - in);
        const char *want = c->block + in;

        if (in < HEAD) {
            checkpoint_head_of(number, rank, offset, head);
            want = head + in;
        }
        if (memcmp(at, want, n) != 0)
            return false;
        at += n;
        offset += n;
        len -= n;
    }
    return true;
}

/* ---- one rank ---- */

struct pass {
    struct checkpoint *c;
    unsigned number;
};
struct share {
    struct checkpoint *c;
    struct checkpoint_pass *sums; /* of this loop */
    unsigned number, rank;
    struct span key; /* in the arena */
    struct arena *arena;
    struct span upload_id; /* empty: no parts */
    uint32_t count, next;  /* parts, or ranges */
    struct s3_part *parts;
    enum err rc;
    struct errbuf eb;
};
/* *f: whether it is worth repeating. */
typedef enum err request_fn(struct share *r, uint32_t part, struct s3_failure *f,
                            struct errbuf *eb);

static uint64_t
part_size(const struct share *r, uint32_t i)
{
    uint64_t offset = i * r->c->part_bytes;

    return MIN(r->c->part_bytes, r->c->share_bytes - offset);
}

static enum err
send_bytes(struct share *r, struct s3_call *call, uint64_t offset, uint64_t len,
           struct errbuf *eb)
{
    char *room = xmalloc(BLOCK);
    enum err rc = ERR_OK;

    while (rc == ERR_OK && len > 0) {
        uint64_t n = checkpoint_bytes(r->c, r->number, r->rank, offset, len, room);

        rc = s3_write(call, room, n, eb);
        offset += n;
        len -= n;
    }
    free(room);
    return rc;
}

/* A whole share, or a part of it. */
static enum err
checkpoint_put(struct share *r, uint32_t i, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_put p = {.bucket = r->c->made.bucket,
                       .key = r->key,
                       .size = part_size(r, i),
                       .upload_id = r->upload_id,
                       .part_number = r->upload_id.len > 0 ? i + 1 : 0};
    struct s3_call *call = NULL;
    enum err rc = s3_put_begin(r->c->made.s->s3, &p, &call, eb);

    if (rc == ERR_OK)
        rc = send_bytes(r, call, i * r->c->part_bytes, p.size, eb);
    if (rc == ERR_OK)
        rc = s3_put_finish(call, r->arena, &r->parts[i].etag, f, eb);
    s3_end(&call);
    r->parts[i].number = i + 1;
    r->sums->bytes += rc == ERR_OK ? p.size : 0;
    return rc;
}

static enum err
checkpoint_compare(struct share *r, struct s3_call *call, uint64_t offset, uint64_t len,
                   struct errbuf *eb)
{
    char *room = xmalloc(BLOCK);
    uint64_t came = 0;
    size_t n = 1;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && n > 0) {
        rc = s3_read(call, room, BLOCK, &n, eb);
        if (rc == ERR_OK &&
            !checkpoint_is(r->c, r->number, r->rank, offset + came, room, n))
            rc = err_set(
                eb, ERR_CORRUPT,
                "\"%.*s\" is not as it was written, within %zu bytes from %" PRIu64,
                SPAN_ARG(r->key), n, offset + came);
        came += rc == ERR_OK ? n : 0;
    }
    free(room);
    if (rc == ERR_OK && came != len)
        rc = err_set(eb, ERR_INCOMPLETE,
                     "%" PRIu64 " bytes of \"%.*s\" came, %" PRIu64 " were wanted", came,
                     SPAN_ARG(r->key), len);
    return rc;
}

static enum err
checkpoint_get(struct share *r, uint32_t i, struct s3_failure *f, struct errbuf *eb)
{
    uint64_t offset = i * r->c->part_bytes, len = part_size(r, i);
    struct arena *a = arena_new(KIB(8), MIB(1));
    struct s3_get g = {.bucket = r->c->made.bucket,
                       .key = r->key,
                       .range = r->count > 1,
                       .first = offset,
                       .last = offset + len - 1};
    struct s3_object_info info;
    struct s3_call *call = NULL;
    enum err rc = s3_get_begin(r->c->made.s->s3, &g, a, &info, &call, f, eb);

    if (rc == ERR_OK && info.size != r->c->share_bytes)
        rc = err_set(eb, ERR_CORRUPT,
                     "\"%.*s\" has %" PRIu64 " bytes, %" PRIu64 " were written",
                     SPAN_ARG(r->key), info.size, r->c->share_bytes);
    if (rc == ERR_OK)
        rc = checkpoint_compare(r, call, offset, len, eb);
    s3_end(&call);
    arena_free(&a);
    r->sums->bytes += rc == ERR_OK ? len : 0;
    return rc;
}

static enum err
checkpoint_begin_upload(struct share *r, uint32_t i, struct s3_failure *f,
                        struct errbuf *eb)
{

    (void)i;
    return s3_upload_begin(r->c->made.s->s3, r->c->made.bucket, r->key, NULL, 0, r->arena,
                           &r->upload_id, f, eb);
}

static enum err
checkpoint_complete(struct share *r, uint32_t i, struct s3_failure *f, struct errbuf *eb)
{
    struct span etag;

    (void)i;
    return s3_upload_complete(r->c->made.s->s3, r->c->made.bucket, r->key, r->upload_id,
                              r->parts, r->count, r->arena, &etag, f, eb);
}

/* Until it works, where it is worth it, as clients of S3 do. What came back otherwise than it was written is no error of the moment. */
static enum err
repeat(struct share *r, request_fn *fn, uint32_t i, bool counts, struct errbuf *eb)
{
    struct checkpoint_pass *sums = r->sums;

    for (unsigned tries = 1;; tries++) {
        struct s3_failure f = {.retry = true}; /* until an answer says otherwise */
        uint64_t began = rt_now_ns(), took;
        enum err rc = fn(r, i, &f, eb);

        if (rc == ERR_CORRUPT || rc == ERR_CANCELLED)
            return rc;
        took = rt_now_ns() - began;
        sums->in_flight_ns += took;
        sums->requests += rc == ERR_OK;
        if (rc == ERR_OK && counts)
            histogram_add(&sums->took, took);
        if (rc == ERR_OK)
            return ERR_OK;
        if (sums->errors++ == 0)
            sums->first_error = *eb;
        if (!f.retry || tries == CHECKPOINT_TRIES_MOST ||
            rt_sleep_ms(MAX((uint64_t)RETRY_MS << MIN(tries, 6u), f.retry_after_ms)) !=
                ERR_OK)
            return rc;
    }
}

struct worker {
    struct share *share;
    request_fn *fn;
};

static void
checkpoint_work(void *arg)
{
    struct worker *w = arg;
    struct share *r = w->share;

    while (r->rc == ERR_OK && r->next < r->count) {
        struct errbuf eb = {{0}};
        enum err rc = repeat(r, w->fn, r->next++, true, &eb);

        if (rc != ERR_OK && r->rc == ERR_OK) {
            r->rc = rc;
            r->eb = eb;
        }
    }
}

/* All parts or ranges, some at a time. */
static enum err
all_parts(struct share *r, request_fn *fn, struct errbuf *eb)
{
    struct worker w = {r, fn};
    struct rt_group group;

    rt_group_begin(&group);
    for (unsigned i = 1; i < MIN(r->c->concurrency, r->count); i++)
        if (rt_group_start(&group, checkpoint_work, &w) != ERR_OK)
            break; /* fewer at once, then */
    checkpoint_work(&w);
    rt_group_join(&group);
    if (r->rc != ERR_OK)
        *eb = r->eb;
    return r->rc;
}

/* Nothing half done stays behind, also when this is cancelled. */
static void
abort_upload(struct share *r)
{
    struct rt_shield shield;
    struct s3_failure f;
    struct errbuf eb;

    if (r->upload_id.len == 0)
        return;
    rt_shield_begin(&shield);
    (void)!s3_upload_abort(r->c->made.s->s3, r->c->made.bucket, r->key, r->upload_id, &f,
                           &eb);
    rt_shield_end(&shield);
}

static enum err
write_share(struct share *r, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    r->parts = arena_alloc(r->arena, r->count * sizeof *r->parts);
    if (r->count > 1)
        rc = repeat(r, checkpoint_begin_upload, 0, false, eb);
    if (rc == ERR_OK)
        rc = all_parts(r, checkpoint_put, eb);
    if (rc == ERR_OK && r->count > 1)
        rc = repeat(r, checkpoint_complete, 0, false, eb);
    if (rc != ERR_OK)
        abort_upload(r);
    return rc;
}

static enum err
read_share(struct share *r, struct errbuf *eb)
{
    return all_parts(r, checkpoint_get, eb);
}

static enum err
one_rank(const struct pass *p, unsigned rank,
         enum err (*fn)(struct share *r, struct errbuf *eb), struct errbuf *eb)
{
    struct checkpoint *c = p->c;
    uint64_t parts = (c->share_bytes + c->part_bytes - 1) / c->part_bytes;
    struct share r = {.c = c,
                      .sums = &c->lanes[rt_loop_index()],
                      .number = p->number,
                      .rank = rank,
                      .arena = arena_new(KIB(64), MIB(64)),
                      .count = (uint32_t)parts};
    uint64_t began = rt_now_ns();
    enum err rc;

    r.key = made_key(&c->made, (uint64_t)p->number * c->ranks + rank, r.arena);
    rc = fn(&r, eb);
    if (rc == ERR_OK)
        histogram_add(&r.sums->share, rt_now_ns() - began);
    arena_free(&r.arena);
    return rc;
}

/* ---- all of them ---- */

static enum err
write_rank(void *arg, unsigned rank, struct errbuf *eb)
{
    return one_rank(arg, rank, write_share, eb);
}

static enum err
read_rank(void *arg, unsigned rank, struct errbuf *eb)
{
    return one_rank(arg, rank, read_share, eb);
}

static enum err
checkpoint_run_pass(struct checkpoint *c, unsigned number, spread_fn *fn,
                    struct checkpoint_pass *out, struct errbuf *eb)
{
    struct pass p = {c, number};
    uint64_t began = rt_now_ns();
    enum err rc;

    assert(c->part_bytes >= BLOCK && c->part_bytes % BLOCK == 0);
    memset(c->lanes, 0, c->loops * sizeof *c->lanes);
    rc = spread_run(c->ranks, c->loops, fn, &p, eb);
    out->seconds += (double)(rt_now_ns() - began) / 1e9;
    for (unsigned i = 0; i < c->loops; i++) {
        const struct checkpoint_pass *s = &c->lanes[i];

        histogram_merge(&out->took, &s->took);
        histogram_merge(&out->share, &s->share);
        if (out->errors == 0)
            out->first_error = s->first_error;
        out->bytes += s->bytes;
        out->requests += s->requests;
        out->errors += s->errors;
        out->in_flight_ns += s->in_flight_ns;
    }
    return rc;
}

enum err
checkpoint_write(struct checkpoint *c, unsigned number, struct checkpoint_pass *out,
                 struct errbuf *eb)
{
    enum err rc = checkpoint_run_pass(c, number, write_rank, out, eb);

    c->made.any = c->made.any || out->requests > 0;
    return rc;
}

enum err
checkpoint_read(struct checkpoint *c, unsigned number, struct checkpoint_pass *out,
                struct errbuf *eb)
{
    return checkpoint_run_pass(c, number, read_rank, out, eb);
}
