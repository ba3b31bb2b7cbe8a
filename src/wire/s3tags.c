#include "wire/s3tags.h"

#include <string.h>

#include "base/mem.h"
#include "base/uri.h"
#include "base/utf8.h"
#include "wire/s3xml_util.h"
#include "wire/xml.h"

/* Every character may need three bytes, each of them three. */
#define KEPT_MAX     (64u << 10)
#define DOCUMENT_MAX (256u << 10)
#define SYMBOLS      " +-=._:/@"
#define HEADER_DUTIES                                                                    \
    "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query "    \
    "parameters without tag name duplicates."

struct tag {
    struct span name, value;
};
struct tags {
    struct tag at[S3TAGS_OF_BUCKET];
    unsigned count, max;
    struct arena *arena;
    struct fault *fault;
    /* Of the document. */
    bool in_tag, has_name, has_value;
};

/* ---- rules ---- */

static size_t
s3tags_characters(struct span s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.at[i] & 0xC0) != 0x80;
    return n;
}

/* Letters, digits and a few signs. Beyond ASCII every character passes: which of them are letters changes. */
static bool
s3tags_allowed(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.at[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9') || c >= 0x80;

        if (!letter && (c == 0 || strchr(SYMBOLS, c) == NULL))
            return false;
    }
    return utf8_valid(s);
}

static enum err
s3tags_add(struct tags *t, struct span name, struct span value)
{
    if (name.len == 0 || s3tags_characters(name) > S3TAGS_NAME_MAX ||
        !s3tags_allowed(name) || span_starts(name, SPAN("aws:")))
        return fault_set(t->fault, S3_InvalidTag,
                         "The TagKey you have provided is invalid");
    if (s3tags_characters(value) > S3TAGS_VALUE_MAX || !s3tags_allowed(value))
        return fault_set(t->fault, S3_InvalidTag,
                         "The TagValue you have provided is invalid");
    for (unsigned i = 0; i < t->count; i++)
        if (span_eq(t->at[i].name, name))
            return fault_set(t->fault, S3_InvalidTag,
                             "Cannot provide multiple Tags with the same key");
    if (t->count == t->max)
        return t->max == S3TAGS_OF_OBJECT
                   ? fault_set(t->fault, S3_BadRequest,
                               "Object tags cannot be greater than %u", t->max)
                   : fault_set(t->fault, S3_BadRequest,
                               "Bucket tag count cannot be greater than %u", t->max);
    t->at[t->count++] = (struct tag){name, value};
    return ERR_OK;
}

static enum err
s3tags_keep(const struct tags *t, struct span *out)
{
    struct buf text;

    buf_init(&text, KEPT_MAX);
    for (unsigned i = 0; i < t->count; i++) {
        if (i > 0)
            buf_putc(&text, '&');
        uri_encode(&text, t->at[i].name, false);
        buf_putc(&text, '=');
        uri_encode(&text, t->at[i].value, false);
    }
    if (text.full) {
        buf_fini(&text);
        return fault_set(t->fault, S3_MaxMessageLengthExceeded, NULL);
    }
    *out = arena_span(t->arena, buf_span(&text));
    buf_fini(&text);
    return ERR_OK;
}

/* ---- the header, and what is kept ---- */

/* The next "name=value" of `rest`, decoded into the arena. False: it is malformed. */
static bool
next_pair(struct span *rest, struct arena *a, bool plus_is_space, struct tag *out)
{
    const char *amp = memchr(rest->at, '&', rest->len);
    struct span pair = {rest->at, amp != NULL ? (size_t)(amp - rest->at) : rest->len};
    const char *eq = memchr(pair.at, '=', pair.len);
    char *text = arena_alloc(a, pair.len + 1);
    size_t name_len = eq != NULL ? (size_t)(eq - pair.at) : pair.len;
    int n, v = 0;

    *rest = span_from(*rest, pair.len + (amp != NULL));
    memcpy(text, pair.at, pair.len);
    for (size_t i = 0; plus_is_space && i < pair.len; i++)
        if (text[i] == '+')
            text[i] = ' ';
    n = uri_decode((struct span){text, name_len}, text);
    if (eq != NULL)
        v = uri_decode((struct span){text + name_len + 1, pair.len - name_len - 1},
                       text + name_len + 1);
    if (n < 0 || v < 0)
        return false;
    out->name = (struct span){text, (size_t)n};
    out->value =
        eq != NULL ? (struct span){text + name_len + 1, (size_t)v} : (struct span){"", 0};
    return true;
}

enum err
s3tags_parse_header(struct span text, unsigned max, struct arena *a, struct span *out,
                    struct fault *f)
{
    struct tags t = {.max = max, .arena = a, .fault = f};
    enum err rc = ERR_OK;

