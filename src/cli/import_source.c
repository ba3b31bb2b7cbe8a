/* Where imported objects come from: a tar, ours or anybody's, and a folder. */
#include <jansson.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/archive.h"
#include "cli/import.h"
#include "wire/tar.h"

#define LIST_NAME     ".forebay/objects"
#define LIST_LINE_MAX (128u << 10)

/* "./bucket/a/b" without --bucket: bucket and key; with it: all of it is the key. */
static bool
split_path(const struct import *i, struct span path, struct exported *e)
{
    const char *slash;

    while (span_starts(path, SPAN("./")))
        path = span_from(path, 2);
    while (path.len > 0 && path.at[0] == '/')
        path = span_from(path, 1);
    if (i->o->bucket.len > 0) {
        e->bucket = i->o->bucket;
        e->key = path;
        return path.len > 0;
    }
    slash = span_find(path, '/');
    if (slash == NULL)
        return false;
    e->bucket = (struct span){path.at, (size_t)(slash - path.at)};
    e->key = span_from(path, e->bucket.len + 1);
    return e->bucket.len > 0 && e->key.len > 0;
}

static void
leave_out(struct import *i, struct span path, const char *why)
{
    char text[1400];

    (void)snprintf(text, sizeof text, "\"%.*s\" is left out: %s",
                   (int)MIN(path.len, 1100u), path.at, why);
    if (i->o->say != NULL)
        i->o->say(i->o->arg, text);
    i->result.refused++;
}

/* ---- tar ---- */

/* What a member is: an exported object, or another program's file. *take false: neither. */
static enum err
check_member(struct import *i, const struct tar_head *h, struct arena *a,
             struct exported *e, bool *exact, bool *take, struct errbuf *eb)
{
    enum err rc = ERR_NOT_FOUND;

    *take = *exact = false;
    if (h->type == TAR_DIR)
        return ERR_OK;
    if (h->type != TAR_FILE) {
        leave_out(i, h->path, "it is a link or a device");
        return ERR_OK;
    }
    if (h->xattr.len > 0)
        rc = exported_read(h->xattr, a, e, eb);
    if (rc == ERR_CORRUPT || rc == ERR_NOT_IMPLEMENTED)
        return rc;
    *exact = rc == ERR_OK;
    if (*exact && e->size != h->size)
        return err_set(eb, ERR_CORRUPT, "a member's record and its header disagree");
    if (*exact) {
        exported_place(e, h->path);
        *take = exported_as_object(e);
        i->result.passed += !*take;
        return ERR_OK;
    }
    if (span_starts(h->path, SPAN(".forebay/")))
        return ERR_OK; /* of a segment: not an object */
    *e = (struct exported){.size = h->size, .meta.mtime_ms = MAX(h->mtime_s, 0) * 1000};
    *take = split_path(i, h->path, e);
    if (!*take)
        leave_out(i, h->path, "it is in no folder that could be a bucket; use --bucket");
    return ERR_OK;
}

struct tar_source {
    struct import *import;
    struct arena *arena;
    bool in_object;
};

static enum err
end_object(void *arg, struct errbuf *eb)
{
    struct tar_source *t = arg;
    bool was = t->in_object;

    t->in_object = false;
    return was ? import_end(t->import, eb) : ERR_OK;
}

static enum err
on_member(void *arg, const struct tar_head *head, struct errbuf *eb)
{
    struct tar_source *t = arg;
    struct exported e;
    bool exact, take;
    enum err rc = end_object(t, eb);

    arena_reset(t->arena);
    if (rc == ERR_OK)
        rc = check_member(t->import, head, t->arena, &e, &exact, &take, eb);
    if (rc == ERR_OK && take)
        rc = import_begin(t->import, &e, exact, &t->in_object, eb);
    return rc;
}

static enum err
on_data(void *arg, struct span data, struct errbuf *eb)
{
    struct tar_source *t = arg;

    return t->in_object ? import_data(t->import, data, eb) : ERR_OK;
}

enum err
import_tar(struct import *i, const char *path, struct errbuf *eb)
{
    struct tar_source t = {.import = i, .arena = arena_new(4096, MIB(1))};
    struct archive_members members = {
        .arg = &t, .begin = on_member, .data = on_data, .end = end_object};
    enum err rc = archive_read_tar(path, &members, eb);

    arena_free(&t.arena);
    return rc;
}

/* ---- folder ---- */

/* Of the list .forebay/objects: file -> record, in the order of the files' names. */
struct listed {
    char *file;
    char *record; /* bytes */
    size_t len;
};
struct folder_source {
    struct import *import;
    struct listed *listed; /* owned */
    size_t count, room;
};

static bool
unhex(const char *hex, char *out)
{
    for (size_t i = 0; hex[2 * i] != '\0'; i++) {
        unsigned byte = 0;

        for (unsigned k = 0; k < 2; k++) {
            char c = hex[2 * i + k];

            if (c >= '0' && c <= '9')
                byte = byte << 4 | (unsigned)(c - '0');
            else if (c >= 'a' && c <= 'f')
                byte = byte << 4 | (unsigned)(c - 'a' + 10);
            else
                return false;
        }
        out[i] = (char)byte;
    }
    return true;
}

