/* membership: which disks a node has: the file `disks` of its state (docs/formats.md section 10). Bytes and structs, no I/O. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define MEMBERSHIP_FILE      "disks"
#define MEMBERSHIP_BYTES_MAX (256u << 10)
#define MEMBERSHIP_MAX       256 /* disks, removed ones included */
#define MEMBERSHIP_PATH_MAX  4095

enum membership_state {
    MEMBERSHIP_ACTIVE,
    MEMBERSHIP_DRAINING, /* takes nothing new; what it has goes elsewhere */
    MEMBERSHIP_OUT,      /* failed, or left out at a start: what it has may be old */
    MEMBERSHIP_MISSED, /* the same, and while objects were moved: it may be the only one to hold any key */
    MEMBERSHIP_REMOVED, /* no longer the node's: refused when it comes back */
    MEMBERSHIP_STATES_
};

struct membership_disk {
    uint8_t id[16];
    enum membership_state state;
    uint64_t
        weight; /* MiB of its file system when it was added; never changes: keys lie by it */
    char *path; /* as given at the latest start; owned */
};
struct membership {
    bool open;      /* a process serves the disks, or did not end in an orderly way */
    bool converged; /* every object lies where its key's order says */
    struct membership_disk *disks; /* owned */
    unsigned count;
};

/* `out` is to be given to membership_fini() in any case. ERR_CORRUPT with the line's number. */
enum err membership_parse(struct span text, struct membership *out,
                          struct errbuf *eb) MUST_CHECK;
void membership_print(const struct membership *r, struct buf *out);
void membership_fini(struct membership *r);

struct membership_disk *membership_find(const struct membership *r, const uint8_t id[16]);
/* ERR_BUSY: MEMBERSHIP_MAX are there. */
enum err membership_add(struct membership *r, const uint8_t id[16], uint64_t weight,
                        const char *path, struct errbuf *eb) MUST_CHECK;
