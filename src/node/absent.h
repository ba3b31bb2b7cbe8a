/* absent: which disks of a stopped node are not among the folders that a tool was given. The list of disks is in the node's state, or in a
 * copy of it on a disk that does not hold the state. Reads only. May switch.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct node_absent {
    char id[33];
    char *path;       /* owned; as at the latest start */
    uint64_t weight;  /* MiB of its file system */
    bool is_there;    /* the folder at that path is this disk */
    const char *text; /* its state in the list: "active" */
};
struct node_absents {
    struct node_absent *at; /* owned */
    unsigned count;
    bool known;            /* some list was found; else nothing is known */
    uint64_t given_weight; /* of the disks that were given */
};
/* A list that cannot be read is no error: then `known` is false. The caller owns *out: node_absents_fini(). */
void node_absents_find(const char *const *paths, unsigned count,
                       struct node_absents *out);
void node_absents_fini(struct node_absents *a);
