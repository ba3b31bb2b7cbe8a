/* What stands in a folder before it becomes a disk: a path that was mistyped must not become one. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "disks/disks.h"
#include "rt/file.h"

struct looking {
    bool ours;
    char other[64]; /* a name that is not ours; "": none */
};

static void
folder_on_name(const char *name, void *arg)
{
    static const char *const ours[] = {".forebay", "native", "cached", "index"};
    struct looking *l = arg;

    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strcmp(name, ours[i]) == 0) {
            l->ours = true;
            return;
        }
    if (strcmp(name, "lost+found") != 0 && l->other[0] == '\0')
        snprintf(l->other, sizeof l->other, "%s", name);
}

enum err
disks_folder_check(const char *path, const struct disks_folder_may *may,
                   struct errbuf *eb)
{
    struct looking l = {.ours = false};
    struct rt_dir *dir = NULL;
    enum err rc;

    assert(path != NULL);
    assert(may != NULL);
    rc = rt_dir_open(path, &dir, eb);
    if (rc == ERR_NOT_FOUND && may->be_missing)
        return ERR_OK;
    if (rc == ERR_NOT_FOUND)
        return err_set(
            eb, rc, "there is no folder \"%s\": mount the disk first, or give --create",
            path);
    if (rc == ERR_OK)
        rc = rt_dir_list(dir, folder_on_name, &l, eb);
    rt_dir_close(&dir);
    if (rc != ERR_OK || l.ours || l.other[0] == '\0' || may->have_others)
        return rc;
    return err_set(eb, ERR_BAD_REQUEST,
                   "\"%s\" holds \"%s\" and no data of Forebay: name an empty folder, or "
                   "give --not-empty to put data beside what is there",
                   path, l.other);
}
