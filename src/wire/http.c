/* http: heads. A line is found by its LF, checked for control bytes eight at a time and parsed at once, so a head
 * costs one pass. What several lines mean together (framing, Host) is checked at the end. */
#include "wire/http.h"

#include "base/mem.h"
#include "base/num.h"
#include "wire/http_chars.h"

#define METHOD_MAX 32

void
http_head_init(struct http_head *h)
{
    /* Not the array of headers: `count` says how much of it means anything. */
    memset(h, 0, offsetof(struct http_head, headers));
    memset(h->first, 0, sizeof *h - offsetof(struct http_head, first));
    h->method = HTTP_METHOD_OTHER;
}

static enum http_parse
http_bad(struct http_head *h, int status, const char *why)
{
    h->status = status;
    h->why = why;
    return HTTP_BAD;
}

bool
http_is_token(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_token_char((unsigned char)s.at[i]))
            return false;
    }
    return s.len > 0;
}

/* ---- lists ---- */

/* Takes the next element off a comma-separated list; empty ones are passed over. */
static bool
next_element(struct span *list, struct span *element)
{
    while (list->len > 0) {
        const char *comma = memchr(list->at, ',', list->len);
        size_t len = comma != NULL ? (size_t)(comma - list->at) : list->len;

        *element = span_trim((struct span){list->at, len});
        *list = span_from(*list, comma != NULL ? len + 1 : len);
        if (element->len > 0)
            return true;
    }
    return false;
}

bool
http_lists(const struct http_head *h, enum http_field f, const char *token)
{
    if (!http_has(h, f))
        return false;
    for (unsigned i = h->first[f] - 1u; i < h->count; i++) {
        struct span list = h->headers[i].value, element;

        if (http_field_of(h->headers[i].name) != f)
            continue;
        while (next_element(&list, &element)) {
            if (span_case_is(element, token))
                return true;
        }
        if (!http_is_repeated(h, f))
            break;
    }
    return false;
}

/* ---- first lines ---- */

