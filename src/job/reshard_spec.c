/* reshard_spec: the arguments of a reshard, the names of new shards, and the position as text; see reshard.h. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "job/reshard.h"
#include "wire/brace.h"
#include "wire/json.h"
#include "wire/json_get.h"

static const char *const orders[] = {
    [RESHARD_BY_NONE] = "none",         [RESHARD_BY_NAME] = "name",
    [RESHARD_BY_SIZE] = "size",         [RESHARD_BY_CONTENT] = "content",
    [RESHARD_BY_CHECKSUM] = "checksum", [RESHARD_BY_MD5] = "md5",
    [RESHARD_BY_SHUFFLE] = "shuffle",   [RESHARD_BY_LIST] = "list",
};
static const char *const key_types[] = {[RESHARD_KEY_STRING] = "string",
                                        [RESHARD_KEY_INT] = "int",
                                        [RESHARD_KEY_FLOAT] = "float"};
static const char *const phases[] = {
    [RESHARD_LIST] = "list",     [RESHARD_EXTRACT] = "extract", [RESHARD_SORT] = "sort",
    [RESHARD_CREATE] = "create", [RESHARD_PLANNED] = "planned",
};

static bool
word_of(const char *const *words, size_t count, const char *text, unsigned *out)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i], text) == 0) {
            *out = (unsigned)i;
            return true;
        }
    return false;
}

/* ---- names of shards ---- */

/* "%06d" or "%d"; *len: its bytes. */
static const char *
find_percent(const char *template, unsigned *width, size_t *len)
{
    for (const char *at = strchr(template, '%'); at != NULL; at = strchr(at + 1, '%')) {
        char *end;
        unsigned long n = strtoul(at + 1, &end, 10);

        if (*end == 'd' && n <= 18) {
            *width = (unsigned)n;
            *len = (size_t)(end + 1 - at);
            return at;
        }
    }
    return NULL;
}

bool
reshard_has_number(const char *template)
{
    unsigned width;
    size_t len;

    return strchr(template, '{') != NULL || find_percent(template, &width, &len) != NULL;
}

static enum err
name_of_braces(const char *template, uint64_t number, struct buf *out, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, MIB(1));
    struct brace *b;
    enum err rc = brace_parse(span_of(template), a, &b, eb);

    if (rc == ERR_OK && number >= brace_count(b))
        rc = err_set(
            eb, ERR_BAD_REQUEST,
            "\"%.200s\" names %llu shards, more are needed: use larger shards or a "
            "longer sequence",
            template, (unsigned long long)brace_count(b));
    if (rc == ERR_OK)
        brace_name(b, number, out);
    arena_free(&a);
    return rc;
}

enum err
reshard_name(const char *template, uint64_t number, struct buf *out, struct errbuf *eb)
{
    unsigned width = 0;
    size_t len = 0;
    const char *at = find_percent(template, &width, &len);

    if (at == NULL && strchr(template, '{') != NULL)
        return name_of_braces(template, number, out, eb);
    if (at == NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"%.200s\" names one shard; put a sequence into it: "
                       "shard-{000000..999999}.tar or shard-%%06d.tar",
                       template);
    buf_put(out, template, (size_t)(at - template));
    buf_printf(out, "%0*llu", (int)width, (unsigned long long)number);
    buf_puts(out, at + len);
    return ERR_OK;
}

/* ---- the request ---- */

static enum err
check_template(const struct reshard_spec *s, struct errbuf *eb)
{
    struct buf name;
    enum err rc = ERR_OK;

    buf_init(&name, KIB(8));
    if (s->by == RESHARD_BY_LIST)
        buf_puts(&name, s->name);
    else
        rc = reshard_name(s->name, 0, &name, eb);
    if (rc == ERR_OK && (name.full || name.len > OBJECT_KEY_MAX))
        rc = err_set(eb, ERR_BAD_REQUEST, "the name of a shard has %zu bytes, at most %u",
                     name.len, (unsigned)OBJECT_KEY_MAX);
    if (rc == ERR_OK && s->by != RESHARD_BY_LIST &&
        shard_format_of_name(buf_span(&name)) == SHARD_NONE)
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "\"%.200s\" is no name of a shard: .tar, .tgz, .tar.gz, .tar.lz4 or "
                     ".zip at its end",
                     s->name);
    buf_fini(&name);
    return rc;
}

