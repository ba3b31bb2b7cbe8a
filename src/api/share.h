/* share: what one node lists of a bucket: the keys it owns, or their versions or uploads; and such a page as bytes, from
 * node to node. docs/formats.md, section 14, "page".
 *
 * The parser takes bytes of another node: it checks every length. Any loop.
 */
#pragma once
#include "base/arena.h"
#include "nodes/nodes.h"
#include "object/object.h"
#include "wire/query.h"

#define SHARE_NAMES_MAX 1000u
#define SHARE_ID_MAX    1024u
#define SHARE_PAGE_MAX  (4u << 20)

enum share_kind { SHARE_KEYS, SHARE_VERSIONS, SHARE_UPLOADS, SHARE_KINDS_ };
struct share_ask {
    enum share_kind kind;
    struct span prefix, delimiter;
    struct span after;     /* names behind this one; a common prefix skips its keys */
    struct span after_sub; /* of `after`: the version or upload behind which it goes on */
    uint32_t max;          /* 1 to SHARE_NAMES_MAX */
};
/* A key, version, upload or common prefix. */
struct share_entry {
    struct span name;
    struct span etag; /* or the id of an upload */
    char version[OBJECT_VERSION_TEXT];
    bool is_prefix, is_marker, latest;
    uint8_t algorithm, type; /* of an upload's checksum */
    uint64_t size;
    int64_t time_ms;
};
struct share_page {
    struct share_entry *entries; /* in the arena, byte order of names */
    uint32_t count;
    bool truncated, stale;
    struct span next, next_sub; /* where it goes on when it is truncated */
};

void share_page_encode(const struct share_page *p, struct buf *out);
/* ERR_CORRUPT. Texts lie in the arena. */
enum err share_page_decode(struct span bytes, struct arena *a, struct share_page *out,
                           struct errbuf *eb) MUST_CHECK;
void share_ask_put(struct buf *out, const struct share_ask *ask);
/* ERR_BAD_REQUEST. */
enum err share_ask_get(const struct query *q, struct share_ask *out,
                       struct errbuf *eb) MUST_CHECK;
/* From this node's rows. May switch. */
enum err share_list(struct object_service *s, const struct map_bucket *b,
                    const struct share_ask *ask, struct arena *a, struct share_page *out,
                    struct errbuf *eb) MUST_CHECK;
/* The same without keys that another node owns by the map of now. */
enum err share_list_owned(const struct nodes *n, struct object_service *s,
                          const struct map_bucket *b, const struct share_ask *ask,
                          struct arena *a, struct share_page *out,
                          struct errbuf *eb) MUST_CHECK;
