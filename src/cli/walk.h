/* walk: iterates over the objects or files that a place names, in key order: below a folder or prefix, by a pattern, or a
 * single one.
 * Fibers only; one fiber a walk; every call may switch. */
#pragma once
#include "cli/files.h"
#include "cli/names.h"
#include "cli/session.h"

struct found {          /* lent until the next call */
    struct span bucket; /* remote: of the place */
    const char *path;   /* what to open: a key, or a path; ends in a NUL */
    struct span name;   /* below the source: what it is called at a target */
    uint64_t size;
    int64_t mtime_ms;
    struct span etag;    /* without quotes; empty for files */
    bool is_prefix;      /* a common prefix: only path and name */
    const char *problem; /* not NULL: it cannot be read, and why */
    bool odd;            /* ... which is a notice, no failure */
};
enum walk_how {
    WALK_BELOW,  /* a folder: what is below "p/"; a pattern unchanged */
    WALK_BEGINS, /* every key that begins so */
    WALK_LEVEL,  /* one level of those: common prefixes too */
    WALK_ONE,    /* the thing itself; a pattern unchanged */
};
struct walk_options {
    enum walk_how how;
    struct filter filter;
    bool literal;   /* no patterns */
    bool no_follow; /* symbolic links of a local source are left out */
    bool look;      /* WALK_ONE: ask for size, time and ETag too */
};
struct walk;
/* `p` is borrowed. */
enum err walk_open(struct session *s, const struct place *p, const struct walk_options *o,
                   struct walk **out, struct errbuf *eb) MUST_CHECK;
/* *out is NULL at the end. ERR_NOT_FOUND of WALK_ONE: there is nothing. */
enum err walk_next(struct walk *w, const struct found **out,
                   struct errbuf *eb) MUST_CHECK;
/* Has the place anything at all? What a filter leaves out counts. Local places always do. */
bool walk_any(const struct walk *w);
void walk_close(struct walk **wp);
