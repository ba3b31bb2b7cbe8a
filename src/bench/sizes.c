#include "bench/sizes.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"

static enum err
take_one(struct span text, uint64_t most, struct sizes *out, struct errbuf *eb)
{
    const char *colon = span_find(text, ':'), *dash;
    struct span size = text, last;
    uint64_t weight = 1, before = out->count > 0 ? out->at[out->count - 1].until : 0;
    enum err rc;

    if (out->count == SIZES_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "more than %d sizes", SIZES_MAX);
    if (colon != NULL) {
        size.len = (size_t)(colon - text.at);
        if (num_u64(span_from(text, size.len + 1), &weight) != ERR_OK || weight == 0 ||
            weight > 1000000)
            return err_set(eb, ERR_BAD_REQUEST, "\"%.*s\": a weight is 1 to 1000000",
                           SPAN_ARG(text));
    }
    last = size;
    dash = span_find(size, '-');
    if (dash != NULL) {
        last = span_from(size, (size_t)(dash - size.at) + 1);
        size.len = (size_t)(dash - size.at);
    }
    rc = num_size(size, &out->at[out->count].from, eb);
    if (rc == ERR_OK)
        rc = num_size(last, &out->at[out->count].to, eb);
    if (rc != ERR_OK)
        return rc;
    if (out->at[out->count].from > out->at[out->count].to ||
        out->at[out->count].to > most)
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"%.*s\": the smaller first, at most %llu bytes", SPAN_ARG(text),
                       (unsigned long long)most);
    out->at[out->count++].until = before + weight;
    return ERR_OK;
}

enum err
sizes_parse(const char *text, uint64_t most, struct sizes *out, struct errbuf *eb)
{
    struct span rest = span_of(text);
    enum err rc = ERR_OK;

    *out = (struct sizes){0};
    do {
        const char *comma = span_find(rest, ',');
        struct span one = {rest.at, comma != NULL ? (size_t)(comma - rest.at) : rest.len};

        rc = take_one(one, most, out, eb);
        rest = comma != NULL ? span_from(rest, one.len + 1) : SPAN("");
    } while (rc == ERR_OK && rest.len > 0);
    if (rc != ERR_OK)
        err_prefix(eb, "--size");
    return rc;
}

uint64_t
sizes_of(const struct sizes *s, uint64_t number)
{
    uint64_t random = hash_xxh3(&number, sizeof number, 1), left;
    unsigned i = 0;
    double share;

    left = random % s->at[s->count - 1].until;
    while (left >= s->at[i].until)
        i++;
    if (s->at[i].from == s->at[i].to)
        return s->at[i].from;
    share = (double)(hash_xxh3(&number, sizeof number, 2) >> 11) / 9007199254740992.0;
    return MIN((uint64_t)exp2(log2((double)s->at[i].from + 1) +
                              share * (log2((double)s->at[i].to + 1) -
                                       log2((double)s->at[i].from + 1))),
               s->at[i].to);
}
