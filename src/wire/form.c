#include "wire/form.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"

/* ---- parameters of a header line: name="value" or name=value, between semicolons ---- */

static bool
is_boundary_byte(char c)
{
    static const char more[] = "'()+_,-./:=? ";

    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(more, c) != NULL);
}

/* The next parameter. A quoted value ends at the next quote without a backslash before it. Browsers write %22 for
 * quotes, so the backslash is kept: Windows file names contain them. */
static bool
next_parameter(struct span *rest, struct span *name, struct span *value)
{
    const char *equals, *end;

    *rest = span_trim(*rest);
    while (rest->len > 0 && rest->at[0] == ';')
        *rest = span_trim(span_from(*rest, 1));
    equals = span_find(*rest, '=');
    if (equals == NULL)
        return false;
    *name = span_trim((struct span){rest->at, (size_t)(equals - rest->at)});
    *rest = span_from(*rest, (size_t)(equals - rest->at) + 1);
    if (rest->len > 0 && rest->at[0] == '"') {
        *rest = span_from(*rest, 1);
        end = span_find(*rest, '"');
        if (end == NULL)
            return false;
        *value = (struct span){rest->at, (size_t)(end - rest->at)};
        *rest = span_from(*rest, value->len + 1);
        return true;
    }
    end = span_find(*rest, ';');
    *value = (struct span){rest->at, end != NULL ? (size_t)(end - rest->at) : rest->len};
    *rest = span_from(*rest, value->len);
    *value = span_trim(*value);
    return true;
}

bool
form_boundary(struct span content_type, struct span *boundary)
{
    static const char type[] = "multipart/form-data";
    struct span rest, name, value;

    if (content_type.len < sizeof type - 1 ||
        strncasecmp(content_type.at, type, sizeof type - 1) != 0)
        return false;
    rest = span_from(content_type, sizeof type - 1);
    while (next_parameter(&rest, &name, &value)) {
        if (!span_case_is(name, "boundary"))
            continue;
        if (value.len == 0 || value.len > FORM_BOUNDARY_MAX ||
            value.at[value.len - 1] == ' ')
            return false;
        for (size_t i = 0; i < value.len; i++)
            if (!is_boundary_byte(value.at[i]))
                return false;
        *boundary = value;
        return true;
    }
    return false;
}

void
form_begin(struct form *f, struct span boundary)
{
    *f = (struct form){.state = FORM_AT_START};
    memcpy(f->delimiter, "\r\n--", 4);
    memcpy(f->delimiter + 4, boundary.at, boundary.len);
    f->delimiter_len = 4 + boundary.len;
}

static enum form_event
form_bad(struct form *f, const char *why)
{
    f->why = why;
    return FORM_BAD;
}

static enum form_event
form_more(struct form *f, bool ended)
{
    return ended ? form_bad(f, "the form ends before its last boundary") : FORM_MORE;
}

/* ---- states ---- */

/* The first delimiter has no line end before it; some clients send one. */
static enum form_event
at_start(struct form *f, struct span *in, bool ended)
{
    size_t skip = in->len >= 2 && in->at[0] == '\r' && in->at[1] == '\n' ? 0 : 2;
    size_t len = f->delimiter_len - skip;

    if (in->len < len)
        return form_more(f, ended);
    if (memcmp(in->at, f->delimiter + skip, len) != 0)
        return form_bad(f, "the form does not begin with its boundary");
    *in = span_from(*in, len);
    f->state = FORM_AT_DELIMITER;
    return FORM_PART_END; /* of nothing: not shown */
}