    *out = (struct span){NULL, 0};
    if (text.len > KEPT_MAX)
        return fault_argument(f, "x-amz-tagging", SPAN(""), HEADER_DUTIES);
    while (rc == ERR_OK && text.len > 0) {
        struct tag tag;

        if (!next_pair(&text, a, true, &tag) || (tag.name.len == 0 && tag.value.len > 0))
            return fault_argument(f, "x-amz-tagging", SPAN(""), HEADER_DUTIES);
        if (tag.name.len > 0)
            rc = s3tags_add(&t, tag.name, tag.value);
    }
    return rc == ERR_OK && t.count > 0 ? s3tags_keep(&t, out) : rc;
}

bool
s3tags_find(struct span kept, struct span name, struct arena *a, struct span *value)
{
    if (kept.len > KEPT_MAX)
        return false;
    while (kept.len > 0) {
        struct tag tag;

        if (!next_pair(&kept, a, true, &tag))
            return false;
        if (span_eq(tag.name, name)) {
            *value = tag.value;
            return true;
        }
    }
    return false;
}

unsigned
s3tags_count(struct span kept)
{
    unsigned n = kept.len > 0;

    for (size_t i = 0; i < kept.len; i++)
        n += kept.at[i] == '&';
    return n;
}

bool
s3tags_write(struct span kept, struct buf *out)
{
    struct arena *a = arena_new(4096, 4 * KEPT_MAX);
    struct xml x;
    bool good = kept.len <= KEPT_MAX;

    xml_begin(&x, out);
    xml_open_s3(&x, "Tagging");
    xml_open(&x, "TagSet");
    while (good && kept.len > 0) {
        struct tag tag;

        good = next_pair(&kept, a, false, &tag);
        if (!good)
            break;
        xml_open(&x, "Tag");
        xml_span(&x, "Key", tag.name);
        xml_span(&x, "Value", tag.value);
        xml_close(&x);
    }
    xml_close(&x);
    xml_close(&x);
    arena_free(&a);
    return good;
}

/* ---- the document ---- */

static enum err
s3tags_malformed(struct tags *t)
{
    return fault_set(t->fault, S3_MalformedXML, NULL);
}

static enum err
s3tags_on_open(void *arg, unsigned depth, struct span name)
{
    static const char *const path[] = {"Tagging", "TagSet", "Tag"};
    struct tags *t = arg;

    if (depth < ARRAY_LEN(path) && !span_is(name, path[depth]))
        return s3tags_malformed(t);
    if (depth > ARRAY_LEN(path))
        return s3tags_malformed(t);
    if (depth == 2) {
        if (t->count == S3TAGS_OF_BUCKET)
            return s3tags_add(t, SPAN("one-too-many"), SPAN(""));
        t->in_tag = true;
        t->has_name = t->has_value = false;
    }
    return ERR_OK;
}

static enum err
s3tags_set(struct tags *t, struct span text, bool *seen, struct span *out)
{
    if (*seen || !t->in_tag)
        return s3tags_malformed(t);
    *seen = true;
    if (s3xml_keep(t->arena, text, out))
        return ERR_OK;
    return fault_set(t->fault, S3_MaxMessageLengthExceeded, NULL);
}

static enum err
s3tags_on_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct tags *t = arg;
    struct tag *now = &t->at[MIN(t->count, S3TAGS_OF_BUCKET - 1u)];
    struct tag done = *now;

    if (depth == 3 && span_is(name, "Key"))
        return s3tags_set(t, text, &t->has_name, &now->name);
    if (depth == 3 && span_is(name, "Value"))
        return s3tags_set(t, text, &t->has_value, &now->value);
    if (depth != 2)
        return ERR_OK;
    t->in_tag = false;
    return t->has_name && t->has_value ? s3tags_add(t, done.name, done.value)
                                       : s3tags_malformed(t);
}

enum err
s3tags_parse_document(struct span doc, unsigned max, struct arena *a, struct span *out,
                      struct fault *f)
{
    struct fault own;
    struct tags *t = arena_alloc(a, sizeof *t);
    struct xml_handler h = {.on_open = s3tags_on_open,
                            .on_close = s3tags_on_close,
                            .arg = t,
                            .size_max = DOCUMENT_MAX};
    struct errbuf eb = {{0}};
    enum err rc;

    *t = (struct tags){.max = max, .arena = a, .fault = f != NULL ? f : &own};
    *out = (struct span){NULL, 0};
    t->fault->code = S3_OK;
    rc = xml_read(doc, &h, &eb);
    if (rc != ERR_OK)
        return t->fault->code != S3_OK ? rc : s3tags_malformed(t);
    return t->count > 0 ? s3tags_keep(t, out) : ERR_OK;
}
