#include "wire/query.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/uri.h"

/* Into `room`, which is moved past what was written. */
static bool
query_decode(struct span raw, char **room, struct span *out)
{
    char *at = *room;
    int len;

    for (size_t i = 0; i < raw.len; i++)
        at[i] = raw.at[i] == '+' ? ' ' : raw.at[i];
    len = uri_decode((struct span){at, raw.len}, at);
    if (len < 0)
        return false;
    *out = (struct span){at, (size_t)len};
    *room = at + len;
    return true;
}

static struct span
take_until(struct span *rest, char end)
{
    const char *stop = span_find(*rest, end);
    struct span s = {rest->at, stop != NULL ? (size_t)(stop - rest->at) : rest->len};

    *rest = span_from(*rest, s.len + 1);
    return s;
}

static size_t
count_params(struct span raw)
{
    size_t count = 0;

    while (raw.len > 0)
        count += take_until(&raw, '&').len > 0;
    return count;
}

enum err
query_parse(struct span raw, struct arena *a, struct query *out, struct fault *f)
{
    size_t count = raw.len > 0 ? count_params(raw) : 0;
    struct param *params;
    char *room;

    *out = (struct query){0};
    if (count == 0)
        return ERR_OK;
    if (count > QUERY_PARAMS_MAX)
        return fault_set(f, S3_InvalidRequest, "%zu query parameters, at most %d", count,
                         QUERY_PARAMS_MAX);
    params = arena_try(a, count * sizeof *params);
    room = arena_try(a, raw.len);
    if (params == NULL || room == NULL)
        return fault_set(f, S3_RequestHeaderSectionTooLarge, NULL);

    count = 0;
    while (raw.len > 0) {
        struct span one = take_until(&raw, '&');

        if (one.len == 0)
            continue;
        if (!query_decode(take_until(&one, '='), &room, &params[count].name) ||
            !query_decode(one, &room, &params[count].value))
            return fault_set(f, S3_InvalidURI, NULL);
        count++;
    }
    *out = (struct query){params, count};
    return ERR_OK;
}

const struct param *
query_find(const struct query *q, const char *name)
{
    size_t len;

    if (q->count == 0) /* most requests have no query, and each asks for many names */
        return NULL;
    len = strlen(name);
    for (size_t i = 0; i < q->count; i++) {
        if (q->at[i].name.len == len && memcmp(q->at[i].name.at, name, len) == 0)
            return &q->at[i];
    }
    return NULL;
}

bool
query_has(const struct query *q, const char *name)
{
    return query_find(q, name) != NULL;
}

struct span
query_get(const struct query *q, const char *name)
{
    const struct param *p = query_find(q, name);

    return p != NULL ? p->value : (struct span){NULL, 0};
}

enum err
query_u64(const struct query *q, const char *name, uint64_t absent, uint64_t lo,
          uint64_t hi, uint64_t *out, struct fault *f)
{
    struct span text = query_get(q, name);

    *out = absent;
    if (text.at == NULL)
        return ERR_OK;
    if (num_u64(text, out) != ERR_OK)
        return fault_argument(f, name, text,
                              "Provided %s not an integer or within integer "
                              "range",
                              name);
    if (*out < lo || *out > hi)
        return fault_argument(f, name, text,
                              "Argument %s must be an integer between %" PRIu64
                              " and %" PRIu64,
                              name, lo, hi);
    return ERR_OK;
}

void
query_put(struct buf *out, const char *name, struct span value)
{
    if (out->len > 0)
        buf_putc(out, '&');
    uri_encode(out, span_of(name), false);
    buf_putc(out, '=');
    uri_encode(out, value, false);
}
