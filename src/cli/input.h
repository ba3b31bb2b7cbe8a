/* input: standard input as a worker waits for it. Ctrl-C ends the wait: a read() that waits for a person or a pipe would
 * otherwise hold the whole program until something comes.
 */
#pragma once
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* As read(0, ...), on a worker; 0 also when input_end() was called meanwhile. */
ssize_t input_read(void *to, size_t len);
/* The same as a stream, for lines. One for the whole process; it is never closed. */
FILE *input_file(void);
/* Any thread: every waiting reader sees the end. */
void input_end(void);
