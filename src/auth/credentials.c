#include "auth/credentials.h"

struct credentials_cursor
credentials_cursor(struct span text)
{
    return (struct credentials_cursor){.left = text};
}

/* Takes one line without its end; false when nothing is left. */
static bool
credentials_next_line(struct credentials_cursor *c, struct span *line)
{
    const char *end;

    if (c->left.len == 0)
        return false;
    end = memchr(c->left.at, '\n', c->left.len);
    line->at = c->left.at;
    line->len = end != NULL ? (size_t)(end - c->left.at) : c->left.len;
    c->left = span_from(c->left, line->len + (end != NULL));
    c->line++;
    if (line->len > 0 && line->at[line->len - 1] == '\r')
        line->len--;
    *line = span_trim(*line);
    return true;
}

static bool
credentials_is_header(struct span line)
{
    return line.len >= 2 && line.at[0] == '[' && line.at[line.len - 1] == ']';
}

static bool
is_blank(struct span line)
{
    return line.len == 0 || line.at[0] == '#' || line.at[0] == ';';
}

static bool
is_printable(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.at[i] <= 0x20 || (unsigned char)s.at[i] >= 0x7f)
            return false;
    return true;
}

static enum err
credentials_parse_pair(struct span line, struct credentials_profile *p, const char *file,
                       unsigned number, struct errbuf *eb)
{
    const char *equals = memchr(line.at, '=', line.len);
    struct span name, value, *where = NULL;

    if (equals == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "%s:%u: expected NAME = VALUE", file, number);
    name = span_trim((struct span){line.at, (size_t)(equals - line.at)});
    value = span_trim(span_from(line, (size_t)(equals - line.at) + 1));
    if (span_case_is(name, "aws_access_key_id"))
        where = &p->access_key;
    else if (span_case_is(name, "aws_secret_access_key"))
        where = &p->secret_key;
    else if (span_case_is(name, "aws_session_token"))
        where = &p->session_token;
    if (where == NULL)
        return ERR_OK;
    /* The value stays out of the sentence: it is a secret. */
    if (value.len == 0 || !is_printable(value))
        return err_set(eb, ERR_BAD_REQUEST,
                       "%s:%u: the value of %.*s is empty or has odd characters", file,
                       number, SPAN_ARG(name));
    *where = value;
    return ERR_OK;
}

bool
credentials_next(struct credentials_cursor *c, struct credentials_profile *out,
                 const char *file, enum err *rc, struct errbuf *eb)
{
    struct credentials_cursor before;
    struct span line;

    *rc = ERR_OK;
    *out = (struct credentials_profile){.name = {"", 0}};
    for (;;) {
        if (!credentials_next_line(c, &line))
            return false;
        if (credentials_is_header(line))
            break;
        if (!is_blank(line)) {
            *rc = err_set(eb, ERR_BAD_REQUEST, "%s:%u: expected a [profile] first", file,
                          c->line);
            return false;
        }
    }
    out->name = span_trim((struct span){line.at + 1, line.len - 2});
    for (before = *c; credentials_next_line(c, &line); before = *c) {
        if (credentials_is_header(line)) {
            *c = before; /* of the next profile */
            break;
        }
        if (is_blank(line))
            continue;
        *rc = credentials_parse_pair(line, out, file, c->line, eb);
        if (*rc != ERR_OK)
            return false;
    }
    return true;
}
