#include "bench/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/load.h"
#include "cli/list_pages.h"

#define FILES_MAX 10000000u
#define ASK_MANY  32

static void
add_file(struct dataset *d, const struct profile *profile, struct span key,
         uint64_t bytes)
{
    if (d->count == d->room) {
        d->room = d->room > 0 ? d->room * 2 : 1024;
        d->files = xrealloc(d->files, d->room * sizeof *d->files);
    }
    d->files[d->count] =
        (struct train_file){.key = xmemdup0(key.at, key.len),
                            .bytes = bytes,
                            .samples = profile_samples_in(profile, bytes)};
    d->bytes += bytes;
    d->samples += d->files[d->count++].samples;
}

void
dataset_fini(struct dataset *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        free(d->files[i].key);
    free(d->files);
    made_fini(&d->made);
    *d = (struct dataset){0};
}

/* ---- made ---- */

static uint64_t
dataset_size_of(const void *arg, uint64_t number)
{
    return profile_file_bytes(arg, number);
}

enum err
dataset_make(struct dataset *d, struct session *s, const struct place *p,
             const struct profile *profile, uint64_t bytes, uint64_t seed)
{
    struct arena *a = arena_new(KIB(64), MIB(1));
    uint64_t size = profile_file_bytes(profile, 0);

    *d = (struct dataset){.bucket = p->bucket};
    (void)made_init(&d->made, s, p, seed);
    do {
        add_file(d, profile, made_key(&d->made, d->count, a), size);
        arena_reset(a);
        size = profile_file_bytes(profile, d->count);
    } while (d->bytes + size <= bytes && d->count < FILES_MAX);
    arena_free(&a);
    return made_fill(&d->made, d->count, dataset_size_of, profile, &s->eb);
}

/* ---- listed ---- */

struct listing {
    struct dataset *d;
    const struct profile *profile;
    uint32_t most;
};

static enum err
dataset_on_entry(void *arg, const struct s3xml_list_entry *e)
{
    struct listing *l = arg;

    if (l->d->count == l->most)
        return ERR_EXISTS; /* enough */
    if (!e->is_prefix && e->size > 0)
        add_file(l->d, l->profile, e->key, e->size);
    return ERR_OK;
}

static enum err
not_empty(const struct dataset *d, struct session *s, const char *where)
{
    return d->count > 0
               ? ERR_OK
               : err_set(&s->eb, ERR_NOT_FOUND, "no objects to read under \"%s\"", where);
}

enum err
dataset_list(struct dataset *d, struct session *s, const struct place *p,
             const struct profile *profile, uint32_t most)
{
    struct listing l = {d, profile, most > 0 ? most : FILES_MAX};
    enum err rc;

    *d = (struct dataset){.bucket = p->bucket};
    rc = list_pages(s, p->bucket, p->key, SPAN(""), dataset_on_entry, &l, &s->eb);
    return rc == ERR_OK || rc == ERR_EXISTS ? not_empty(d, s, p->text) : rc;
}

/* ---- named ---- */

struct asking {
    struct session *s;
    struct dataset *d;
    const struct profile *profile;
};

static enum err
ask_size(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct asking *w = arg;
    struct train_file *f = &w->d->files[number];
    struct arena *a = arena_new(KIB(8), MIB(1));
    struct s3_object_info info;
    struct s3_failure failure;
    enum err rc =
        s3_head(w->s->s3, w->d->bucket, span_of(f->key), a, &info, &failure, eb);

    (void)out;
    if (rc == ERR_OK) {
        f->bytes = info.size;
        f->samples = profile_samples_in(w->profile, f->bytes);
        w->d->bytes += f->bytes;
        w->d->samples += f->samples;
    }
    arena_free(&a);
    return rc;
}

static enum err
dataset_read_names(struct dataset *d, const struct place *p,
                   const struct profile *profile, const char *path, uint32_t most,
                   struct errbuf *eb)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    char *line = NULL, *key;
    size_t room = 0, len;

    if (in == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "--keys \"%s\": cannot be read", path);
    while (d->count < most && getline(&line, &room, in) >= 0) {
        len = strcspn(line, "\r\n");
        if (len == 0)
            continue;
        key = xasprintf("%.*s%.*s", SPAN_ARG(p->key), (int)len, line);
        add_file(d, profile, span_of(key), 0);
        free(key);
    }
    free(line);
    if (in != stdin)
        fclose(in);
    d->samples = 0;
    return ERR_OK;
}

enum err
dataset_read(struct dataset *d, struct session *s, const struct place *p,
             const struct profile *profile, const char *path, uint32_t most)
{
    struct asking w = {s, d, profile};
    struct load_options o = {.concurrency = ASK_MANY};
    struct load_result *r;
    enum err rc;

    *d = (struct dataset){.bucket = p->bucket};
    rc = dataset_read_names(d, p, profile, path, most > 0 ? most : FILES_MAX, &s->eb);
    if (rc == ERR_OK)
        rc = not_empty(d, s, path);
    if (rc != ERR_OK)
        return rc;
    o.count = d->count;
    r = xcalloc(1, sizeof *r);
    rc = load_run(&o, ask_size, &w, r, &s->eb);
    if (rc == ERR_OK && r->errors > 0)
        rc = err_set(&s->eb, ERR_NOT_FOUND, "%llu of %u names: %s",
                     (unsigned long long)r->errors, d->count, r->first_error.text);
    free(r);
    return rc;
}
