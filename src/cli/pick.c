#include "cli/pick.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "rt/time.h"

/* The other name of a flag that find has. */
static const char *
value_of(const struct args *a, const char *flag, const char *also)
{
    const char *text = args_value(a, flag);

    return text == NULL && also != NULL && strcmp(a->verb->name, "find") == 0
               ? args_value(a, also)
               : text;
}

static enum err
pick_size(const struct args *a, const char *flag, uint64_t *out, struct errbuf *eb)
{
    const char *text = args_value(a, flag);
    enum err rc = text != NULL ? num_size(span_of(text), out, eb) : ERR_OK;

    if (rc != ERR_OK)
        err_prefix(eb, "--%s", flag);
    return rc;
}

static enum err
pick_age(const struct args *a, const char *flag, const char *also, int64_t *out,
         struct errbuf *eb)
{
    const char *text = value_of(a, flag, also);
    uint64_t ms = 0;
    enum err rc;

    if (text == NULL)
        return ERR_OK;
    rc = num_duration_ms(span_of(text), &ms, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "--%s", flag);
    *out = MAX((int64_t)(rt_wall_ns() / 1000000u) - (int64_t)MIN(ms, (uint64_t)INT64_MAX),
               1);
    return rc;
}

enum err
pick_init(struct pick *p, const struct args *a, struct errbuf *eb)
{
    enum err rc;

    *p = (struct pick){.smaller = UINT64_MAX,
                       .has_larger = args_value(a, "larger") != NULL};
    rc = pick_size(a, "larger", &p->larger, eb);
    if (rc == ERR_OK)
        rc = pick_size(a, "smaller", &p->smaller, eb);
    if (rc == ERR_OK)
        rc = pick_age(a, "older-than", "older", &p->older_ms, eb);
    if (rc == ERR_OK)
        rc = pick_age(a, "newer-than", "newer", &p->newer_ms, eb);
    p->any = p->has_larger || args_value(a, "smaller") != NULL || p->older_ms != 0 ||
             p->newer_ms != 0;
    return rc;
}

bool
pick_wants_time(const struct pick *p, int64_t mtime_ms)
{
    return (p->older_ms == 0 || mtime_ms < p->older_ms) &&
           (p->newer_ms == 0 || mtime_ms > p->newer_ms);
}

bool
pick_wants(const struct pick *p, const struct found *e)
{
    if (!p->any || e->is_prefix || e->problem != NULL)
        return true;
    return (!p->has_larger || e->size > p->larger) && e->size < p->smaller &&
           pick_wants_time(p, e->mtime_ms);
}

const char *
pick_text(const struct args *a, char out[PICK_TEXT])
{
    static const char *const names[][3] = {{"newer-than", "newer", "newer than"},
                                           {"older-than", "older", "older than"},
                                           {"larger", NULL, "larger than"},
                                           {"smaller", NULL, "smaller than"}};
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < ARRAY_LEN(names) && len < PICK_TEXT; i++) {
        const char *text = value_of(a, names[i][0], names[i][1]);

        if (text != NULL)
            len += (size_t)snprintf(out + len, PICK_TEXT - len, "%s%s %s",
                                    len > 0 ? " and " : "", names[i][2], text);
    }
    return out;
}
