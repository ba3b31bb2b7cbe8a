/* words: splits a line like a shell: white space, '...', "...", a backslash. No variables, no patterns. Any thread. */
#pragma once
#include <stddef.h>

#include "base/err.h"

#define WORDS_MAX 1000
/* Splits in place: *words are pointers into `line`, their count is *count; a '#' at the begin of a word ends the line. ERR_BAD_REQUEST: a
 * quote is not closed, too many words. */
enum err words_cut(char *line, char *words[WORDS_MAX], int *count,
                   struct errbuf *eb) MUST_CHECK;
