/* match: which members of a shard are wanted. One loop at a time; test() of a regular expression uses memory of the matcher. */
#pragma once
#include "base/err.h"
#include "base/span.h"

enum shard_match_kind {
    SHARD_MATCH_PREFIX, /* an empty pattern or "*" matches every name */
    SHARD_MATCH_SUFFIX,
    SHARD_MATCH_PART,   /* anywhere in the name */
    SHARD_MATCH_SAMPLE, /* the WebDataset key: shard_sample_key() */
    SHARD_MATCH_REGEXP, /* PCRE2 syntax without what its DFA matcher lacks; finds it anywhere in the name */
    SHARD_MATCH_EXACT,
};
#define SHARD_PATTERN_MAX 1024u /* bytes */

struct shard_match;
/* ERR_BAD_REQUEST: the regular expression is wrong or too large. */
enum err shard_match_new(enum shard_match_kind kind, struct span pattern,
                         struct shard_match **out, struct errbuf *eb) MUST_CHECK;
/* ERR_BAD_REQUEST: the expression needs more work on this name than the limits allow. */
enum err shard_match_test(struct shard_match *m, struct span name, bool *yes,
                          struct errbuf *eb) MUST_CHECK;
void shard_match_free(struct shard_match **mp); /* NULL is fine */
