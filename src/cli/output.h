/* output: standard output as results go there. A reader that has enough (`| head`) ends a listing without being an error; a disk
 * that is full is reported, with exit code 5. One thread.
 */
#pragma once
#include "cli/cli.h"

/* Descriptors 0 to 2 that are closed become /dev/null, before anything else is opened there. First of all calls. */
void output_begin(void);
/* After something was printed: ERR_NOT_MODIFIED when the reader has closed it, an error when it cannot be written. */
enum err output_check(struct errbuf *eb) MUST_CHECK;
/* The same of a write that failed with errno `number`. */
enum err output_failed(int number, struct errbuf *eb) MUST_CHECK;
/* Has the reader gone? */
bool output_is_over(void);
/* The last of all: what is still buffered goes out; the exit code in the end. */
enum exit_code output_end(enum exit_code code);
