/* reshard_order: an order file: a line SAMPLE, separator, SHARD each, or JSON {SHARD: [SAMPLE, ...]}; see reshard.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "job/reshard.h"

#define TURN_LINES 4096u /* between two looks for other fibers */

struct reshard_order {
    struct buf text;            /* lines borrow from it, or from `json` */
    json_t *json;               /* owned */
    struct reshard_line *lines; /* owned */
    uint32_t count, room, classes;
    uint32_t *by_rank; /* owned: line of each rank */
    uint32_t *first;   /* owned: the first line of each class */
    struct table by_name, by_shard;
};

void
reshard_order_free(struct reshard_order **op)
{
    struct reshard_order *o = *op;

    *op = NULL;
    if (o == NULL)
        return;
    table_fini(&o->by_name);
    table_fini(&o->by_shard);
    free(o->lines);
    free(o->by_rank);
    free(o->first);
    json_decref(o->json);
    buf_fini(&o->text);
    free(o);
}

static enum err
order_add(struct reshard_order *o, uint32_t line, struct span name, struct span shard,
          struct errbuf *eb)
{
    if (name.len == 0 || shard.len == 0)
        return err_set(eb, ERR_BAD_REQUEST, "line %u has no %s", line,
                       name.len == 0 ? "sample" : "shard");
    if (o->count == RESHARD_LINES_MAX)
        return err_set(eb, ERR_TOO_LARGE, "it has more than %u samples",
                       RESHARD_LINES_MAX);
    if (o->count == o->room) {
        o->room = MAX(1024u, o->room * 2);
        o->lines = xrealloc(o->lines, o->room * sizeof *o->lines);
    }
    assert(o->count < o->room);
    o->lines[o->count++] =
        (struct reshard_line){.name = name, .shard = shard, .line = line};
    return ERR_OK;
}

static enum err
order_parse_lines(struct reshard_order *o, const char *separator, struct errbuf *eb)
{
    struct span rest = buf_span(&o->text);
    enum err rc = ERR_OK;

    for (uint32_t line = 1; rc == ERR_OK && rest.len > 0; line++) {
        const char *end = span_find(rest, '\n');
        struct span all = {rest.at, end != NULL ? (size_t)(end - rest.at) : rest.len};
        const char *cut;

        if (line % TURN_LINES == 0 && rt_self() != NULL && rt_others_ready())
            rt_yield();
        rest = span_from(rest, all.len + 1);
        if (all.len > 0 && all.at[all.len - 1] == '\r')
            all.len--;
        if (all.len == 0)
            continue;
        cut = memmem(all.at, all.len, separator, strlen(separator));
        if (cut == NULL)
            return err_set(eb, ERR_BAD_REQUEST,
                           "line %u, \"%.*s\", has no shard: SAMPLE, %s, SHARD", line,
                           (int)MIN(all.len, 100), all.at,
                           separator[0] == '\t' ? "a tab" : separator);
        rc = order_add(o, line, (struct span){all.at, (size_t)(cut - all.at)},
                       span_from(all, (size_t)(cut - all.at) + strlen(separator)), eb);
    }
    return rc;
}

static enum err
order_parse_json(struct reshard_order *o, struct errbuf *eb)
{
    json_error_t why;
    const char *shard;
    json_t *samples;
    uint32_t line = 0;
    enum err rc = ERR_OK;

    o->json = json_loadb(o->text.at, o->text.len, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(o->json))
        return err_set(eb, ERR_BAD_REQUEST, "line %d: %s", why.line, why.text);
    json_object_foreach(o->json, shard, samples)
    {
        for (size_t i = 0; rc == ERR_OK && i < json_array_size(samples); i++) {
            const json_t *s = json_array_get(samples, i);

            rc = order_add(o, ++line,
                           (struct span){json_string_value(s), json_string_length(s)},
                           span_of(shard), eb);
        }
    }
    return rc;
}

