#include "wire/cors.h"

#include <strings.h>

#include "base/mem.h"
#include "base/num.h"
#include "wire/s3xml_util.h"
#include "wire/xml.h"

static const char *const methods[] = {"GET", "PUT", "POST", "DELETE", "HEAD"};

struct reading {
    struct arena *arena;
    struct fault *fault;
    void *rules;
    size_t room, count;
    struct cors_rule *now; /* NULL: between rules */
};

static enum err
too_long(struct reading *r)
{
    return fault_set(r->fault, S3_MaxMessageLengthExceeded, NULL);
}

static enum err
cors_on_open(void *arg, unsigned depth, struct span name)
{
    struct reading *r = arg;

    if (depth == 0 && !span_is(name, "CORSConfiguration"))
        return fault_set(r->fault, S3_MalformedXML, NULL);
    if (depth != 1 || !span_is(name, "CORSRule"))
        return ERR_OK;
    if (r->count == CORS_RULES_MAX)
        return fault_set(
            r->fault, S3_InvalidRequest,
            "The number of CORS rules should not exceed the allowed limit of "
            "%u rules.",
            CORS_RULES_MAX);
    r->now = s3xml_grow(r->arena, &r->rules, &r->room, r->count, sizeof *r->now);
    return r->now != NULL ? ERR_OK : too_long(r);
}

static enum err
cors_add_name(struct reading *r, struct cors_names *list, struct span text)
{
    void *at = list->at;
    struct span *place;

    if (list->count == CORS_NAMES_MAX || text.len == 0)
        return fault_set(r->fault, S3_MalformedXML, NULL);
    place = s3xml_grow(r->arena, &at, &list->room, list->count, sizeof *place);
    list->at = at;
    if (place == NULL || !s3xml_keep(r->arena, text, place))
        return too_long(r);
    list->count++;
    return ERR_OK;
}

static enum err
add_pattern(struct reading *r, struct cors_names *list, struct span text,
            const char *what)
{
    const char *star = span_find(text, '*');

    if (star != NULL &&
        span_find(span_from(text, (size_t)(star - text.at) + 1), '*') != NULL)
        return fault_set(r->fault, S3_InvalidRequest,
                         "%s \"%.*s\" can not have more than one wildcard.", what,
                         (int)MIN(text.len, 100), text.at);
    return cors_add_name(r, list, text);
}

static enum err
add_method(struct reading *r, struct span text)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (span_is(text, methods[i]))
            return cors_add_name(r, &r->now->methods, text);
    return fault_set(
        r->fault, S3_InvalidRequest,
        "Found unsupported HTTP method in CORS config. Unsupported method is "
        "%.*s",
        (int)MIN(text.len, 40), text.at);
}

static enum err
end_of_rule(struct reading *r)
{
    if (r->now->origins.count == 0 || r->now->methods.count == 0)
        return fault_set(r->fault, S3_MalformedXML, NULL);
    r->count++;
    r->now = NULL;
    return ERR_OK;
}

static enum err
cors_on_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;

    if (r->now == NULL)
        return ERR_OK;
    if (depth == 1)
        return end_of_rule(r);
    if (depth != 2)
        return ERR_OK;
    text = span_trim(text);
    if (span_is(name, "AllowedOrigin"))
        return add_pattern(r, &r->now->origins, text, "AllowedOrigin");
    if (span_is(name, "AllowedHeader"))
        return add_pattern(r, &r->now->headers, text, "AllowedHeader");
    if (span_is(name, "AllowedMethod"))
        return add_method(r, text);
    if (span_is(name, "ExposeHeader"))
        return cors_add_name(r, &r->now->expose, text);
    if (span_is(name, "MaxAgeSeconds")) {
        r->now->has_max_age = true;
        if (num_u64(text, &r->now->max_age_s) != ERR_OK || r->now->max_age_s > INT32_MAX)
            return fault_set(r->fault, S3_MalformedXML, NULL);
    }
    if (span_is(name, "ID") && !s3xml_keep(r->arena, text, &r->now->id))
        return too_long(r);
    return ERR_OK;
}

/* A value for a response header must be valid there. */
static bool
cors_is_plain(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.at[i] < ' ' || (unsigned char)s.at[i] >= 0x7f)
            return false;
    return true;
}

