/* sim_disk: the model of a file system that forgets what was not synced. A pure data structure: no clock, no
 * fibers, no kernel but memory. sim_file.c gives it to the engine.
 *
 * There are two states of each file and directory. `now` is what running code sees: the page cache. `stable`
 * is what surely survives a power cut. Between them lies the list of changes, in order. A sync moves changes
 * into `stable`; a cut draws for each one left whether it is kept, lost or (a write) torn, and then `now` is
 * what was kept.
 *
 * A write is remembered as the whole 512-byte sectors that it touched, as they were after it: a sector goes
 * to a disk as a whole, with all that older unsynced writes put there. Torn means page by page, or sector by
 * sector. Sizes are drawn apart from the bytes. Changes of a directory are atomic each, and kept either up to
 * some point (a journal) or any of them (what POSIX promises). A name is durable by a sync of its directory
 * only, bytes and size by a sync of the file only.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sim_disk;
struct sim_node; /* a file or a directory; counted */

struct sim_disk *sim_disk_new(
    uint64_t bytes); /* what all files of one file system may allocate */
void sim_disk_free(struct sim_disk **dp);
struct sim_node *sim_disk_root(struct sim_disk *d); /* borrowed; empty, durable */
/* A directory under the root, durable, with a file system of its own and the room given to sim_disk_new(). */
struct sim_node *sim_disk_mount(struct sim_disk *d, const char *name);
uint64_t sim_node_used(const struct sim_node *n); /* of its file system */
uint64_t sim_node_room(const struct sim_node *n);
/* Marks the disk as full (or not): then nothing can be allocated. */
void sim_node_fill(struct sim_node *n, bool full);

struct sim_node *sim_node_ref(struct sim_node *n);
void sim_node_drop(struct sim_node **np); /* NULL is fine */
bool sim_node_is_dir(const struct sim_node *n);
uint64_t sim_node_id(const struct sim_node *n); /* in order of creation, from 1 */
void sim_node_set_mode(struct sim_node *n, unsigned mode); /* durable at once */
unsigned sim_node_mode(const struct sim_node *n);

/* A file without a name, with these bytes; the caller owns the reference. */
struct sim_node *sim_disk_orphan(struct sim_disk *d, const void *data, uint64_t len);

/* ---- directories: `now` changes at once. 0 or -errno. ---- */
struct sim_node *sim_dir_find(const struct sim_node *dir,
                              const char *name); /* borrowed; NULL: none */
/* A new file or directory; *out is borrowed. */
int sim_dir_add(struct sim_node *dir, const char *name, bool is_dir,
                struct sim_node **out);
int sim_dir_unlink(struct sim_node *dir,
                   const char *name); /* files and empty directories */
int sim_dir_rename(struct sim_node *dir, const char *from, const char *to);
unsigned sim_dir_count(const struct sim_node *dir);
const char *sim_dir_name(const struct sim_node *dir, unsigned i); /* in byte order */

/* ---- files ---- */
uint64_t sim_file_size(const struct sim_node *f);
uint64_t sim_file_read(const struct sim_node *f, uint64_t offset, void *buf,
                       uint64_t len); /* bytes */
/* Not yet seen by readers, but a cut may keep it. Ended by sim_write_end(). */
struct sim_change;
struct sim_change *sim_write_begin(struct sim_node *f, uint64_t offset, const void *data,
                                   uint64_t len);
/* 0 or -ENOSPC, and then it never happened. `data` as at the begin: a change of it meanwhile is an assert. */
int sim_write_end(struct sim_change *c, const void *data);
int sim_file_allocate(struct sim_node *f, uint64_t offset, uint64_t len);
void sim_file_punch(struct sim_node *f, uint64_t offset, uint64_t len);
void sim_file_truncate(struct sim_node *f, uint64_t size);
/* The bytes that readers see, for tests that change them; until the next change of the file. */
char *sim_file_bytes_now(struct sim_node *f);
bool sim_node_is_synced(const struct sim_node *n);

/* ---- what decides ---- */
struct sim_lottery {
    uint64_t (*draw)(void *arg); /* 64 random bits */
    void *arg;
    bool
        lossy; /* else all changes are kept, and writes in flight are kept or lost whole */
};

/* ---- syncs, of both kinds: what was done before the begin is stable after the end ---- */
uint64_t sim_sync_begin(const struct sim_node *n);
void sim_sync_end(struct sim_node *n, uint64_t mark);
/* The sync failed. As in Linux each change is stable now, or it is taken for clean though it is not: then no later
 * sync brings it to the disk, and a cut takes it. `draw` decides. */
void sim_sync_fail(struct sim_node *n, uint64_t mark, const struct sim_lottery *l);

/* ---- the cut ---- */
/* Every node, in order of creation. Open handles stay valid but must only be dropped. */
void sim_disk_cut(struct sim_disk *d, const struct sim_lottery *l);
