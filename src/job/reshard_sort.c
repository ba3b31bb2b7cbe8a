/* reshard_sort: merges the runs into one order and cuts it into shards; see reshard.h. A kill repeats the phase: the runs stay until the
 * job ends. The file "ID-shards" has a record for each new shard: be64 offset of its first record in "ID-order", be64 bytes, be32
 * samples, be32 class, be32 number. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "job/reshard.h"
#include "rt/point.h"
#include "wire/tar.h"

#define FAN_IN    32u
#define TAR_ENDS  (2 * TAR_BLOCK)
#define CUT_BYTES 28u

/* Several runs, as one sequence. */
struct merge {
    struct reshard *w;
    struct merged_run {
        struct spill_reader *reader; /* owned; NULL: it has ended */
        struct sample sample;        /* its next one, in the reader's memory */
        struct span record;
    } runs[FAN_IN];
    unsigned count;
};

static enum err
merge_advance(struct merged_run *r, struct errbuf *eb)
{
    bool end;
    enum err rc;

    assert(r->reader != NULL);
    rc = spill_next(r->reader, &r->record, &end, eb);

    if (rc == ERR_OK && end)
        spill_close(&r->reader);
    else if (rc == ERR_OK)
        rc = sample_parse(r->record, &r->sample, eb);
    return rc;
}

static void
merge_close(struct merge *m)
{
    for (unsigned i = 0; i < m->count; i++)
        spill_close(&m->runs[i].reader);
    m->count = 0;
}

static enum err
merge_open(struct merge *m, uint64_t first, uint64_t count, struct errbuf *eb)
{
    char name[RESHARD_FILE];
    enum err rc = ERR_OK;

    assert(count <= FAN_IN);
    assert(m->count == 0);
    for (uint64_t i = 0; rc == ERR_OK && i < count; i++) {
        struct merged_run *r = &m->runs[m->count++];

        *r = (struct merged_run){.reader = NULL};
        rc = spill_open(m->w->dir, reshard_file(m->w, "run", first + i, name), &r->reader,
                        eb);
        if (rc == ERR_OK)
            rc = merge_advance(r, eb);
    }
    return rc;
}

/* The run with the least record; NULL: all have ended. */
static struct merged_run *
merge_least(struct merge *m)
{
    struct merged_run *least = NULL;

    for (unsigned i = 0; i < m->count; i++) {
        struct merged_run *r = &m->runs[i];

        if (r->reader != NULL && (least == NULL || sample_cmp(&r->sample, &least->sample,
                                                              m->w->spec.descending) < 0))
            least = r;
    }
    return least;
}

/* Until one merge can read all: 32 runs become one. */
static enum err
merge_down(struct merge *m, uint64_t *first, uint64_t *end, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && *end - *first > FAN_IN) {
        struct spill_writer *f = NULL;
        struct merged_run *r;
        char name[RESHARD_FILE];

        rc = spill_create(m->w->dir, reshard_file(m->w, "run", *end, name), &f, eb);
        if (rc == ERR_OK)
            rc = merge_open(m, *first, FAN_IN, eb);
        while (rc == ERR_OK && (r = merge_least(m)) != NULL) {
            rc = spill_put(f, r->record, eb);
            if (rc == ERR_OK)
                rc = merge_advance(r, eb);
            if (rc == ERR_OK)
                rc = reshard_turn(m->w, eb);
        }
        merge_close(m);
        if (rc == ERR_OK)
            rc = spill_end(&f, eb);
        spill_abort(&f);
        *first += FAN_IN;
        *end += 1;
    }
    return rc;
}

/* ---- shards ---- */

static struct reshard_shard *
add_shard(struct reshard *w)
{
    if (w->state.shards == w->out_room) {
        w->out_room = MAX(64u, w->out_room * 2);
        w->out = xrealloc(w->out, w->out_room * sizeof *w->out);
    }
    assert(w->state.shards < w->out_room);
    return &w->out[w->state.shards++];
}

