#include "cli/cli.h"

#include <stdio.h>

enum exit_code
cli_exit_of(enum err rc)
{
    switch (rc) {
    case ERR_OK:
        return EXIT_OK_;
    case ERR_BAD_REQUEST:
    case ERR_RANGE:
    case ERR_NOT_BUILT:
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

enum exit_code
cli_fail(enum err rc, const struct errbuf *eb)
{
    fprintf(stderr, "forebay: %s\n", eb->text[0] != '\0' ? eb->text : err_name(rc));
    return cli_exit_of(rc);
}

enum exit_code
cli_usage(const struct errbuf *eb, const struct verb *v)
{
    fprintf(stderr, "forebay: %s\n", eb->text);
    if (v != NULL)
        fprintf(stderr, "see: forebay %s --help\n", v->name);
    else
        fprintf(stderr, "see: forebay --help\n");
    return EXIT_USAGE;
}
