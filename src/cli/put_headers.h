/* put_headers: what --content-type, --metadata and --tag say of the objects that a command makes from files. */
#pragma once
#include "cli/cli.h"
#include "client/s3.h"

#define PUT_HEADER_FLAGS                                                                 \
    {"content-type", 0, "TYPE", "of files that go up, instead of what the name says",    \
     false},                                                                             \
        {"metadata", 0, "NAME=VALUE", "user metadata of files that go up", true},        \
    {                                                                                    \
        "tag", 0, "NAME=VALUE", "a tag of files that go up", true                        \
    }
#define PUT_HEADERS_MAX 66 /* 64 of metadata */

struct put_headers {
    struct arena *a; /* owned */
    struct s3_header at[PUT_HEADERS_MAX];
    uint32_t count; /* 0: none were given */
    bool type;      /* among them */
    char *text;     /* all of them; in the arena */
};
/* ERR_BAD_REQUEST: no NAME=VALUE, a name that is no header's, too many. put_headers_fini() in every case. */
enum err put_headers_init(struct put_headers *p, const struct args *a,
                          struct errbuf *eb) MUST_CHECK;
void put_headers_fini(struct put_headers *p);
/* The headers of one file; `type` is what its name says, or NULL. `p` may be NULL. Returns their number. */
uint32_t put_headers_of(const struct put_headers *p, const char *type,
                        struct s3_header out[PUT_HEADERS_MAX]);

/* Tags as the header has them: "a=b&c=d", encoded. Also of `forebay tag`. */
enum err put_headers_tag(struct buf *out, const char *pair, struct errbuf *eb) MUST_CHECK;