/* The place that an order file gives a sample; each rank comes once. */
static enum err
check_rank(struct reshard *w, const struct sample *s, uint32_t rank, struct errbuf *eb)
{
    struct cursor c = cursor_of(s->key.at, s->key.len);
    const struct reshard_line *line;
    uint32_t got;

    (void)take_be(&c, 4);
    got = (uint32_t)take_be(&c, 4);
    assert(!c.bad && got < reshard_order_count(w->order));
    if (got == rank)
        return ERR_OK;
    line = reshard_order_rank(w->order, got < rank ? got : rank);
    return got < rank
               ? err_set(eb, ERR_BAD_REQUEST,
                         "sample \"%.*s\", line %u of the order file, is in two shards",
                         (int)MIN(line->name.len, 150), line->name.at, line->line)
               : err_set(eb, ERR_BAD_REQUEST,
                         "sample \"%.*s\", line %u of the order file, is in no shard",
                         (int)MIN(line->name.len, 150), line->name.at, line->line);
}

/* Lines of samples that were not found do not matter to who skips what is missing. */
static enum err
next_rank(struct reshard *w, const struct sample *s, uint32_t *rank, struct errbuf *eb)
{
    struct cursor c = cursor_of(s->key.at, s->key.len);
    uint32_t got;

    (void)take_be(&c, 4);
    got = (uint32_t)take_be(&c, 4);
    if (w->spec.skip_missing && got > *rank)
        *rank = got;
    if (check_rank(w, s, *rank, eb) != ERR_OK)
        return ERR_BAD_REQUEST;
    ++*rank;
    return ERR_OK;
}

static uint32_t
class_of(const struct reshard *w, const struct sample *s)
{
    struct cursor c = cursor_of(s->key.at, s->key.len);

    return w->order != NULL ? (uint32_t)take_be(&c, 4) : 0;
}

/* A shard without a number in its name is never cut. */
static bool
shard_is_cut(const struct reshard *w, uint32_t class)
{
    struct span name;
    char copy[OBJECT_KEY_MAX + 1];

    if (w->spec.size == 0)
        return false;
    if (w->order == NULL)
        return true;
    name = reshard_order_class(w->order, class)->shard;
    snprintf(copy, sizeof copy, "%.*s", (int)MIN(name.len, sizeof copy - 1), name.at);
    return reshard_has_number(copy);
}

static enum err
place_sample(struct reshard *w, const struct sample *s, uint64_t at, struct errbuf *eb)
{
    struct reshard_shard *now = w->state.shards > 0 ? &w->out[w->state.shards - 1] : NULL;
    uint32_t class = class_of(w, s);
    bool same = now != NULL && now->class == class;

    if (!same || (now->bytes + s->bytes > w->spec.size && shard_is_cut(w, class))) {
        uint32_t number = same ? now->number + 1 : 0;

        if (w->state.shards == RESHARD_SHARDS_MAX)
            return err_set(eb, ERR_TOO_LARGE,
                           "more than %u new shards; choose a larger size",
                           RESHARD_SHARDS_MAX);
        now = add_shard(w);
        *now = (struct reshard_shard){
            .at = at, .bytes = TAR_ENDS, .class = class, .number = number};
        w->state.shard_bytes += TAR_ENDS;
    }
    assert(s->bytes > 0);
    assert(now->class == class);
    now->samples++;
    now->bytes += s->bytes;
    w->state.shard_bytes += s->bytes;
    return ERR_OK;
}

