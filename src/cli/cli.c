#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/advice.h"
#include "cli/names.h"
#include "cli/terminal.h"

enum exit_code
cli_exit_of(enum err rc)
{
    switch (rc) {
    case ERR_OK:
        return EXIT_OK_;
    case ERR_BAD_REQUEST:
    case ERR_RANGE:
    case ERR_NOT_IMPLEMENTED:
        return EXIT_USAGE;
    case ERR_NOT_FOUND:
    case ERR_NO_BUCKET:
    case ERR_NO_UPLOAD:
        return EXIT_NOT_FOUND;
    case ERR_DENIED:
    case ERR_QUOTA:
        return EXIT_DENIED;
    case ERR_TIMEOUT:
    case ERR_BUSY:
    case ERR_CLOSED:
    case ERR_UNAVAILABLE:
    case ERR_BACKEND:
    case ERR_NO_SPACE:
    case ERR_IO:
        return EXIT_UNAVAILABLE;
    case ERR_BAD_DIGEST:
    case ERR_CORRUPT:
        return EXIT_CHECKSUM;
    case ERR_CANCELLED:
        return EXIT_INTERRUPTED;
    case ERR_NOT_ALLOWED:
    case ERR_EXISTS:
    case ERR_NOT_EMPTY:
    case ERR_PRECONDITION:
    case ERR_NOT_MODIFIED:
    case ERR_TOO_LARGE:
    case ERR_INCOMPLETE:
    case ERR_INTERNAL:
    case ERR_COUNT_:
        break;
    }
    return EXIT_DIFFERS;
}

static bool
is_set(const char *name)
{
    const char *v = getenv(name);

    return v != NULL && v[0] != '\0';
}

const char *
cli_paint(FILE *to, enum cli_paint p)
{
    static const char *const escapes[] = {[PAINT_OFF] = "\033[0m",
                                          [PAINT_BAD] = "\033[31m",
                                          [PAINT_GOOD] = "\033[32m",
                                          [PAINT_PLACE] = "\033[34m"};
    const char *force = getenv("CLICOLOR_FORCE");
    bool forced = force != NULL && strcmp(force, "0") != 0 && force[0] != '\0';

    if (is_set("NO_COLOR"))
        return "";
    if (!forced && !terminal_is(to))
        return "";
    return escapes[p];
}

static bool json_errors; /* constant after main() began */

void
cli_json_errors(bool yes)
{
    json_errors = yes;
}

bool
cli_errors_are_json(void)
{
    return json_errors;
}

void
cli_say(const char *what, const char *text)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    bool named = what != NULL && strstr(text, what) == NULL;

    fprintf(stderr, "%sforebay:%s %.*s%s%.*s\n", cli_paint(stderr, PAINT_BAD),
            cli_paint(stderr, PAINT_OFF),
            SPAN_ARG(name_shown(span_of(named ? what : ""), a)), named ? ": " : "",
            SPAN_ARG(sentence_shown(span_of(text), a)));
    arena_free(&a);
}

enum exit_code
cli_fail(enum err rc, const struct errbuf *eb)
{
    if (json_errors)
        return advice_fail(rc, eb, NULL, NULL);
    cli_say(NULL, eb->text[0] != '\0' ? eb->text : err_name(rc));
    return cli_exit_of(rc);
}

enum exit_code
cli_usage(const struct errbuf *eb, const struct verb *v)
{
    if (json_errors)
        return advice_fail(ERR_BAD_REQUEST, eb, NULL, NULL);
    cli_say(NULL, eb->text);
    if (v != NULL)
        fprintf(stderr, "see: forebay %s --help\n", v->name);
    else
        fprintf(stderr, "see: forebay --help\n");
    return EXIT_USAGE;
}
