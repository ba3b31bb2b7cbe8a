#include "conf/conf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "conf/internal.h"
#include "conf/suggest.h"
#include "conf/toml.h"

/* The when column. */
#define START false
#define LIVE  true

const struct conf_row conf_rows[OPT_COUNT_] = {
#define X(id, name_, type_, fallback_, least_, most_, choices_, when, help_)             \
    [id] = {                                                                             \
        .name = name_,                                                                   \
        .fallback = fallback_,                                                           \
        .choices = choices_,                                                             \
        .help = help_,                                                                   \
        .least = least_,                                                                 \
        .most = most_,                                                                   \
        .type = CONF_##type_,                                                            \
        .live = when,                                                                    \
    },
    CONF_TABLE(X)
#undef X
};

/* ---- life ---- */

struct conf *
conf_new(void)
{
    struct conf *c = xcalloc(1, sizeof *c);

    for (unsigned id = 0; id < OPT_COUNT_; id++) {
        struct conf_value *v = &c->values[id];
        enum err rc =
            value_parse((enum conf_option)id, span_of(conf_rows[id].fallback), v, NULL);

        if (rc == ERR_OK)
            rc = value_check((enum conf_option)id, v, NULL);
        assert(rc == ERR_OK); /* a row whose default breaks its own limits */
        v->where = xstrdup("default");
    }
    return c;
}

void
conf_free(struct conf **cp)
{
    struct conf *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    for (unsigned id = 0; id < OPT_COUNT_; id++)
        value_fini(&c->values[id]);
    free(c);
}

/* ---- names ---- */

const char *
conf_option_name(enum conf_option id)
{
    assert(id < OPT_COUNT_);
    return conf_rows[id].name;
}

bool
conf_find(struct span name, enum conf_option *id)
{
    for (unsigned i = 0; i < OPT_COUNT_; i++) {
        if (span_is(name, conf_rows[i].name)) {
            *id = (enum conf_option)i;
            return true;
        }
    }
    return false;
}

