#include "bench/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "conf/toml.h"

struct models {
    struct profile all[MODELS_MAX];
    unsigned count;
};

/* The table that a value stands in; a new one, when it is the first of it. */
static struct profile *
model_of(struct models *m, struct span name, struct errbuf *eb)
{
    struct profile *p;

    for (unsigned i = 0; i < m->count; i++)
        if (span_is(name, m->all[i].name))
            return &m->all[i];
    if (name.len == 0 || name.len >= PROFILE_NAME || m->count == MODELS_MAX) {
        (void)err_set(eb, ERR_BAD_REQUEST,
                      m->count == MODELS_MAX
                          ? "more than %u models"
                          : "a model is a table with a name of 1 to %u bytes",
                      m->count == MODELS_MAX ? MODELS_MAX : PROFILE_NAME - 1);
        return NULL;
    }
    p = &m->all[m->count++];
    *p = (struct profile){.samples_per_file = 1, .floor = 0.9};
    memcpy(p->name, name.at, name.len);
    return p;
}

/* A number, or a text: "47.55", and of what is `bytes` "150KB". */
static enum err
models_number(const struct toml_value *v, bool bytes, double *out, struct errbuf *eb)
{
    char text[32], *end = text;
    uint64_t n = 0;

    if (v->kind == TOML_INTEGER) {
        *out = (double)v->integer;
        return ERR_OK;
    }
    if (v->kind != TOML_STRING)
        return err_set(eb, ERR_BAD_REQUEST, "a number is wanted, or a text that is one");
    if (bytes) {
        enum err rc = num_size(v->string, &n, eb);

        *out = (double)n;
        return rc;
    }
    if (v->string.len > 0 && v->string.len < sizeof text) {
        memcpy(text, v->string.at, v->string.len);
        text[v->string.len] = '\0';
        *out = strtod(text, &end);
    }
    return end != text && *end == '\0'
               ? ERR_OK
               : err_set(eb, ERR_BAD_REQUEST, "\"%.*s\" is no number",
                         (int)MIN(v->string.len, 40u), v->string.at);
}

enum field { SAMPLE, SPREAD, PER_FILE, BATCH, STEP_MS, FLOOR, COLUMNS, READ };
static const struct {
    const char *name;
    bool bytes;
    double least, most;
} fields[] = {
    [SAMPLE] = {"sample", true, 1, 1e15},         [SPREAD] = {"spread", true, 0, 1e15},
    [PER_FILE] = {"per_file", false, 1, 1e8},     [BATCH] = {"batch", false, 1, 1e6},
    [STEP_MS] = {"step_ms", false, 0.01, 600000}, [FLOOR] = {"floor", false, 1, 100},
    [COLUMNS] = {"columns", false, 1, 10000},     [READ] = {"read", true, 1, 1e15},
};

static void
set_field(struct profile *p, enum field f, double n)
{
    switch (f) {
    case SAMPLE:
        p->sample_bytes = (uint64_t)n;
        break;
    case SPREAD:
        p->spread_bytes = (uint64_t)n;
        break;
    case PER_FILE:
        p->samples_per_file = (uint32_t)n;
        break;
    case BATCH:
        p->batch = (uint32_t)n;
        break;
    case STEP_MS:
        p->step_ns = (uint64_t)(n * 1e6);
        break;
    case FLOOR:
        p->floor = n / 100;
        break;
    case COLUMNS:
        p->columns = (uint32_t)n;
        break;
    case READ:
        p->read_bytes = (uint64_t)n;
        break;
    }
}

static enum err
models_on_value(const char *key, const struct toml_value *v, void *arg, struct errbuf *eb)
{
    const char *dot = strrchr(key, '.');
    struct profile *p;
    double n = 0;
    enum err rc;

    if (dot == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" stands in no [MODEL]", key);
    p = model_of(arg, (struct span){key, (size_t)(dot - key)}, eb);
    if (p == NULL)
        return ERR_BAD_REQUEST;
    for (unsigned i = 0; i < ARRAY_LEN(fields); i++) {
        if (strcmp(dot + 1, fields[i].name) != 0)
            continue;
        rc = models_number(v, fields[i].bytes, &n, eb);
        if (rc == ERR_OK && !(n >= fields[i].least && n <= fields[i].most))
            rc = err_set(eb, ERR_BAD_REQUEST, "expected %g to %g", fields[i].least,
                         fields[i].most);
        if (rc != ERR_OK)
            err_prefix(eb, "%s", key);
        else
            set_field(p, (enum field)i, n);
        return rc;
    }
    return err_set(eb, ERR_BAD_REQUEST,
                   "\"%s\": a model has sample, spread, per_file, batch, step_ms, "
                   "floor, columns, read",
                   key);
}

static enum err
models_choose(const struct models *m, const char *file, const char *name,
              struct profile *out, struct errbuf *eb)
{
    char names[256] = "";
    size_t at = 0;

    for (unsigned i = 0; i < m->count; i++) {
        const struct profile *p = &m->all[i];

        if (name != NULL ? strcmp(p->name, name) == 0 : m->count == 1) {
            *out = *p;
            if ((p->columns > 0 && p->read_bytes < p->columns) ||
                (p->columns == 0 && p->read_bytes > 0) || p->read_bytes > p->sample_bytes)
                return err_set(eb, ERR_BAD_REQUEST,
                               "%s: [%s] columns and read belong together: of a sample "
                               "of %llu bytes at least a byte from each column",
                               file, p->name, (unsigned long long)p->sample_bytes);
            if (p->sample_bytes > 0 && p->batch > 0 && p->step_ns > 0)
                return ERR_OK;
            return err_set(eb, ERR_BAD_REQUEST,
                           "%s: [%s] wants sample, batch and step_ms at least", file,
                           p->name);
        }
        if (at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s",
                                   i > 0 ? ", " : "", p->name);
    }
    if (name == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "%s has %u models: --model says which of %s",
                       file, m->count, m->count > 0 ? names : "none");
    return err_set(eb, ERR_BAD_REQUEST, "--model \"%s\": in %s there are %s", name, file,
                   m->count > 0 ? names : "none");
}

enum err
models_find(const char *file, struct span text, const char *name, struct profile *out,
            struct errbuf *eb)
{
    struct models *m = xcalloc(1, sizeof *m);
    enum err rc = toml_parse(file, text, models_on_value, m, eb);

    if (rc == ERR_OK)
        rc = models_choose(m, file, name, out, eb);
    free(m);
    return rc;
}

void
models_write(const struct profile *p, struct buf *out)
{
    buf_printf(out, "[%s]\nsample = %llu\n", p->name,
               (unsigned long long)p->sample_bytes);
    if (p->spread_bytes > 0)
        buf_printf(out, "spread = %llu\n", (unsigned long long)p->spread_bytes);
    buf_printf(out, "per_file = %u\nbatch = %u\nstep_ms = \"%g\"\nfloor = %g\n",
               p->samples_per_file, p->batch, (double)p->step_ns / 1e6, p->floor * 100);
    if (p->columns > 0)
        buf_printf(out, "columns = %u\nread = %llu\n", p->columns,
                   (unsigned long long)p->read_bytes);
}
