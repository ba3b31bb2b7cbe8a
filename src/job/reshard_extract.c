/* reshard_extract: reads the heads of every shard, makes a record of each sample, and writes sorted runs of records; see reshard.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "job/reshard.h"
#include "rt/loop.h"
#include "rt/point.h"
#include "wire/tar.h"

#define GROUPS_MAX 4000000u /* samples of one shard */

/* A sample of the shard that is read. */
struct group {
    char *name; /* owned */
    struct buf members;
    uint32_t count;
    uint64_t bytes, tar_bytes;
    uint64_t sum;   /* of its members' bytes, for the order by checksum */
    struct buf key; /* of an order by content */
    bool has_key;
};

/* Records in memory. */
struct records {
    struct buf bytes;
    struct record_place {
        uint32_t at, len;
    } * at; /* owned */
    uint32_t count, room;
};

struct extract {
    struct reshard *w;
    uint32_t input;
    struct group *groups; /* owned; in the order of the shard */
    uint32_t count, room;
    struct table by_name;      /* group number + 1 */
    struct spill_writer *copy; /* of a compressed shard; NULL */
    struct records records;
};

/* ---- records ---- */

struct sorting {
    struct records *records;
    bool descending;
};

static struct sample
record_sample(const struct records *r, const struct record_place *p)
{
    struct sample s;
    struct errbuf eb = {{0}};
    enum err rc = sample_parse((struct span){r->bytes.at + p->at, p->len}, &s, &eb);

    assert(rc == ERR_OK); /* it was made here */
    return s;
}

static int
compare_records(const void *a, const void *b, void *arg)
{
    const struct sorting *s = arg;
    struct sample x = record_sample(s->records, a), y = record_sample(s->records, b);

    return sample_cmp(&x, &y, s->descending);
}

static void
sort_work(void *arg)
{
    struct sorting *s = arg;

    qsort_r(s->records->at, s->records->count, sizeof *s->records->at, compare_records,
            s);
}

static enum err
records_add(struct records *r, const struct sample *s, struct errbuf *eb)
{
    size_t from = r->bytes.len;

    assert(s->count > 0);
    assert(s->members.len > 0);
    sample_encode(s, &r->bytes);
    if (r->bytes.full)
        return err_set(eb, ERR_TOO_LARGE,
                       "the records of one shard need more than %zu MiB of memory",
                       r->bytes.limit >> 20);
    if (r->bytes.len - from > SAMPLE_BYTES_MAX)
        return err_set(eb, ERR_TOO_LARGE, "a sample has too many members: %u", s->count);
    if (r->count == r->room) {
        r->room = MAX(1024u, r->room * 2);
        r->at = xrealloc(r->at, r->room * sizeof *r->at);
    }
    r->at[r->count++] =
        (struct record_place){(uint32_t)from, (uint32_t)(r->bytes.len - from)};
    return ERR_OK;
}

/* Sorts what is in memory, and writes it as the next run. What is behind it is durable: the position may move. */
static enum err
records_flush(struct extract *x, struct errbuf *eb)
{
    struct reshard *w = x->w;
    struct records *r = &x->records;
    struct sorting sorting = {.records = r, .descending = w->spec.descending};
    struct spill_writer *f = NULL;
    char name[RESHARD_FILE];
    enum err rc;

    assert(w->state.phase == RESHARD_EXTRACT);
    assert(!r->bytes.full);
    assert(r->count <= r->room);
    rc = rt_blocking(sort_work, &sorting, DEADLINE_NEVER);

    if (rc != ERR_OK)
        return err_set(eb, rc, "sorting %u records", r->count);
    rc = spill_create(w->dir, reshard_file(w, "run", w->state.runs, name), &f, eb);
    for (uint32_t i = 0; rc == ERR_OK && i < r->count; i++)
        rc = spill_put(f, (struct span){r->bytes.at + r->at[i].at, r->at[i].len}, eb);
    if (rc == ERR_OK)
        rc = spill_end(&f, eb);
    spill_abort(&f);
    if (rc != ERR_OK)
        return rc;
    w->state.runs++;
    r->count = 0;
    buf_clear(&r->bytes);
    return ERR_OK;
}

/* ---- samples of one shard ---- */

static void
groups_clear(struct extract *x)
{
    for (uint32_t i = 0; i < x->count; i++) {
        free(x->groups[i].name);
        buf_fini(&x->groups[i].members);
        buf_fini(&x->groups[i].key);
    }
    x->count = 0;
    table_fini(&x->by_name);
    table_init(&x->by_name, GROUPS_MAX);
}

