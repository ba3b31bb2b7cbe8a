/* roster: which disks a node has: the file `disks` of its state (docs/formats.md section 10). Bytes and structs, no I/O. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define ROSTER_FILE      "disks"
#define ROSTER_BYTES_MAX (256u << 10)
#define ROSTER_MAX       256 /* disks, removed ones included */
#define ROSTER_PATH_MAX  4095

enum roster_state {
    ROSTER_ACTIVE,
    ROSTER_DRAINING, /* takes nothing new; what it has goes elsewhere */
    ROSTER_OUT,      /* failed, or left out at a start: what it has may be old */
    ROSTER_MISSED, /* the same, and while objects were moved: it may be the only one to hold any key */
    ROSTER_REMOVED, /* no longer the node's: refused when it comes back */
    ROSTER_STATES_
};

struct roster_disk {
    uint8_t id[16];
    enum roster_state state;
    uint64_t
        weight; /* MiB of its file system when it was added; never changes: keys lie by it */
    char *path; /* as given at the latest start; owned */
};
struct roster {
    bool open;    /* somebody serves the disks, or did not end in an orderly way */
    bool settled; /* every object lies where its key's order says */
    struct roster_disk *disks; /* owned */
    unsigned count;
};

/* `out` is to be given to roster_fini() in any case. ERR_CORRUPT with the line's number. */
enum err roster_parse(struct span text, struct roster *out, struct errbuf *eb) MUST_CHECK;
void roster_print(const struct roster *r, struct buf *out);
void roster_fini(struct roster *r);

struct roster_disk *roster_find(const struct roster *r, const uint8_t id[16]);
/* ERR_BUSY: ROSTER_MAX are there. */
enum err roster_add(struct roster *r, const uint8_t id[16], uint64_t weight,
                    const char *path, struct errbuf *eb) MUST_CHECK;
