/* Any bytes as each of S3's documents. A CompleteMultipartUpload or Delete that parses is written
 * again and parses to the same. The first byte chooses the document. */
#include <assert.h>
#include <stdint.h>

#include "base/mem.h"
#include "wire/s3xml.h"
#include "wire/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
complete(struct span doc, struct arena *a)
{
    struct s3xml_complete c, back;
    struct fault f = {0};
    struct buf b;
    struct xml x;

    if (s3xml_complete_parse(doc, a, &c, &f) != ERR_OK) {
        assert(f.code != S3_OK);
        return;
    }
    buf_init(&b, (size_t)1 << 24);
    xml_begin(&x, &b);
    xml_open_s3(&x, "CompleteMultipartUpload");
    for (size_t i = 0; i < c.count; i++) {
        xml_open(&x, "Part");
        xml_u64(&x, "PartNumber", c.parts[i].number);
        xml_etag(&x, "ETag", c.parts[i].etag);
        xml_close(&x);
    }
    xml_close(&x);
    assert(s3xml_complete_parse(buf_span(&b), a, &back, &f) == ERR_OK);
    assert(back.count == c.count);
    for (size_t i = 0; i < c.count; i++) {
        assert(back.parts[i].number == c.parts[i].number);
        assert(i == 0 || c.parts[i - 1].number < c.parts[i].number);
    }
    buf_fini(&b);
}

static void
delete_objects(struct span doc, struct arena *a)
{
    struct s3xml_delete d, back;
    struct fault f = {0};
    struct buf b;
    struct xml x;

    if (s3xml_delete_parse(doc, a, &d, &f) != ERR_OK) {
        assert(f.code != S3_OK);
        return;
    }
    buf_init(&b, (size_t)1 << 24);
    xml_begin(&x, &b);
    xml_open(&x, "Delete");
    for (size_t i = 0; i < d.count; i++) {
        xml_open(&x, "Object");
        xml_span(&x, "Key", d.items[i].key);
        xml_close(&x);
    }
    xml_close(&x);
    assert(s3xml_delete_parse(buf_span(&b), a, &back, &f) == ERR_OK);
    assert(back.count == d.count);
    for (size_t i = 0; i < d.count; i++)
        assert(span_eq(back.items[i].key, d.items[i].key));
    buf_fini(&b);
}

static void
client(struct span doc, struct arena *a)
{
    struct errbuf eb = {0};
    struct s3xml_bucket_list b;
    struct s3xml_part_list p;
    struct s3xml_delete_result d;
    struct s3xml_result r;
    struct s3xml_error e;

    if (s3xml_buckets_parse(doc, a, &b, &eb) != ERR_OK)
        assert(b.count == 0);
    if (s3xml_parts_parse(doc, a, &p, &eb) != ERR_OK)
        assert(p.count == 0);
    if (s3xml_delete_result_parse(doc, a, &d, &eb) != ERR_OK)
        assert(d.failure_count == 0);
    if (s3xml_result_parse(doc, a, &r, &e, &eb) == ERR_OK)
        assert(!span_is(r.root, "Error"));
}

/* In pieces of these sizes, from the document's own bytes. */
static enum err
list_of(struct s3xml_list_reader *r, struct span doc, bool whole, struct arena *a,
        struct s3xml_list *out)
{
    struct errbuf eb = {0};
    enum err rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && doc.len > 0; i++) {
        size_t room, len = whole ? doc.len : 1 + ((unsigned char)doc.at[0] * i) % 61;
        char *at = s3xml_list_room(r, &room);
        struct span token;

        assert(at != NULL);
        len = MIN(MIN(len, doc.len), room);
        memcpy(at, doc.at, len);
        rc = s3xml_list_feed(r, len, &eb);
        doc = span_from(doc, len);
        (void)s3xml_list_token(r, a, &token);
    }
    return rc == ERR_OK ? s3xml_list_end(r, a, out, &eb) : rc;
}

/* A listing read in pieces gives what it gives in one piece. */
static void
list_in_pieces(struct span doc, struct arena *a)
{
    struct s3xml_list_reader *pieces = s3xml_list_begin(),
                             *whole_reader = s3xml_list_begin();
    struct s3xml_list x, y;
    enum err rc = list_of(pieces, doc, false, a, &x),
             want = list_of(whole_reader, doc, true, a, &y);

    assert(rc == want);
    if (rc == ERR_OK) {
        assert(x.count == y.count && x.truncated == y.truncated);
        assert(span_eq(x.next_token, y.next_token));
        assert(span_eq(x.next_marker, y.next_marker));
        for (size_t i = 0; i < x.count; i++) {
            const struct s3xml_list_entry *e = &x.entries[i], *f = &y.entries[i];

            assert(span_eq(e->key, f->key) && span_eq(e->etag, f->etag));
            assert(e->size == f->size && e->mtime_ms == f->mtime_ms);
            assert(e->is_prefix == f->is_prefix);
            assert(e->key.len > 0 || x.url_encoded);
        }
    }
    s3xml_list_free(&pieces);
    s3xml_list_free(&whole_reader);
}

static void
versioning(struct span doc, struct arena *a)
{
    struct fault f = {0};
    bool enabled;

    if (s3xml_versioning_parse(doc, a, &enabled, &f) != ERR_OK)
        assert(f.code != S3_OK);
}

static void
uploads(struct span doc, struct arena *a)
{
    struct s3xml_upload_list l;
    struct errbuf eb = {0};

    if (s3xml_uploads_parse(doc, a, &l, &eb) != ERR_OK)
        return;
    for (size_t i = 0; i < l.count; i++)
        assert(l.entries[i].is_prefix || l.entries[i].upload_id.len > 0);
}

static void
versions(struct span doc, struct arena *a)
{
    struct s3xml_version_list l;
    struct errbuf eb = {0};

    if (s3xml_versions_parse(doc, a, &l, &eb) != ERR_OK) {
        assert(eb.text[0] != '\0');
        return;
    }
    for (size_t i = 0; i < l.count; i++)
        assert(l.entries[i].key.len > 0 && l.entries[i].version_id.len > 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span doc = {(const char *)data, size};
    struct arena *a;
    struct span location;

    if (size < 1)
        return 0;
    a = arena_new(4096, (size_t)1 << 24);
    doc = span_from(doc, 1);
    switch (data[0] & 7) {
    case 0:
        complete(doc, a);
        break;
    case 1:
        delete_objects(doc, a);
        break;
    case 2:
        client(doc, a);
        break;
    case 3:
        list_in_pieces(doc, a);
        break;
    case 4:
        versioning(doc, a);
        break;
    case 5:
        uploads(doc, a);
        break;
    case 6:
        versions(doc, a);
        break;
    default:
        if (s3xml_create_bucket_parse(doc, a, &location, NULL) != ERR_OK)
            assert(location.len <= size);
    }
    arena_free(&a);
    return 0;
}
