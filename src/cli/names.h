/* names: braces, patterns and filters over names of objects and files. Pure functions; any thread. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

/* Opens braces as wire/brace.h says; a text without braces gives itself. Names end with a NUL behind the span. What on_name returns
 * other than ERR_OK ends it. ERR_TOO_LARGE beyond NAMES_MAX names, ERR_BAD_REQUEST for a brace without its other half. */
#define NAMES_MAX 1000000u
typedef enum err names_on(void *arg, struct span name, struct errbuf *eb);
enum err names_expand(struct span text, names_on *on_name, void *arg,
                      struct errbuf *eb) MUST_CHECK;

/* "*" and "?" stay within a folder, "**" does not; [a-z], [!a-z]; a backslash takes the next byte as it is. */
bool glob_match(struct span pattern, struct span name);
/* Where the first character of a pattern stands; the length when there is none. */
size_t glob_literal(struct span text);
bool glob_is(struct span text);

/* --exclude and --include. */
struct filter {
    const char *const *exclude; /* borrowed */
    const char *const *include;
    size_t exclude_count, include_count;
};
/* `name` is relative to the source. */
bool filter_takes(const struct filter *f, struct span name);

/* Why this name of a listing cannot be a file below a folder: "..", ".", an empty part, one over 255 bytes, a NUL, a '/' at either
 * end. NULL: it can. Constant text. */
const char *name_problem(struct span name);

/* For people: control characters and what is not UTF-8 as \n, \x1b. In the arena; `name` itself when it is clean. */
struct span name_shown(struct span name, struct arena *a);
/* The same of a sentence with names in it, some shown already: backslashes stay single. */
struct span sentence_shown(struct span text, struct arena *a);
