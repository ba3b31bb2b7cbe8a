/* models: profiles of the user's own, in a file of TOML: a table a model, in its brackets the name. docs/train.md has one. Any thread.
 */
#pragma once
#include "base/buf.h"
#include "bench/profile.h"

#define MODELS_MAX 64 /* in a file */

/* The model of that name in `text`; NULL: the only one. `file` stands in front of what is said about the text. ERR_BAD_REQUEST: the text,
 * or a value, is none, or there is no such model: then with the names there are. */
enum err models_find(const char *file, struct span text, const char *name,
                     struct profile *out, struct errbuf *eb) MUST_CHECK;
/* A profile as such a table. */
void models_write(const struct profile *p, struct buf *out);
