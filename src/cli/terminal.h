/* terminal: the progress line on stderr, which is rewritten in place. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

/* True if it is a terminal that can rewrite a line; false with TERM=dumb or without TERM. */
bool terminal_is(FILE *f);
/* Lines of the terminal behind standard output; 24 if unknown. */
unsigned terminal_rows(void);
/* What a line of stderr can hold; 79 if unknown. */
unsigned terminal_columns(void);
/* Writes `text` over the line that stands there, cut so that it stays one line. */
void terminal_line(const char *text);
void terminal_clear(void);
