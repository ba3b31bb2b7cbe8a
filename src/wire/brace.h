/* brace: names with braces, as bash expands them: "shard-{000..999}.tar", "{train,val}/{a..c}". Nothing is expanded in
 * memory: any name of the sequence is made from its number. Pure; any thread.
 *
 * In braces: a list "{a,b,}", or numbers or single letters with an optional step, "{1..10}", "{010..000..2}", "{a..e}". Numbers
 * that begin with a zero are padded to the wider of the two. Items of a list may have braces themselves: "{a,b{1..3}}". Braces
 * that are neither stay as they are written, as do those behind a "$" and those that do not close. A backslash takes the
 * meaning from what follows.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct brace; /* in the arena; borrows the pattern */

#define BRACE_GROUPS_MAX  64  /* of one pattern */
#define BRACE_SEEN_MAX    256 /* with those that are text */
#define BRACE_DEPTH_MAX   16
#define BRACE_LIST_MAX    4096 /* items of one list */
#define BRACE_PATTERN_MAX (256u << 10)
#define BRACE_COUNT_MAX   1000000000 /* names of one pattern */

/* ERR_BAD_REQUEST, ERR_TOO_LARGE: a limit above. */
enum err brace_parse(struct span pattern, struct arena *a, struct brace **out,
                     struct errbuf *eb) MUST_CHECK;
/* Does a brace open that does not close? *at is its place. For people's typing, which rarely means that. */
bool brace_is_open(struct span pattern, size_t *at);
/* Names in all; 1 when there are no braces. */
uint64_t brace_count(const struct brace *b);
/* Appends name `index` < brace_count(): the last braces turn fastest. */
void brace_name(const struct brace *b, uint64_t index, struct buf *out);
/* The same where what comes out is a pattern of another kind: backslashes stay but before braces and commas. */
void brace_pattern(const struct brace *b, uint64_t index, struct buf *out);