static enum err
import_source_take_line(struct folder_source *f, struct span line, struct errbuf *eb)
{
    json_t *doc = json_loadb(line.at, line.len, 0, NULL);
    const char *file = json_string_value(json_object_get(doc, "file"));
    const char *record = json_string_value(json_object_get(doc, "record"));
    struct listed *l;
    bool good = file != NULL && record != NULL && strlen(record) % 2 == 0;

    if (good) {
        if (f->count == f->room) {
            f->room = MAX((size_t)64, 2 * f->room);
            f->listed = xrealloc(f->listed, f->room * sizeof *f->listed);
        }
        l = &f->listed[f->count];
        *l = (struct listed){.len = strlen(record) / 2};
        l->record = xmalloc(l->len + 1);
        good = unhex(record, l->record);
        if (good) {
            l->file = xstrdup(file);
            f->count++;
        } else {
            free(l->record);
        }
    }
    json_decref(doc);
    return good ? ERR_OK
                : err_set(eb, ERR_BAD_REQUEST,
                          LIST_NAME ": a line is not what export wrote");
}

static int
by_file(const void *ap, const void *bp)
{
    const struct listed *a = ap, *b = bp;

    return strcmp(a->file, b->file);
}

/* Lines that end in this piece; the rest stays in `line`. */
static enum err
import_source_take_lines(struct folder_source *f, struct buf *line, struct span piece,
                         struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && piece.len > 0) {
        const char *end = span_find(piece, '\n');
        size_t len = end != NULL ? (size_t)(end - piece.at) : piece.len;

        buf_put_span(line, (struct span){piece.at, len});
        piece = span_from(piece, len + (end != NULL));
        if (line->full)
            rc = err_set(eb, ERR_BAD_REQUEST, LIST_NAME ": a line of more than %u bytes",
                         LIST_LINE_MAX);
        else if (end != NULL)
            rc = import_source_take_line(f, buf_span(line), eb);
        if (end != NULL)
            buf_clear(line);
    }
    return rc;
}

/* Its lines; a folder without one is anybody's. */
static enum err
load_list(struct folder_source *f, const char *path, struct errbuf *eb)
{
    char *name = xasprintf("%s/" LIST_NAME, path);
    struct errbuf why = {{0}};
    struct archive_in in;
    struct span piece = {"", 1};
    struct buf line;
    enum err rc = archive_in_open(&in, name, &why);

    free(name);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK) {
        *eb = why;
        return rc;
    }
    buf_init(&line, LIST_LINE_MAX);
    while (rc == ERR_OK && piece.len > 0) {
        rc = archive_get(&in, &piece, eb);
        if (rc == ERR_OK)
            rc = import_source_take_lines(f, &line, piece, eb);
    }
    buf_fini(&line);
    archive_in_close(&in);
    if (f->count > 0)
        qsort(f->listed, f->count, sizeof *f->listed, by_file);
    return rc;
}

static enum err
check_source_file(struct folder_source *f, const struct local_entry *file,
                  struct arena *a, struct exported *e, bool *exact, bool *take,
                  struct errbuf *eb)
{
    struct listed want = {.file = file->name};
    struct listed *l =
        f->count > 0 ? bsearch(&want, f->listed, f->count, sizeof *f->listed, by_file)
                     : NULL;
    enum err rc;

    *exact = *take = false;
    if (l != NULL) {
        rc = exported_read((struct span){l->record, l->len}, a, e, eb);
        *exact = rc == ERR_OK;
        *take = *exact && exported_as_object(e);
        return rc;
    }
    if (strncmp(file->name, ".forebay/", 9) == 0)
        return ERR_OK;
    *e = (struct exported){.size = file->size, .meta.mtime_ms = file->mtime_ms};
    *take = split_path(f->import, span_of(file->name), e);
    if (!*take)
        leave_out(f->import, span_of(file->name),
                  "it is in no folder that could be a bucket; use --bucket");
    return ERR_OK;
}

static enum err
import_file(struct folder_source *f, const struct local_entry *file, struct arena *a,
            struct errbuf *eb)
{
    struct exported e;
    struct archive_in in;
    struct span piece = {"", 1};
    bool exact, take, wanted = false;
    enum err rc = check_source_file(f, file, a, &e, &exact, &take, eb);

    if (rc == ERR_OK && take)
        rc = import_begin(f->import, &e, exact, &wanted, eb);
    if (rc != ERR_OK || !wanted)
        return rc;
    rc = archive_in_open(&in, file->path, eb);
    if (rc != ERR_OK)
        return rc;
    while (rc == ERR_OK && in.at < e.size && piece.len > 0) {
        rc = archive_get(&in, &piece, eb);
        if (rc == ERR_OK && piece.len > 0)
            rc = import_data(f->import, piece, eb);
    }
    archive_in_close(&in);
    return rc == ERR_OK ? import_end(f->import, eb) : rc;
}

enum err
import_folder(struct import *i, const char *path, struct errbuf *eb)
{
    struct folder_source f = {.import = i};
    struct arena *a = arena_new(4096, MIB(1));
    struct local_list files = {0};
    enum err rc = load_list(&f, path, eb);

    if (rc == ERR_OK)
        rc = local_walk(path, &files, eb);
    for (size_t n = 0; rc == ERR_OK && n < files.count; n++) {
        arena_reset(a);
        rc = import_file(&f, &files.at[n], a, eb);
        if (rc != ERR_OK)
            err_prefix(eb, "\"%s\"", files.at[n].path);
    }
    local_list_fini(&files);
    for (size_t n = 0; n < f.count; n++) {
        free(f.listed[n].file);
        free(f.listed[n].record);
    }
    free(f.listed);
    arena_free(&a);
    return rc;
}
