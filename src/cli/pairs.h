/* pairs: two places walked together in the order of names, and whether what has the same name is the same. */
#pragma once
#include "cli/flow.h"
#include "cli/select.h"

struct pair {
    const struct found *left,
        *right; /* NULL: only the other side has it; lent until the next call */
};
struct pairs;
/* A right side that does not exist is empty. `sel` is borrowed. */
enum err pairs_open(struct select *sel, const char *left, const char *right,
                    struct pairs **out, struct errbuf *eb) MUST_CHECK;
/* Both NULL: the end. May switch. */
enum err pairs_next(struct pairs *p, struct pair *out, struct errbuf *eb) MUST_CHECK;
/* Nothing is, and never was, below the left place: a remote name that stands for nothing. */
bool pairs_left_missing(const struct pairs *p);
void pairs_close(struct pairs **pp);
const struct place *pairs_place(const struct pairs *p, bool right);

enum pairs_by { PAIRS_USUAL, PAIRS_CHECKSUM, PAIRS_SIZE };
enum pairs_same {
    PAIRS_SAME,
    PAIRS_DIFFER,
    PAIRS_ASK /* only the bytes of a file can tell */
};
enum pairs_same pairs_compare(const struct pairs *p, const struct pair *pair,
                              enum pairs_by by);
/* Do the bytes of the file give this ETag? May switch. */
enum err pairs_file_is(struct session *s, const char *path, struct span bucket,
                       struct span key, struct span etag, bool *same,
                       struct errbuf *eb) MUST_CHECK;
