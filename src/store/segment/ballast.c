#include "store/segment/ballast.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/record/format.h"
#include "store/store_space.h"

#define BALLAST_NAME_ROOM  32u
#define START_NEEDS        KIB(512)
#define START_NEEDS_INODES 4u /* at a time */

static const char *const piece_names[BALLAST_PIECES_] = {
    [BALLAST_DELETES] = "ballast", [BALLAST_START] = "ballast.start"};

static void
inode_name(enum ballast_piece which, unsigned index, char out[BALLAST_NAME_ROOM])
{
    assert(which < BALLAST_PIECES_ && index > 0 && index < BALLAST_INODES);
    snprintf(out, BALLAST_NAME_ROOM, "%s.%u", piece_names[which], index);
}

uint64_t
ballast_bytes(struct rt_dir *state, enum ballast_piece which)
{
    struct rt_file *f = NULL;
    uint64_t size = 0;

    assert(which < BALLAST_PIECES_);
    if (rt_open(state, piece_names[which], 0, 0, &f, NULL) != ERR_OK ||
        rt_file_size(f, &size, NULL) != ERR_OK)
        size = 0;
    rt_file_close(&f);
    return size;
}

static enum err
make_bytes(struct rt_dir *state, const char *name, uint64_t want, struct errbuf *eb)
{
    struct rt_file *f = NULL;
    uint64_t size = 0;
    enum err rc = rt_open(state, name, RT_O_WRITE | RT_O_CREATE, 0600, &f, eb);

    if (rc == ERR_OK)
        rc = rt_file_size(f, &size, eb);
    if (rc == ERR_OK && size > want)
        rc = rt_truncate(f, want, eb);
    if (rc == ERR_OK && size < want)
        rc = rt_fallocate(f, 0, want, eb);
    rt_file_close(&f);
    return rc;
}

/* They are made in ascending order, and go in descending order: there is no gap. */
static enum err
release_inodes(struct rt_dir *state, enum ballast_piece which, unsigned from,
               struct errbuf *eb)
{
    char name[BALLAST_NAME_ROOM];
    enum err rc = ERR_OK;

    assert(from > 0);
    for (unsigned i = BALLAST_INODES - 1; i >= from && rc == ERR_OK; i--) {
        inode_name(which, i, name);
        rc = rt_dir_unlink(state, name, eb);
        if (rc == ERR_NOT_FOUND)
            rc = ERR_OK;
    }
    return rc;
}

enum err
ballast_make(struct rt_dir *state, enum ballast_piece which, uint64_t bytes,
             unsigned files, struct errbuf *eb)
{
    char name[BALLAST_NAME_ROOM];
    enum err rc;

    assert(which < BALLAST_PIECES_);
    assert(bytes > 0);
    assert(files > 0 && files <= BALLAST_INODES);
    rc = release_inodes(state, which, files, eb);
    if (rc == ERR_OK)
        rc = make_bytes(state, piece_names[which], bytes, eb);
    for (unsigned i = 1; rc == ERR_OK && i < files; i++) {
        struct rt_file *f = NULL;

        inode_name(which, i, name);
        rc = rt_open(state, name, RT_O_WRITE | RT_O_CREATE, 0600, &f, eb);
        rt_file_close(&f);
    }
    if (rc == ERR_NO_SPACE && ballast_release(state, which, eb) != ERR_OK)
        return ERR_IO;
    return rc;
}

