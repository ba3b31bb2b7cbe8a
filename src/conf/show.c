/* The table and a configuration, for people and programs. */
#include <inttypes.h>
#include <stdlib.h>

#include "conf/conf.h"
#include "conf/internal.h"
#include "wire/json.h"

static const char *const type_names[] = {
    [CONF_TEXT] = "text",         [CONF_BOOL] = "true or false", [CONF_U64] = "number",
    [CONF_SIZE] = "size",         [CONF_DURATION] = "duration",  [CONF_ENUM] = "one of",
    [CONF_LIST] = "list of text",
};
static const char *const origin_names[] = {
    [CONF_DEFAULT] = "default",
    [CONF_FILE] = "file",
    [CONF_ENVIRONMENT] = "environment",
    [CONF_FLAG] = "flag",
};

/* ---- a configuration ---- */

static void
show_toml(const struct conf *c, bool origins, struct buf *out)
{
    for (unsigned id = 0; id < OPT_COUNT_; id++) {
        size_t start = out->len;

        buf_printf(out, "%s = ", conf_rows[id].name);
        value_put(out, (enum conf_option)id, &c->values[id]);
        if (origins)
            buf_printf(out, "%*s# %s%s", (int)MAX(40 - (int)MIN(out->len - start, 39), 1),
                       "", c->values[id].where, conf_rows[id].live ? "" : ", restart");
        buf_putc(out, '\n');
    }
}

static void
put_json_value(struct json *j, enum conf_option id, const struct conf_value *v)
{
    switch (conf_rows[id].type) {
    case CONF_BOOL:
        json_bool(j, "value", v->number != 0);
        break;
    case CONF_U64:
    case CONF_SIZE:
    case CONF_DURATION: /* bytes, milliseconds */
        if (value_is_auto(id, v))
            json_text(j, "value", conf_rows[id].choices);
        else
            json_u64(j, "value", v->number);
        break;
    case CONF_ENUM:
        json_span(j, "value", value_choice(conf_rows[id].choices, (unsigned)v->number));
        break;
    case CONF_TEXT:
        json_text(j, "value", v->text);
        break;
    case CONF_LIST:
        json_open_array(j, "value");
        for (size_t i = 0; i < v->count; i++)
            json_text(j, NULL, v->items[i]);
        json_end(j);
        break;
    }
}

static const char *
conf_show_unit_of(enum conf_type type)
{
    return type == CONF_SIZE ? "bytes" : type == CONF_DURATION ? "ms" : NULL;
}