static bool
all_plain(const struct cors_names *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (!cors_is_plain(list->at[i]))
            return false;
    return true;
}

enum err
cors_parse(struct span doc, struct arena *a, struct cors *out, struct fault *f)
{
    struct reading r = {.arena = a, .fault = f};
    struct xml_handler h = {
        .on_open = cors_on_open, .on_close = cors_on_close, .arg = &r};
    struct errbuf eb = {{0}};
    enum err rc;

    if (f != NULL)
        f->code = S3_OK;
    rc = xml_read(doc, &h, &eb);
    if (rc != ERR_OK)
        return f != NULL && f->code != S3_OK ? rc : fault_set(f, S3_MalformedXML, NULL);
    *out = (struct cors){.rules = r.rules, .count = r.count};
    if (r.count == 0)
        return fault_set(f, S3_MalformedXML, NULL);
    for (size_t i = 0; i < out->count; i++)
        if (!all_plain(&out->rules[i].origins) || !all_plain(&out->rules[i].headers) ||
            !all_plain(&out->rules[i].expose))
            return fault_set(f, S3_InvalidRequest,
                             "A CORS rule holds a character that no header can");
    return ERR_OK;
}

static void
write_names(struct xml *x, const char *name, const struct cors_names *list)
{
    for (size_t i = 0; i < list->count; i++)
        xml_span(x, name, list->at[i]);
}

void
cors_write(const struct cors *c, struct buf *out)
{
    struct xml x;

    xml_begin(&x, out);
    xml_open_s3(&x, "CORSConfiguration");
    for (size_t i = 0; i < c->count; i++) {
        const struct cors_rule *r = &c->rules[i];

        xml_open(&x, "CORSRule");
        if (r->id.len > 0)
            xml_span(&x, "ID", r->id);
        write_names(&x, "AllowedHeader", &r->headers);
        write_names(&x, "AllowedMethod", &r->methods);
        write_names(&x, "AllowedOrigin", &r->origins);
        write_names(&x, "ExposeHeader", &r->expose);
        if (r->has_max_age)
            xml_u64(&x, "MaxAgeSeconds", r->max_age_s);
        xml_close(&x);
    }
    xml_close(&x);
}

/* ---- matching ---- */

/* One star stands for anything; letters of headers have no case. */
static bool
cors_fits(struct span pattern, struct span text, bool caseless)
{
    const char *star = span_find(pattern, '*');
    struct span head, tail;
    int (*cmp)(const char *, const char *, size_t) = caseless ? strncasecmp : strncmp;

    if (star == NULL)
        return pattern.len == text.len && cmp(pattern.at, text.at, text.len) == 0;
    head = (struct span){pattern.at, (size_t)(star - pattern.at)};
    tail = span_from(pattern, head.len + 1);
    return text.len >= head.len + tail.len && cmp(head.at, text.at, head.len) == 0 &&
           (tail.len == 0 || cmp(tail.at, text.at + text.len - tail.len, tail.len) == 0);
}

static bool
one_fits(const struct cors_names *list, struct span text, bool caseless)
{
    for (size_t i = 0; i < list->count; i++)
        if (cors_fits(list->at[i], text, caseless))
            return true;
    return false;
}

static bool
all_headers_fit(const struct cors_rule *r, struct span headers)
{
    while (headers.len > 0) {
        const char *comma = span_find(headers, ',');
        struct span one = {headers.at,
                           comma != NULL ? (size_t)(comma - headers.at) : headers.len};

        headers = span_from(headers, one.len + 1);
        one = span_trim(one);
        if (one.len > 0 && !one_fits(&r->headers, one, true))
            return false;
    }
    return true;
}

const struct cors_rule *
cors_find(const struct cors *c, struct span origin, struct span method,
          struct span headers, bool *any)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct cors_rule *r = &c->rules[i];

        if (!one_fits(&r->origins, origin, false) ||
            !one_fits(&r->methods, method, false) || !all_headers_fit(r, headers))
            continue;
        *any = false;
        for (size_t o = 0; o < r->origins.count; o++)
            *any = *any || span_is(r->origins.at[o], "*");
        return r;
    }
    return NULL;
}
