#include "wire/awschunked.h"

#include <assert.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "wire/sigv4_canon.h"

enum state { HEADER, DATA, DATA_END, TRAILER, END, BAD };

#define TRAILER_SIGNATURE "x-amz-trailer-signature"

static bool
awschunked_is_signed(const struct awschunked *d)
{
    return d->kind != PAYLOAD_CHUNKED_UNSIGNED_TRAILER;
}

/* ---- errors ---- */

static bool
awschunked_incomplete(struct awschunked *d, const char *why)
{
    fault_set(&d->fault, S3_IncompleteBody, "%s", why);
    return false;
}

static bool
malformed_trailer(struct awschunked *d)
{
    fault_set(&d->fault, S3_MalformedTrailerError, NULL);
    return false;
}

/* ---- signatures: each is over the one before ---- */

/* Checks `claimed` against the string to sign that ends in `last_lines`. */
static bool
awschunked_check_signature(struct awschunked *d, const char *algorithm,
                           const char *last_lines, const char *claimed)
{
    char text[640], want[SHA256_HEX + 1];
    int len = snprintf(text, sizeof text, "%s\n%s\n%.*s\n%s\n%s", algorithm, d->date,
                       SPAN_ARG(d->scope), d->previous, last_lines);

    assert(len > 0 && (size_t)len < sizeof text);
    sigv4_hex(d->key, (struct span){text, (size_t)len}, want);
    if (!hash_same_secret(want, claimed, SHA256_HEX)) {
        fault_set(&d->fault, S3_SignatureDoesNotMatch, NULL);
        return false;
    }
    return true;
}

static bool
check_chunk(struct awschunked *d)
{
    unsigned char sum[DIGEST_MAX];
    char lines[SHA256_HEX * 2 + 2];

    digest_end(&d->sum, sum);
    memcpy(lines, EMPTY_SHA256 "\n", SHA256_HEX + 1);
    hex_encode(sum, SHA256_LEN, lines + SHA256_HEX + 1);
    if (!awschunked_check_signature(d, "AWS4-HMAC-SHA256-PAYLOAD", lines, d->claimed))
        return false;
    memcpy(d->previous, d->claimed, sizeof d->previous);
    return true;
}

static bool
check_trailer(struct awschunked *d, struct span claimed)
{
    unsigned char sum[SHA256_LEN];
    char hex[SHA256_HEX + 1], signature[SHA256_HEX + 1] = "";

    if (d->trailers_signed || claimed.len != SHA256_HEX)
        return malformed_trailer(d);
    memcpy(signature, claimed.at, SHA256_HEX);
    digest_oneshot(DIGEST_SHA256, d->text, d->text_len, sum);
    hex_encode(sum, SHA256_LEN, hex);
    d->trailers_signed = true;
    return awschunked_check_signature(d, "AWS4-HMAC-SHA256-TRAILER", hex, signature);
}

/* ---- chunk headers ---- */

/* ";chunk-signature=" and 64 characters, or nothing where nothing is signed. */
static bool
take_chunk_signature(struct awschunked *d, struct span extension)
{
    struct span e = span_trim(extension);
    const struct span name = SPAN("chunk-signature=");

    if (!awschunked_is_signed(d))
        return extension.at == NULL ||
               awschunked_incomplete(d,
                                     "A chunk has an extension that is not understood");
    if (!span_starts(e, name) || e.len != name.len + SHA256_HEX)
        return awschunked_incomplete(d, "A chunk has no signature");
    memcpy(d->claimed, e.at + name.len, SHA256_HEX);
    d->claimed[SHA256_HEX] = '\0';
    return true;
}

static bool
awschunked_begin_chunk(struct awschunked *d)
{
    if (awschunked_is_signed(d))
        digest_init(&d->sum, DIGEST_SHA256);
    d->state = DATA;
    if (d->chunk_left > 0)
        return true;
    d->state = TRAILER;
    if (d->decoded != d->length)
        return awschunked_incomplete(
            d, "You did not provide the number of bytes specified by the "
               "x-amz-decoded-content-length header");
    return !awschunked_is_signed(d) || check_chunk(d);
}

