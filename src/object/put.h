/* put: what native writes, write-throughs and parts share. */
#pragma once
#include "base/md5.h"
#include "object/hasher.h"
#include "object/internal.h"
#include "object/quota.h"

enum put_kind { PUT_NATIVE, PUT_PART, PUT_WRITE_THROUGH, PUT_PART_WRITE_THROUGH };

struct object_put {
    struct object_service *s;
    const struct map_bucket *bucket; /* one reference */
    struct span key;
    enum put_kind kind;
    struct object_put_options options;
    struct disks_writer *writer; /* owned */
    struct quota_claim claim;    /* released with the writer */
    struct md5 md5;
    bool hashed; /* sums.md5 is set */
    bool
        lags; /* `lag` hashes instead of `md5`; the lagging bytes are in the writer's buffer */
    struct hash_stream lag;
    unsigned char *room; /* from object_put_room(); borrowed from the writer */
    struct checksum sum;
    struct object_sums sums;
    bool summed;
    struct write_lock *write_lock; /* PUT_WRITE_THROUGH, while it is in flight */
    char *upload_text;       /* PUT_PART_WRITE_THROUGH: the backend's upload id; owned */
    struct upload_id upload; /* PUT_PART */
    uint32_t part_number;
    char key_text[];
};
enum err put_new(struct object_service *s, const struct map_bucket *b, struct span key,
                 const struct object_put_options *o, enum put_kind kind,
                 struct object_put **out, struct errbuf *eb) MUST_CHECK;

/* write_through.c. The body is in p->writer, whole and verified. */
enum err put_write_through(struct object_put *p, const struct object_meta *meta,
                           struct arena *a, struct object_info *out,
                           struct errbuf *eb) MUST_CHECK;
enum err put_part_write_through(struct object_put *p, const struct object_meta *meta,
                                struct arena *a, struct object_info *out,
                                struct errbuf *eb) MUST_CHECK;
enum err delete_write_through(struct object_service *s, const struct map_bucket *b,
                              struct span key, const struct object_condition *c,
                              struct errbuf *eb) MUST_CHECK;
/* Headers of a backend request that carry a condition (NULL: none); in the arena. */
struct s3_header *headers_of_condition(const struct object_condition *c, struct arena *a,
                                       uint32_t *count);
/* After a change at the backend that left no body here (a multipart Complete): ends the cached version. */
enum err write_through_drop_local(struct object_service *s, const struct map_bucket *b,
                                  struct span key, struct errbuf *eb) MUST_CHECK;
/* Headers of a backend request that carry `meta`; in the arena. */
struct s3_header *headers_of_meta(const struct object_meta *meta, struct arena *a,
                                  uint32_t *count);
enum store_versioning versioning_of(const struct map_bucket *b);

/* multipart.c: ids of native uploads as text. */
bool native_id(struct span text, struct upload_id *out);
struct span id_text(struct arena *a, const struct upload_id *id);
