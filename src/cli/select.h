/* select: the flags by which a verb chooses among names, and the names that its arguments and --from-file give. */
#pragma once
#include "cli/pick.h"
#include "cli/walk.h"

#define SELECT_FLAGS                                                                     \
    {"exclude", 0, "GLOB", "skip names that match", true},                               \
        {"include", 0, "GLOB",                                                           \
         "keep matching names that --exclude skips; alone: keep only these", true},      \
        {"from-file", 0, "FILE",                                                         \
         "read more names from FILE, one a line; - is standard input", false},           \
        {"null", '0', NULL, "names in --from-file end in NUL", false},                   \
    {                                                                                    \
        "literal", 0, NULL, "take braces and * literally", false                         \
    }
#define PARALLEL_FLAG                                                                    \
    {                                                                                    \
        "parallel", 'j', "N", "requests at a time, 1 to 1024; 64 unless given", false    \
    }

/* Owned by the caller: select_fini(). */
struct select {
    struct session *s;
    struct walk_options walk;
    struct pick pick; /* of verbs with PICK_FLAGS: select_pick() */
    const char *globs[2][64];
    const char *
        must; /* WALK_BELOW of a key that has nothing below it is ERR_NOT_FOUND; what the verb does: "copies". NULL: empty */
};
enum err select_init(struct select *sel, struct session *s, enum walk_how how,
                     struct errbuf *eb) MUST_CHECK;

/* Of a verb with PICK_FLAGS, after select_init(): leaves out what they do not choose. */
enum err select_pick(struct select *sel, struct errbuf *eb) MUST_CHECK;

typedef enum err select_on(void *arg, const char *text, struct errbuf *eb);
/* The first `count` arguments and the lines of --from-file, braces of remote ones opened. May switch. */
enum err select_names(struct select *sel, size_t count, select_on *on_name, void *arg,
                      struct errbuf *eb) MUST_CHECK;
typedef enum err select_found(void *arg, const struct place *p, const struct found *e,
                              struct errbuf *eb);
/* What one name stands for, remote or local. May switch. */
enum err select_walk(struct select *sel, const char *text, select_found *on_found,
                     void *arg, struct errbuf *eb) MUST_CHECK;
/* Both: what all names stand for; ERR_NOT_FOUND when a pattern finds nothing. */
enum err select_all(struct select *sel, size_t count, select_found *on_found, void *arg,
                    struct errbuf *eb) MUST_CHECK;

/* --yes was given, or a person at a terminal says so. The question ends in "[y/N]" by itself. */
enum err select_agreed(struct session *s, struct errbuf *eb, const char *fmt,
                       ...) MUST_CHECK PRINTF(3, 4);
