/* cors: a bucket's CORS configuration: which pages may ask a browser to ask for what. Pure.
 *
 * Memory: a parsed configuration lies in the arena. Limits: CORS_RULES_MAX rules, CORS_NAMES_MAX names in each list. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/span.h"
#include "wire/fault.h"

#define CORS_RULES_MAX 100
#define CORS_NAMES_MAX 100

struct cors_names {
    struct span *at;
    size_t count, room;
};
struct cors_rule {
    struct span id; /* empty: none */
    struct cors_names origins, methods, headers, expose;
    bool has_max_age;
    uint64_t max_age_s;
};
struct cors {
    struct cors_rule *rules;
    size_t count;
};
/* MalformedXML; InvalidRequest for a method that no rule can allow or a pattern with two stars. */
enum err cors_parse(struct span doc, struct arena *a, struct cors *out,
                    struct fault *f) MUST_CHECK;
/* The document that parses to the same. */
void cors_write(const struct cors *c, struct buf *out);

/* The first rule for this origin, method and (of a preflight: "a, b") all of these headers; NULL: none. *any: its pattern
 * for origins is "*" itself. */
const struct cors_rule *cors_find(const struct cors *c, struct span origin,
                                  struct span method, struct span headers, bool *any);
