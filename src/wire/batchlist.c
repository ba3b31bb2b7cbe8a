/* batchlist: the list of a batch; see batchlist.h. */
#include "wire/batchlist.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>

#include "base/mem.h"
#include "base/num.h"

#define JSON_FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)

static enum err
too_many(struct errbuf *eb)
{
    return err_set(eb, ERR_TOO_LARGE, "a batch of more than %u items; send several",
                   BATCHLIST_ITEMS_MAX);
}

static enum err
batchlist_no_room(struct errbuf *eb)
{
    return err_set(eb, ERR_TOO_LARGE, "no memory for the list of a batch; send several");
}

static enum err
check_item(const struct batchlist_item *it, const char *what, uint64_t number,
           struct errbuf *eb)
{
    if (it->name.len == 0 || it->name.len > BATCHLIST_NAME_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "%s %" PRIu64 ": a name of %zu bytes, 1 to %u are taken", what,
                       number, it->name.len, BATCHLIST_NAME_MAX);
    if (it->member.at != NULL &&
        (it->member.len == 0 || it->member.len > BATCHLIST_NAME_MAX))
        return err_set(eb, ERR_BAD_REQUEST,
                       "%s %" PRIu64 ": a member name of %zu bytes, 1 to %u are taken",
                       what, number, it->member.len, BATCHLIST_NAME_MAX);
    if (span_find(it->name, '\0') != NULL || span_find(it->member, '\0') != NULL)
        return err_set(eb, ERR_BAD_REQUEST, "%s %" PRIu64 ": a zero byte in its name",
                       what, number);
    if (it->first > it->last)
        return err_set(eb, ERR_BAD_REQUEST,
                       "%s %" PRIu64 ": a range that ends before it begins", what,
                       number);
    return ERR_OK;
}

/* ---- text ---- */

/* "0-99", "100-". */
static bool
batchlist_range(struct span text, struct batchlist_item *it)
{
    const char *dash = span_find(text, '-');
    struct span last;

    if (dash == NULL ||
        num_u64((struct span){text.at, (size_t)(dash - text.at)}, &it->first) != ERR_OK)
        return false;
    last = span_from(text, (size_t)(dash - text.at) + 1);
    return last.len == 0 || num_u64(last, &it->last) == ERR_OK;
}

/* Takes a line off the text; false: there is none. */
static bool
next_line(struct span *text, struct span *line)
{
    const char *end;

    if (text->len == 0)
        return false;
    end = span_find(*text, '\n');
    *line = (struct span){text->at, end != NULL ? (size_t)(end - text->at) : text->len};
    *text = span_from(*text, line->len + (end != NULL));
    if (line->len > 0 && line->at[line->len - 1] == '\r')
        line->len--;
    return true;
}

static enum err
parse_line(struct span line, uint64_t number, struct batchlist_item *it,
           struct errbuf *eb)
{
    const char *tab = span_find(line, '\t');

    *it = (struct batchlist_item){.name = line, .last = BATCHLIST_TO_END, .plain = true};
    if (tab != NULL) {
        it->name.len = (size_t)(tab - line.at);
        if (!batchlist_range(span_from(line, it->name.len + 1), it))
            return err_set(eb, ERR_BAD_REQUEST,
                           "line %" PRIu64 ": \"%.*s\" is no range; FIRST-LAST is wanted",
                           number, (int)MIN(line.len - it->name.len - 1, 60), tab + 1);
    }
    return check_item(it, "line", number, eb);
}

enum err
batchlist_parse_text(struct span text, struct arena *a, struct batchlist *out,
                     struct errbuf *eb)
{
    struct span rest = text, line;
    uint64_t number = 0;
    size_t most = 0;

    *out = (struct batchlist){0};
    while (next_line(&rest, &line))
        most += line.len > 0;
    if (most > BATCHLIST_ITEMS_MAX)
        return too_many(eb);
    out->items = arena_try(a, MAX(most, 1u) * sizeof *out->items);
    if (out->items == NULL)
        return batchlist_no_room(eb);
    for (rest = text; next_line(&rest, &line);) {
        enum err rc;

        number++;
        if (line.len == 0)
            continue;
        assert(out->count < most);
        rc = parse_line(line, number, &out->items[out->count], eb);
        if (rc != ERR_OK)
            return rc;
        out->count++;
    }
    return out->count > 0 ? ERR_OK
                          : err_set(eb, ERR_BAD_REQUEST, "a batch without items");
}

