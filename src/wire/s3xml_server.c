/* Documents that a server reads: CompleteMultipartUpload, Delete, CreateBucketConfiguration. */
#include "base/mem.h"
#include "base/num.h"
#include "wire/etag.h"
#include "wire/s3xml.h"
#include "wire/s3xml_util.h"
#include "wire/xml.h"

/* One reading. The handlers set `fault` where S3 has a code for what they met; everything else is
 * MalformedXML. */
struct reading {
    struct arena *arena;
    struct fault *fault;
    const char *root;
    void *items;
    size_t room, count;
    union {
        struct s3xml_part *part;
        struct s3xml_delete_item *item;
    } now;
    bool has_key; /* of the item under way: <Key> or <PartNumber> */
    bool quiet;
    struct span location;
};

static enum err
s3server_read_document(struct span doc, struct reading *r, const struct xml_handler *h)
{
    struct errbuf eb = {0};
    enum err rc;

    if (r->fault != NULL)
        r->fault->code = S3_OK;
    rc = xml_read(doc, h, &eb);
    if (rc == ERR_OK || (r->fault != NULL && r->fault->code != S3_OK))
        return rc;
    if (rc == ERR_TOO_LARGE)
        return fault_set(r->fault, S3_MaxMessageLengthExceeded, NULL);
    return fault_set(r->fault, S3_MalformedXML, NULL);
}

static enum err
s3server_malformed(struct reading *r)
{
    return fault_set(r->fault, S3_MalformedXML, NULL);
}

static enum err
s3server_check_root(struct reading *r, unsigned depth, struct span name)
{
    return depth == 0 && !span_is(name, r->root) ? s3server_malformed(r) : ERR_OK;
}

static enum err
s3server_keep(struct reading *r, struct span text, struct span *out)
{
    if (s3xml_keep(r->arena, text, out))
        return ERR_OK;
    return fault_set(r->fault, S3_MaxMessageLengthExceeded, NULL);
}

/* ---- CompleteMultipartUpload ---- */

static enum err
complete_open(void *arg, unsigned depth, struct span name)
{
    struct reading *r = arg;

    if (depth != 1 || !span_is(name, "Part"))
        return s3server_check_root(r, depth, name);
    if (r->count == S3XML_PARTS_MAX)
        return s3server_malformed(r);
    r->now.part =
        s3xml_grow(r->arena, &r->items, &r->room, r->count, sizeof *r->now.part);
    if (r->now.part == NULL)
        return fault_set(r->fault, S3_MaxMessageLengthExceeded, NULL);
    r->has_key = false;
    return ERR_OK;
}

static enum err
take_part_number(struct reading *r, struct span text)
{
    uint64_t number;
    enum err rc;

    if (r->has_key)
        return s3server_malformed(r);
    r->has_key = true;
    if (num_u64(text, &number) == ERR_OK && number >= 1 && number <= S3XML_PARTS_MAX) {
        r->now.part->number = (unsigned)number;
        return ERR_OK;
    }
    rc = s3server_keep(r, text,
                       &text); /* the reader's text is gone when the fault is rendered */
    if (rc != ERR_OK)
        return rc;
    return fault_argument(r->fault, "PartNumber", text,
                          "PartNumber must be an integer between 1 and 10000");
}

static enum err
take_part_sum(struct reading *r, enum checksum_kind kind, struct span text)
{
    if (r->now.part->sum.kind != CHECKSUM_NONE)
        return s3server_malformed(r);
    return checksum_parse(kind, text, &r->now.part->sum, r->fault);
}

static enum err
end_of_part(struct reading *r)
{
    const struct s3xml_part *parts = r->items;

    if (!r->has_key)
        return s3server_malformed(r);
    if (r->count > 0 && parts[r->count - 1].number >= r->now.part->number)
        return fault_set(r->fault, S3_InvalidPartOrder, NULL);
    r->count++;
    r->now.part = NULL;
    return ERR_OK;
}

static enum err
complete_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;
    enum checksum_kind kind;

    if (r->now.part == NULL)
        return ERR_OK;
    if (depth == 1)
        return end_of_part(r);
    if (depth != 2)
        return ERR_OK;
    if (span_is(name, "PartNumber"))
        return take_part_number(r, span_trim(text));
    if (span_is(name, "ETag"))
        return s3server_keep(r, etag_unquote(text), &r->now.part->etag);
    kind = checksum_of_element(name);
    return kind != CHECKSUM_NONE ? take_part_sum(r, kind, span_trim(text)) : ERR_OK;
}

enum err
s3xml_complete_parse(struct span doc, struct arena *a, struct s3xml_complete *out,
                     struct fault *f)
{
    struct fault own;
    struct reading r = {
        .arena = a, .fault = f != NULL ? f : &own, .root = "CompleteMultipartUpload"};
    struct xml_handler h = {.on_open = complete_open,
                            .on_close = complete_close,
                            .arg = &r,
                            .size_max = S3XML_COMPLETE_BODY_MAX};
    enum err rc = s3server_read_document(doc, &r, &h);

    *out = (struct s3xml_complete){0};
    if (rc == ERR_OK && r.count == 0)
        rc = s3server_malformed(&r);
    if (rc == ERR_OK)
        *out = (struct s3xml_complete){r.items, r.count};
    return rc;
}

/* ---- Delete ---- */

