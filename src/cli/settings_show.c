/* settings_show: what is used, and where each was said: for `env --origin` and `config show`. */
#include <string.h>

#include "base/mem.h"
#include "cli/settings.h"
#include "wire/json.h"

#define ROWS 6
struct setting_line {
    const char *name, *value, *how;
};

static size_t
rows_of(const struct settings *s, struct setting_line rows[ROWS])
{
    size_t n = 0;

    rows[n++] = (struct setting_line){"endpoint", s->endpoint.value, s->endpoint.how};
    rows[n++] = (struct setting_line){"region", s->region.value, s->region.how};
    rows[n++] = (struct setting_line){"keys", s->has_keys ? s->keys.access_key : "none",
                                      s->keys_how};
    if (s->ca_bundle.value != NULL)
        rows[n++] =
            (struct setting_line){"ca bundle", s->ca_bundle.value, s->ca_bundle.how};
    if (s->no_verify_tls)
        rows[n++] = (struct setting_line){"no verify", "true", "flag or profile"};
    if (s->profile != NULL)
        rows[n++] = (struct setting_line){"profile", s->profile,
                                          s->file != NULL ? s->file : "AWS's files"};
    return n;
}

void
settings_show(const struct settings *s, const char *line_begins, struct buf *out)
{
    struct setting_line rows[ROWS];
    size_t n = rows_of(s, rows);

    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%s%-10s %-30s %s\n", line_begins, rows[i].name, rows[i].value,
                   rows[i].how);
}

void
settings_show_json(const struct settings *s, struct buf *out)
{
    struct setting_line rows[ROWS];
    size_t n = rows_of(s, rows);
    struct json j;

    json_begin(&j, out);
    json_open_object(&j, NULL);
    for (size_t i = 0; i < n; i++) {
        char name[16];

        strcpy(name, rows[i].name);
        for (char *c = name; *c != '\0'; c++)
            *c = *c == ' ' ? '_' : *c;
        json_open_object(&j, name);
        json_text(&j, "value", rows[i].value);
        json_text(&j, "from", rows[i].how);
        json_end(&j);
    }
    json_end(&j);
    buf_putc(out, '\n');
}