static struct group *
group_of(struct extract *x, struct span name)
{
    struct span key = shard_sample_key(name);
    uintptr_t number = (uintptr_t)table_get(&x->by_name, key);
    struct group *g;

    assert(number <= x->count);
    if (number > 0)
        return &x->groups[number - 1];
    if (x->count == x->room) {
        x->room = MAX(256u, x->room * 2);
        x->groups = xrealloc(x->groups, x->room * sizeof *x->groups);
    }
    assert(x->count < x->room);
    g = &x->groups[x->count];
    *g = (struct group){.name = xmemdup0(key.at, key.len)};
    buf_init(&g->members, SAMPLE_BYTES_MAX);
    buf_init(&g->key, SAMPLE_KEY_MAX);
    if (!table_put(&x->by_name, span_of(g->name), (void *)(uintptr_t)(x->count + 1))) {
        free(g->name);
        return NULL;
    }
    x->count++;
    return g;
}

static bool
has_extension(struct span name, const char *ext)
{
    struct span e = span_of(ext);

    return ext != NULL && name.len > e.len &&
           span_eq(span_from(name, name.len - e.len), e);
}

static enum err
content_key(const struct reshard_spec *spec, struct group *g, struct span text,
            struct errbuf *eb)
{
    char copy[64], *end = copy;

    text = span_trim(text);
    while (text.len > 0 &&
           (text.at[text.len - 1] == '\n' || text.at[text.len - 1] == '\r'))
        text.len--;
    buf_clear(&g->key);
    g->has_key = true;
    if (spec->key_type == RESHARD_KEY_STRING) {
        if (text.len > SAMPLE_KEY_MAX)
            return err_set(eb, ERR_BAD_REQUEST, "a key of %zu bytes, at most %u",
                           text.len, SAMPLE_KEY_MAX);
        buf_put_span(&g->key, text);
        return ERR_OK;
    }
    snprintf(copy, sizeof copy, "%.*s", (int)MIN(text.len, sizeof copy - 1), text.at);
    errno = 0;
    if (spec->key_type == RESHARD_KEY_INT) {
        sample_key_i64(&g->key, strtoll(copy, &end, 10));
    } else {
        double value = strtod(copy, &end);

        if (value != value)
            end = copy;
        else
            sample_key_f64(&g->key, value);
    }
    if (text.len == 0 || text.len >= sizeof copy || *end != '\0' || errno == ERANGE)
        return err_set(eb, ERR_BAD_REQUEST, "the key \"%s\" is no %s", copy,
                       spec->key_type == RESHARD_KEY_INT ? "whole number of 64 bits"
                                                         : "number");
    return ERR_OK;
}

/* Reads a member where its bytes are needed: to copy them, for a sum, for a key. */
static enum err
extract_bytes(struct extract *x, struct shard_scan *scan, struct group *g,
              struct sample_member *m, struct errbuf *eb)
{
    const struct reshard_spec *spec = &x->w->spec;
    bool is_key = spec->by == RESHARD_BY_CONTENT && has_extension(m->name, spec->ext);
    struct span piece = {"", 1};
    struct hash_xxh64 sum;
    struct buf key;
    enum err rc = ERR_OK;

    if (is_key && m->size > RESHARD_KEY_BYTES)
        return err_set(eb, ERR_BAD_REQUEST, "a key of %llu bytes, at most %llu",
                       (unsigned long long)m->size,
                       (unsigned long long)RESHARD_KEY_BYTES);
    buf_init(&key, RESHARD_KEY_BYTES);
    hash_xxh64_init(&sum);
    if (x->copy != NULL)
        m->offset = spill_size(x->copy);
    while (rc == ERR_OK && piece.len > 0) {
        rc = shard_scan_data(scan, &piece, eb);
        if (rc != ERR_OK)
            break;
        if (x->copy != NULL) {
            m->crc = hash_crc32c(m->crc, piece.at, piece.len);
            rc = spill_raw(x->copy, piece, eb);
        }
        hash_xxh64_add(&sum, piece.at, piece.len);
        if (is_key)
            buf_put_span(&key, piece);
    }
    if (rc == ERR_OK && is_key)
        rc = content_key(spec, g, buf_span(&key), eb);
    if (rc == ERR_OK) {
        uint64_t of_member = hash_xxh64_end(&sum);

        g->sum = hash_xxh3(&of_member, sizeof of_member, g->sum);
    }
    buf_fini(&key);
    return rc;
}