static enum err
delete_open(void *arg, unsigned depth, struct span name)
{
    struct reading *r = arg;

    if (depth != 1 || !span_is(name, "Object"))
        return s3server_check_root(r, depth, name);
    if (r->count == S3XML_DELETE_MAX)
        return s3server_malformed(r);
    r->now.item =
        s3xml_grow(r->arena, &r->items, &r->room, r->count, sizeof *r->now.item);
    if (r->now.item == NULL)
        return fault_set(r->fault, S3_MaxMessageLengthExceeded, NULL);
    r->has_key = false;
    return ERR_OK;
}

static enum err
end_of_object(struct reading *r)
{
    if (!r->has_key)
        return s3server_malformed(r);
    r->count++;
    r->now.item = NULL;
    return ERR_OK;
}

/* Clients write dates of all kinds. */
static bool
take_time(struct span text, int64_t *out_s)
{
    int64_t ms;

    if (date_iso_parse(text, &ms) == ERR_OK) {
        *out_s = ms / 1000;
        return true;
    }
    return date_http_parse(text, out_s) == ERR_OK;
}

static enum err
delete_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;

    if (depth == 1 && r->now.item != NULL)
        return end_of_object(r);
    if (depth == 1 && span_is(name, "Quiet"))
        r->quiet = span_case_is(span_trim(text), "true");
    if (depth != 2 || r->now.item == NULL)
        return ERR_OK;
    if (span_is(name, "Key")) {
        if (r->has_key || text.len == 0)
            return s3server_malformed(r);
        r->has_key = true;
        return s3server_keep(r, text, &r->now.item->key); /* blanks in a key count */
    }
    if (span_is(name, "VersionId"))
        return s3server_keep(r, span_trim(text), &r->now.item->version);
    if (span_is(name, "LastModifiedTime")) {
        r->now.item->has_condition = r->now.item->has_mtime = true;
        return take_time(span_trim(text), &r->now.item->mtime_s) ? ERR_OK
                                                                 : s3server_malformed(r);
    }
    if (span_is(name, "Size")) {
        r->now.item->has_condition = r->now.item->has_size = true;
        return num_u64(span_trim(text), &r->now.item->size) == ERR_OK
                   ? ERR_OK
                   : s3server_malformed(r);
    }
    if (span_is(name, "ETag")) {
        r->now.item->has_condition = true;
        return s3server_keep(r, etag_unquote(text), &r->now.item->etag);
    }
    return ERR_OK;
}

enum err
s3xml_delete_parse(struct span doc, struct arena *a, struct s3xml_delete *out,
                   struct fault *f)
{
    struct fault own;
    struct reading r = {.arena = a, .fault = f != NULL ? f : &own, .root = "Delete"};
    struct xml_handler h = {.on_open = delete_open,
                            .on_close = delete_close,
                            .arg = &r,
                            .size_max = S3XML_DELETE_BODY_MAX};
    enum err rc = s3server_read_document(doc, &r, &h);

    *out = (struct s3xml_delete){0};
    if (rc == ERR_OK && r.count == 0)
        rc = s3server_malformed(&r);
    if (rc == ERR_OK)
        *out = (struct s3xml_delete){r.items, r.count, r.quiet};
    return rc;
}

/* ---- VersioningConfiguration ---- */

static enum err
versioning_open(void *arg, unsigned depth, struct span name)
{
    return s3server_check_root(arg, depth, name);
}

static enum err
versioning_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;

    if (depth == 1 && span_is(name, "Status"))
        return s3server_keep(r, span_trim(text), &r->location);
    if (depth == 1 && span_is(name, "MfaDelete") && !span_is(span_trim(text), "Disabled"))
        return fault_set(r->fault, S3_NotImplemented,
                         "MfaDelete: deletes by a second factor are not implemented");
    return ERR_OK;
}

enum err
s3xml_versioning_parse(struct span doc, struct arena *a, bool *enabled, struct fault *f)
{
    struct fault own;
    struct reading r = {.arena = a,
                        .fault = f != NULL ? f : &own,
                        .root = "VersioningConfiguration",
                        .location = {"", 0}};
    struct xml_handler h = {.on_open = versioning_open,
                            .on_close = versioning_close,
                            .arg = &r,
                            .size_max = 65536};
    enum err rc = s3server_read_document(doc, &r, &h);

    *enabled = span_is(r.location, "Enabled");
    if (rc == ERR_OK && !*enabled && !span_is(r.location, "Suspended"))
        return fault_set(r.fault, S3_IllegalVersioningConfigurationException, NULL);
    return rc;
}

/* ---- CreateBucketConfiguration ---- */

static enum err
create_open(void *arg, unsigned depth, struct span name)
{
    return s3server_check_root(arg, depth, name);
}

static enum err
create_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;

    if (depth == 1 && span_is(name, "LocationConstraint"))
        return s3server_keep(r, span_trim(text), &r->location);
    return ERR_OK;
}

enum err
s3xml_create_bucket_parse(struct span doc, struct arena *a, struct span *location,
                          struct fault *f)
{
    struct fault own;
    struct reading r = {.arena = a,
                        .fault = f != NULL ? f : &own,
                        .root = "CreateBucketConfiguration",
                        .location = {"", 0}};
    struct xml_handler h = {
        .on_open = create_open, .on_close = create_close, .arg = &r, .size_max = 65536};
    enum err rc = ERR_OK;

    if (span_trim(doc).len > 0)
        rc = s3server_read_document(doc, &r, &h);
    *location = r.location;
    return rc;
}
