/* make_bucket: creates, changes or renames a bucket in the map, and logs its record on the disks, so that disks alone suffice
 * to recover (decision D6). */
#include "api/access.h"
#include "base/log.h"
#include "rt/time.h"

static enum err
note(struct request *q, const struct map_bucket *b, struct errbuf *eb)
{
    struct buf record;
    enum err rc;

    if (q->api->options.disks == NULL)
        return ERR_OK;
    buf_init(&record, META_VALUE_MAX);
    map_bucket_encode(b, &record);
    rc = disks_bucket_note(q->api->options.disks, b->id, buf_span(&record), eb);
    buf_fini(&record);
    return rc;
}

static enum err
make_bucket_work(struct request *q, const struct map_bucket_id *id,
                 const struct map_backend *backend,
                 const struct map_bucket_access *access, const struct map_bucket **made,
                 struct errbuf *eb)
{
    struct map_service *map = q->api->options.map;
    struct map_bucket_access own = {.owner = access_caller_name(q)};
    enum err rc = map_bucket_create_for(map, id, access != NULL ? access : &own, backend,
                                        (int64_t)(rt_wall_ns() / 1000000u), made, eb);

    if (rc != ERR_OK)
        return rc;
    rc = note(q, *made, eb);
    /* Roll back: a bucket without its record in the log must not exist. The client will retry. */
    if (rc != ERR_OK &&
        map_bucket_remove(map, span_of((*made)->uname), (*made)->id, NULL) != ERR_OK)
        LOG0(LOG_WARN, "bucket.made", "a bucket stands without its record in the log");
    return rc;
}

enum err
make_bucket_as(struct request *q, const struct map_bucket_id *id,
               const struct map_backend *backend, const struct map_bucket_access *access,
               const struct map_bucket **made, struct errbuf *eb)
{
    enum err rc = make_bucket_work(q, id, backend, access, made, eb);

    AUDIT_CHANGE(q, backend != NULL ? "bucket.attach" : "bucket.create", rc,
                 L_SPAN("bucket", id->name),
                 L_TEXT("remote", backend != NULL ? backend->bucket : ""));
    return rc;
}

enum err
make_bucket(struct request *q, struct span name, const struct map_backend *backend,
            const struct map_bucket_access *access, const struct map_bucket **made,
            struct errbuf *eb)
{
    struct map_bucket_id id = {
        .provider = map_provider_of(backend), .ns = SPAN(""), .name = name};

    return make_bucket_as(q, &id, backend, access, made, eb);
}

enum err
change_bucket(struct request *q, const struct map_bucket *b, map_bucket_edit *change,
              void *arg, struct errbuf *eb)
{
    const struct map_bucket *changed = NULL;
    enum err rc = map_bucket_change(q->api->options.map, span_of(b->uname), b->id, change,
                                    arg, &changed, eb);

    if (rc == ERR_OK)
        rc = note(q, changed, eb);
    AUDIT_CHANGE(q, "bucket.set", rc, L_TEXT("bucket", b->name));
    map_bucket_drop(&changed);
    return rc;
}

enum err
rename_bucket(struct request *q, const struct map_bucket *b,
              const struct map_bucket_id *to, struct errbuf *eb)
{
    const struct map_bucket *renamed = NULL;
    enum err rc = map_bucket_rename(q->api->options.map, b, to, &renamed, eb);

    if (rc == ERR_OK)
        rc = note(q, renamed, eb);
    AUDIT_CHANGE(q, "bucket.rename", rc, L_TEXT("bucket", b->name),
                 L_SPAN("to", to->name));
    map_bucket_drop(&renamed);
    return rc;
}
