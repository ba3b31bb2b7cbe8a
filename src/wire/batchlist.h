/* batchlist: the body of `POST /BUCKET?batch`: which objects, ranges and members are wanted, in which order.
 *
 * As text, an item a line: NAME, or NAME TAB FIRST-LAST (both included; "FIRST-": to the end). CR before LF and empty lines are
 * ignored. What part of a text NAME is a member of a shard is for the caller to decide.
 * As JSON: {"items": [ITEM, ...], "on_missing": "mark" | "fail", "format": "tar" | ...}, or the array alone. ITEM is a name, or
 * {"object": NAME, "member": NAME, "bucket": NAME, "start": N, "end": N}: all but "object" may be left out.
 * Pure; any thread. docs/s3.md has the contract.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

#define BATCHLIST_ITEMS_MAX 32768u
#define BATCHLIST_BYTES_MAX (4u << 20)
#define BATCHLIST_NAME_MAX  4096u
#define BATCHLIST_TO_END    UINT64_MAX

struct batchlist_item {
    struct span name;
    struct span member;   /* JSON; `at` NULL: not given */
    struct span bucket;   /* JSON; `at` NULL: the bucket of the request */
    uint64_t first, last; /* `last` BATCHLIST_TO_END: to the end */
    bool plain;           /* of text: the name may have a member in it */
};
struct batchlist {
    struct batchlist_item *items; /* in the arena */
    uint32_t count;
    bool fail_on_missing, says_missing;
    struct span format; /* empty: not given */
};
/* ERR_BAD_REQUEST, ERR_TOO_LARGE: names the line or the index of the item, and the limit. Texts borrow from `text`, or lie in the arena. */
enum err batchlist_parse_text(struct span text, struct arena *a, struct batchlist *out,
                              struct errbuf *eb) MUST_CHECK;
enum err batchlist_parse_json(struct span text, struct arena *a, struct batchlist *out,
                              struct errbuf *eb) MUST_CHECK;