static bool
awschunked_read_header(struct awschunked *d, struct span line)
{
    const char *semicolon = span_find(line, ';');
    struct span size = line, extension = {NULL, 0};

    if (semicolon != NULL) {
        size.len = (size_t)(semicolon - line.at);
        extension = span_from(line, size.len + 1);
    }
    size = span_trim(size);
    if (size.len == 0 || size.len > 16 || num_hex64(size, &d->chunk_left) != ERR_OK)
        return awschunked_incomplete(d, "A chunk does not begin with its size");
    if (d->chunk_left > d->length - d->decoded)
        return awschunked_incomplete(d, "You provided more bytes than specified by the "
                                        "x-amz-decoded-content-length header");
    return take_chunk_signature(d, extension) && awschunked_begin_chunk(d);
}

/* ---- trailers ---- */

/* Some Java clients end the trailer's line with LF alone and an empty line of its own: before a
 * signature that line is skipped, at the end of the body a further one is let pass. */
static bool
end_of_trailers(struct awschunked *d)
{
    if (d->kind == PAYLOAD_CHUNKED_SIGNED_TRAILER && !d->trailers_signed) {
        if (d->bare_lf) {
            d->bare_lf = false;
            return true;
        }
        if (d->trailer_count > 0)
            return malformed_trailer(d);
    }
    if (d->announced != CHECKSUM_NONE && d->trailer_count == 0)
        return malformed_trailer(d);
    d->slack = d->bare_lf ? 2 : 0;
    d->state = END;
    return true;
}

static bool
keep_trailer(struct awschunked *d, struct span value)
{
    const char *name = checksum_header(d->announced);
    int len;

    if (d->trailer_count == AWSCHUNKED_TRAILERS_MAX || d->trailers_signed)
        return malformed_trailer(d);
    len = snprintf(d->text, sizeof d->text, "%s:%.*s\n", name, SPAN_ARG(value));
    if (len < 0 || (size_t)len >= sizeof d->text)
        return malformed_trailer(d);
    d->text_len = (size_t)len;
    d->trailers[d->trailer_count++] =
        (struct field){{d->text, strlen(name)}, {d->text + strlen(name) + 1, value.len}};
    return true;
}

static bool
read_trailer(struct awschunked *d, struct span line)
{
    const char *colon = span_find(line, ':');
    struct span name, value;

    if (line.len == 0)
        return end_of_trailers(d);
    if (colon == NULL || span_find(line, '\0') != NULL)
        return malformed_trailer(d);
    name = span_trim((struct span){line.at, (size_t)(colon - line.at)});
    value = span_trim(span_from(line, (size_t)(colon - line.at) + 1));
    if (d->kind == PAYLOAD_CHUNKED_SIGNED)
        return malformed_trailer(d); /* no client signs it in this form */
    if (d->kind == PAYLOAD_CHUNKED_SIGNED_TRAILER &&
        span_case_is(name, TRAILER_SIGNATURE))
        return check_trailer(d, value);
    if (d->announced == CHECKSUM_NONE || checksum_of_header(name) != d->announced)
        return malformed_trailer(d);
    return keep_trailer(d, value);
}

/* ---- the machine ---- */

/* Gathers a line; *done when its LF has come. */
static bool
gather_line(struct awschunked *d, struct span *in, struct span *line, bool *done)
{
    const char *lf = span_find(*in, '\n');
    size_t take = lf != NULL ? (size_t)(lf - in->at) + 1 : in->len;

    *done = lf != NULL;
    if (take > sizeof d->line - d->line_len)
        return awschunked_incomplete(d, "A line of the body's framing is too long");
    memcpy(d->line + d->line_len, in->at, take);
    d->line_len += take;
    *in = span_from(*in, take);
    if (!*done)
        return true;
    *line = (struct span){d->line, d->line_len - 1};
    d->line_len = 0;
    if (line->len > 0 && line->at[line->len - 1] == '\r') {
        line->len--;
        if (line->len > 0)
            d->bare_lf = false;
        return true;
    }
    d->bare_lf = true;
    return d->state == TRAILER ||
           awschunked_incomplete(d, "A line does not end in CR LF");
}

