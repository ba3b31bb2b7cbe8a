/* advice: what each kind of failure means and what to do next: one table for error messages, `forebay explain` and the pages. */
#pragma once
#include "base/buf.h"
#include "cli/session.h"

/* The line behind an error's sentence, on stderr. `s` may be NULL. */
void advice_print(enum err rc, const struct session *s);
/* "E1003" or "FOREBAY-E1003": writes what is known of it; false when there is none. */
bool advice_explain(struct span word, struct buf *out);
void advice_list(struct buf *out);
