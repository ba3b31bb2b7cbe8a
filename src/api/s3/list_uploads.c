/* list_uploads: the uploads of a bucket that are in progress. */
#include <assert.h>

#include "api/access.h"
#include "api/merge.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"

#define RESULT_MAX (8u << 20)

struct request_of_uploads {
    struct s3_page_query page;
    struct span key_marker, id_marker;
};

static enum err
list_uploads_read_parameters(struct request *q, struct request_of_uploads *l)
{
    enum err rc = s3_page_query(q, "max-uploads", &l->page);

    if (rc != ERR_OK)
        return rc;
    l->key_marker = query_get(&q->query, "key-marker");
    l->id_marker = query_get(&q->query, "upload-id-marker");
    if (l->key_marker.len > S3_KEY_MAX || l->id_marker.len > S3_UPLOAD_ID_MAX)
        return s3_fault(q, S3_KeyTooLongError);
    return ERR_OK;
}

static void
put_upload(struct xml *x, const struct object_upload *u, const struct s3_page_query *p,
           struct span owner)
{
    char date[NUM_DATE_TEXT];

    if (u->upload_id.len == 0) {
        s3_put_common_prefix(x, u->key, p);
        return;
    }
    date_iso(u->begun_ms, date);
    xml_open(x, "Upload");
    xml_key(x, "Key", u->key, p->url);
    xml_span(x, "UploadId", u->upload_id);
    s3_xml_initiator(x, owner);
    xml_text(x, "StorageClass", "STANDARD");
    xml_text(x, "Initiated", date);
    xml_close(x);
}

/* The owners of the uploads of a page, in the request's memory. One record is read for each upload: only where users other
 * than the owner of the bucket can own one. */
static enum err
owners_of_uploads(struct request *q, const struct object_upload_page *page,
                  struct span **out)
{
    struct span *owners =
        arena_alloc(request_work(q), (page->count + 1) * sizeof *owners);
    struct span of_bucket = access_owner_name(q->bucket);
    bool others = of_bucket.len > 0 && !q->bucket->cached &&
                  q->bucket->ownership != MAP_BUCKET_OWNER_ENFORCED;
    struct arena *scratch = arena_new(KIB(4), KIB(64));
    enum err rc = ERR_OK;

    for (uint32_t i = 0; i < page->count && rc == ERR_OK; i++) {
        const struct object_upload *u = &page->entries[i];
        struct object_meta meta;
        struct errbuf eb = {{0}};

        owners[i] = of_bucket;
        if (!others || u->upload_id.len == 0)
            continue;
        arena_reset(scratch);
        rc = object_upload_meta(q->api->options.object, q->bucket, u->key, u->upload_id,
                                scratch, &meta, &eb);
        if (rc == ERR_OK)
            owners[i] = arena_span(request_work(q), s3_owner_of(q->bucket, meta.acl));
        else if (rc == ERR_NO_UPLOAD)
            rc = ERR_OK; /* it ended since the page was made */
        else
            fault_from(q, rc, &eb);
    }
    arena_free(&scratch);
    assert((rc == ERR_OK) == (q->fault.code == S3_OK));
    *out = owners;
    return rc;
}

static void
put_uploads(struct request *q, struct xml *x, const struct request_of_uploads *l,
            const struct object_upload_page *page, const struct span *owners)
{
    const struct object_upload *last =
        page->count > 0 ? &page->entries[page->count - 1] : NULL;

    xml_span(x, "Bucket", q->name.bucket);
    xml_key(x, "KeyMarker", l->key_marker, l->page.url);
    xml_span(x, "UploadIdMarker", l->id_marker);
    if (page->truncated && last != NULL) {
        xml_key(x, "NextKeyMarker", last->key, l->page.url);
        xml_span(x, "NextUploadIdMarker", last->upload_id);
    }
    s3_put_page_query(x, "MaxUploads", &l->page);
    xml_bool(x, "IsTruncated", page->truncated);
    for (uint32_t i = 0; i < page->count; i++)
        if (page->entries[i].upload_id.len > 0)
            put_upload(x, &page->entries[i], &l->page, owners[i]);
    for (uint32_t i = 0; i < page->count; i++)
        if (page->entries[i].upload_id.len == 0)
            put_upload(x, &page->entries[i], &l->page, owners[i]);
}

enum err
s3_list_uploads(struct request *q)
{
    struct request_of_uploads *l = arena_alloc(q->arena, sizeof *l);
    struct object_upload_list_options o;
    struct object_upload_page page = {0};
    struct span *owners = NULL;
    struct errbuf eb = {{0}};
    struct s3_document d;
    enum err rc;

    *l = (struct request_of_uploads){0};
    rc = list_uploads_read_parameters(q, l);
    if (rc != ERR_OK)
        return rc;
    o = (struct object_upload_list_options){.prefix = l->page.prefix,
                                            .delimiter = l->page.delimiter,
                                            .after_key = l->key_marker,
                                            .after_id = l->id_marker,
                                            .max = (uint32_t)l->page.max};
    if (l->page.max > 0)
        rc = merge_uploads(q, q->bucket, &o, request_work(q), &page, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    rc = owners_of_uploads(q, &page, &owners);
    if (rc != ERR_OK)
        return rc;
    s3_document_begin(&d, RESULT_MAX, "ListMultipartUploadsResult");
    put_uploads(q, &d.xml, l, &page, owners);
    return s3_document_answer(q, &d);
}