static bool
step_line(struct awschunked *d, struct span *in)
{
    struct span line;
    bool done;

    if (!gather_line(d, in, &line, &done))
        return false;
    if (!done)
        return true;
    switch (d->state) {
    case HEADER:
        return awschunked_read_header(d, line);
    case TRAILER:
        return read_trailer(d, line);
    default:
        assert(d->state == DATA_END);
        d->state = HEADER;
        return line.len == 0 ||
               awschunked_incomplete(d, "A chunk is longer than its size");
    }
}

static enum awschunked_got
step_data(struct awschunked *d, struct span *in, struct span *data)
{
    *data = (struct span){in->at, (size_t)MIN((uint64_t)in->len, d->chunk_left)};
    *in = span_from(*in, data->len);
    d->chunk_left -= data->len;
    d->decoded += data->len;
    if (awschunked_is_signed(d))
        digest_add(&d->sum, data->at, data->len);
    if (d->chunk_left == 0) {
        d->state = DATA_END;
        if (awschunked_is_signed(d) && !check_chunk(d)) {
            d->state = BAD;
            return AWSCHUNKED_BAD;
        }
    }
    return AWSCHUNKED_DATA;
}

/* Nothing may follow, except the line that end_of_trailers() allows. */
static enum awschunked_got
step_end(struct awschunked *d, struct span *in)
{
    while (in->len > 0 && d->slack > 0 && in->at[0] == "\n\r"[d->slack - 1]) {
        *in = span_from(*in, 1);
        d->slack--;
    }
    if (in->len == 0)
        return AWSCHUNKED_END;
    awschunked_incomplete(d, "The body goes on behind its end");
    d->state = BAD;
    return AWSCHUNKED_BAD;
}

enum awschunked_got
awschunked_next(struct awschunked *d, struct span *in, struct span *data)
{
    *data = (struct span){"", 0};
    for (;;) {
        if (d->state == BAD)
            return AWSCHUNKED_BAD;
        if (d->state == END)
            return step_end(d, in);
        if (in->len == 0)
            return AWSCHUNKED_MORE;
        if (d->state == DATA)
            return step_data(d, in, data);
        if (!step_line(d, in))
            d->state = BAD;
    }
}

enum err
awschunked_finish(const struct awschunked *d, struct fault *f)
{
    if (d->state == END)
        return ERR_OK;
    if (d->state == BAD) {
        if (f != NULL)
            *f = d->fault;
        return s3_code_err(d->fault.code);
    }
    return fault_set(f, S3_IncompleteBody, "The request body terminated unexpectedly");
}

static enum err
take_trailer_name(struct awschunked *d, struct fields headers, struct fault *f)
{
    struct span name = span_trim(fields_get(headers, "x-amz-trailer"));

    if (name.at == NULL || name.len == 0)
        return ERR_OK;
    d->announced = checksum_of_header(name);
    if (d->announced != CHECKSUM_NONE)
        return ERR_OK;
    return fault_set(f, S3_InvalidRequest,
                     "The value specified in the x-amz-trailer header is not supported");
}

enum err
awschunked_init(struct awschunked *d, enum payload_kind kind,
                const struct sigv4_auth *auth, const struct hmac_key *key,
                struct fields headers, struct fault *f)
{
    struct span length = fields_get(headers, "x-amz-decoded-content-length");

    assert(payload_is_chunked(kind));
    *d = (struct awschunked){.kind = kind, .state = HEADER};
    if (length.at == NULL || num_u64(span_trim(length), &d->length) != ERR_OK)
        return fault_set(f, S3_MissingContentLength, NULL);
    if (awschunked_is_signed(d)) {
        assert(auth != NULL);
        assert(key != NULL);
        assert(auth->signature.len == SHA256_HEX);
        d->key = key;
        d->scope = auth->scope;
        memcpy(d->date, auth->date, sizeof d->date);
        memcpy(d->previous, auth->signature.at, SHA256_HEX);
    }
    return take_trailer_name(d, headers, f);
}

void
awschunked_fini(struct awschunked *d)
{
    digest_fini(&d->sum);
}
