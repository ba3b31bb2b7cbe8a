/* evict: what is kept of an attached bucket goes, here only.
 *
 *     POST /_/buckets/NAME  {"evict": "PREFIX"}: 200 with {"objects", "bytes", "kept"}
 */
#include <stdlib.h>
#include <string.h>

#include "api/admin/admin.h"
#include "base/mem.h"
#include "object/evict.h"

#define BODY_MAX KIB(8)

static enum err
evict_all(struct request *q, const char *prefix, struct object_evicting *e,
          struct errbuf *eb)
{
    enum err rc = ERR_OK;

    *e = (struct object_evicting){.prefix = span_of(prefix)};
    while (rc == ERR_OK && !e->over)
        rc = object_evict_page(q->api->options.object, q->bucket, e, eb);
    return rc;
}

static enum err
admin_evict_run(struct request *q, const json_t *doc)
{
    const char *prefix = json_string_value(json_object_get(doc, "evict"));
    struct object_evicting *e;
    struct errbuf eb = {{0}};
    struct admin_page page;
    enum err rc;

    if (prefix == NULL || json_object_size(doc) != 1)
        return fault_set(
            &q->fault, S3_InvalidArgument,
            "expected {\"evict\": PREFIX}; an empty one is all of the bucket");
    if (!q->bucket->cached)
        return fault_set(&q->fault, S3_InvalidArgument,
                         "only an attached bucket can be evicted from: a native one has "
                         "no other copy");
    e = xcalloc(1, sizeof *e);
    rc = evict_all(q, prefix, e, &eb);
    if (rc != ERR_OK) {
        free(e);
        return fault_from(q, rc, &eb);
    }
    admin_page_begin(&page, KIB(4));
    json_open_object(&page.j, NULL);
    json_u64(&page.j, "objects", e->objects);
    json_u64(&page.j, "bytes", e->bytes);
    json_u64(&page.j, "kept", e->kept);
    json_end(&page.j);
    free(e);
    return admin_page_answer(q, &page, 200);
}

enum err
admin_bucket_evict(struct request *q)
{
    json_t *doc = NULL;
    enum err rc = admin_read_bucket(q, BODY_MAX, &doc);

    if (rc == ERR_OK)
        rc = admin_evict_run(q, doc);
    json_decref(doc);
    return rc;
}
