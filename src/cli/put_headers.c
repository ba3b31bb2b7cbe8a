#include "cli/put_headers.h"

#include <string.h>

#include "base/mem.h"
#include "base/uri.h"
#include "wire/s3tags.h"

#define METADATA_MAX  64
#define METADATA_ROOM 2048 /* bytes that S3 allows, names and values */

/* Header names take letters, digits and '-'; Forebay and AWS take a few more, which proxies drop. */
static bool
is_header_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.",
                   name.at[i]) == NULL)
            return false;
    return name.len > 0;
}

static bool
is_header_value(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
            return false;
    return true;
}

static enum err
add_metadata(struct put_headers *p, const char *pair, size_t *bytes, struct errbuf *eb)
{
    const char *equals = strchr(pair, '=');
    struct span name = {pair, equals != NULL ? (size_t)(equals - pair) : 0};

    if (equals == NULL || !is_header_name(name))
        return err_set(eb, ERR_BAD_REQUEST,
                       "--metadata \"%.64s\": expected NAME=VALUE, the name of letters, "
                       "digits, '-', '_' and '.'",
                       pair);
    if (!is_header_value(equals + 1))
        return err_set(eb, ERR_BAD_REQUEST,
                       "--metadata \"%.*s\": a value is printable ASCII; encode others",
                       SPAN_ARG(name));
    *bytes += strlen(pair) - 1;
    if (p->count == METADATA_MAX || *bytes > METADATA_ROOM)
        return err_set(eb, ERR_BAD_REQUEST,
                       "--metadata may be given %d times, and take %d bytes together",
                       METADATA_MAX, METADATA_ROOM);
    p->at[p->count++] =
        (struct s3_header){span_of(arena_printf(p->a, "x-amz-meta-%.*s", SPAN_ARG(name))),
                           span_of(arena_printf(p->a, "%s", equals + 1))};
    return ERR_OK;
}

enum err
put_headers_tag(struct buf *out, const char *pair, struct errbuf *eb)
{
    const char *equals = strchr(pair, '=');

    if (equals == NULL || equals == pair)
        return err_set(eb, ERR_BAD_REQUEST, "tag \"%.64s\": expected NAME=VALUE", pair);
    if (out->len > 0)
        buf_putc(out, '&');
    uri_encode(out, (struct span){pair, (size_t)(equals - pair)}, false);
    buf_putc(out, '=');
    uri_encode(out, span_of(equals + 1), false);
    return ERR_OK;
}

static enum err
add_tags(struct put_headers *p, const struct args *a, struct errbuf *eb)
{
    struct buf text;
    unsigned count = 0;
    const char *pair;
    enum err rc = ERR_OK;

    buf_init(&text, KIB(16));
    while (rc == ERR_OK && (pair = args_nth(a, "tag", count)) != NULL) {
        rc = ++count > S3TAGS_OF_OBJECT
                 ? err_set(eb, ERR_BAD_REQUEST, "--tag may be given %d times",
                           S3TAGS_OF_OBJECT)
                 : put_headers_tag(&text, pair, eb);
    }
    if (rc == ERR_OK && count > 0)
        p->at[p->count++] =
            (struct s3_header){SPAN("x-amz-tagging"), arena_span(p->a, buf_span(&text))};
    buf_fini(&text);
    return rc;
}

enum err
put_headers_init(struct put_headers *p, const struct args *a, struct errbuf *eb)
{
    const char *type = args_value(a, "content-type"), *pair;
    size_t bytes = 0;
    struct buf text;
    enum err rc = ERR_OK;

    *p = (struct put_headers){.a = arena_new(KIB(4), MIB(1))};
    for (size_t i = 0; rc == ERR_OK && (pair = args_nth(a, "metadata", i)) != NULL; i++)
        rc = add_metadata(p, pair, &bytes, eb);
    if (rc == ERR_OK)
        rc = add_tags(p, a, eb);
    if (rc == ERR_OK && type != NULL && !is_header_value(type))
        rc = err_set(eb, ERR_BAD_REQUEST, "--content-type \"%.64s\": expected TYPE/NAME",
                     type);
    if (rc != ERR_OK)
        return rc;
    p->type = type != NULL;
    if (type != NULL)
        p->at[p->count++] = (struct s3_header){SPAN("content-type"), span_of(type)};
    buf_init(&text, KIB(64));
    for (uint32_t i = 0; i < p->count; i++)
        buf_printf(&text, "%.*s:%.*s\n", SPAN_ARG(p->at[i].name),
                   SPAN_ARG(p->at[i].value));
    p->text = arena_printf(p->a, "%.*s", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
    return ERR_OK;
}

void
put_headers_fini(struct put_headers *p)
{
    arena_free(&p->a);
}

uint32_t
put_headers_of(const struct put_headers *p, const char *type,
               struct s3_header out[PUT_HEADERS_MAX])
{
    uint32_t count = p != NULL ? p->count : 0;

    if (count > 0)
        memcpy(out, p->at, count * sizeof *out);
    if (type != NULL && (p == NULL || !p->type) && count < PUT_HEADERS_MAX)
        out[count++] = (struct s3_header){SPAN("content-type"), span_of(type)};
    return count;
}
