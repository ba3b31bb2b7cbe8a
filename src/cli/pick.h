/* pick: the flags by which a verb chooses among what it found: by age and size. */
#pragma once
#include "cli/walk.h"

#define PICK_FLAGS                                                                       \
    {"newer-than", 0, "TIME", "only what changed since: 36h, 7d", false},                \
        {"older-than", 0, "TIME", "only what changed longer ago", false},                \
        {"larger", 0, "SIZE", "only more bytes than that", false},                       \
    {                                                                                    \
        "smaller", 0, "SIZE", "only fewer bytes than that", false                        \
    }

struct pick {
    bool any, has_larger;
    uint64_t larger, smaller;
    int64_t older_ms, newer_ms; /* since 1970; 0: no limit */
};
/* Of a verb with PICK_FLAGS; find has --newer and --older as well. ERR_BAD_REQUEST: a value that is none. */
enum err pick_init(struct pick *p, const struct args *a, struct errbuf *eb) MUST_CHECK;
/* Common prefixes, and what cannot be read, are always wanted. */
bool pick_wants(const struct pick *p, const struct found *e);
bool pick_wants_time(const struct pick *p, int64_t mtime_ms);
/* "older than 7d and larger than 1MiB", as they were typed; "" when there is none. */
#define PICK_TEXT 256
const char *pick_text(const struct args *a, char out[PICK_TEXT]);
