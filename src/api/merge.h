/* merge: listings over all nodes of a cluster. Each node lists the keys it owns, in order; the gateway merges. Keys, versions
 * and uploads of two nodes are disjoint; common prefixes are not.
 *
 * Each node is asked for its part of the page and 32 names more, all of them at once. A node whose page runs out is asked
 * again. One that is away makes the whole listing fail: ERR_UNAVAILABLE, for a list must not leave out what is there.
 * Without a cluster, and for a bucket with a remote, which any node can list, each call is the one of object.h.
 * Memory: names in the arena, about two pages of them, however many keys there are.
 */
#pragma once
#include "api/internal.h"

/* As object_list(), object_version_list(), object_upload_list(). May switch. */
enum err merge_list(struct request *q, const struct map_bucket *b,
                    const struct object_list_options *o, struct arena *a,
                    struct object_page *out, struct errbuf *eb) MUST_CHECK;
enum err merge_versions(struct request *q, const struct map_bucket *b,
                        const struct object_version_list *o, struct arena *a,
                        struct object_version_page *out, struct errbuf *eb) MUST_CHECK;
enum err merge_uploads(struct request *q, const struct map_bucket *b,
                       const struct object_upload_list_options *o, struct arena *a,
                       struct object_upload_page *out, struct errbuf *eb) MUST_CHECK;
