/* list: what the files of a listing share: list.c asks for names and makes pages, list_entry.c writes entries, list_archive.c lists
 * the members of archives. One fiber of one request. */
#pragma once
#include "api/ais/ais.h"
#include "api/ais/checksum.h"
#include "wire/tar.h"

/* Flags of a request. */
enum {
    LIST_CACHED = 1,   /* of a remote bucket: what is kept here */
    LIST_ARCHIVES = 8, /* and the members of archives */
    LIST_NAME_ONLY = 16,
    LIST_NAME_SIZE = 32,
    LIST_NOT_CACHED = 512,
    LIST_NO_RECURSION = 2048,
};
/* Flags of an entry. */
enum {
    ENTRY_PRESENT = 64,
    ENTRY_MEMBER = 128,
    ENTRY_DIRECTORY = 256,
    ENTRY_ARCHIVE = 512,
    ENTRY_IN_CHUNKS = 8192
};
#define LIST_MEMBER_MAX (OBJECT_KEY_MAX + 1 + TAR_PATH_MAX)

/* Properties. */
#define LIST_PROP_TABLE(X)                                                               \
    X(NAME, "name")                                                                      \
    X(SIZE, "size")                                                                      \
    X(VERSION, "version")                                                                \
    X(CHECKSUM, "checksum")                                                              \
    X(ATIME, "atime")                                                                    \
    X(CACHED, "cached")                                                                  \
    X(STATUS, "status")                                                                  \
    X(COPIES, "copies")                                                                  \
    X(EC, "ec")                                                                          \
    X(CUSTOM, "custom")                                                                  \
    X(LOCATION, "location")                                                              \
    X(CHUNKED, "chunked")
enum list_prop {
#define X(id, name) PROP_##id,
    LIST_PROP_TABLE(X)
#undef X
        PROPS_
};
#define PROP_BIT(prop) (1u << PROP_##prop)

struct list_request {
    const char *uuid, *prefix, *start_after, *token, *time_format;
    unsigned props;
    uint64_t size, flags;
};
/* One entry, with what was asked for. */
struct listed {
    struct span name;
    uint64_t size;
    unsigned flags;
    char checksum[AIS_CHECKSUM_TEXT];
    char version[24];
    char atime[48];
    const char *custom; /* NULL: none */
};
struct list_page {
    struct request *q;
    const struct list_request *r;
    bool msgpack;
    struct buf out; /* the entries */
    struct json json;
    uint32_t count;
    struct arena *scratch;
    char last[OBJECT_KEY_MAX + 1];
    size_t last_len;
    uint64_t
        resume; /* 0: `last` is done; else it is an archive, and this less 1 of its members are listed */
    bool more;
    char location[160];
    char member[LIST_MEMBER_MAX]; /* the name of the one that is written */
};

/* ---- list_entry.c ---- */
void list_entry_put(struct list_page *p, const struct listed *e);

/* ---- list_archive.c ---- */
/* Writes the entry of an object, and the members behind it if it is an archive. Where the page ends among them, p->resume says
 * where. */
enum err list_archive_put(struct list_page *p, struct listed *e) MUST_CHECK;
/* The members of the archive `key` from number `from` on. */
enum err list_archive_continue(struct list_page *p, struct span key,
                               uint64_t from) MUST_CHECK;
/* The token of a listing with archives: "RESUME:NAME". ERR_BAD_REQUEST: it is none. */
enum err list_archive_token(struct span text, uint64_t *resume,
                            struct span *name) MUST_CHECK;
