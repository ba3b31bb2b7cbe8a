/* membership: the list of a node's disks, the file `disks` of its state (docs/formats.md section
 * 10). Encoding only, no I/O. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define MEMBERSHIP_FILE      "disks"
#define MEMBERSHIP_BYTES_MAX (256u << 10)
#define MEMBERSHIP_MAX       256 /* disks, including removed ones */
#define MEMBERSHIP_PATH_MAX  4095

enum membership_state {
    MEMBERSHIP_ACTIVE,
    MEMBERSHIP_DRAINING, /* accepts nothing new; its objects move elsewhere */
    MEMBERSHIP_OUT,      /* failed, or left out at a start: its objects may be old */
    /* The same, while objects were moved: it may hold the only copy of any key. */
    MEMBERSHIP_MISSED,
    MEMBERSHIP_REMOVED, /* no longer the node's: rejected if it returns */
    MEMBERSHIP_STATES_
};

struct membership_disk {
    uint8_t id[16];
    enum membership_state state;
    uint64_t
        weight; /* MiB of its file system when added; constant: placement depends on it */
    /* Of its superblock, when this was written; 0: never noted. A disk whose superblock has a
     * lower one was rolled back. */
    uint64_t generation;
    char *path; /* as given at the latest start; owned */
};
struct membership {
    bool open;      /* a process serves the disks, or ended without closing them */
    bool converged; /* every object lies where its key's order says */
    struct membership_disk *disks; /* owned */
    unsigned count;
};

/* Call membership_fini() on `out` in any case. ERR_CORRUPT with the line number. */
enum err membership_parse(struct span text, struct membership *out,
                          struct errbuf *eb) MUST_CHECK;
void membership_print(const struct membership *r, struct buf *out);
void membership_fini(struct membership *r);

struct membership_disk *membership_find(const struct membership *r, const uint8_t id[16]);
/* ERR_BUSY: the list has MEMBERSHIP_MAX disks. */
enum err membership_add(struct membership *r, const uint8_t id[16], uint64_t weight,
                        const char *path, struct errbuf *eb) MUST_CHECK;