/* The present name of an option that was renamed; NULL: none was called so. */
static const char *
conf_renamed_to(struct span name)
{
    static const struct {
        const char *old_name;
        enum conf_option id;
    } renamed[] = {
#define X(old_name_, id_) {old_name_, id_},
        CONF_RENAMED(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_LEN(renamed); i++)
        if (span_is(name, renamed[i].old_name))
            return conf_option_name(renamed[i].id);
    return NULL;
}

enum err
conf_unknown(struct span name, struct errbuf *eb)
{
    struct suggest near;
    const char *new_name = conf_renamed_to(name);
    int len = (int)MIN(name.len, 96);

    if (new_name != NULL)
        return err_set(eb, ERR_NOT_FOUND,
                       "the option \"%.*s\" was renamed: it is \"%s\" now", len, name.at,
                       new_name);
    suggest_begin(&near, name);
    for (unsigned i = 0; i < OPT_COUNT_; i++)
        suggest_offer(&near, conf_rows[i].name);
    if (near.best != NULL)
        return err_set(eb, ERR_NOT_FOUND,
                       "there is no option \"%.*s\": did you mean \"%s\"?", len, name.at,
                       near.best);
    return err_set(eb, ERR_NOT_FOUND,
                   "there is no option \"%.*s\"; `forebay config show` lists them", len,
                   name.at);
}

/* ---- setting ---- */

/* Takes *v: into the configuration, unless something stronger stands there. */
static enum err
conf_keep(struct conf *c, enum conf_option id, struct conf_value *v,
          enum conf_origin origin, const char *where, struct errbuf *eb)
{
    enum err rc = value_check(id, v, eb);

    if (rc == ERR_OK && origin >= c->values[id].origin) {
        value_fini(&c->values[id]);
        c->values[id] = *v;
        c->values[id].origin = origin;
        c->values[id].where = xstrdup(where);
        *v = (struct conf_value){0};
    }
    value_fini(v);
    return rc;
}

static enum err
conf_set_text(struct conf *c, enum conf_option id, struct span text,
              enum conf_origin origin, const char *where, struct errbuf *eb)
{
    struct conf_value v = {0};
    enum err rc = value_parse(id, text, &v, eb);

    if (rc == ERR_OK)
        rc = conf_keep(c, id, &v, origin, where, eb);
    value_fini(&v);
    if (rc != ERR_OK)
        err_prefix(eb, "%s: %s", where, conf_rows[id].name);
    return rc;
}

/* ---- the file ---- */

struct file {
    struct conf *conf;
    const char *name;
};

static const char *const toml_names[] = {
    [TOML_STRING] = "a string",
    [TOML_INTEGER] = "an integer",
    [TOML_BOOLEAN] = "a boolean",
    [TOML_ARRAY] = "an array",
};

/* What a row wants to see in a file: 9000 is not "9000". */
static enum err
typed(enum conf_option id, const struct toml_value *t, struct conf_value *v,
      struct errbuf *eb)
{
    static const struct {
        enum toml_kind kind;
        const char *want;
    } wants[] = {
        [CONF_TEXT] = {TOML_STRING, "a string"},
        [CONF_BOOL] = {TOML_BOOLEAN, "true or false"},
        [CONF_U64] = {TOML_INTEGER, "an integer"},
        [CONF_SIZE] = {TOML_STRING, "a size like \"64MiB\" or an integer of bytes"},
        [CONF_DURATION] = {TOML_STRING, "a duration with its unit like \"10s\""},
        [CONF_ENUM] = {TOML_STRING, "a string"},
        [CONF_LIST] = {TOML_ARRAY, "an array of strings"},
    };
    enum conf_type type = conf_rows[id].type;

    if (t->kind == TOML_INTEGER && (type == CONF_U64 || type == CONF_SIZE)) {
        if (t->integer < 0)
            return err_set(eb, ERR_BAD_REQUEST, "%lld is negative",
                           (long long)t->integer);
        v->number = (uint64_t)t->integer;
        return ERR_OK;
    }
    if (t->kind != wants[type].kind)
        return err_set(eb, ERR_BAD_REQUEST, "wants %s, not %s", wants[type].want,
                       toml_names[t->kind]);
    if (type == CONF_BOOL) {
        v->number = t->boolean;
        return ERR_OK;
    }
    if (type != CONF_LIST)
        return value_parse(id, t->string, v, eb);
    v->items = xcalloc(t->count + 1, sizeof *v->items);
    for (; v->count < t->count; v->count++) {
        struct span item = t->items[v->count];

        if (item.len == 0 || memchr(item.at, '\0', item.len) != NULL)
            return err_set(eb, ERR_BAD_REQUEST,
                           "an item of a list is empty or holds a NUL");
        v->items[v->count] = xmemdup0(item.at, item.len);
    }
    return ERR_OK;
}

static enum err
on_value(const char *key, const struct toml_value *t, void *arg, struct errbuf *eb)
{
    struct file *f = arg;
    struct conf_value v = {0};
    enum conf_option id;
    char *where;
    enum err rc;

    if (!conf_find(span_of(key), &id))
        return conf_unknown(span_of(key), eb);
    where = xasprintf("%s:%u", f->name, t->line);
    rc = typed(id, t, &v, eb);
    if (rc == ERR_OK)
        rc = conf_keep(f->conf, id, &v, CONF_FILE, where, eb);
    value_fini(&v);
    if (rc != ERR_OK)
        err_prefix(eb, "%s", key);
    free(where);
    return rc;
}

enum err
conf_toml(struct conf *c, const char *name, struct span text, struct errbuf *eb)
{
    struct file f = {.conf = c, .name = name};

    return toml_parse(name, text, on_value, &f, eb);
}

enum err
conf_file(struct conf *c, const char *path, struct errbuf *eb)
{
    struct buf text;
    enum err rc;
    size_t n;
    char *p;
    FILE *f = fopen(path, "re");

    if (f == NULL)
        return err_errno(eb, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno,
                         "configuration \"%s\"", path);
    buf_init(&text, TOML_TEXT_MAX + 4096);
    while ((p = buf_reserve(&text, 4096)) != NULL && (n = fread(p, 1, 4096, f)) > 0)
        text.len += n;
    rc = ERR_OK;
    if (ferror(f))
        rc = err_errno(eb, ERR_IO, errno, "configuration \"%s\"", path);
    fclose(f);
    if (rc == ERR_OK)
        rc = conf_toml(c, path, buf_span(&text), eb); /* says what is too long, too */
    buf_fini(&text);
    return rc;
}

/* ---- the environment ---- */

#define PREFIX "FOREBAY_"

/* "HTTP__IDLE_TIMEOUT" as "http.idle_timeout"; false when it is too long for an option.
 */
static bool
name_of_variable(struct span variable, char *out, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < variable.len; i++) {
        char c = variable.at[i];

        if (n + 1 >= room)
            return false;
        if (c == '_' && i + 1 < variable.len && variable.at[i + 1] == '_') {
            c = '.';
            i++;
        }
        out[n++] = (char)(c >= 'A' && c <= 'Z' ? c | 32 : c);
    }
    out[n] = '\0';
    return true;
}