static enum err
extract_member(struct extract *x, struct shard_scan *scan, const struct shard_member *m,
               struct errbuf *eb)
{
    const struct reshard_spec *spec = &x->w->spec;
    struct sample_member out = {.offset = m->offset,
                                .size = m->size,
                                .mtime_s = MAX(m->mtime_s, 0),
                                .name = m->name};
    struct group *g;
    enum err rc = ERR_OK;

    if (m->name.len > TAR_PATH_MAX || !tar_path_safe(m->name))
        return err_set(eb, ERR_BAD_REQUEST,
                       "its name would leave the folder that it is extracted into");
    g = group_of(x, m->name);
    if (g == NULL || g->count == SAMPLE_MEMBERS_MAX)
        return err_set(eb, ERR_TOO_LARGE,
                       "the shard has too many samples, or members of one");
    if (x->copy != NULL || spec->by == RESHARD_BY_CHECKSUM ||
        (spec->by == RESHARD_BY_CONTENT && has_extension(m->name, spec->ext)))
        rc = extract_bytes(x, scan, g, &out, eb);
    if (rc != ERR_OK)
        return rc;
    sample_put_member(&g->members, &out);
    if (g->members.full)
        return err_set(eb, ERR_TOO_LARGE, "the sample has too many members");
    g->count++;
    g->bytes += m->size;
    g->tar_bytes += sample_tar_bytes(m->size);
    return ERR_OK;
}

/* ---- keys ---- */

static enum err
make_key(struct extract *x, struct group *g, uint32_t number, struct buf *key, bool *skip,
         struct errbuf *eb)
{
    const struct reshard_spec *spec = &x->w->spec;
    struct span name = span_of(g->name);
    unsigned char md5[16];
    const struct reshard_line *line;
    uint32_t place[2] = {x->input, number};

    switch (spec->by) {
    case RESHARD_BY_NONE:
        break;
    case RESHARD_BY_NAME:
        buf_put_span(key, name);
        break;
    case RESHARD_BY_SIZE:
        buf_be(key, g->bytes, 8);
        break;
    case RESHARD_BY_CONTENT:
        if (!g->has_key)
            return err_set(eb, ERR_BAD_REQUEST, "it has no member that ends in \"%s\"",
                           spec->ext);
        buf_put_span(key, buf_span(&g->key));
        break;
    case RESHARD_BY_CHECKSUM:
        buf_be(key, g->sum, 8);
        break;
    case RESHARD_BY_MD5:
        digest_oneshot(DIGEST_MD5, name.at, name.len, md5);
        buf_put(key, md5, sizeof md5);
        break;
    case RESHARD_BY_SHUFFLE:
        buf_be(key, hash_xxh3(place, sizeof place, spec->seed), 8);
        break;
    case RESHARD_BY_LIST:
        line = reshard_order_find(x->w->order, name);
        *skip = line == NULL && spec->skip_unlisted;
        if (line == NULL && !*skip)
            return err_set(eb, ERR_BAD_REQUEST,
                           "the order file \"%.200s\" does not name it", spec->order);
        if (line != NULL) {
            buf_be(key, line->class, 4);
            buf_be(key, line->rank, 4);
        }
        break;
    }
    return ERR_OK;
}

static enum err
extract_samples(struct extract *x, struct errbuf *eb)
{
    struct buf key;
    enum err rc = ERR_OK;

    buf_init(&key, SAMPLE_KEY_MAX);
    for (uint32_t i = 0; rc == ERR_OK && i < x->count; i++) {
        struct group *g = &x->groups[i];
        bool skip = false;

        buf_clear(&key);
        rc = make_key(x, g, i, &key, &skip, eb);
        if (rc != ERR_OK) {
            err_prefix(eb, "sample \"%.150s\"", g->name);
            break;
        }
        assert(!key.full);
        if (skip)
            continue;
        rc = records_add(&x->records,
                         &(struct sample){.input = x->input,
                                          .number = i,
                                          .count = g->count,
                                          .bytes = g->tar_bytes,
                                          .key = buf_span(&key),
                                          .members = buf_span(&g->members)},
                         eb);
        x->w->state.samples++;
        x->w->state.members += g->count;
        x->w->state.bytes += g->bytes;
    }
    buf_fini(&key);
    return rc;
}

/* ---- one shard ---- */

