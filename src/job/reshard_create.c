/* reshard_create: writes the new shards, some at a time, each by one fiber; see reshard.h. A shard is visible when it is whole. The
 * state counts those in front of the first that is not: a kill repeats the others, with the same bytes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "job/reshard.h"
#include "rt/point.h"

#define CREATE_FIBERS 4u /* shards in the making */

struct create {
    struct reshard *w;
    uint64_t next; /* that no fiber has taken */
    bool *made;    /* owned; one for each shard */
    enum err rc;   /* of the first that failed */
    struct errbuf *eb;
};

/* Of one fiber: the shard that it reads from. */
struct source {
    struct create *c;
    uint32_t input;
    bool open;
    struct shard_object object;
    struct spill_reader *copy; /* owned: of members of a compressed shard */
};

static void
source_leave(struct source *s)
{
    if (s->open)
        shard_object_close(&s->object);
    s->open = false;
    spill_close(&s->copy);
}

static enum err
source_of_input(struct source *s, uint32_t input, struct errbuf *eb)
{
    struct reshard *w = s->c->w;
    const struct reshard_input *in;
    char name[RESHARD_FILE];
    enum err rc;

    if (s->input == input && (s->open || s->copy != NULL))
        return ERR_OK;
    source_leave(s);
    if (input >= w->state.inputs)
        return err_set(eb, ERR_CORRUPT, "a record names shard %u of %llu", input,
                       (unsigned long long)w->state.inputs);
    s->input = input;
    assert(!s->open && s->copy == NULL);
    in = &w->inputs[input];
    assert(in->key != NULL);
    if (in->copied)
        return spill_open(w->dir, reshard_file(w, "data", input, name), &s->copy, eb);
    rc = shard_object_open(&s->object, w->job->s->options.object, w->from,
                           span_of(in->key), eb);
    s->open = rc == ERR_OK;
    if (rc == ERR_NOT_FOUND ||
        (rc == ERR_OK && !shard_version_eq(&s->object.version, &in->version))) {
        source_leave(s);
        return err_set(
            eb, ERR_PRECONDITION,
            "shard \"%.200s\" was replaced or deleted since the job began; start "
            "another job",
            in->key);
    }
    return rc;
}

static enum err
copy_from_shard(struct source *s, const struct sample_member *m, struct shard_build *b,
                struct errbuf *eb)
{
    struct shard_input *in = &s->object.in;
    struct span piece;
    uint64_t left = m->size;
    enum err rc;

    if (m->offset > in->size || m->size > in->size - m->offset)
        return err_set(eb, ERR_CORRUPT, "a record names bytes behind the shard's end");
    rc = in->begin(in, m->offset, m->size, eb);
    while (rc == ERR_OK && left > 0) {
        rc = in->next(in, &piece, eb);
        if (rc == ERR_OK && (piece.len == 0 || piece.len > left))
            rc = err_set(eb, ERR_INCOMPLETE, "the shard ended early");
        if (rc == ERR_OK) {
            left -= piece.len;
            rc = shard_build_data(b, piece, eb);
        }
    }
    return rc == ERR_NOT_FOUND
               ? err_set(eb, ERR_PRECONDITION,
                         "shard \"%.200s\" was replaced since the job began",
                         s->c->w->inputs[s->input].key)
               : rc;
}

static enum err
copy_from_copy(struct source *s, const struct sample_member *m, struct shard_build *b,
               struct errbuf *eb)
{
    uint64_t left = m->size;
    uint32_t crc = 0;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && left > 0) {
        struct span piece;

        rc = spill_bytes(s->copy, m->offset + m->size - left, left, &piece, eb);
        if (rc != ERR_OK)
            break;
        left -= piece.len;
        crc = hash_crc32c(crc, piece.at, piece.len);
        rc = shard_build_data(b, piece, eb);
    }
    if (rc == ERR_OK && crc != m->crc)
        rc = err_set(eb, ERR_CORRUPT,
                     "member \"%.*s\" has a wrong sum in the temporary copy",
                     (int)MIN(m->name.len, 150), m->name.at);
    return rc;
}

static enum err
create_sample(struct source *s, struct span record, struct shard_build *b,
              struct errbuf *eb)
{
    struct sample_member m;
    struct sample sample;
    enum err rc = sample_parse(record, &sample, eb);

