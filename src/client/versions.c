/* versions: lists them, deletes one, copies one to be the latest. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/uri.h"
#include "client/internal.h"

#define PAGE_BYTES_MAX MIB(8)

enum err
s3_version_list(struct s3_client *c, struct span bucket, const struct s3_version_list *l,
                struct arena *a, struct s3xml_version_list *out, struct s3_failure *f,
                struct errbuf *eb)
{
    struct param params[6] = {{SPAN("versions"), SPAN("")},
                              {SPAN("encoding-type"), SPAN("url")}};
    struct s3_call_spec o = {
        .method = "GET", .bucket = bucket, .params = params, .param_count = 2};
    struct span doc;
    enum err rc;

    *out = (struct s3xml_version_list){0};
    if (l->prefix.len > 0)
        params[o.param_count++] = (struct param){SPAN("prefix"), l->prefix};
    if (l->key_marker.len > 0)
        params[o.param_count++] = (struct param){SPAN("key-marker"), l->key_marker};
    if (l->key_marker.len > 0 && l->id_marker.len > 0)
        params[o.param_count++] = (struct param){SPAN("version-id-marker"), l->id_marker};
    rc = call_simple(c, &o, SPAN(""), a, &doc, f, eb);
    if (rc == ERR_OK && s3xml_versions_parse(doc, a, out, eb) != ERR_OK) {
        f->retry = true;
        rc = err_set(eb, ERR_BACKEND, "the server's answer is not a list of versions");
    }
    return rc;
}

enum err
s3_version_delete(struct s3_client *c, struct span bucket, struct span key,
                  struct span version, struct s3_failure *f, struct errbuf *eb)
{
    struct param params[1] = {{SPAN("versionId"), version}};
    struct s3_call_spec o = {.method = "DELETE",
                             .bucket = bucket,
                             .key = key,
                             .params = params,
                             .param_count = 1};
    struct arena *a = arena_new(KIB(4), MIB(1));
    enum err rc = call_simple(c, &o, SPAN(""), a, NULL, f, eb);

    arena_free(&a);
    return rc;
}

enum err
s3_version_restore(struct s3_client *c, struct span bucket, struct span key,
                   struct span version, struct s3_failure *f, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_header headers[1] = {{SPAN("x-amz-copy-source"), {"", 0}}};
    struct s3_call_spec o = {.method = "PUT",
                             .bucket = bucket,
                             .key = key,
                             .headers = headers,
                             .header_count = 1};
    struct s3xml_result result;
    struct s3xml_error error;
    struct buf source;
    struct span doc;
    enum err rc;

    buf_init(&source, KIB(16));
    buf_putc(&source, '/');
    uri_encode(&source, bucket, false);
    buf_putc(&source, '/');
    uri_encode(&source, key, true);
    buf_puts(&source, "?versionId=");
    uri_encode(&source, version, false);
    headers[0].value = buf_span(&source);
    rc = call_simple(c, &o, SPAN(""), a, &doc, f, eb);
    if (rc == ERR_OK && s3xml_result_parse(doc, a, &result, &error, eb) != ERR_OK)
        rc = error_of_document(doc, 200, &o, f, eb);
    buf_fini(&source);
    arena_free(&a);
    return rc;
}