static enum err
scan_input(struct extract *x, struct shard_scan *scan, struct errbuf *eb)
{
    struct shard_member m;
    bool end = false;
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        rc = shard_scan_next(scan, &m, &end, eb);
        if (rc != ERR_OK || end)
            break;
        rc = extract_member(x, scan, &m, eb);
        if (rc == ERR_BAD_REQUEST || rc == ERR_TOO_LARGE)
            err_prefix(eb, "member \"%.*s\"", (int)MIN(m.name.len, 150), m.name.at);
        if (rc == ERR_OK)
            rc = reshard_turn(x->w, eb);
    }
    return rc;
}

static enum err
extract_input(struct extract *x, struct errbuf *eb)
{
    struct reshard *w = x->w;
    const struct reshard_input *in = &w->inputs[x->input];
    struct shard_ask ask = {
        .bucket = w->from, .key = span_of(in->key), .version = &in->version};
    struct shard_match *all = NULL;
    struct shard_scan *scan = NULL;
    char name[RESHARD_FILE];
    enum err rc = shard_match_new(SHARD_MATCH_PREFIX, SPAN(""), &all, eb);

    assert(x->input < w->state.inputs);
    assert(x->copy == NULL);
    groups_clear(x);
    assert(x->count == 0);
    if (rc == ERR_OK && in->copied && !w->spec.dry_run)
        rc = spill_create(w->dir, reshard_file(w, "data", x->input, name), &x->copy, eb);
    if (rc == ERR_OK)
        rc = shard_scan_open(w->shards, &ask, all, &scan, eb);
    if (rc == ERR_OK)
        rc = scan_input(x, scan, eb);
    if (rc == ERR_OK)
        rc = extract_samples(x, eb);
    if (rc == ERR_OK && x->copy != NULL) {
        w->state.copied += spill_size(x->copy);
        rc = spill_end(&x->copy, eb);
    }
    spill_abort(&x->copy);
    shard_scan_close(&scan);
    shard_match_free(&all);
    if (rc == ERR_NOT_FOUND)
        rc = err_set(eb, ERR_PRECONDITION,
                     "it was replaced or deleted since the job began; start another job");
    if (rc != ERR_OK && rc != ERR_CANCELLED)
        err_prefix(eb, "shard \"%.200s\"", in->key);
    return rc;
}

/* The state is moved only together with a run, so that what is noted is what is on disk. */
static enum err
extract_all(struct extract *x, struct errbuf *eb)
{
    struct reshard *w = x->w;
    uint64_t memory = w->job->s->options.reshard_memory;
    struct reshard_state before = w->state;
    enum err rc = ERR_OK;

    assert(memory > 0);
    assert(x->records.count == 0);

    for (uint64_t i = w->state.extracted; rc == ERR_OK && i < w->state.inputs; i++) {
        bool last = i + 1 == w->state.inputs;

        x->input = (uint32_t)i;
        rc = extract_input(x, eb);
        if (rc == ERR_OK && w->state.copied > w->job->s->options.reshard_spill)
            rc =
                err_set(eb, ERR_NO_SPACE,
                        "members of compressed shards take more than reshard.spill, %llu "
                        "bytes, on the disk of the node's state",
                        (unsigned long long)w->job->s->options.reshard_spill);
        w->job->counts.objects = i + 1;
        w->job->changed = true;
        if (rc != ERR_OK || (x->records.bytes.len < memory && !last))
            continue;
        rc = records_flush(x, eb);
        if (rc == ERR_OK) {
            w->state.extracted = i + 1;
            before = w->state;
            reshard_note(w);
            POINT(RESHARD_RUN);
        }
    }
    if (rc != ERR_OK)
        w->state = before; /* a resumed job begins behind the last run */
    return rc;
}

enum err
reshard_extract(struct reshard *w, struct errbuf *eb)
{
    struct extract x = {.w = w};
    enum err rc;

    assert(w->state.phase == RESHARD_EXTRACT);
    w->job->counts.total = w->state.inputs;
    w->job->counts.objects = w->state.extracted;
    table_init(&x.by_name, GROUPS_MAX);
    buf_init(&x.records.bytes, w->job->s->options.reshard_memory + MIB(256));
    rc = reshard_order_open(w, eb);
    if (rc == ERR_OK)
        rc = extract_all(&x, eb);
    groups_clear(&x);
    table_fini(&x.by_name);
    free(x.groups);
    free(x.records.at);
    buf_fini(&x.records.bytes);
    if (rc != ERR_OK)
        return rc;
    w->state.phase = RESHARD_SORT;
    w->state.sorting_ms = (uint64_t)job_wall_ms();
    reshard_note(w);
    return ERR_OK;
}