static void
show_json(const struct conf *c, struct buf *out)
{
    struct json j;

    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_open_array(&j, "options");
    for (unsigned id = 0; id < OPT_COUNT_; id++) {
        const struct conf_row *row = &conf_rows[id];

        json_open_object(&j, NULL);
        json_text(&j, "name", row->name);
        put_json_value(&j, (enum conf_option)id, &c->values[id]);
        if (conf_show_unit_of(row->type) != NULL)
            json_text(&j, "unit", conf_show_unit_of(row->type));
        json_text(&j, "default", row->fallback);
        json_text(&j, "origin", origin_names[c->values[id].origin]);
        json_text(&j, "where", c->values[id].where);
        json_bool(&j, "restart", !row->live);
        json_text(&j, "help", row->help);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    buf_putc(out, '\n');
}

void
conf_show(const struct conf *c, enum conf_form form, struct buf *out)
{
    if (form == CONF_AS_JSON)
        show_json(c, out);
    else
        show_toml(c, form == CONF_AS_TOML_ORIGIN, out);
}

/* ---- the table ---- */

static void
conf_show_put_limits(const struct conf_row *row, struct buf *out)
{
    buf_puts(out, type_names[row->type]);
    if (row->type == CONF_ENUM) {
        for (unsigned i = 0; value_choice(row->choices, i).len > 0; i++)
            buf_printf(out, "%s%.*s", i > 0 ? ", " : " ",
                       SPAN_ARG(value_choice(row->choices, i)));
    } else if (row->type == CONF_U64 || row->type == CONF_SIZE ||
               row->type == CONF_DURATION) {
        buf_puts(out, ", ");
        value_put_number(out, row->type, row->least);
        buf_puts(out, " to ");
        value_put_number(out, row->type, row->most);
        if (row->choices[0] != '\0')
            buf_printf(out, ", or %s", row->choices);
    }
}

/* "http.idle_timeout" as FOREBAY_HTTP__IDLE_TIMEOUT. */
static void
put_variable(const char *name, struct buf *out)
{
    buf_puts(out, "FOREBAY_");
    for (; *name != '\0'; name++) {
        if (*name == '.')
            buf_puts(out, "__");
        else
            buf_putc(out, (char)(*name >= 'a' && *name <= 'z' ? *name - 32 : *name));
    }
}

static void
explain_one(const struct conf_row *row, struct buf *out)
{
    buf_printf(out, "%s\n    %s\n    ", row->name, row->help);
    conf_show_put_limits(row, out);
    buf_printf(out, "; default %s; %s\n    ",
               row->fallback[0] != '\0' ? row->fallback : "none",
               row->live ? "changes by a reload" : "changes at the next start");
    put_variable(row->name, out);
    buf_printf(out, "=... or --set %s=...\n", row->name);
}

enum err
conf_explain(struct span name, struct buf *out, struct errbuf *eb)
{
    bool found = false;

    for (unsigned id = 0; id < OPT_COUNT_; id++) {
        struct span option = span_of(conf_rows[id].name);

        if (span_eq(option, name) ||
            (span_starts(option, name) && option.len > name.len &&
             option.at[name.len] == '.')) {
            explain_one(&conf_rows[id], out);
            found = true;
        }
    }
    return found ? ERR_OK : conf_unknown(name, eb);
}

void
conf_reference(struct buf *out)
{
    buf_puts(
        out,
        "# Options\n\n"
        "Made from `src/conf/options.h`; `test_conf` compares (and writes it, with\n"
        "FOREBAY_WRITE_DOCS=1).\n\n"
        "Defaults, then the file of `--config`, then the environment\n"
        "(`FOREBAY_HTTP__IDLE_TIMEOUT=1m`), then flags (`--set http.idle_timeout=1m`): "
        "the\n"
        "later wins. `forebay config show --origin` says what holds and why. Sizes are\n"
        "written 4096, 64KiB, 1.5GiB or 10GB; durations 250ms, 10s, 5m, 2h or 7d.\n\n"
        "| option | what it is | takes | default |\n|---|---|---|---|\n");
    for (unsigned id = 0; id < OPT_COUNT_; id++) {
        const struct conf_row *row = &conf_rows[id];

        buf_printf(out, "| `%s` | %s | ", row->name, row->help);
        conf_show_put_limits(row, out);
        buf_printf(out, " | %s%s%s |\n", row->fallback[0] != '\0' ? "`" : "",
                   row->fallback, row->fallback[0] != '\0' ? "`" : "");
    }
}

/* ---- two configurations ---- */

void
conf_compare(const struct conf *a, const struct conf *b,
             void (*on_change)(enum conf_option id, bool live, const char *from,
                               const char *to, void *arg),
             void *arg)
{
    struct buf from, to;

    buf_init(&from, 64u << 10);
    buf_init(&to, 64u << 10);
    for (unsigned id = 0; id < OPT_COUNT_; id++) {
        buf_clear(&from);
        buf_clear(&to);
        value_put(&from, (enum conf_option)id, &a->values[id]);
        value_put(&to, (enum conf_option)id, &b->values[id]);
        if (span_eq(buf_span(&from), buf_span(&to)))
            continue;
        buf_putc(&from, '\0');
        buf_putc(&to, '\0');
        on_change((enum conf_option)id, conf_rows[id].live, from.at, to.at, arg);
    }
    buf_fini(&from);
    buf_fini(&to);
}
