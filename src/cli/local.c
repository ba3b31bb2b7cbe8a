#include "cli/local.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static enum err
of_errno(struct errbuf *eb, const char *path)
{
    return err_errno(eb,
                     errno == ENOENT   ? ERR_NOT_FOUND
                     : errno == EACCES ? ERR_DENIED
                     : errno == ENOSPC ? ERR_NO_SPACE
                                       : ERR_IO,
                     errno, "%s", path);
}

/* Splits into folder and name, and opens the folder. */
static enum err
local_open_folder(const char *path, struct local *l, struct errbuf *eb)
{
    const char *name;
    enum err rc = rt_dir_open_of(path, &l->dir, &name, eb);

    l->name = xstrdup(name);
    return rc;
}

enum err
local_read_open(const char *path, struct local *out, struct errbuf *eb)
{
    char real[PATH_MAX];
    enum err rc;

    *out = (struct local){0};
    if (realpath(path, real) == NULL)
        return of_errno(eb, path);
    rc = local_open_folder(real, out, eb);
    if (rc == ERR_OK)
        rc = rt_open(out->dir, out->name, 0, 0, &out->file, eb);
    if (rc == ERR_OK)
        rc = rt_file_size(out->file, &out->size, eb);
    if (rc != ERR_OK)
        local_close(out);
    return rc;
}

static enum err
make_folders(const char *path, struct errbuf *eb)
{
    char *copy = xstrdup(path);
    enum err rc = ERR_OK;

    for (char *at = copy + 1; rc == ERR_OK && (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            rc = of_errno(eb, copy);
        *at = '/';
    }
    free(copy);
    return rc;
}

enum err
local_write_open(const char *path, struct local *out, struct errbuf *eb)
{
    enum err rc;

    *out = (struct local){0};
    rc = make_folders(path, eb);
    if (rc == ERR_OK)
        rc = local_open_folder(path, out, eb);
    if (rc != ERR_OK) {
        local_close(out);
        return rc;
    }
    out->temporary = xasprintf(".%s.forebay-part", out->name);
    rc = rt_open(out->dir, out->temporary, RT_O_WRITE | RT_O_CREATE | RT_O_TRUNC, 0666,
                 &out->file, eb);
    if (rc != ERR_OK) {
        free(out->temporary);
        out->temporary = NULL;
        local_close(out);
    }
    return rc;
}

enum err
local_keep(struct local *l, struct errbuf *eb)
{
    enum err rc = rt_dir_rename(l->dir, l->temporary, l->name, eb);

    if (rc == ERR_OK) {
        free(l->temporary);
        l->temporary = NULL;
    }
    return rc;
}

void
local_close(struct local *l)
{
    rt_file_close(&l->file);
    if (l->temporary != NULL) {
        struct rt_shield shield;
        struct errbuf eb;

        rt_shield_begin(&shield);
        (void)!rt_dir_unlink(l->dir, l->temporary,
                             &eb); /* best effort: a leftover is named as one */
        rt_shield_end(&shield);
    }
    free(l->temporary);
    free(l->name);
    rt_dir_close(&l->dir);
    *l = (struct local){0};
}

static void
local_add(struct local_list *l, const char *path, const char *name, const struct stat *st)
{
    if (l->count == l->room) {
        l->room = l->room > 0 ? l->room * 2 : 64;
        l->at = xrealloc(l->at, l->room * sizeof *l->at);
    }
    l->at[l->count++] = (struct local_entry){
        .path = xstrdup(path),
        .name = xstrdup(name),
        .size = (uint64_t)st->st_size,
        .mtime_ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000};
}

static int
local_by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

enum err
local_walk(const char *path, struct local_list *out, struct errbuf *eb)
{
    char *roots[] = {(char *)(uintptr_t)path, NULL};
    FTS *walk = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, local_by_name);
    enum err rc = ERR_OK;
    size_t skip = strlen(path);
    FTSENT *e;

    *out = (struct local_list){0};
    if (walk == NULL)
        return of_errno(eb, path);
    while (skip > 1 && path[skip - 1] == '/')
        skip--;
    while (rc == ERR_OK && (e = fts_read(walk)) != NULL) {
        const char *name = e->fts_path + MIN(skip, e->fts_pathlen);

        while (*name == '/')
            name++;
        if (e->fts_info == FTS_F)
            local_add(out, e->fts_path, e->fts_level == 0 ? e->fts_name : name,
                      e->fts_statp);
        else if (e->fts_info == FTS_ERR || e->fts_info == FTS_DNR ||
                 e->fts_info == FTS_NS) {
            errno = e->fts_errno;
            rc = of_errno(eb, e->fts_path);
        }
    }
    fts_close(walk);
    if (rc != ERR_OK)
        local_list_fini(out);
    return rc;
}

void
local_list_fini(struct local_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->at[i].path);
        free(l->at[i].name);
    }
    free(l->at);
    *l = (struct local_list){0};
}

char *
local_absolute(const char *path)
{
    char *here = path[0] != '/' ? getcwd(NULL, 0) : NULL, *out;

    while (path[0] == '.' && path[1] == '/')
        path += 2;
    if (here == NULL)
        return xstrdup(path);
    out = strcmp(path, ".") == 0 ? xstrdup(here) : xasprintf("%s/%s", here, path);
    free(here);
    return out;
}

bool
local_exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

bool
local_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