/* The last merge: writes the order, and finds the shards. */
static enum err
merge_order(struct merge *m, uint64_t first, uint64_t end, struct errbuf *eb)
{
    struct reshard *w = m->w;
    struct spill_writer *f = NULL;
    struct merged_run *r;
    char name[RESHARD_FILE];
    uint32_t rank = 0;
    enum err rc = spill_create(w->dir, reshard_file(w, "order", 0, name), &f, eb);

    if (rc == ERR_OK)
        rc = merge_open(m, first, end - first, eb);
    while (rc == ERR_OK && (r = merge_least(m)) != NULL) {
        if (w->order != NULL)
            rc = next_rank(w, &r->sample, &rank, eb);
        if (rc == ERR_OK)
            rc = place_sample(w, &r->sample, spill_size(f), eb);
        if (rc == ERR_OK)
            rc = spill_put(f, r->record, eb);
        if (rc == ERR_OK)
            rc = merge_advance(r, eb);
        if (rc == ERR_OK)
            rc = reshard_turn(w, eb);
    }
    merge_close(m);
    if (rc == ERR_OK)
        rc = spill_end(&f, eb);
    spill_abort(&f);
    if (rc == ERR_OK && w->order != NULL && !w->spec.skip_missing &&
        rank < reshard_order_count(w->order)) {
        const struct reshard_line *line = reshard_order_rank(w->order, rank);

        rc = err_set(eb, ERR_BAD_REQUEST,
                     "sample \"%.*s\", line %u of the order file, is in no shard",
                     (int)MIN(line->name.len, 150), line->name.at, line->line);
    }
    return rc;
}

/* ---- the file of shards ---- */

static enum err
save_shards(struct reshard *w, struct errbuf *eb)
{
    struct spill_writer *f = NULL;
    char name[RESHARD_FILE];
    struct buf record;
    enum err rc = spill_create(w->dir, reshard_file(w, "shards", 0, name), &f, eb);

    buf_init(&record, CUT_BYTES);
    for (uint64_t i = 0; rc == ERR_OK && i < w->state.shards; i++) {
        const struct reshard_shard *s = &w->out[i];

        buf_clear(&record);
        buf_be(&record, s->at, 8);
        buf_be(&record, s->bytes, 8);
        buf_be(&record, s->samples, 4);
        buf_be(&record, s->class, 4);
        buf_be(&record, s->number, 4);
        rc = spill_put(f, buf_span(&record), eb);
    }
    if (rc == ERR_OK)
        rc = spill_end(&f, eb);
    spill_abort(&f);
    buf_fini(&record);
    return rc;
}

enum err
reshard_load_shards(struct reshard *w, struct errbuf *eb)
{
    uint64_t want = w->state.shards;
    struct spill_reader *f = NULL;
    char name[RESHARD_FILE];
    struct span record;
    bool end = false;
    enum err rc = spill_open(w->dir, reshard_file(w, "shards", 0, name), &f, eb);

    assert(w->out == NULL);
    w->state.shards = 0;
    while (rc == ERR_OK && w->state.shards <= want) {
        struct cursor c;
        struct reshard_shard *s;

        rc = spill_next(f, &record, &end, eb);
        if (rc != ERR_OK || end)
            break;
        c = cursor_of(record.at, record.len);
        s = add_shard(w);
        *s = (struct reshard_shard){.at = take_be(&c, 8)};
        s->bytes = take_be(&c, 8);
        s->samples = (uint32_t)take_be(&c, 4);
        s->class = (uint32_t)take_be(&c, 4);
        s->number = (uint32_t)take_be(&c, 4);
        if (c.bad || cursor_left(&c) > 0)
            rc = err_set(eb, ERR_CORRUPT, "the list of new shards is damaged");
    }
    spill_close(&f);
    if (rc == ERR_OK && w->state.shards != want)
        rc = err_set(eb, ERR_CORRUPT, "new shards are listed that are not %llu",
                     (unsigned long long)want);
    return rc;
}

/* ---- what is there already ---- */

enum err
reshard_output(const struct reshard *w, const struct reshard_shard *s, struct buf *out,
               struct errbuf *eb)
{
    const struct reshard_line *line;
    struct buf template;
    enum err rc = ERR_OK;

