/* map: what every request needs to know of the cluster: the nodes, the buckets, where a key lies. An immutable
 * snapshot, replaced whole; taken from `meta`.
 *
 * Readers: any loop, between two switches, without a lock: map_now() and what hangs off it stay valid until
 * the fiber switches; what is needed longer is copied (struct map_bucket is held by map_bucket_ref()).
 * Publication: a watch on meta (meta/follow.h) replaces the snapshot, also after a change of this node.
 * Changes: any fiber; they go to meta by compare-and-set on the revision that was read, and are visible here when they
 * return.
 */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "meta/meta.h"
#include "wire/s3policy.h"

#define MAP_BUCKET_NAME_MAX 64
#define MAP_NAMESPACE_MAX   64
#define MAP_BUCKETS_MAX     10000

/* Who has the objects of a bucket: this cluster (AIS), or a remote. */
enum map_provider {
    MAP_AIS,
    MAP_AWS,
    MAP_GCP,
    MAP_AZURE,
    MAP_HTTP,
    MAP_OCI,
    MAP_PROVIDERS_
};
const char *map_provider_name(
    enum map_provider p); /* as AIStore spells it: "ais", "aws", ... */

/* (provider, namespace, name) identifies a bucket. The S3 API has one flat space of names, in which a name exists once
 * whatever the provider. A *qualified* bucket is outside of it: only the AIS API reaches it, by all three. */
struct map_bucket_id {
    enum map_provider provider;
    struct span ns, name; /* ns: "" is the global namespace */
    bool qualified;
};
#define MAP_UNAME_MAX (16 + MAP_NAMESPACE_MAX + MAP_BUCKET_NAME_MAX)
/* The unique text of an identity, in `out`. */
struct span map_uname(const struct map_bucket_id *id, char out[MAP_UNAME_MAX + 1]);

/* Where the name of an endpoint may lead: what is loopback, link-local or metadata only where the address itself is the endpoint, or
 * with ANY. Unsaid: as private. */
enum map_network {
    MAP_NETWORK_UNSAID,
    MAP_NETWORK_PUBLIC,
    MAP_NETWORK_PRIVATE,
    MAP_NETWORK_ANY
};
struct map_backend {
    char *endpoint; /* "http://127.0.0.1:8333" or NULL: AWS by region */
    char *region;   /* "us-east-1" */
    char *bucket;   /* its name there */
    char *
        credentials; /* name of the stored credential set; NULL: the server's own AWS chain; "" anonymous */
    bool path_style;
    bool
        plain_http; /* a web server, read only: `bucket` is a path there, which may be empty */
    bool requester_pays;
    enum map_network network;
};
enum map_versioning { MAP_UNVERSIONED, MAP_VERSIONED, MAP_SUSPENDED };
#define MAP_PINS_MAX           64u         /* of a bucket, together at most ... */
#define MAP_PIN_BYTES          8192u       /* ... so long */
#define MAP_PROPERTIES_MAX     64u         /* of a bucket, together at most ... */
#define MAP_PROPERTY_BYTES_MAX 8192u       /* ... so long */
#define MAP_DOCUMENT_MAX       (24u << 10) /* of a CORS document, and of bucket tags */
/* Who owns what others write into a bucket. Unsaid: as OBJECT_WRITER. */
enum map_ownership {
    MAP_OWNERSHIP_UNSAID,
    MAP_OBJECT_WRITER,
    MAP_BUCKET_OWNER_PREFERRED,
    MAP_BUCKET_OWNER_ENFORCED /* no lists: ACLs are refused and give nothing */
};
/* Bits of a public access block; MAP_BLOCK_SET: there is one, maybe with no other bit. */
enum {
    MAP_BLOCK_PUBLIC_ACLS = 1,
    MAP_IGNORE_PUBLIC_ACLS = 2,
    MAP_BLOCK_PUBLIC_POLICY = 4,
    MAP_RESTRICT_PUBLIC_BUCKETS = 8,
    MAP_BLOCK_SET = 16
};
struct map_bucket {
    uint32_t refs;     /* atomic */
    uint64_t id;       /* never reused */
    uint64_t revision; /* of its record in meta; 0: it is not there yet */
    enum map_provider provider;
    char *ns, *name;
    bool qualified;
    char *
        uname; /* unique text of the identity: NAME, or PROVIDER@NS@NAME of a qualified bucket; map_bucket_find() */
    char *immutable_name; /* placement hashes it: a rename moves nothing */
    int64_t created_ms;
    bool cached;
    struct map_backend backend; /* when cached */
    /* Settings, changed by map_bucket_change(). */
    bool closing;      /* it is being removed: no write is accepted */
    char **properties; /* "NAME=VALUE", which this program keeps and does not use */
    unsigned property_count;
    unsigned copies;     /* 0: never said, one */
    unsigned min_copies; /* a write is taken with so many; 0: all of them */
    enum map_versioning versioning;
    bool anonymous_read; /* GET, HEAD and listings without keys */
    char *cors, *tags;   /* documents, as given; NULL: none */
    char *owner;         /* name of a user; NULL: no user in particular */
    char *acl;           /* wire/s3acl.h; NULL: private */
    char *policy;        /* JSON as given; NULL: none */
    const struct s3policy *parsed_policy; /* the same, parsed; map_bucket_set_policy() */
    enum map_ownership ownership;
    unsigned public_block;               /* MAP_BLOCK_... */
    uint64_t quota_bytes, quota_objects; /* 0: none */
    uint64_t upload_ttl_ms; /* an upload in progress is aborted after so long; 0: never */
    /* Of cached buckets. */
    uint64_t cache_budget; /* bytes kept here at most; 0: the node's alone */
    uint64_t ttl_ms;       /* a kept version is asked for again after so long; 0: never */
    bool fail_stale;       /* what can't be asked for again is not served */
    char **pins;           /* prefixes of keys that are never evicted */
    unsigned pin_count;
};
struct map; /* one snapshot */
struct map_service;

