/* uploads: lists of uploads in progress and of their parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client/internal.h"

#define PAGE_BYTES_MAX MIB(8)

static enum err
no_list(struct s3_failure *f, struct errbuf *eb)
{
    f->retry = true;
    return err_set(eb, ERR_BACKEND, "the server's answer is not the list asked for");
}

static int
by_key(const void *x, const void *y)
{
    const struct s3_upload_entry *a = x, *b = y;
    int c = span_cmp(a->key, b->key);

    if (c != 0)
        return c;
    return (a->begun_ms > b->begun_ms) - (a->begun_ms < b->begun_ms);
}

static enum err
keep_uploads(const struct s3xml_upload_list *list, struct arena *a,
             struct s3_upload_page *out, struct errbuf *eb)
{
    out->entries = arena_try(a, MAX(list->count, 1u) * sizeof *out->entries);
    if (out->entries == NULL)
        return err_set(eb, ERR_BACKEND, "the server's page of %zu uploads is too large",
                       list->count);
    for (size_t i = 0; i < list->count; i++)
        out->entries[i] = (struct s3_upload_entry){
            arena_span(a, list->entries[i].key),
            arena_span(a, list->entries[i].upload_id), list->entries[i].begun_ms};
    out->count = (uint32_t)list->count;
    out->truncated = list->truncated;
    qsort(out->entries, out->count, sizeof *out->entries, by_key);
    return ERR_OK;
}

enum err
s3_upload_list(struct s3_client *c, struct span bucket, const struct s3_upload_list *l,
               struct arena *a, struct s3_upload_page *out, struct s3_failure *f,
               struct errbuf *eb)
{
    struct param params[7] = {{SPAN("uploads"), SPAN("")},
                              {SPAN("encoding-type"), SPAN("url")}};
    struct s3_call_spec o = {.method = "GET",
                             .bucket = bucket,
                             .params = params,
                             .param_count = 2,
                             .length = 0};
    struct arena *work = arena_new(KIB(16), PAGE_BYTES_MAX);
    struct s3xml_upload_list list;
    struct span doc;
    char max[16];
    enum err rc;

    *out = (struct s3_upload_page){0};
    snprintf(max, sizeof max, "%u", l->max_uploads);
    params[o.param_count++] = (struct param){SPAN("max-uploads"), span_of(max)};
    if (l->prefix.len > 0)
        params[o.param_count++] = (struct param){SPAN("prefix"), l->prefix};
    if (l->delimiter.len > 0)
        params[o.param_count++] = (struct param){SPAN("delimiter"), l->delimiter};
    if (l->key_marker.len > 0)
        params[o.param_count++] = (struct param){SPAN("key-marker"), l->key_marker};
    if (l->key_marker.len > 0 && l->id_marker.len > 0)
        params[o.param_count++] = (struct param){SPAN("upload-id-marker"), l->id_marker};
    rc = call_simple(c, &o, SPAN(""), work, &doc, f, eb);
    if (rc == ERR_OK && s3xml_uploads_parse(doc, work, &list, eb) != ERR_OK)
        rc = no_list(f, eb);
    if (rc == ERR_OK)
        rc = keep_uploads(&list, a, out, eb);
    arena_free(&work);
    return rc;
}

enum err
s3_part_list(struct s3_client *c, struct span bucket, struct span key,
             struct span upload_id, uint32_t after, uint32_t max, struct arena *a,
             struct s3_part_page *out, struct s3_failure *f, struct errbuf *eb)
{
    char after_text[16], max_text[16];
    struct param params[] = {{SPAN("max-parts"), {max_text, 0}},
                             {SPAN("part-number-marker"), {after_text, 0}},
                             {SPAN("uploadId"), upload_id}};
    struct s3_call_spec o = {.method = "GET",
                             .bucket = bucket,
                             .key = key,
                             .params = params,
                             .param_count = ARRAY_LEN(params)};
    struct arena *work = arena_new(KIB(16), PAGE_BYTES_MAX);
    struct s3xml_part_list list;
    struct span doc;
    enum err rc;

    *out = (struct s3_part_page){0};
    params[0].value.len = (size_t)snprintf(max_text, sizeof max_text, "%u", max);
    params[1].value.len = (size_t)snprintf(after_text, sizeof after_text, "%u", after);
    rc = call_simple(c, &o, SPAN(""), work, &doc, f, eb);
    if (rc == ERR_OK && s3xml_parts_parse(doc, work, &list, eb) != ERR_OK)
        rc = no_list(f, eb);
    if (rc == ERR_OK) {
        out->parts = arena_try(a, MAX(list.count, 1u) * sizeof *out->parts);
        if (out->parts == NULL)
            rc = err_set(eb, ERR_BACKEND, "the server's page of %zu parts is too large",
                         list.count);
    }
    for (size_t i = 0; rc == ERR_OK && i < list.count; i++)
        out->parts[out->count++] = (struct s3_part_entry){
            list.parts[i].number, list.parts[i].size, arena_span(a, list.parts[i].etag),
            list.parts[i].mtime_ms};
    out->truncated = rc == ERR_OK && list.truncated;
    arena_free(&work);
    return rc;
}
