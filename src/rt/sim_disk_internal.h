/* sim_disk from inside: what a disk of the simulator keeps, for the disk (sim_disk.c) and its power cut (sim_cut.c). */
#pragma once
#include "base/list.h"
#include "rt/sim_disk.h"

#define SIM_SECTOR 512u

/* ---- the bytes of a file in one state (sim_image.c) ---- */

/* A growing mapping: untouched pages cost nothing and read as zeros. Small mappings are kept for the files of later
 * worlds; otherwise most of a world's cost would be pages that the kernel clears, reclaims and clears again. */
struct sim_image {
    char *at;
    uint64_t room;
    uint64_t reached; /* nothing is written behind it */
    uint64_t size;
};

void sim_image_reach(struct sim_image *m, uint64_t end); /* room for bytes up to `end` */
void sim_image_zero(struct sim_image *m, uint64_t from, uint64_t to);
void sim_image_put(struct sim_image *m, uint64_t offset, const char *data, uint64_t len);
/* dst becomes what src is in [from, to). */
void sim_image_copy(struct sim_image *dst, const struct sim_image *src, uint64_t from,
                    uint64_t to);
void sim_image_set_size(struct sim_image *m,
                        uint64_t size); /* what is cut off becomes zeros */
void sim_image_fini(struct sim_image *m);

/* ---- the entries of a directory in one state (sim_names.c) ---- */

struct sim_name {
    char *name;            /* owned */
    struct sim_node *node; /* owns a reference */
};
struct sim_names {
    struct sim_name *at; /* owned; in byte order */
    unsigned count, room;
};

struct sim_node *sim_names_find(const struct sim_names *s,
                                const char *name); /* borrowed; NULL: none */
void sim_names_set(struct sim_names *s, const char *name,
                   struct sim_node *node); /* adds or replaces */
/* Removes it, but only when it still means `node`. */
void sim_names_clear(struct sim_names *s, const char *name, const struct sim_node *node);
void sim_names_copy(struct sim_names *dst, const struct sim_names *src);
void sim_names_fini(struct sim_names *s);

/* ---- changes, nodes, disks ---- */

enum change_kind {
    CHANGE_WRITE,  /* bytes; may make the file longer */
    CHANGE_ZERO,   /* a hole: zeros, size unchanged */
    CHANGE_SIZE,   /* to `size`; what is cut off becomes zeros */
    CHANGE_LINK,   /* name -> node */
    CHANGE_UNLINK, /* name, when it still means node */
    CHANGE_RENAME, /* name, when it still means node, goes; to -> node */
};

struct sim_change {
    struct list link; /* in node->changes (done, in order) or node->in_flight */
    struct sim_node *of;
    enum change_kind kind;
    uint64_t seq;
    /* Files. */
    uint64_t offset,
        len; /* what it touches in the image; for a write whole sectors once it is done */
    char *data;   /* owned; CHANGE_WRITE only */
    uint64_t sum; /* of a write's data at its begin */
    bool doomed;  /* the kernel believes that it is on the disk, but it is not */
    bool sets_size;
    uint64_t size;
    /* Directories. */
    char *name, *to;         /* owned */
    struct sim_node *target; /* owns a reference */
};

/* A file system. */
struct sim_room {
    struct list link; /* disk->rooms */
    uint64_t used, size;
    bool full;
};

struct sim_node {
    struct sim_disk *disk;
    struct sim_room *room;
    struct list of_disk; /* disk->nodes, in order of creation */
    unsigned refs;
    bool is_dir;
    unsigned mode;
    uint64_t id;
    struct list changes, in_flight;
    unsigned change_count;
    uint64_t change_bytes;
    union {
        struct {
            struct sim_image now, stable;
            uint64_t
                allocated; /* counted against the disk: the end of what was reserved or written */
        } file;
        struct {
            struct sim_names now, stable;
        } dir;
    };
};

struct sim_disk {
    struct list nodes;
    struct list rooms; /* owned; the first is the root's */
    struct sim_node *root;
    uint64_t next_id, next_seq;
    uint64_t size; /* of each room */
};

/* What a change does to the bytes of a file, to the names of a directory. */
void sim_change_bytes(const struct sim_change *c, struct sim_image *m);
void sim_change_names(const struct sim_change *c, struct sim_names *s);
/* A write in flight is done: into what is read from now on. From here on the change holds whole sectors as they are after it. */
void sim_change_write(struct sim_change *c);
void sim_change_free(struct sim_change *c);   /* one in flight */
void sim_change_forget(struct sim_change *c); /* one that was done */
/* Counted against the disk, up to `end`: 0 or -ENOSPC. */
int sim_file_reserve(struct sim_node *f, uint64_t end);