/* The provider of a bucket of the flat space; `backend` NULL: native. */
enum map_provider map_provider_of(const struct map_backend *backend);

/* Loads the snapshot from `meta` and follows it. */
enum err map_start(struct meta *m, struct map_service **out,
                   struct errbuf *eb) MUST_CHECK;
void map_stop(struct map_service **sp);

const struct map *map_now(const struct map_service *s);
/* Of the snapshot: each later one has a higher one. */
uint64_t map_serial(const struct map *m);
/* True if some bucket has a policy: without one nothing asks for it. */
bool map_has_policies(const struct map *m);
/* By `uname`: of a bucket of the flat space its name. NULL when there is none. Borrowed until the next switch;
 * map_bucket_ref() to keep it. */
const struct map_bucket *map_bucket_find(const struct map *m, struct span uname);
/* The value of a property, borrowed; NULL: it has none. */
const char *map_bucket_property(const struct map_bucket *b, const char *name);
uint32_t map_bucket_count(const struct map *m);
const struct map_bucket *map_bucket_at(const struct map *m,
                                       uint32_t index); /* in byte order of unames */
const struct map_bucket *map_bucket_ref(const struct map_bucket *b);
void map_bucket_drop(const struct map_bucket **bp);

/* ---- the epoch: epoch.c ---- */

/* Versions of objects are (map epoch, counter). Each start of a node has a higher epoch than any that it used before, and
 * so has each change of the map of a cluster; a change of a bucket has none of its own. With one node the epoch is a key of
 * the embedded meta, and the superblocks of the disks hold it too: the highest of them counts (disks_open()). */

/* The epoch behind the one that meta has: the least for this start. Changes nothing. May switch. */
enum err map_epoch_next(struct meta *m, uint64_t *out, struct errbuf *eb) MUST_CHECK;
/* Makes it durable; a lower one than meta has is ignored. May switch. */
enum err map_epoch_store(struct meta *m, uint64_t epoch, struct errbuf *eb) MUST_CHECK;
/* True of a key that belongs to this node or cluster alone: no backup takes it, no restore writes it. */
bool map_is_own_key(struct span key);