    if (w->order == NULL)
        return reshard_name(w->spec.name, s->number, out, eb);
    line = reshard_order_class(w->order, s->class);
    buf_init(&template, KIB(4));
    buf_puts(&template, w->spec.name);
    buf_put_span(&template, line->shard);
    buf_putc(&template, '\0');
    if (template.full)
        rc = err_set(eb, ERR_BAD_REQUEST, "line %u of the order file: too long a name",
                     line->line);
    else if (reshard_has_number(template.at))
        rc = reshard_name(template.at, s->number, out, eb);
    else
        buf_puts(out, template.at);
    buf_fini(&template);
    if (rc == ERR_OK && (out->full || out->len > OBJECT_KEY_MAX ||
                         shard_format_of_name(buf_span(out)) == SHARD_NONE))
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "line %u of the order file: \"%.*s\" is no name of a shard",
                     line->line, (int)MIN(line->shard.len, 150), line->shard.at);
    return rc;
}

/* No new shard takes the name of one that is read, nor, unless told so, of one that is there. */
static enum err
check_output(struct reshard *w, struct span key, const struct table *inputs,
             struct arena *a, struct errbuf *eb)
{
    struct object_info info;
    enum err rc;

    if (table_get(inputs, key) != NULL)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "new shard \"%.*s\" has the name of one that is read; choose another "
            "name or bucket",
            (int)MIN(key.len, 200), key.at);
    if (w->spec.overwrite || w->may_exist)
        return ERR_OK;
    arena_reset(a);
    rc = object_head(w->job->s->options.object, w->to, key, a, &info, eb);
    if (rc == ERR_OK)
        return err_set(eb, ERR_EXISTS,
                       "s3://%s/%.*s exists; choose another name, or \"overwrite\"",
                       w->to->name, (int)MIN(key.len, 200), key.at);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
check_outputs(struct reshard *w, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, KIB(256));
    struct table inputs;
    struct buf key;
    enum err rc = ERR_OK;

    table_init(&inputs, RESHARD_INPUTS_MAX);
    for (uint64_t i = 0; w->from->id == w->to->id && i < w->state.inputs; i++)
        if (!table_put(&inputs, span_of(w->inputs[i].key), &w->inputs[i]))
            rc = err_set(eb, ERR_INTERNAL, "too many shards");
    buf_init(&key, KIB(8));
    for (uint64_t i = 0; rc == ERR_OK && i < w->state.shards; i++) {
        buf_clear(&key);
        rc = reshard_output(w, &w->out[i], &key, eb);
        if (rc == ERR_OK)
            rc = check_output(w, buf_span(&key), &inputs, a, eb);
        if (rc == ERR_OK)
            rc = reshard_turn(w, eb);
    }
    buf_fini(&key);
    table_fini(&inputs);
    arena_free(&a);
    return rc;
}

enum err
reshard_sort(struct reshard *w, struct errbuf *eb)
{
    struct merge m = {.w = w};
    uint64_t first = 0, end = w->state.runs;
    enum err rc = ERR_OK;

    assert(w->state.phase == RESHARD_SORT);
    assert(w->state.extracted == w->state.inputs);
    assert(w->out == NULL || w->state.shards <= w->out_room);
    assert(w->state.runs > 0);
    w->state.shards = w->state.shard_bytes = 0;
    if (w->order == NULL)
        rc = reshard_order_open(w, eb);
    POINT(RESHARD_SORTING);
    if (rc == ERR_OK)
        rc = merge_down(&m, &first, &end, eb);
    if (rc == ERR_OK)
        rc = merge_order(&m, first, end, eb);
    if (rc == ERR_OK)
        rc = check_outputs(w, eb);
    if (rc == ERR_OK)
        rc = save_shards(w, eb);
    if (rc != ERR_OK)
        return rc;
    w->state.phase = w->spec.dry_run ? RESHARD_PLANNED : RESHARD_CREATE;
    w->state.creating_ms = (uint64_t)job_wall_ms();
    reshard_note(w);
    return ERR_OK;
}
