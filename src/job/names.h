/* names: the objects that a job on a bucket works on, and an iterator over a list of names in stable order.
 *
 * {"bucket": NAME, "prefix": TEXT} selects all keys with the prefix. Otherwise there is a list of names and
 * patterns (wire/brace.h), one a line: it came with the request, or is an object of the bucket: {"bucket": NAME,
 * "manifest": KEY}. Loop 0 only.
 */
#pragma once
#include "job/internal.h"
#include "wire/brace.h"

#define NAMES_KEY_MAX 1024

/* An argument of a kind. */
struct job_arg {
    const char *name; /* NULL ends the table */
    bool is_number;   /* else a text */
    uint64_t most;    /* of a number; 0: any */
};
/* Checks a request of this kind on an attached bucket. `args`: the allowed arguments besides the three above.
 * Writes a line for people into `what`. ERR_BAD_REQUEST, ERR_NO_BUCKET. */
enum err names_check(struct job_service *s, const char *kind, const struct job_arg *known,
                     const json_t *args, struct span list, struct buf *what,
                     struct errbuf *eb) MUST_CHECK;

/* The same for any bucket. */
enum err names_check_any(struct job_service *s, const char *kind,
                         const struct job_arg *known, const json_t *args,
                         struct span list, struct buf *what,
                         struct errbuf *eb) MUST_CHECK;

struct names {
    struct job *job;
    const struct map_bucket *bucket; /* one reference */
    const char *prefix;              /* of the job's arguments; NULL: there is a list */
    bool ended;
    uint64_t number; /* of the next name, over all lines: where to continue */

    struct arena *arena; /* of the line's pattern */
    struct buf text;
    struct span rest; /* of `text`: lines that were not read yet */
    struct brace *line;
    uint64_t line_at; /* of brace_count(line) */
};
/* Opens a list at the job's position, and sets the job's total. Call names_close(), whatever the result. */
enum err names_open(struct names *n, struct job *j, struct errbuf *eb) MUST_CHECK;
void names_close(struct names *n);
/* Copies the next name of the list into `key`; n->ended: there is none. */
enum err names_next(struct names *n, char key[NAMES_KEY_MAX + 1],
                    struct errbuf *eb) MUST_CHECK;
