/* cloud: the backends of cached buckets. One interface, a file for each kind; today `s3`.
 *
 * Calls retry what may be retried, with full jitter and within a budget; their result is final. Every request and
 * object byte is counted (M_BACKEND_*). Fibers of any loop; everything may switch.
 */
#pragma once
#include "client/s3.h"
#include "cloud/secrets.h"
#include "map/map.h"

struct cloud; /* all backends of a node */
struct cloud_get;

struct cloud_options {
    uint64_t retry_ms; /* longest time spent on retries of one call; 0: 20,000 */
    unsigned
        retries; /* of one call at most; 0: none. A GET gets a new budget after each RETRY_RENEW_BYTES */
    uint64_t timeout_ms;  /* to the first byte, and between bytes; 0: 30,000 */
    uint64_t connect_ms;  /* 0: 5,000 */
    unsigned connections; /* to one backend, each loop; 0: 64 */
    uint64_t rate;        /* bytes a second of objects from one endpoint; 0: no limit */
    struct rt_dir
        *secrets; /* folder of stored credential sets, sealed; NULL: none are stored */
    struct rt_dir *state;         /* the folder in which the sealing key is made ... */
    const char *key_file;         /* ... unless this file has it */
    struct shared_secrets shared; /* with the other nodes of the cluster */
    const char *ca_file;
    struct s3_proxy_options proxy; /* read at the start */
};
enum err cloud_start(const struct cloud_options *o, struct cloud **out,
                     struct errbuf *eb) MUST_CHECK;
void cloud_stop(struct cloud **cp);
/* Is any remote down, as far as known? And the one of `b`? Any loop. */
bool cloud_any_down(const struct cloud *c);
bool cloud_is_down(struct cloud *c, const struct map_bucket *b);

/* The decrypted credential sets, for a backup that seals them again. NULL: there are none. */
struct secrets *cloud_secrets(struct cloud *c);

#define CLOUD_SECRET_NAME 96
/* Stores a credential set (sealed, in o->secrets) under a name of its own, "HINT-" and random digits: no later set
 * can be found under it. */
enum err cloud_credentials_store(struct cloud *c, const char *hint,
                                 const struct s3_credentials *cr,
                                 char name[CLOUD_SECRET_NAME],
                                 struct errbuf *eb) MUST_CHECK;
/* Removes a set that cloud_credentials_store() named; NULL and "" are fine. A failure is logged. */
void cloud_credentials_remove(struct cloud *c, const char *name);
/* Can the remote bucket be read with these settings? Checked before a bucket is attached. `region`: the actual
 * region, when `b` names none and it differs from the default; else "". When b->network is unsaid this sets it:
 * the endpoint's name leads to the public network or to a private one, and may not lead elsewhere from then on. A
 * plain web server is not asked: there is no request that all of them answer. */
#define CLOUD_REGION_TEXT 32
enum err cloud_probe(struct cloud *c, struct map_backend *b,
                     char region[CLOUD_REGION_TEXT], struct errbuf *eb) MUST_CHECK;

enum err cloud_head(struct cloud *c, const struct map_bucket *b, struct span key,
                    struct arena *a, struct s3_object_info *out,
                    struct errbuf *eb) MUST_CHECK; /* ERR_NOT_FOUND */
/* The same; ERR_OK with *refused: the backend answers, but refuses HEAD. A GET may work. */
enum err cloud_head_or_refused(struct cloud *c, const struct map_bucket *b,
                               struct span key, struct arena *a,
                               struct s3_object_info *out, bool *refused,
                               struct errbuf *eb) MUST_CHECK;
/* Could the ETag of this answer soon belong to another version? An ETag made of seconds and length (one that is no
 * MD5, of an object without a version) identifies a version only once that second is over by the remote's clock.
 * Until then nothing is kept or joined by it. */
bool cloud_etag_is_young(const struct s3_object_info *from);
/* The body from `first` (to `last`, UINT64_MAX: the end). A broken transfer continues where it broke, by a range
 * with If-Match, unless its ETag is young; ERR_BACKEND if the object has changed. A range behind the object's end:
 * ERR_RANGE. */
enum err cloud_get_begin(struct cloud *c, const struct map_bucket *b, struct span key,
                         uint64_t first, uint64_t last, struct span if_match,
                         struct arena *a, struct s3_object_info *out,
                         struct cloud_get **get, struct errbuf *eb) MUST_CHECK;
enum err cloud_get_read(struct cloud_get *g, void *buf, size_t len, size_t *n,
                        struct errbuf *eb) MUST_CHECK;
void cloud_get_end(struct cloud_get **gp);
/* Marks it as background work until *urgent, which is borrowed: when the rate is limited readers come first. */
void cloud_get_background(struct cloud_get *g, const bool *urgent);

/* Reads the body at any offset, so that it can be sent again. */
typedef enum err cloud_source(void *arg, uint64_t offset, void *buf, size_t len,
                              size_t *n, struct errbuf *eb);
enum err cloud_put(struct cloud *c, const struct map_bucket *b, const struct s3_put *p,
                   cloud_source *read, void *arg, struct arena *a, struct span *etag,
                   bool *unknown, struct errbuf *eb) MUST_CHECK;
/* *unknown: there was no clear answer, so the delete may have happened. With conditions as headers the backend
 * checks them; without, or after an earlier try without an answer, a missing object is ERR_OK. */
enum err cloud_delete(struct cloud *c, const struct map_bucket *b, struct span key,
                      const struct s3_header *headers, uint32_t header_count,
                      bool *unknown, struct errbuf *eb) MUST_CHECK;
/* Tags of an object, as "a=b&c=d" (wire/s3tags.h); empty: none. */
enum err cloud_tags_get(struct cloud *c, const struct map_bucket *b, struct span key,
                        struct arena *a, struct span *tags, struct errbuf *eb) MUST_CHECK;
enum err cloud_tags_set(struct cloud *c, const struct map_bucket *b, struct span key,
                        struct span tags, struct errbuf *eb) MUST_CHECK;
enum err cloud_list(struct cloud *c, const struct map_bucket *b, const struct s3_list *l,
                    struct arena *a, struct s3_list_page *out, bool *down,
                    struct errbuf *eb) MUST_CHECK; /* *down: no answer, or 5xx */
enum err cloud_upload_begin(struct cloud *c, const struct map_bucket *b, struct span key,
                            const struct s3_header *headers, uint32_t count,
                            struct arena *a, struct span *upload_id,
                            struct errbuf *eb) MUST_CHECK;
/* `w` without its bucket, which is the remote's. */
enum err cloud_upload_complete(struct cloud *c, const struct map_bucket *b,
                               const struct s3_completion *w, struct arena *a,
                               struct span *etag, bool *unknown,
                               struct errbuf *eb) MUST_CHECK;
enum err cloud_upload_abort(struct cloud *c, const struct map_bucket *b, struct span key,
                            struct span upload_id, struct errbuf *eb) MUST_CHECK;
enum err cloud_upload_list(struct cloud *c, const struct map_bucket *b,
                           const struct s3_upload_list *l, struct arena *a,
                           struct s3_upload_page *out, struct errbuf *eb) MUST_CHECK;
enum err cloud_part_list(struct cloud *c, const struct map_bucket *b, struct span key,
                         struct span upload_id, uint32_t after, uint32_t max,
                         struct arena *a, struct s3_part_page *out,
                         struct errbuf *eb) MUST_CHECK;
