/* Documents and headers of tags, versioning, conditional deletes and lists of uploads: what is taken, what is refused and
 * in which words. */
#include "base/mem.h"
#include "check.h"
#include "wire/s3tags.h"
#include "wire/s3xml.h"

static struct arena *arena;

/* ---- tags ---- */

static char many[4096], long_name[200], long_value[300];

static const struct {
    const char *header;
    enum s3_code code; /* S3_OK: taken */
    const char *says;  /* kept, or part of the sentence */
} headers[] = {
    {"", S3_OK, ""},
    {"a=1", S3_OK, "a=1"},
    {"a=1&b=2", S3_OK, "a=1&b=2"},
    {"a", S3_OK, "a="},
    {"a=", S3_OK, "a="},
    {"a+b=c+d", S3_OK, "a%20b=c%20d"},
    {"a%2Bb=%C3%A9", S3_OK, "a%2Bb=%C3%A9"},
    {"a=x/y:z@w_.-=", S3_OK, "a=x%2Fy%3Az%40w_.-%3D"},
    {"a=1&a=2", S3_InvalidTag, "multiple Tags"},
    {"aws:x=1", S3_InvalidTag, "TagKey"},
    {"a%26=1", S3_InvalidTag, "TagKey"},
    {"a=%3C", S3_InvalidTag, "TagValue"},
    {"a=%zz", S3_InvalidArgument, "URLEncoded"},
    {"=1", S3_InvalidArgument, "URLEncoded"},
    {"a=%FF", S3_InvalidTag, "TagValue"},
    {many, S3_BadRequest, "Object tags cannot be greater than 10"},
    {long_name, S3_InvalidTag, "TagKey"},
    {long_value, S3_InvalidTag, "TagValue"},
};

static void
test_the_header_of_tags(void)
{
    for (int i = 0; i < 11; i++)
        snprintf(many + strlen(many), 16, "%sk%d=v", i > 0 ? "&" : "", i);
    memset(long_name, 'k', 129);
    memset(long_value, 'v', 260);
    memcpy(long_value, "k=", 2);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        struct fault f = {0};
        struct span kept;
        enum err rc = s3tags_parse_header(span_of(headers[i].header), S3TAGS_OF_OBJECT,
                                          arena, &kept, &f);

        CHECK((rc == ERR_OK) == (headers[i].code == S3_OK));
        if (rc == ERR_OK)
            CHECK(span_is(kept, headers[i].says) || kept.len == strlen(headers[i].says));
        else
            CHECK(f.code == headers[i].code);
        if (rc != ERR_OK)
            CHECK_SAYS(f.message, headers[i].says);
    }
}

#define TAG(k, v) "<Tag><Key>" k "</Key><Value>" v "</Value></Tag>"
static const struct {
    const char *doc;
    enum s3_code code;
    const char *kept;
} documents[] = {
    {"<Tagging><TagSet/></Tagging>", S3_OK, ""},
    {"<Tagging><TagSet>" TAG("a", "1") TAG("b", "") "</TagSet></Tagging>", S3_OK,
     "a=1&b="},
    {"<?xml version=\"1.0\"?><Tagging xmlns=\"x\"> <TagSet> " TAG(
         "a b", "c+d") "</TagSet></Tagging>",
     S3_OK, "a%20b=c%2Bd"},
    {"<Tagging><TagSet>" TAG("a", "1") TAG("a", "1") "</TagSet></Tagging>", S3_InvalidTag,
     NULL},
    {"<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>", S3_MalformedXML,
     NULL},
    {"<Tagging><TagSet><Tag><Key>a</Key><Key>b</Key><Value/></Tag></TagSet></Tagging>",
     S3_MalformedXML, NULL},
    {"<Tagging><Tag/></Tagging>", S3_MalformedXML, NULL},
    {"<Tags/>", S3_MalformedXML, NULL},
    {"", S3_MalformedXML, NULL},
    {"<!DOCTYPE a><Tagging/>", S3_MalformedXML, NULL},
};

