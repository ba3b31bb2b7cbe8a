/* etcd_json: what the backend and the JSON gateway of etcd (version 3.4 and later) say to each other. Bytes only, no I/O.
 *
 * The gateway is protobuf as JSON: keys and values are base64, 64-bit numbers are texts, and a member whose value is zero
 * or empty is left out. Keys of this room stand in etcd behind a prefix, which these functions add and take off.
 *
 * Replies come from outside: they are read by jansson, checked, and copied into an arena with a limit. Any loop.
 * Only this room includes this header.
 */
#pragma once
#include "base/buf.h"
#include "meta/meta.h"

#define ETCD_REPLY_MAX  (12u << 20) /* bytes of one reply, and of one line of a watch */
#define ETCD_PREFIX_MAX 128u

/* ---- requests ---- */

/* Keys of `r` behind its prefix and `after`, at most `limit`; as of `revision`, 0: now. */
void etcd_put_range(struct buf *out, struct span prefix, const struct meta_range *r,
                    uint32_t limit, uint64_t revision);
/* The conditions as compares of mod_revision. Success: the changes, then the reads. Otherwise: the revisions of the keys
 * that have a condition, in their order, then the reads. At most 128 operations, which is etcd's default limit. */
void etcd_put_txn(struct buf *out, struct span prefix, const struct meta_txn *t);
/* All keys behind `prefix`, from `revision` on. */
void etcd_put_watch(struct buf *out, struct span prefix, uint64_t revision);
void etcd_put_login(struct buf *out, const char *user, const char *password);

/* ---- replies ---- */

struct etcd_found {
    uint64_t cluster, revision; /* of the store when it answered */
    struct meta_pair *pairs;    /* in the arena; keys without the prefix */
    uint32_t count;
    bool more;
};
/* ERR_BACKEND: it is no such reply. ERR_TOO_LARGE: it does not fit into `a`. */
enum err etcd_found_parse(struct span json, struct span prefix, struct arena *a,
                          struct etcd_found *out, struct errbuf *eb) MUST_CHECK;

struct etcd_outcome {
    uint64_t cluster, revision;
    bool succeeded;
    struct meta_pair
        *reads; /* one for each range of the branch; revision 0: no such key */
    uint32_t read_count;
};
enum err etcd_outcome_parse(struct span json, struct arena *a, struct etcd_outcome *out,
                            struct errbuf *eb) MUST_CHECK;

struct etcd_events {
    uint64_t cluster, revision;
    bool created, canceled;
    uint64_t
        compacted; /* the watch began at a revision that is gone; this is the first one left */
    char why[160];     /* of `canceled` */
    struct span *keys; /* in the arena, without the prefix */
    uint32_t count;
};
/* One line of a watch. */
enum err etcd_events_parse(struct span json, struct span prefix, struct arena *a,
                           struct etcd_events *out, struct errbuf *eb) MUST_CHECK;
/* *token is heap memory. */
enum err etcd_token_parse(struct span json, char **token, struct errbuf *eb) MUST_CHECK;

/* The gRPC code of an error reply, and its sentence cut to the room of `why`; 0: it is no such reply. */
unsigned etcd_error_parse(struct span json, struct errbuf *why);