/* "HTTP/1.1" and its like; the digits may be others, the letters may not. */
static enum http_parse
parse_version(struct http_head *h, struct span v)
{
    if (v.len != 8 || memcmp(v.at, "HTTP/", 5) != 0 || v.at[6] != '.' || v.at[5] < '0' ||
        v.at[5] > '9' || v.at[7] < '0' || v.at[7] > '9')
        return http_bad(h, 400, "the version is not of the form HTTP/1.1");
    if (v.at[5] != '1')
        return http_bad(h, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    h->minor = v.at[7] != '0';
    return HTTP_DONE;
}

static bool
starts_with_case(struct span s, const char *text)
{
    size_t n = strlen(text);

    return s.len >= n && strncasecmp(s.at, text, n) == 0;
}

/* Splits the target. Its authority, where there is one, waits in `host` for the
 * comparison with Host. */
static enum http_parse
parse_target(struct http_head *h)
{
    struct span rest = h->target;
    const char *mark;

    if (memchr(rest.at, '#', rest.len) != NULL)
        return http_bad(h, 400, "the request target has a fragment");
    if (rest.at[0] == '*') {
        if (rest.len != 1 || h->method != HTTP_METHOD_OPTIONS)
            return http_bad(h, 400, "a request target of * is for OPTIONS only");
    } else if (rest.at[0] != '/') {
        size_t skip = starts_with_case(rest, "http://")    ? 7
                      : starts_with_case(rest, "https://") ? 8
                                                           : 0;
        size_t end = skip;

        if (skip == 0)
            return http_bad(h, 400,
                            "the request target begins neither with / nor with http://");
        while (end < rest.len && rest.at[end] != '/' && rest.at[end] != '?')
            end++;
        if (end == skip)
            return http_bad(h, 400, "the request target names no host");
        h->host = (struct span){rest.at + skip, end - skip};
        rest = span_from(rest, end);
    }
    mark = memchr(rest.at, '?', rest.len);
    h->path = (struct span){rest.at, mark != NULL ? (size_t)(mark - rest.at) : rest.len};
    if (h->path.len == 0)
        h->path = SPAN("/");
    if (mark != NULL)
        h->query = span_from(rest, (size_t)(mark - rest.at) + 1);
    return HTTP_DONE;
}

static enum http_parse
parse_request_line(struct http_head *h, struct span line)
{
    const char *first = memchr(line.at, ' ', line.len);
    const char *second;
    struct span rest;
    enum http_parse rc;

    if (!has_no_control(line.at, line.len))
        return http_bad(h, 400, "the request line holds a control byte");
    if (first == NULL)
        return http_bad(h, 400, "the request line has no target");
    h->method_text = (struct span){line.at, (size_t)(first - line.at)};
    if (h->method_text.len > METHOD_MAX || !http_is_token(h->method_text))
        return http_bad(h, 400, "the method is no token of at most 32 bytes");
    rest = span_from(line, h->method_text.len + 1);
    second = memchr(rest.at, ' ', rest.len);
    if (second == NULL)
        return http_bad(h, 400, "the request line has no version");
    h->target = (struct span){rest.at, (size_t)(second - rest.at)};
    if (h->target.len == 0)
        return http_bad(h, 400, "the request line has an empty target");
    rc = parse_version(h, span_from(rest, h->target.len + 1));
    if (rc != HTTP_DONE)
        return rc;
    h->method = http_method_of(h->method_text);
    if (span_is(h->method_text, "CONNECT") || span_is(h->method_text, "TRACE"))
        return http_bad(h, 405, "the methods CONNECT and TRACE are refused");
    return parse_target(h);
}

/* "HTTP/1.1 200 OK"; the reason, and the space before it, may be missing. */
static enum http_parse
parse_status_line(struct http_head *h, struct span line)
{
    enum http_parse rc;

    if (!has_no_control_but_tab(line.at, line.len))
        return http_bad(h, 502, "the status line holds a control byte");
    if (line.len < 12 || line.at[8] != ' ')
        return http_bad(h, 502, "the status line is not of the form HTTP/1.1 200 OK");
    rc = parse_version(h, (struct span){line.at, 8});
    if (rc != HTTP_DONE)
        return rc;
    for (unsigned i = 9; i < 12; i++) {
        if (line.at[i] < '0' || line.at[i] > '9')
            return http_bad(h, 502, "the status is not three digits");
        h->code = h->code * 10 + (line.at[i] - '0');
    }
    if (line.len > 12 && line.at[12] != ' ')
        return http_bad(h, 502, "the status is not three digits");
    if (h->code < 100 || h->code > 599)
        return http_bad(h, 502, "the status is not between 100 and 599");
    return HTTP_DONE;
}

/* ---- header lines ---- */

static enum http_parse
http_parse_header(struct http_head *h, struct span line)
{
    struct field *f = &h->headers[h->count];
    size_t n = 0;
    enum http_field id;

    if (h->count == HTTP_HEADERS_MAX)
        return http_bad(h, 431, "there are more than 100 headers");
    if (line.at[0] == ' ' || line.at[0] == '\t')
        return http_bad(h, 400, "a header line begins with a blank");
    while (n < line.len && is_token_char((unsigned char)line.at[n]))
        n++;
    if (n == line.len)
        return http_bad(h, 400, "a header line has no colon");
    if (line.at[n] == ' ' || line.at[n] == '\t')
        return http_bad(h, 400, "a blank stands in a header's name or before its colon");
    if (line.at[n] != ':' || n == 0)
        return http_bad(h, 400, "a header's name is no token");
    f->name = (struct span){line.at, n};
    f->value = span_trim(span_from(line, n + 1));
    if (!has_no_control_but_tab(f->value.at, f->value.len))
        return http_bad(h, 400, "a header's value holds a control byte");
    h->count++;
    id = http_field_of(f->name);
    if (id == HTTP_FIELD_COUNT_) {
        h->unknown_count++;
        return HTTP_DONE;
    }
    h->seen |= UINT64_C(1) << id;
    if (h->first[id] == 0)
        h->first[id] = (uint8_t)h->count;
    else
        h->repeated |= UINT64_C(1) << id;
    return HTTP_DONE;
}

/* ---- what the lines say together ---- */

static enum http_parse
check_coding(struct http_head *h)
{
    struct span list = http_get(h, HTTP_TRANSFER_ENCODING), element = {"", 0};
    unsigned count = 0, chunked = 0;

    if (h->minor == 0)
        return http_bad(h, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (http_has(h, HTTP_CONTENT_LENGTH))
        return http_bad(h, 400, "Content-Length and Transfer-Encoding stand together");
    if (http_is_repeated(h, HTTP_TRANSFER_ENCODING))
        return http_bad(h, 400, "Transfer-Encoding came twice");
    while (next_element(&list, &element)) {
        count++;
        chunked += span_case_is(element, "chunked");
    }
    if (chunked != 1 || !span_case_is(element, "chunked"))
        return http_bad(h, 400, "Transfer-Encoding does not end in one chunked");
    if (count != 1)
        return http_bad(h, 501, "no transfer coding but chunked is spoken here");
    h->body_length = HTTP_CHUNKED;
    return HTTP_DONE;
}

static enum http_parse
check_length(struct http_head *h)
{
    uint64_t n;

    if (http_is_repeated(h, HTTP_CONTENT_LENGTH))
        return http_bad(h, 400, "Content-Length came twice");
    if (num_u64(http_get(h, HTTP_CONTENT_LENGTH), &n) != ERR_OK || n > INT64_MAX)
        return http_bad(h, 400, "Content-Length is no number of at most 63 bits");
    h->has_length = true;
    h->body_length = (int64_t)n;
    return HTTP_DONE;
}

static void
check_connection(struct http_head *h)
{
    bool close = http_lists(h, HTTP_CONNECTION, "close");

    h->keep_alive =
        !close && (h->minor != 0 || http_lists(h, HTTP_CONNECTION, "keep-alive"));
}

/* Letters, digits and "-._~", sub-delims but the comma, percent, and what ports and IPv6
 * addresses need. */
static bool
http_is_host(struct span s)
{
    static const char others[] = "-._~!$&'()*+;=%:[]";

    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];

        if (!((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
              memchr(others, c, sizeof others - 1) != NULL))
            return false;
    }
    return s.len > 0;
}

static enum http_parse
check_host(struct http_head *h)
{
    struct span said = http_get(h, HTTP_HOST);

    if (!http_has(h, HTTP_HOST)) {
        if (h->minor != 0)
            return http_bad(h, 400, "HTTP/1.1 wants a Host");
        return HTTP_DONE;
    }
    if (http_is_repeated(h, HTTP_HOST))
        return http_bad(h, 400, "Host came twice");
    if (!http_is_host(said))
        return http_bad(h, 400, "Host is not a name or address");
    /* An absolute target and a Host that differ would let two servers see two hosts. */
    if (h->host.len > 0 &&
        (h->host.len != said.len || strncasecmp(h->host.at, said.at, said.len) != 0))
        return http_bad(h, 400, "Host and the request target name different hosts");
    h->host = said;
    return HTTP_DONE;
}

static enum http_parse
http_check_request(struct http_head *h)
{
    enum http_parse rc = check_host(h);

    if (rc == HTTP_DONE && http_has(h, HTTP_TRANSFER_ENCODING))
        rc = check_coding(h);
    else if (rc == HTTP_DONE && http_has(h, HTTP_CONTENT_LENGTH))
        rc = check_length(h);
    if (rc != HTTP_DONE)
        return rc;
    check_connection(h);
    h->expect = h->minor != 0 && (h->body_length != 0 || h->has_length) &&
                http_has(h, HTTP_EXPECT) && http_lists(h, HTTP_EXPECT, "100-continue");
    return HTTP_DONE;
}

static enum http_parse
check_response(struct http_head *h, enum http_method method)
{
    bool without = h->code < 200 || h->code == 204 || h->code == 304;
    enum http_parse rc = HTTP_DONE;

    if (http_has(h, HTTP_TRANSFER_ENCODING))
        rc = check_coding(h);
    else if (http_has(h, HTTP_CONTENT_LENGTH))
        rc = check_length(h);
    else
        h->body_length = HTTP_TO_END;
    if (rc != HTTP_DONE) {
        h->status = 502;
        return rc;
    }
    if (without || method == HTTP_METHOD_HEAD)
        h->body_length = 0;
    check_connection(h);
    if (h->body_length == HTTP_TO_END)
        h->keep_alive = false;
    return HTTP_DONE;
}

/* ---- the scan ---- */

/* The next line that is whole, without its end. HTTP_DONE: *line is it. */
static enum http_parse
http_next_line(struct http_head *h, const char *buf, size_t len, struct span *line)
{
    const char *lf = memchr(buf + h->scanned_, '\n', len - h->scanned_);
    size_t end = lf != NULL ? (size_t)(lf - buf) : len;

    if (h->block_at_ == 0 && end - h->line_at_ > HTTP_REQUEST_LINE_MAX + 1)
        return http_bad(h, 414, "the first line is longer than 8192 bytes");
    if (h->block_at_ != 0 && end - h->block_at_ >= HTTP_HEAD_MAX)
        return http_bad(h, 431, "the headers are longer than 65536 bytes");
    if (lf == NULL) {
        h->scanned_ = len;
        return HTTP_MORE;
    }
    if (end == h->line_at_ || buf[end - 1] != '\r')
        return http_bad(h, 400, "a line ends without CR");
    *line = (struct span){buf + h->line_at_, end - 1 - h->line_at_};
    h->line_at_ = h->scanned_ = end + 1;
    return HTTP_DONE;
}

/* Reads lines until the empty one; `first` reads the first. */
static enum http_parse
http_parse_lines(struct http_head *h, const char *buf, size_t len, unsigned forgiven,
                 enum http_parse (*first)(struct http_head *h, struct span line))
{
    struct span line;
    enum http_parse rc;

    while ((rc = http_next_line(h, buf, len, &line)) == HTTP_DONE) {
        if (h->block_at_ != 0) {
            if (line.len == 0)
                return HTTP_DONE;
            rc = http_parse_header(h, line);
        } else if (line.len == 0) {
            if (h->blank_++ == forgiven)
                return http_bad(h, 400,
                                "empty lines stand where the first line should be");
        } else {
            rc = first(h, line);
            h->block_at_ = h->line_at_;
        }
        if (rc != HTTP_DONE)
            return rc;
    }
    return rc;
}

enum http_parse
http_request_parse(struct http_head *h, const char *buf, size_t len)
{
    enum http_parse rc = http_parse_lines(h, buf, len, 1, parse_request_line);

    if (rc == HTTP_DONE) {
        h->len = h->line_at_;
        rc = http_check_request(h);
    }
    return rc;
}

enum http_parse
http_response_parse(struct http_head *h, const char *buf, size_t len,
                    enum http_method method)
{
    enum http_parse rc = http_parse_lines(h, buf, len, 0, parse_status_line);

    if (rc == HTTP_DONE) {
        h->len = h->line_at_;
        rc = check_response(h, method);
    }
    if (rc == HTTP_BAD)
        h->status = 502;
    return rc;
}