/* Equal but for how the parts are joined: http_idle_timeout and http.idle_timeout. */
static bool
same_words(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        if (*a != *b && !((*a == '_' || *a == '.') && (*b == '_' || *b == '.')))
            return false;
    }
    return *a == *b;
}

static enum err
set_from_variable(struct conf *c, struct span variable, const char *value,
                  struct errbuf *eb)
{
    bool has_dots = memmem(variable.at, variable.len, "__", 2) != NULL;
    char *where = xasprintf(PREFIX "%.*s", SPAN_ARG(variable));
    char name[TOML_KEY_MAX];
    enum conf_option id;
    enum err rc = ERR_OK;

    if (!name_of_variable(variable, name, sizeof name)) {
        rc = has_dots ? err_set(eb, ERR_NOT_FOUND, "there is no option of that name")
                      : ERR_OK;
    } else if (conf_find(span_of(name), &id)) {
        rc = conf_set_text(c, id, span_of(value), CONF_ENVIRONMENT, where, eb);
        free(where);
        return rc;
    } else if (has_dots) {
        rc = conf_unknown(span_of(name), eb);
    } else {
        for (unsigned i = 0; i < OPT_COUNT_ && rc == ERR_OK; i++) {
            if (same_words(name, conf_rows[i].name))
                rc = err_set(
                    eb, ERR_NOT_FOUND,
                    "the option \"%s\" is written with two underscores for its dot",
                    conf_rows[i].name);
        }
    }
    if (rc != ERR_OK)
        err_prefix(eb, "%s", where);
    free(where);
    return rc;
}

enum err
conf_env(struct conf *c, char *const *environ, struct errbuf *eb)
{
    for (; *environ != NULL; environ++) {
        struct span entry = span_of(*environ);
        const char *equals = memchr(entry.at, '=', entry.len);
        struct span variable;
        enum err rc;

        if (equals == NULL || !span_starts(entry, SPAN(PREFIX)))
            continue;
        variable = span_from((struct span){entry.at, (size_t)(equals - entry.at)},
                             strlen(PREFIX));
        rc = set_from_variable(c, variable, equals + 1, eb);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* ---- the command line ---- */

enum err
conf_set(struct conf *c, const char *pair, const char *flag, struct errbuf *eb)
{
    const char *equals = strchr(pair, '=');
    struct span name = {pair, equals != NULL ? (size_t)(equals - pair) : strlen(pair)};
    enum conf_option id;

    if (!conf_find(name, &id)) {
        enum err rc = conf_unknown(name, eb);

        err_prefix(eb, "%s", flag);
        return rc;
    }
    if (equals == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "%s %s: a value is missing: write %s=VALUE",
                       flag, pair, pair);
    return conf_set_text(c, id, span_of(equals + 1), CONF_FLAG, flag, eb);
}

enum err
conf_set_option(struct conf *c, enum conf_option id, const char *value, const char *flag,
                struct errbuf *eb)
{
    return conf_set_text(c, id, span_of(value), CONF_FLAG, flag, eb);
}

/* ---- reading ---- */

static const struct conf_value *
conf_value_of(const struct conf *c, enum conf_option id)
{
    assert(id < OPT_COUNT_);
    return &c->values[id];
}

uint64_t
conf_u64(const struct conf *c, enum conf_option id)
{
    enum conf_type type = conf_rows[id].type;

    assert(type == CONF_U64 || type == CONF_SIZE || type == CONF_DURATION);
    (void)type;
    return conf_value_of(c, id)->number;
}

bool
conf_bool(const struct conf *c, enum conf_option id)
{
    assert(conf_rows[id].type == CONF_BOOL);
    return conf_value_of(c, id)->number != 0;
}

const char *
conf_text(const struct conf *c, enum conf_option id)
{
    assert(conf_rows[id].type == CONF_TEXT);
    return conf_value_of(c, id)->text;
}

unsigned
conf_enum(const struct conf *c, enum conf_option id)
{
    assert(conf_rows[id].type == CONF_ENUM);
    return (unsigned)conf_value_of(c, id)->number;
}

const char *const *
conf_list(const struct conf *c, enum conf_option id, size_t *count)
{
    assert(conf_rows[id].type == CONF_LIST);
    *count = conf_value_of(c, id)->count;
    return (const char *const *)conf_value_of(c, id)->items;
}

enum conf_origin
conf_origin(const struct conf *c, enum conf_option id)
{
    return conf_value_of(c, id)->origin;
}

const char *
conf_where(const struct conf *c, enum conf_option id)
{
    return conf_value_of(c, id)->where;
}
