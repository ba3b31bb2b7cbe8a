/* brace: names with braces, as bash expands them: "shard-{000..999}.tar", "{train,val}/{a..c}". Nothing is expanded in
 * memory: any name of the sequence is made from its number. Pure; any thread.
 *
 * In braces: a list "{a,b,}", or numbers or single letters with an optional step, "{1..10}", "{010..000..2}", "{a..e}". Numbers
 * that begin with a zero are padded to the wider of the two. Braces that are neither stay as they are written, as do those behind a "$".
 * A backslash takes the meaning from what follows. Braces do not nest: ERR_BAD_REQUEST says so.
 */
#pragma once
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct brace; /* in the arena; borrows the pattern */

#define BRACE_GROUPS_MAX 16
#define BRACE_LIST_MAX   4096       /* items of one list */
#define BRACE_COUNT_MAX  1000000000 /* names of one pattern */

/* ERR_BAD_REQUEST names the place; ERR_TOO_LARGE: more than BRACE_COUNT_MAX names. */
enum err brace_parse(struct span pattern, struct arena *a, struct brace **out,
                     struct errbuf *eb) MUST_CHECK;
/* Names in all; 1 when there are no braces. */
uint64_t brace_count(const struct brace *b);
/* Appends name `index` < brace_count(): the last braces turn fastest. */
void brace_name(const struct brace *b, uint64_t index, struct buf *out);