/* Whether native buckets exist, and a change that leaves everything as it is, to be made together with another one: that
 * fails with ERR_PRECONDITION if a bucket was made since. Needs no map_start(). *fence borrows from `a`. May switch. */
enum err map_bucket_fence(struct meta *m, struct arena *a, struct meta_change *fence,
                          bool *native, struct errbuf *eb) MUST_CHECK;

/* ERR_EXISTS when the name is taken. `backend` NULL: native. On ERR_OK *out is one reference. May switch. */
enum err map_bucket_create(struct map_service *s, struct span name,
                           const struct map_backend *backend, int64_t now_ms,
                           const struct map_bucket **out, struct errbuf *eb) MUST_CHECK;
/* The owner, the list and the ownership of a new bucket; each may be left out. */
struct map_bucket_access {
    struct span owner, acl;
    enum map_ownership ownership;
};
/* The same with a whole identity. ERR_BAD_REQUEST: a name or namespace of a qualified bucket has 1 to 64 (namespace: 0 to
 * 64) letters, digits, '-', '_' and '.'. */
enum err map_bucket_create_as(struct map_service *s, const struct map_bucket_id *id,
                              const struct map_backend *backend, int64_t now_ms,
                              const struct map_bucket **out,
                              struct errbuf *eb) MUST_CHECK;
enum err map_bucket_create_for(struct map_service *s, const struct map_bucket_id *id,
                               const struct map_bucket_access *access,
                               const struct map_backend *backend, int64_t now_ms,
                               const struct map_bucket **out,
                               struct errbuf *eb) MUST_CHECK;
/* Begins or undoes a removal: writes are refused from here on, on all nodes, also after a restart. May switch. */
enum err map_bucket_set_closing(struct map_service *s, const struct map_bucket *b,
                                bool closing, struct errbuf *eb) MUST_CHECK;
/* The caller has seen that the bucket with this id is empty. ERR_NO_BUCKET also when another one has the name now. May
 * switch. */
enum err map_bucket_remove(struct map_service *s, struct span uname, uint64_t id,
                           struct errbuf *eb) MUST_CHECK;
/* Changes settings: `change` gets a copy of its own, which is stored and published when it returns ERR_OK. It runs on
 * loop 0 and must not switch; it frees texts and allocates new ones. It runs again, on a new copy, when another node has
 * changed the bucket meanwhile. ERR_NO_BUCKET: it is gone, or another one has the name.
 * On ERR_OK *out is one reference. May switch. */
typedef enum err map_bucket_edit(struct map_bucket *b, void *arg, struct errbuf *eb);
enum err map_bucket_change(struct map_service *s, struct span name, uint64_t id,
                           map_bucket_edit *change, void *arg,
                           const struct map_bucket **out, struct errbuf *eb) MUST_CHECK;
/* Gives a native bucket another name, with all that is in it, in one step: its id and what placement hashes stay. ERR_EXISTS;
 * ERR_NO_BUCKET: it is gone, or is being removed; ERR_BAD_REQUEST: the name, or it has a policy. On ERR_OK *out is one reference.
 * May switch. */
enum err map_bucket_rename(struct map_service *s, const struct map_bucket *b,
                           const struct map_bucket_id *to, const struct map_bucket **out,
                           struct errbuf *eb) MUST_CHECK;
/* A private copy that may be changed. On ERR_OK *out is one reference. */
enum err map_bucket_copy(const struct map_bucket *b, struct map_bucket **out,
                         struct errbuf *eb) MUST_CHECK;
/* Of a private copy: replaces the policy; json.len 0 removes it. ERR_BAD_REQUEST says what is wrong with it. */
enum err map_bucket_set_policy(struct map_bucket *b, struct span json,
                               struct errbuf *eb) MUST_CHECK;
/* The record of a bucket in meta and in the write-ahead logs of the disks (docs/formats.md). */
void map_bucket_encode(const struct map_bucket *b, struct buf *out);
