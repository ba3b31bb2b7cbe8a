#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool
terminal_is(FILE *f)
{
    const char *term = getenv("TERM");

    return isatty(fileno(f)) == 1 && term != NULL && strcmp(term, "dumb") != 0;
}

unsigned
terminal_columns(void)
{
    struct winsize size;

    if (ioctl(fileno(stderr), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 79;
    return size.ws_col;
}

unsigned
terminal_rows(void)
{
    struct winsize size;

    if (ioctl(fileno(stdout), TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
        return 24;
    return size.ws_row;
}

/* Bytes of the first `columns` characters: one each, as nearly all are. */
static size_t
fitting(const char *text, unsigned columns)
{
    size_t len = 0;

    for (; text[len] != '\0'; len++)
        if (((unsigned char)text[len] & 0xC0) != 0x80 && columns-- == 0)
            break;
    return len;
}

void
terminal_line(const char *text)
{
    unsigned columns = terminal_columns();

    /* One column stays free: what fills the last one makes some terminals go to the next line. */
    fprintf(stderr, "\r%.*s\033[K", (int)fitting(text, columns > 1 ? columns - 1 : 1),
            text);
}

void
terminal_clear(void)
{
    fputs("\r\033[K", stderr);
}
