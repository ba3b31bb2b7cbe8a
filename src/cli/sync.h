/* sync: one round of `sync` and of `mirror`: makes the second argument like the contents of the first. */
#pragma once
#include "cli/select.h"

#define SYNC_FLAGS                                                                       \
    {"checksum", 'c', NULL, "compare bytes by ETag wherever sizes are equal", false},    \
        {"size-only", 0, NULL, "compare sizes alone", false},                            \
        {"delete", 0, NULL, "delete objects of DEST that SOURCE does not have", false},  \
        {"max-delete", 0, "N", "refuse to remove more than N", false},                   \
        {"yes", 'y', NULL, "do not ask before removing", false},                         \
        {"restart", 0, NULL, "start large transfers from the beginning", false},         \
        {"no-follow", 0, NULL, "skip symbolic links of a local source", false},          \
        TO_FLAGS, SELECT_FLAGS, RATE_FLAG, PARALLEL_FLAG, SESSION_FLAGS
/* By the flags above; `dry` changes nothing. EXIT_USAGE: the flags or the arguments are wrong. May switch. */
enum exit_code sync_round(struct session *s, bool dry);