/* ---- JSON ---- */

/* A text into the arena; *bad when it is there and no text. */
static struct span
json_copy_text(const json_t *o, const char *key, struct arena *a, bool *bad)
{
    const json_t *v = json_object_get(o, key);
    struct span s = {NULL, 0};
    char *copy;

    if (v == NULL || json_is_null(v))
        return s;
    if (!json_is_string(v)) {
        *bad = true;
        return s;
    }
    s = (struct span){json_string_value(v), json_string_length(v)};
    copy = arena_try(a, s.len + 1);
    if (copy == NULL || s.len > BATCHLIST_NAME_MAX) {
        *bad = true;
        return (struct span){NULL, 0};
    }
    memcpy(copy, s.at, s.len);
    return (struct span){copy, s.len};
}

static void
json_take_offset(const json_t *o, const char *key, uint64_t *out, bool *bad)
{
    const json_t *v = json_object_get(o, key);

    if (v == NULL || json_is_null(v))
        return;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        *bad = true;
    else
        *out = (uint64_t)json_integer_value(v);
}

static enum err
batchlist_json_item(const json_t *v, uint64_t index, struct arena *a,
                    struct batchlist_item *it, struct errbuf *eb)
{
    bool bad = false;

    *it = (struct batchlist_item){.last = BATCHLIST_TO_END};
    if (json_is_string(v)) {
        json_t *o = json_pack("{s:O}", "object", v);

        it->name = json_copy_text(o, "object", a, &bad);
        it->plain = true;
        json_decref(o);
    } else if (json_is_object(v)) {
        it->name = json_copy_text(v, "object", a, &bad);
        it->member = json_copy_text(v, "member", a, &bad);
        it->bucket = json_copy_text(v, "bucket", a, &bad);
        json_take_offset(v, "start", &it->first, &bad);
        json_take_offset(v, "end", &it->last, &bad);
    } else {
        bad = true;
    }
    if (bad)
        return err_set(eb, ERR_BAD_REQUEST,
                       "item %" PRIu64
                       ": a name, or {\"object\", \"member\", \"bucket\", "
                       "\"start\", \"end\"} is wanted, names of at most %u bytes",
                       index, BATCHLIST_NAME_MAX);
    return check_item(it, "item", index, eb);
}

static enum err
batchlist_json_options(const json_t *doc, struct arena *a, struct batchlist *out,
                       struct errbuf *eb)
{
    bool bad = false;
    struct span missing = json_copy_text(doc, "on_missing", a, &bad);

    out->format = json_copy_text(doc, "format", a, &bad);
    out->says_missing = missing.at != NULL;
    out->fail_on_missing = span_is(missing, "fail");
    if (bad || (missing.at != NULL && !out->fail_on_missing && !span_is(missing, "mark")))
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"on_missing\" is \"mark\" or \"fail\", \"format\" a text");
    return ERR_OK;
}

enum err
batchlist_parse_json(struct span text, struct arena *a, struct batchlist *out,
                     struct errbuf *eb)
{
    json_error_t why;
    json_t *doc = json_loadb(text.at, text.len, JSON_FLAGS, &why), *items = doc;
    enum err rc = ERR_OK;

    *out = (struct batchlist){0};
    if (doc == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "the list is no JSON: %s, line %d", why.text,
                       why.line);
    if (json_is_object(doc)) {
        items = json_object_get(doc, "items");
        rc = batchlist_json_options(doc, a, out, eb);
    }
    if (rc == ERR_OK && json_array_size(items) == 0)
        rc = err_set(eb, ERR_BAD_REQUEST, "a batch without items: \"items\" is an array");
    if (rc == ERR_OK && json_array_size(items) > BATCHLIST_ITEMS_MAX)
        rc = too_many(eb);
    if (rc == ERR_OK) {
        out->items = arena_try(a, json_array_size(items) * sizeof *out->items);
        if (out->items == NULL)
            rc = batchlist_no_room(eb);
    }
    for (size_t i = 0; rc == ERR_OK && i < json_array_size(items); i++) {
        rc = batchlist_json_item(json_array_get(items, i), i, a, &out->items[i], eb);
        out->count += rc == ERR_OK;
    }
    json_decref(doc);
    return rc;
}
