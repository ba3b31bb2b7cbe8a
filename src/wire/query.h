/* query: the part of a request target behind '?', decoded once.
 *
 * Names and values are bytes: %XX is decoded, '+' is a space, nothing else is touched;
 * "a", "a=" and "a" with an empty value are one thing. Order and repetition are kept,
 * since SigV4 signs all of it.
 *
 * Memory: everything lies in the arena that query_parse() is given.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/span.h"
#include "wire/fault.h"

#define QUERY_PARAMS_MAX 128

struct param {
    struct span name;
    struct span value;
};
struct query {
    const struct param *at;
    size_t count;
};

/* `raw` has no '?'. A bad escape is 400 InvalidURI, more than QUERY_PARAMS_MAX parameters
 * 400 InvalidRequest. */
enum err query_parse(struct span raw, struct arena *a, struct query *out,
                     struct fault *f) MUST_CHECK;

/* The first parameter of exactly that name, or NULL. */
const struct param *query_find(const struct query *q, const char *name);
bool query_has(const struct query *q, const char *name);
/* Its value; `at` is NULL when absent. */
struct span query_get(const struct query *q, const char *name);
/* A decimal parameter: absent gives `absent`. Not a number, or outside lo..hi: 400
 * InvalidArgument with the parameter's name and value. */
enum err query_u64(const struct query *q, const char *name, uint64_t absent, uint64_t lo,
                   uint64_t hi, uint64_t *out, struct fault *f) MUST_CHECK;

/* Writes name=value, encoded, with '&' in front unless `out` is empty. */
void query_put(struct buf *out, const char *name, struct span value);