static void
test_the_document_of_tags(void)
{
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        struct fault f = {0};
        struct span kept, back;
        struct buf out;
        enum err rc = s3tags_parse_document(span_of(documents[i].doc), S3TAGS_OF_OBJECT,
                                            arena, &kept, &f);

        CHECK((rc == ERR_OK) == (documents[i].code == S3_OK));
        if (rc != ERR_OK) {
            CHECK(f.code == documents[i].code);
            continue;
        }
        CHECK(kept.len == strlen(documents[i].kept) &&
              (kept.len == 0 || span_is(kept, documents[i].kept)));
        buf_init(&out, 4096);
        CHECK(s3tags_write(kept, &out));
        CHECK(s3tags_parse_document(buf_span(&out), S3TAGS_OF_OBJECT, arena, &back, &f) ==
                  ERR_OK &&
              span_eq(kept, back));
        buf_fini(&out);
    }
}

/* ---- versioning ---- */

static void
test_versioning_is_on_or_suspended(void)
{
    static const struct {
        const char *inner;
        enum s3_code code;
        bool enabled;
    } cases[] = {
        {"<Status>Enabled</Status>", S3_OK, true},
        {"<Status> Suspended </Status>", S3_OK, false},
        {"<MfaDelete>Disabled</MfaDelete><Status>Enabled</Status>", S3_OK, true},
        {"<MfaDelete>Enabled</MfaDelete><Status>Enabled</Status>", S3_NotImplemented,
         false},
        {"<Status>enabled</Status>", S3_IllegalVersioningConfigurationException, false},
        {"", S3_IllegalVersioningConfigurationException, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char doc[256];
        struct fault f = {0};
        bool enabled;
        enum err rc;

        snprintf(doc, sizeof doc, "<VersioningConfiguration>%s</VersioningConfiguration>",
                 cases[i].inner);
        rc = s3xml_versioning_parse(span_of(doc), arena, &enabled, &f);
        CHECK(rc == ERR_OK ? cases[i].code == S3_OK && enabled == cases[i].enabled
                           : f.code == cases[i].code);
    }
}

/* ---- conditions of DeleteObjects ---- */

static void
test_conditions_of_an_item(void)
{
    static const char doc[] =
        "<Delete><Object><Key>a</Key><ETag>\"x\"</ETag><Size>5</Size>"
        "<LastModifiedTime>Sat, 21 Nov 2026 00:00:01 GMT</LastModifiedTime></Object>"
        "<Object><Key>b</Key><LastModifiedTime>2026-11-21T00:00:01.000Z</"
        "LastModifiedTime></Object><Object><Key>c</Key></Object></Delete>";
    struct s3xml_delete d;
    struct fault f = {0};

    REQUIRE(s3xml_delete_parse(SPAN(doc), arena, &d, &f) == ERR_OK && d.count == 3);
    CHECK(d.items[0].has_condition && d.items[0].has_size && d.items[0].has_mtime);
    CHECK(span_is(d.items[0].etag, "x") && d.items[0].size == 5);
    CHECK(d.items[0].mtime_s == 1795219201 && d.items[1].mtime_s == 1795219201);
    CHECK(d.items[1].etag.at == NULL && !d.items[1].has_size);
    CHECK(!d.items[2].has_condition);
    CHECK(s3xml_delete_parse(
              SPAN("<Delete><Object><Key>a</Key><Size>x</Size></Object></Delete>"), arena,
              &d, &f) != ERR_OK &&
          f.code == S3_MalformedXML);
}

/* ---- uploads ---- */

static void
test_a_list_of_uploads(void)
{
    static const char doc[] =
        "<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>true"
        "</IsTruncated><NextKeyMarker>d%2Fe</NextKeyMarker><NextUploadIdMarker>7"
        "</NextUploadIdMarker><Upload><Key>a+b%2Fc</Key><UploadId>i</UploadId><Initiated>"
        "2026-11-21T00:00:01.000Z</Initiated></Upload><CommonPrefixes><Prefix>x%2F"
        "</Prefix></CommonPrefixes></ListMultipartUploadsResult>";
    struct s3xml_upload_list l;
    struct errbuf eb = {0};

    REQUIRE(s3xml_uploads_parse(SPAN(doc), arena, &l, &eb) == ERR_OK && l.count == 2);
    CHECK(l.truncated && span_is(l.next_key, "d/e") && span_is(l.next_id, "7"));
    CHECK(span_is(l.entries[0].key, "a b/c") && span_is(l.entries[0].upload_id, "i"));
    CHECK(l.entries[0].begun_ms == 1795219201000);
    CHECK(l.entries[1].is_prefix && span_is(l.entries[1].key, "x/"));
    CHECK(s3xml_uploads_parse(SPAN("<ListMultipartUploadsResult><Upload><Key>a</Key></"
                                   "Upload></ListMultipartUploadsResult>"),
                              arena, &l, &eb) != ERR_OK);
}

/* ---- versions ---- */

static void
test_a_list_of_versions(void)
{
    static const char doc[] =
        "<ListVersionsResult><EncodingType>url</EncodingType><IsTruncated>true</"
        "IsTruncated>"
        "<NextKeyMarker>d%2Fe</NextKeyMarker><NextVersionIdMarker>7</NextVersionIdMarker>"
        "<DeleteMarker><Key>a+b%2Fc</Key><VersionId>m</VersionId><IsLatest>true</"
        "IsLatest>"
        "<LastModified>2026-11-21T00:00:01.000Z</LastModified></DeleteMarker>"
        "<Version><Key>a+b%2Fc</Key><VersionId>v</VersionId><IsLatest>false</IsLatest>"
        "<ETag>&quot;0123&quot;</ETag><Size>17</Size><Owner><ID>x</ID></Owner></Version>"
        "</ListVersionsResult>";
    static const char *const bad[] = {
        "<ListVersionsResult><Version><Key>a</Key></Version></ListVersionsResult>",
        "<ListVersionsResult><Version><VersionId>a</VersionId></Version>"
        "</ListVersionsResult>",
        "<ListVersionsResult><Version><Key>a</Key><VersionId>1</VersionId><Size>x</Size>"
        "</Version></ListVersionsResult>",
        "<ListVersionsResult><EncodingType>url</EncodingType><Version><Key>%4</Key>"
        "<VersionId>1</VersionId></Version></ListVersionsResult>",
        "<ListBucketResult></ListBucketResult>",
        "<ListVersionsResult><Version>",
    };
    struct s3xml_version_list l;
    struct errbuf eb = {0};

    REQUIRE(s3xml_versions_parse(SPAN(doc), arena, &l, &eb) == ERR_OK && l.count == 2);
    CHECK(l.truncated && span_is(l.next_key, "d/e") && span_is(l.next_id, "7"));
    CHECK(l.entries[0].is_marker && l.entries[0].is_latest);
    CHECK(span_is(l.entries[0].key, "a b/c") && span_is(l.entries[0].version_id, "m"));
    CHECK(l.entries[0].mtime_ms == 1795219201000);
    CHECK(!l.entries[1].is_marker && !l.entries[1].is_latest);
    CHECK(span_is(l.entries[1].etag, "0123"));
    CHECK_U64(l.entries[1].size, 17);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        eb.text[0] = '\0';
        CHECK(s3xml_versions_parse(span_of(bad[i]), arena, &l, &eb) != ERR_OK);
        CHECK(eb.text[0] != '\0');
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    arena = arena_new(4096, 1u << 22);
    RUN(test_the_header_of_tags);
    RUN(test_the_document_of_tags);
    RUN(test_versioning_is_on_or_suspended);
    RUN(test_conditions_of_an_item);
    RUN(test_a_list_of_uploads);
    RUN(test_a_list_of_versions);
    arena_free(&arena);
    return check_done();
}
