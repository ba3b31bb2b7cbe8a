/* folder: a test's own folder is gone when the test is, with all that is in it. */
#pragma once
#include <ftw.h>
#include <stdio.h>

static inline int
folder_remove_one_(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void
folder_remove(const char *path)
{
    if (nftw(path, folder_remove_one_, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "cannot remove %s\n", path);
}
