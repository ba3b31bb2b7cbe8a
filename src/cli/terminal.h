/* terminal: the one line on stderr that is written again and again while something long runs. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

/* Is it a terminal on which a line can be written again? Not with TERM=dumb, or without TERM. */
bool terminal_is(FILE *f);
/* Lines of the terminal behind standard output; 24 if unknown. */
unsigned terminal_rows(void);
/* What a line of stderr can hold; 79 if unknown. */
unsigned terminal_columns(void);
/* Writes `text` over the line that stands there, cut so that it stays one line. */
void terminal_line(const char *text);
void terminal_clear(void);