static enum err
check_order(const struct reshard_spec *s, struct errbuf *eb)
{
    if (s->by == RESHARD_BY_CONTENT && (s->ext == NULL || s->ext[0] == '\0'))
        return err_set(
            eb, ERR_BAD_REQUEST,
            "an order by content names the extension \"ext\" of the member that "
            "has the key, for example \".cls\"");
    if (s->by == RESHARD_BY_LIST && s->order == NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "an order by list names the object \"order\" that has it: a line "
                       "SAMPLE, a tab, SHARD each");
    if (s->descending && (s->by == RESHARD_BY_LIST || s->by == RESHARD_BY_NONE))
        return err_set(eb, ERR_BAD_REQUEST, "an order by %s has no other direction",
                       orders[s->by]);
    if (s->by != RESHARD_BY_LIST && s->order != NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"order\" is for an order by list, this one is by %s",
                       orders[s->by]);
    return ERR_OK;
}

enum err
reshard_spec_of(const json_t *args, struct reshard_spec *out, struct errbuf *eb)
{
    const char *by = json_get_text(args, "by", "none");
    const char *type = json_get_text(args, "key_type", "string");
    unsigned word = 0;
    enum err rc;

    *out =
        (struct reshard_spec){.to = json_get_text(args, "to", ""),
                              .name = json_get_text(args, "name", ""),
                              .size = json_get_u64(args, "size"),
                              .ext = json_get_text(args, "ext", NULL),
                              .order = json_get_text(args, "order", NULL),
                              .separator = json_get_text(args, "separator", "\t"),
                              .seed = json_get_u64(args, "seed"),
                              .descending = json_get_u64(args, "descending") > 0,
                              .dry_run = json_get_u64(args, "dry_run") > 0,
                              .overwrite = json_get_u64(args, "overwrite") > 0,
                              .skip_missing = json_get_u64(args, "skip_missing") > 0,
                              .skip_unlisted = json_get_u64(args, "skip_unlisted") > 0};
    if (!word_of(orders, ARRAY_LEN(orders), by, &word))
        return err_set(
            eb, ERR_BAD_REQUEST,
            "by \"%.40s\": the orders are none, name, size, content, checksum, "
            "md5, shuffle, list",
            by);
    out->by = (enum reshard_by)word;
    if (!word_of(key_types, ARRAY_LEN(key_types), type, &word))
        return err_set(eb, ERR_BAD_REQUEST, "key_type \"%.40s\": string, int or float",
                       type);
    out->key_type = (enum reshard_key)word;
    if (out->separator[0] == '\0')
        return err_set(eb, ERR_BAD_REQUEST, "\"separator\" is empty");
    if (out->size < RESHARD_SIZE_MIN && (out->size > 0 || out->by != RESHARD_BY_LIST))
        return err_set(
            eb, ERR_BAD_REQUEST, "shards of %llu bytes: \"size\" is at least %llu",
            (unsigned long long)out->size, (unsigned long long)RESHARD_SIZE_MIN);
    rc = check_order(out, eb);
    return rc == ERR_OK ? check_template(out, eb) : rc;
}

/* ---- the position ---- */

/* X(field) of numbers. */
#define STATE_FIELDS(X)                                                                  \
    X(inputs)                                                                            \
    X(extracted)                                                                         \
    X(samples)                                                                           \
    X(members)                                                                           \
    X(bytes)                                                                             \
    X(copied)                                                                            \
    X(runs)                                                                              \
    X(shards)                                                                            \
    X(created)                                                                           \
    X(shard_bytes)                                                                       \
    X(begun_ms)                                                                          \
    X(sorting_ms)                                                                        \
    X(creating_ms)

void
reshard_state_put(const struct reshard_state *s, struct buf *out)
{
    struct json j;

    assert(s->phase <= RESHARD_PLANNED);
    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_text(&j, "phase", phases[s->phase]);
#define X(field) json_u64(&j, #field, s->field);
    STATE_FIELDS(X)
#undef X
    json_end(&j);
}

bool
reshard_state_of(const char *text, struct reshard_state *out)
{
    json_t *doc = text != NULL ? json_loads(text, 0, NULL) : NULL;
    unsigned phase = 0;
    bool known =
        word_of(phases, ARRAY_LEN(phases), json_get_text(doc, "phase", ""), &phase);

    *out = (struct reshard_state){.phase = (enum reshard_phase)phase};
#define X(field) out->field = json_get_u64(doc, #field);
    STATE_FIELDS(X)
#undef X
    json_decref(doc);
    return known && out->extracted <= out->inputs && out->created <= out->shards &&
           out->inputs <= RESHARD_INPUTS_MAX && out->shards <= RESHARD_SHARDS_MAX;
}