/* The allocated file goes last: while it is there, so is the piece. */
enum err
ballast_release(struct rt_dir *state, enum ballast_piece which, struct errbuf *eb)
{
    enum err rc = release_inodes(state, which, 1, eb);

    if (rc == ERR_OK)
        rc = rt_dir_unlink(state, piece_names[which], eb);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static unsigned
files_of_piece(struct rt_dir *state, enum ballast_piece which)
{
    char name[BALLAST_NAME_ROOM];
    unsigned count = 1, mode;

    for (; count < BALLAST_INODES; count++) {
        inode_name(which, count, name);
        if (rt_dir_mode(state, name, &mode, NULL) != ERR_OK)
            break;
    }
    return count;
}

/* Gives half of the piece: of its bytes and of its files. */
static enum err
cut_in_half(struct rt_dir *state, enum ballast_piece which, struct errbuf *eb)
{
    uint64_t half = align_down(ballast_bytes(state, which) / 2, STORE_ALIGN);
    unsigned files = files_of_piece(state, which) / 2;

    if (half < BALLAST_LEAST_PIECE)
        return ballast_release(state, which, eb);
    return ballast_make(state, which, half, MAX(files, 1u), eb);
}

/* ---- before a start ---- */

static bool
start_fits(const struct rt_space *s)
{
    return s->free_bytes >= START_NEEDS &&
           (s->inodes == 0 || s->free_inodes >= START_NEEDS_INODES);
}

/* The lock says that no process serves the disk: its ballast is not to be taken from it. */
static enum err
release_for_start(const char *path, struct rt_dir *root, struct errbuf *eb)
{
    struct rt_dir *state = NULL;
    struct rt_file *superblock = NULL;
    struct rt_space now = {0};
    enum err rc = rt_dir_open_at(root, ".forebay", &state, eb);
    bool left = true;

    if (rc == ERR_OK)
        rc = rt_open(state, "superblock", RT_O_WRITE, 0600, &superblock, eb);
    if (rc == ERR_OK)
        rc = rt_file_lock(superblock, eb);
    while (rc == ERR_OK && left && !start_fits(&now)) {
        enum ballast_piece which =
            ballast_bytes(state, BALLAST_START) > 0 ? BALLAST_START : BALLAST_DELETES;

        left = ballast_bytes(state, which) > 0;
        if (left)
            rc = cut_in_half(state, which, eb);
        if (rc == ERR_OK)
            rc = rt_dir_space(root, &now, eb);
    }
    if (rc == ERR_OK)
        LOG(LOG_WARN, "store.full_start",
            "the disk is full: the start uses the room that is kept for it",
            L_TEXT("disk", path), L_U64("free_bytes", now.free_bytes),
            L_U64("free_inodes", now.free_inodes));
    rt_file_close(&superblock);
    rt_dir_close(&state);
    return rc == ERR_NOT_FOUND || rc == ERR_EXISTS ? ERR_OK : rc;
}

enum err
store_make_start_room(const char *path, struct errbuf *eb)
{
    struct rt_dir *root = NULL;
    struct rt_space now;
    enum err rc = rt_dir_open(path, &root, eb);

    if (rc == ERR_OK)
        rc = rt_dir_space(root, &now, eb);
    if (rc == ERR_OK && !start_fits(&now))
        rc = release_for_start(path, root, eb);
    rt_dir_close(&root);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc; /* the folder is made later */
}

void
store_explain_no_room(const char *path, struct errbuf *eb)
{
    struct rt_dir *root = NULL;
    struct rt_space now = {0};
    struct errbuf first = *eb;
    enum err rc = rt_dir_open(path, &root, NULL);

    if (rc == ERR_OK)
        rc = rt_dir_space(root, &now, NULL);
    rt_dir_close(&root);
    if (rc != ERR_OK || start_fits(&now))
        return;
    if (now.inodes > 0 && now.free_inodes < START_NEEDS_INODES)
        (void)err_set(eb, ERR_NO_SPACE,
                      "disk \"%s\": %" PRIu64 " of the %" PRIu64
                      " inodes (files) of its file system are free; a first start makes "
                      "about %u files, a later one %u at a time: remove files there (%s)",
                      path, now.free_inodes, now.inodes, STORE_FILES_FIRST,
                      START_NEEDS_INODES, first.text);
    else
        (void)err_set(eb, ERR_NO_SPACE,
                      "disk \"%s\": %" PRIu64 " KiB of the %" PRIu64
                      " MiB of its file system are free, and the room that is kept for "
                      "starts and deletes is used up: free %u MiB there (%s)",
                      path, now.free_bytes >> 10, now.total_bytes >> 20,
                      (unsigned)(BALLAST_START_BYTES >> 20), first.text);
}