/* Behind a delimiter: CR LF before the next part, "--" at the end; blanks may stand between. */
static enum form_event
at_delimiter(struct form *f, struct span *in, bool ended)
{
    size_t blanks = 0;

    while (blanks < in->len && blanks < 64 &&
           (in->at[blanks] == ' ' || in->at[blanks] == '\t'))
        blanks++;
    if (in->len < blanks + 2)
        return form_more(f, ended);
    if (memcmp(in->at + blanks, "--", 2) == 0) {
        f->state = FORM_AFTER;
        *in = span_from(*in, blanks + 2);
        return FORM_END;
    }
    if (memcmp(in->at + blanks, "\r\n", 2) != 0)
        return form_bad(f, "a boundary is followed by something else than a line end");
    *in = span_from(*in, blanks + 2);
    if (++f->parts > FORM_PARTS_MAX)
        return form_bad(f, "the form has too many parts");
    f->state = FORM_IN_HEAD;
    return FORM_PART_END;
}

static bool
take_disposition(struct form *f, struct span value)
{
    static const char type[] = "form-data";
    struct span name, v;

    if (value.len < sizeof type - 1 || strncasecmp(value.at, type, sizeof type - 1) != 0)
        return false;
    value = span_from(value, sizeof type - 1);
    while (next_parameter(&value, &name, &v)) {
        if (span_case_is(name, "name"))
            f->name = v;
        else if (span_case_is(name, "filename"))
            f->filename = v;
    }
    return f->name.at != NULL;
}

static enum form_event
in_head(struct form *f, struct span *in, bool ended)
{
    const char *end = memmem(in->at, MIN(in->len, FORM_HEAD_MAX), "\r\n\r\n", 4);
    struct span head;
    bool named = false;

    if (end == NULL)
        return in->len >= FORM_HEAD_MAX ? form_bad(f, "the head of a part is too long")
                                        : form_more(f, ended);
    head = (struct span){in->at, (size_t)(end - in->at) + 2};
    *in = span_from(*in, head.len + 2);
    f->name = f->filename = f->content_type = (struct span){NULL, 0};
    while (head.len > 0) {
        const char *line_end = memmem(head.at, head.len, "\r\n", 2);
        struct span line = {head.at, (size_t)(line_end - head.at)}, name, value;
        const char *colon = span_find(line, ':');

        head = span_from(head, line.len + 2);
        if (colon == NULL)
            return form_bad(f, "a line in the head of a part has no colon");
        name = span_trim((struct span){line.at, (size_t)(colon - line.at)});
        value = span_trim(span_from(line, (size_t)(colon - line.at) + 1));
        if (span_case_is(name, "content-disposition"))
            named = take_disposition(f, value);
        else if (span_case_is(name, "content-type"))
            f->content_type = value;
    }
    if (!named)
        return form_bad(f, "a part has no name");
    f->state = FORM_IN_BODY;
    return FORM_PART;
}

static enum form_event
in_body(struct form *f, struct span *in, bool ended, struct span *piece)
{
    const char *end =
        in->len > 0 ? memmem(in->at, in->len, f->delimiter, f->delimiter_len) : NULL;
    size_t len = end != NULL                  ? (size_t)(end - in->at)
                 : in->len < f->delimiter_len ? 0
                                              : in->len - f->delimiter_len + 1;

    if (len > 0) {
        *piece = (struct span){in->at, len};
        *in = span_from(*in, len);
        return FORM_DATA;
    }
    if (end == NULL)
        return form_more(f, ended);
    *in = span_from(*in, f->delimiter_len);
    f->state = FORM_AT_DELIMITER;
    return FORM_PART_END;
}

enum form_event
form_next(struct form *f, struct span *in, bool ended, struct span *piece)
{
    enum form_event e;

    *piece = (struct span){"", 0};
    for (;;) {
        switch (f->state) {
        case FORM_AT_START:
            e = at_start(f, in, ended);
            break;
        case FORM_AT_DELIMITER:
            e = at_delimiter(f, in, ended);
            break;
        case FORM_IN_HEAD:
            return in_head(f, in, ended);
        case FORM_IN_BODY:
            return in_body(f, in, ended, piece);
        case FORM_AFTER: /* what follows means nothing */
            *in = (struct span){"", 0};
            return FORM_END;
        default:
            return form_bad(f, "no state");
        }
        if (e != FORM_PART_END)
            return e;
    }
}
