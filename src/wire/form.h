/* form: a multipart/form-data body (RFC 7578), read as it comes. Pure.
 *
 * The caller keeps what was not yet used and comes again with the same bytes and more, as with wire/http.h. FORM_ROOM
 * bytes are always enough for the parser to go on.
 *
 *     form_begin(&f, boundary)
 *     form_next(&f, &in, ended, &piece)   -> FORM_PART: f.name, f.filename, f.content_type of the part that begins
 *                                            FORM_DATA: a piece of it      FORM_PART_END: it is over
 *                                            FORM_END: so is the form      FORM_MORE: more bytes are needed
 */
#pragma once
#include <stdbool.h>

#include "base/span.h"

#define FORM_BOUNDARY_MAX 70
#define FORM_HEAD_MAX     8192 /* the header lines of one part */
#define FORM_ROOM         (FORM_HEAD_MAX + 1024)
#define FORM_PARTS_MAX    200

enum form_event { FORM_MORE, FORM_PART, FORM_DATA, FORM_PART_END, FORM_END, FORM_BAD };

struct form {
    char delimiter[4 + FORM_BOUNDARY_MAX]; /* CR LF "--" boundary */
    size_t delimiter_len;
    enum {
        FORM_AT_START,
        FORM_AT_DELIMITER,
        FORM_IN_HEAD,
        FORM_IN_BODY,
        FORM_AFTER
    } state;
    unsigned parts;
    /* Of the part that began last: borrowed from `in`, good until the next call. `filename` at NULL: not a file. */
    struct span name, filename, content_type;
    const char *why; /* FORM_BAD: what was wrong */
};

/* "multipart/form-data; boundary=x" or ="x". False: it is something else, or a boundary that cannot be. */
bool form_boundary(struct span content_type, struct span *boundary);
void form_begin(struct form *f, struct span boundary);
/* Takes from the front of *in. `ended`: nothing comes behind it. */
enum form_event form_next(struct form *f, struct span *in, bool ended,
                          struct span *piece);