/* Classes by first appearance, ranks by class and line; each sample once. */
static enum err
order_rank(struct reshard_order *o, struct errbuf *eb)
{
    uint32_t *at, sum = 0;

    assert(o->count > 0);
    assert(o->classes == 0);
    table_init(&o->by_name, o->count);
    table_init(&o->by_shard, o->count);
    o->first = xcalloc(o->count, sizeof *o->first);
    at = xcalloc((size_t)o->count + 1, sizeof *at);
    for (uint32_t i = 0; i < o->count; i++) {
        struct reshard_line *l = &o->lines[i], *other = table_get(&o->by_name, l->name);
        const struct reshard_line *same = table_get(&o->by_shard, l->shard);
        bool put;

        if (other != NULL) {
            free(at);
            return err_set(eb, ERR_BAD_REQUEST,
                           "sample \"%.*s\" stands in line %u and in line %u",
                           (int)MIN(l->name.len, 150), l->name.at, other->line, l->line);
        }
        l->class = same != NULL ? same->class : o->classes;
        if (same == NULL)
            o->first[o->classes++] = i;
        at[l->class + 1]++;
        put = table_put(&o->by_name, l->name, l);
        assert(put); /* its limit is the number of lines */
        if (same == NULL)
            put = table_put(&o->by_shard, l->shard, l);
        assert(put);
        if (i % TURN_LINES == 0 && rt_self() != NULL && rt_others_ready())
            rt_yield();
    }
    for (uint32_t c = 0; c < o->classes; c++) {
        sum += at[c];
        at[c] = sum;
    }
    o->by_rank = xcalloc(o->count, sizeof *o->by_rank);
    for (uint32_t i = 0; i < o->count; i++) {
        o->lines[i].rank = at[o->lines[i].class]++;
        assert(o->lines[i].rank < o->count);
        o->by_rank[o->lines[i].rank] = i;
    }
    free(at);
    return ERR_OK;
}

enum err
reshard_order_parse(struct buf *text, const char *separator, struct reshard_order **out,
                    struct errbuf *eb)
{
    struct reshard_order *o = xcalloc(1, sizeof *o);
    enum err rc;

    assert(!text->full);
    o->text = *text;
    buf_init(text, text->limit);
    rc = o->text.len > 0 && o->text.at[0] == '{' ? order_parse_json(o, eb)
                                                 : order_parse_lines(o, separator, eb);
    if (rc == ERR_OK && o->count == 0)
        rc = err_set(eb, ERR_BAD_REQUEST, "it names no sample");
    if (rc == ERR_OK)
        rc = order_rank(o, eb);
    if (rc != ERR_OK)
        reshard_order_free(&o);
    *out = o;
    return rc;
}

static enum err
order_read(struct reshard *w, struct buf *text, struct errbuf *eb)
{
    struct object_service *s = w->job->s->options.object;
    struct arena *a = arena_new(KIB(16), MIB(2));
    struct span piece = {"", 1};
    struct object_get *g = NULL;
    struct object_info info;
    enum err rc = object_get_begin(s, w->from, span_of(w->spec.order), a, &info, &g, eb);

    if (rc == ERR_OK && info.size > RESHARD_ORDER_MAX)
        rc =
            err_set(eb, ERR_TOO_LARGE, "it has %llu bytes, %llu are possible",
                    (unsigned long long)info.size, (unsigned long long)RESHARD_ORDER_MAX);
    if (rc == ERR_OK)
        rc = object_get_range(g, 0, info.size, eb);
    while (rc == ERR_OK && piece.len > 0) {
        rc = object_get_next(g, DEADLINE_NEVER, &piece, eb);
        if (rc == ERR_OK)
            buf_put_span(text, piece);
    }
    object_get_end(&g);
    arena_free(&a);
    return rc;
}

enum err
reshard_order_open(struct reshard *w, struct errbuf *eb)
{
    struct buf text;
    enum err rc;

    assert(w->order == NULL);
    if (w->spec.by != RESHARD_BY_LIST)
        return ERR_OK;
    buf_init(&text, RESHARD_ORDER_MAX);
    rc = order_read(w, &text, eb);
    if (rc == ERR_OK)
        rc = reshard_order_parse(&text, w->spec.separator, &w->order, eb);
    buf_fini(&text);
    if (rc != ERR_OK)
        err_prefix(eb, "order file \"%.200s\"", w->spec.order);
    return rc;
}

const struct reshard_line *
reshard_order_find(const struct reshard_order *o, struct span sample)
{
    return table_get(&o->by_name, sample);
}

uint32_t
reshard_order_count(const struct reshard_order *o)
{
    return o->count;
}

const struct reshard_line *
reshard_order_rank(const struct reshard_order *o, uint32_t rank)
{
    assert(rank < o->count);
    return &o->lines[o->by_rank[rank]];
}

const struct reshard_line *
reshard_order_class(const struct reshard_order *o, uint32_t class)
{
    assert(class < o->classes);
    return &o->lines[o->first[class]];
}
