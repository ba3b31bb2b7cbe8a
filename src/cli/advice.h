/* advice: what each kind of failure means and what to do next: one table for error messages, `forebay explain` and the pages. */
#pragma once
#include "base/buf.h"
#include "cli/session.h"

/* What is known of the command that failed. */
struct advice_of {
    const char *endpoint, *to_endpoint; /* NULL: none */
    const char *key, *keys_how;         /* NULL: requests went unsigned */
    const char *verb;                   /* "user grant", or "" */
};
/* What to do next after an error with this sentence, and its code "E1003"; an empty hint where there is none. */
const char *advice_hint(enum err rc, const char *text, const struct advice_of *of,
                        struct buf *out);
/* The line behind an error's sentence, on stderr. `s` may be NULL. */
void advice_print(enum err rc, const char *text, const struct session *s);
/* The sentence and the line behind it; one JSON object where the command was asked for JSON (cli_json_errors()). `what` is
 * a name that the sentence is about, or NULL. */
enum exit_code advice_fail(enum err rc, const struct errbuf *eb, const char *what,
                           const struct session *s);
/* "E1003" or "FOREBAY-E1003": writes what is known of it; false when there is none. */
bool advice_explain(struct span word, struct buf *out);
void advice_list(struct buf *out);