    if (rc == ERR_OK)
        rc = source_of_input(s, sample.input, eb);
    for (uint32_t i = 0; rc == ERR_OK && i < sample.count; i++) {
        rc = sample_next_member(&sample.members, &m, eb);
        if (rc == ERR_OK)
            rc = shard_build_member(b, m.name, m.size, m.mtime_s, eb);
        if (rc == ERR_OK && m.size > 0)
            rc = s->copy != NULL ? copy_from_copy(s, &m, b, eb)
                                 : copy_from_shard(s, &m, b, eb);
        if (rc == ERR_OK) {
            s->c->w->job->counts.bytes += m.size;
            s->c->w->job->changed = true;
        }
    }
    return rc;
}

static enum err
create_samples(struct source *s, const struct reshard_shard *shard, struct shard_build *b,
               struct errbuf *eb)
{
    struct spill_reader *order = NULL;
    char name[RESHARD_FILE];
    struct span record;
    bool end;
    enum err rc =
        spill_open(s->c->w->dir, reshard_file(s->c->w, "order", 0, name), &order, eb);

    if (rc == ERR_OK)
        spill_seek(order, shard->at);
    for (uint32_t i = 0; rc == ERR_OK && i < shard->samples; i++) {
        rc = spill_next(order, &record, &end, eb);
        if (rc == ERR_OK && end)
            rc = err_set(eb, ERR_CORRUPT, "the order of samples ends early");
        if (rc == ERR_OK)
            rc = create_sample(s, record, b, eb);
        if (rc == ERR_OK)
            rc = reshard_turn(s->c->w, eb);
    }
    spill_close(&order);
    return rc;
}

static enum err
create_shard(struct source *s, const struct reshard_shard *shard, struct errbuf *eb)
{
    struct reshard *w = s->c->w;
    struct shard_build *b = NULL;
    struct shard_ask ask = {.bucket = w->to};
    struct buf key;
    enum err rc;

    assert(shard->samples > 0);
    assert(shard->bytes > 0);
    buf_init(&key, KIB(8));
    rc = reshard_output(w, shard, &key, eb);
    ask.key = buf_span(&key);
    if (rc == ERR_OK)
        rc = shard_build_begin(w->shards, &ask, SHARD_BUILD_NEW, &b, eb);
    if (rc == ERR_OK)
        rc = create_samples(s, shard, b, eb);
    if (rc == ERR_OK)
        rc = shard_build_commit(&b, eb);
    shard_build_abort(&b);
    if (rc != ERR_OK && rc != ERR_CANCELLED)
        err_prefix(eb, "new shard \"%.*s\"", (int)MIN(key.len, 200), key.at);
    buf_fini(&key);
    return rc;
}

static void
shard_made(struct create *c, uint64_t number)
{
    struct reshard *w = c->w;
    uint64_t before = w->state.created;

    assert(number < w->state.shards);
    assert(!c->made[number]);
    c->made[number] = true;
    while (w->state.created < w->state.shards && c->made[w->state.created])
        w->state.created++;
    w->job->counts.objects++;
    if (w->state.created != before)
        reshard_note(w);
    POINT(RESHARD_CREATED);
}

static void
create_run(void *arg)
{
    struct create *c = arg;
    struct source s = {.c = c};
    struct errbuf eb = {{0}};

    assert(c->made != NULL);
    assert(c->next >= c->w->state.created);

    while (c->rc == ERR_OK && c->next < c->w->state.shards) {
        uint64_t mine = c->next++;
        enum err rc = create_shard(&s, &c->w->out[mine], &eb);

        if (rc == ERR_OK) {
            shard_made(c, mine);
        } else if (c->rc == ERR_OK) {
            c->rc = rc;
            *c->eb = eb;
        }
    }
    source_leave(&s);
}

enum err
reshard_create(struct reshard *w, struct errbuf *eb)
{
    struct create c = {.w = w, .next = w->state.created, .eb = eb};
    struct rt_group group;

    assert(w->state.phase == RESHARD_CREATE);
    assert(w->state.created <= w->state.shards);
    if (w->order == NULL)
        c.rc = reshard_order_open(w, eb);
    w->job->counts.total = w->state.shards;
    w->job->counts.objects = w->state.created;
    w->job->counts.bytes = 0;
    for (uint64_t i = 0; i < w->state.created; i++)
        w->job->counts.bytes += w->out[i].bytes;
    c.made = xcalloc(w->state.shards + 1, sizeof *c.made);
    memset(c.made, true, w->state.created);
    rt_group_begin(&group);
    for (unsigned i = 1; c.rc == ERR_OK && i < CREATE_FIBERS; i++)
        if (rt_group_start(&group, create_run, &c) != ERR_OK)
            break; /* fewer at a time */
    create_run(&c);
    rt_group_join(&group);
    free(c.made);
    assert(c.rc != ERR_OK || w->state.created == w->state.shards);
    return c.rc;
}
