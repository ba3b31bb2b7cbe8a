/* XML and JSON: what is written is well formed, what is read has limits; the documents of S3. */
#include "check.h"

#include "base/mem.h"
#include "wire/json.h"
#include "wire/s3xml.h"
#include "wire/xml.h"

static struct arena *arena;
static struct fault fault;
static struct errbuf eb;

/* ---- writing ---- */

static void
test_escaping(void)
{
    const struct {
        struct span text;
        const char *xml, *json;
    } rows[] = {
        {SPAN("plain"), "plain", "plain"},
        {SPAN(""), "", ""},
        {SPAN("a&b<c>d\"e'f"), "a&amp;b&lt;c&gt;d&quot;e'f", "a&b<c>d\\\"e'f"},
        {SPAN("\r\n\t\\"), "&#x0D;\n\t\\", "\\r\\n\\t\\\\"},
        {SPAN("\0\1\x1f\x7f"), "&#x00;&#x01;&#x1F;&#x7F;",
         "\\u0000\\u0001\\u001f\\u007f"},
        {SPAN("\xc3\xa9\xf0\x9f\x98\x80"), "\xc3\xa9\xf0\x9f\x98\x80",
         "\xc3\xa9\xf0\x9f\x98\x80"},
        {SPAN("a\xff\xfe"), "a\xef\xbf\xbd\xef\xbf\xbd", "a\\ufffd\\ufffd"},
        {SPAN("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
         "\\ufffd\\ufffd\\ufffd"},
        {SPAN("\xef\xbf\xbf"), "&#xFFFF;", "\xef\xbf\xbf"},
        {SPAN("\xc3"), "\xef\xbf\xbd", "\\ufffd"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf b;

        buf_init(&b, 1024);
        xml_escape(&b, rows[i].text);
        CHECK(span_is(buf_span(&b), rows[i].xml));
        buf_clear(&b);
        json_escape(&b, rows[i].text);
        CHECK(span_is(buf_span(&b), rows[i].json));
        buf_fini(&b);
    }
}

static void
test_xml_writer(void)
{
    struct buf b;
    struct xml x;

    buf_init(&b, 4096);
    xml_begin(&x, &b);
    xml_open_s3(&x, "ListBucketResult");
    xml_text(&x, "Name", "b");
    xml_u64(&x, "MaxKeys", 1000);
    xml_bool(&x, "IsTruncated", false);
    xml_open(&x, "Contents");
    xml_key(&x, "Key", SPAN("a b/\xc3\xa9"), true);
    xml_key(&x, "Key", SPAN("a b<"), false);
    xml_etag(&x, "ETag", SPAN("abc"));
    xml_close(&x);
    xml_close(&x);
    CHECK_U64(x.depth, 0);
    CHECK(span_is(buf_span(&b),
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                  "<Name>b</Name><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>"
                  "<Contents><Key>a%20b/%C3%A9</Key><Key>a b&lt;</Key>"
                  "<ETag>&quot;abc&quot;</ETag></Contents></ListBucketResult>"));
    buf_fini(&b);
}

static void
test_json_writer(void)
{
    struct buf b;
    struct json j;

    buf_init(&b, 4096);
    json_begin(&j, &b);
    json_open_object(&j, NULL);
    json_text(&j, "a", "x\"y");
    json_text(&j, "none", NULL);
    json_open_array(&j, "list");
    json_u64(&j, NULL, UINT64_MAX);
    json_i64(&j, NULL, INT64_MIN);
    json_open_object(&j, NULL);
    json_end(&j);
    json_open_array(&j, NULL);
    json_end(&j);
    json_end(&j);
    json_f64(&j, "f", 0.25);
    json_f64(&j, "nan", 0.0 / 0.0);
    json_bool(&j, "t", true);
    json_end(&j);
    CHECK(span_is(buf_span(&b),
                  "{\"a\":\"x\\\"y\",\"none\":null,\"list\":[18446744073709551615,"
                  "-9223372036854775808,{},[]],\"f\":0.25,\"nan\":null,\"t\":true}"));
    buf_fini(&b);
}

/* ---- reading ---- */

/* Writes "<name:text>" for every element. */
static enum err
on_close(void *arg, unsigned depth, struct span name, struct span text)
{
    buf_printf(arg, "%u %.*s:%.*s;", depth, SPAN_ARG(name), SPAN_ARG(text));
    return span_is(name, "stop") ? ERR_DENIED : ERR_OK;
}

static void
test_reader(void)
{
    static const struct {
        const char *doc, *closes; /* closes NULL: refused */
        const char *says;
    } rows[] = {
        {"<a/>", "0 a:;", NULL},
        {"<a>x</a>", "0 a:x;", NULL},
        {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a>\n <b>x</b>\n <b> y "
         "</b>\n</a>\n",
         "1 b:x;1 b: y ;0 a:\n;", NULL},
        {"<a xmlns=\"urn:x\" y='1'><s3:b xmlns:s3='urn:y'>1</s3:b></a>", "1 b:1;0 a:;",
         NULL},
        {"<a>&lt;&gt;&amp;&quot;&apos;&#xD;&#233;</a>", "0 a:<>&\"'\r\xc3\xa9;", NULL},
        {"<a><![CDATA[<b>]]>c</a>", "0 a:<b>c;", NULL},
        {"<a><!-- no --><?pi x?>x</a>", "0 a:x;", NULL},
        {"\xef\xbb\xbf<a/>", "0 a:;", NULL}, /* a byte order mark */
        {"", NULL, "no element found"},
        {"x", NULL, "line 1"},
        {"<a>", NULL, "no element found"},
        {"<a></b>", NULL, "mismatched tag"},
        {"<a/><b/>", NULL, "junk after document element"},
        {"<a>&b;</a>", NULL, "undefined entity"},
        {"<a>\xff</a>", NULL, "not well-formed"},
        {"<a>&#1;</a>", NULL, "invalid character"},
        {"<!DOCTYPE a><a/>", NULL, "document type is not allowed"},
        {"<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", NULL, "document type"},
        {"<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>", NULL, "document type"},
        {"<a><stop/></a>", NULL, "not the document that was expected"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t piece = 1; piece < 64; piece += 7) {
            struct buf out;
            buf_init(&out, 4096);
            struct xml_handler h = {.on_close = on_close, .arg = &out};
            struct xml_reader *r = xml_reader_new(&h);
            struct span doc = span_of(rows[i].doc);
            enum err rc = ERR_OK;

            eb.text[0] = '\0';
            while (doc.len > 0 && rc == ERR_OK) {
                rc = xml_reader_feed(r, (struct span){doc.at, MIN(piece, doc.len)}, &eb);
                doc = span_from(doc, piece);
            }
            if (rc == ERR_OK)
                rc = xml_reader_end(r, &eb);
            CHECK((rc == ERR_OK) == (rows[i].closes != NULL));
            if (rows[i].closes != NULL)
                CHECK(span_is(buf_span(&out), rows[i].closes));
            else
                CHECK_SAYS(eb.text, rows[i].says);
            if (rc != ERR_OK) /* and it stays so */
                CHECK(xml_reader_feed(r, SPAN("<a/>"), &eb) == rc);
            xml_reader_free(&r);
            buf_fini(&out);
        }
    }
}

static void
test_reader_limits(void)
{
    struct buf doc;
    struct xml_handler h = {.size_max = 1000, .text_max = 100};

    buf_init(&doc, 1 << 16);
    for (unsigned i = 0; i < 17; i++)
        buf_puts(&doc, "<a>");
    CHECK(xml_read(buf_span(&doc), &h, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "deeper than 16");
    buf_clear(&doc);
    buf_puts(&doc, "<a>");
    for (unsigned i = 0; i < 101; i++)
        buf_putc(&doc, 'x');
    buf_puts(&doc, "</a>");
    CHECK(xml_read(buf_span(&doc), &h, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "too long");
    buf_clear(&doc);
    buf_puts(&doc, "<a>"); /* layout between children is no text */
    for (unsigned i = 0; i < 60; i++)
        buf_puts(&doc, "\n     <b/>");
    buf_puts(&doc, "</a>");
    CHECK(xml_read(buf_span(&doc), &h, &eb) == ERR_OK);
    for (unsigned i = 0; i < 1000; i++)
        buf_putc(&doc, ' ');
    CHECK(xml_read(buf_span(&doc), &h, &eb) == ERR_TOO_LARGE);
    CHECK_SAYS(eb.text, "more than 1000 bytes");
    buf_fini(&doc);
}

/* ---- documents a server reads ---- */

#define COMPLETE(parts) "<CompleteMultipartUpload>" parts "</CompleteMultipartUpload>"
#define PART(n, more)   "<Part><PartNumber>" n "</PartNumber>" more "</Part>"

static void
test_complete(void)
{
    static const struct {
        const char *doc;
        enum s3_code code;
        size_t count;
    } rows[] = {
        {COMPLETE(PART("1", "<ETag>\"a\"</ETag>")), S3_OK, 1},
        {"<?xml version=\"1.0\"?>\n<CompleteMultipartUpload xmlns=\"" XML_S3_NAMESPACE
         "\">\n  <Part>\n    <ETag>a</ETag>\n    <PartNumber> 2 </PartNumber>\n  "
         "</Part>\n "
         " <Unknown/><Part><PartNumber>10000</PartNumber></Part>\n"
         "</CompleteMultipartUpload>\n",
         S3_OK, 2},
        {COMPLETE(""), S3_MalformedXML, 0},
        {"", S3_MalformedXML, 0},
        {"no xml", S3_MalformedXML, 0},
        {"<Delete/>", S3_MalformedXML, 0},
        {COMPLETE("<Part><ETag>a</ETag></Part>"), S3_MalformedXML, 0},
        {COMPLETE("<Part><PartNumber>1</PartNumber><PartNumber>2</PartNumber></Part>"),
         S3_MalformedXML, 0},
        {COMPLETE(PART("0", "")), S3_InvalidArgument, 0},
        {COMPLETE(PART("-1", "")), S3_InvalidArgument, 0},
        {COMPLETE(PART("10001", "")), S3_InvalidArgument, 0},
        {COMPLETE(PART("x", "")), S3_InvalidArgument, 0},
        {COMPLETE(PART("2", "") PART("1", "")), S3_InvalidPartOrder, 0},
        {COMPLETE(PART("1", "") PART("1", "")), S3_InvalidPartOrder, 0},
        {COMPLETE(PART("1", "<ChecksumCRC32>bad</ChecksumCRC32>")), S3_InvalidRequest, 0},
        {COMPLETE(PART("1", "<ChecksumCRC32>DUoRhQ==</ChecksumCRC32>"
                            "<ChecksumSHA1>x</ChecksumSHA1>")),
         S3_MalformedXML, 0},
        {"<!DOCTYPE x>" COMPLETE(PART("1", "")), S3_MalformedXML, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct s3xml_complete c;

        memset(&fault, 0, sizeof fault);
        CHECK((s3xml_complete_parse(span_of(rows[i].doc), arena, &c, &fault) == ERR_OK) ==
              (rows[i].code == S3_OK));
        CHECK_U64(fault.code, rows[i].code);
        CHECK_U64(c.count, rows[i].count);
    }

    struct s3xml_complete c;
    REQUIRE(s3xml_complete_parse(
                SPAN(COMPLETE(PART("3", "<ETag>&quot;abc&quot;</ETag>"
                                        "<ChecksumCRC32>DUoRhQ==</ChecksumCRC32>"))),
                arena, &c, NULL) == ERR_OK);
    CHECK(c.parts[0].number == 3 && span_is(c.parts[0].etag, "abc"));
    CHECK(c.parts[0].sum.kind == CHECKSUM_CRC32 && c.parts[0].sum.bytes[0] == 0x0d);
}

static void
test_complete_of_all_parts(void)
{
    struct arena *big = arena_new(4096, 8 << 20);
    struct s3xml_complete c;
    struct buf doc;

    buf_init(&doc, 8 << 20);
    buf_puts(&doc, "<CompleteMultipartUpload>");
    for (unsigned i = 1; i <= 10000; i++)
        buf_printf(
            &doc,
            "\n    <Part>\n        <ETag>\"5eb63bbbe01eeed093cb22bb8f5acdc3\"</ETag>\n"
            "        <ChecksumCRC64NVME>jSnVw/bqjr4=</ChecksumCRC64NVME>\n"
            "        <PartNumber>%u</PartNumber>\n    </Part>",
            i);
    buf_puts(&doc, "</CompleteMultipartUpload>");
    CHECK(s3xml_complete_parse(buf_span(&doc), big, &c, &fault) == ERR_OK);
    CHECK_U64(c.count, 10000);
    CHECK_U64(c.parts[9999].number, 10000);
    arena_free(&big);
    big = arena_new(4096, 65536); /* too small: said, not crashed */
    CHECK(s3xml_complete_parse(buf_span(&doc), big, &c, &fault) == ERR_BAD_REQUEST);
    CHECK_U64(fault.code, S3_MaxMessageLengthExceeded);
    arena_free(&big);
    buf_fini(&doc);
}

static void
test_delete(void)
{
    struct s3xml_delete d;
    struct buf doc;

    REQUIRE(
        s3xml_delete_parse(
            SPAN("<Delete xmlns=\"x\"><Quiet>true</Quiet><Object><Key> "
                 "a&amp;&lt;&gt;&#xD;\n</Key></Object><Object><VersionId>null</VersionId>"
                 "<Key>b</Key><ETag>\"e\"</ETag></Object></Delete>"),
            arena, &d, &fault) == ERR_OK);
    CHECK(d.quiet && d.count == 2);
    CHECK(span_is(d.items[0].key, " a&<>\r\n")); /* blanks in a key count */
    CHECK(d.items[0].version.len == 0 && !d.items[0].has_condition);
    CHECK(span_is(d.items[1].key, "b") && span_is(d.items[1].version, "null"));
    CHECK(d.items[1].has_condition && span_is(d.items[1].etag, "e"));

    static const char *const bad[] = {
        "",
        "<Delete/>",
        "<Delete><Quiet>true</Quiet></Delete>",
        "<Delete><Object/></Delete>",
        "<Delete><Object><Key></Key></Object></Delete>",
        "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
        "<Remove><Object><Key>a</Key></Object></Remove>",
        "<Delete><Object><Key>a</Key></Object>",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK(s3xml_delete_parse(span_of(bad[i]), arena, &d, &fault) == ERR_BAD_REQUEST);
        CHECK_U64(fault.code, S3_MalformedXML);
    }
    buf_init(&doc, 1 << 20);
    for (unsigned n = 1000; n <= 1001; n++) {
        buf_clear(&doc);
        buf_puts(&doc, "<Delete>\n");
        for (unsigned i = 0; i < n; i++)
            buf_printf(&doc, "  <Object>\n    <Key>k%u</Key>\n  </Object>\n", i);
        buf_puts(&doc, "</Delete>");
        CHECK((s3xml_delete_parse(buf_span(&doc), arena, &d, &fault) == ERR_OK) ==
              (n == 1000));
    }
    CHECK_U64(fault.code, S3_MalformedXML);
    buf_fini(&doc);
}

static void
test_create_bucket(void)
{
    struct span location;

    CHECK(s3xml_create_bucket_parse(SPAN(""), arena, &location, &fault) == ERR_OK);
    CHECK(location.len == 0);
    CHECK(s3xml_create_bucket_parse(
              SPAN("<CreateBucketConfiguration xmlns=\"x\">"
                   "<LocationConstraint>eu-west-1</LocationConstraint>"
                   "</CreateBucketConfiguration>"),
              arena, &location, &fault) == ERR_OK);
    CHECK(span_is(location, "eu-west-1"));
    CHECK(s3xml_create_bucket_parse(SPAN("<X/>"), arena, &location, &fault) != ERR_OK);
    CHECK_U64(fault.code, S3_MalformedXML);
}

/* ---- documents a client reads ---- */

static enum err
list_in_pieces(struct span doc, size_t piece, struct s3xml_list *l)
{
    struct s3xml_list_reader *r = s3xml_list_begin();
    enum err rc = ERR_OK;

    while (rc == ERR_OK && doc.len > 0) {
        size_t room, len;
        char *at = s3xml_list_room(r, &room);

        len = MIN(MIN(piece, doc.len), room);
        memcpy(at, doc.at, len);
        rc = s3xml_list_feed(r, len, &eb);
        doc = span_from(doc, len);
    }
    if (rc == ERR_OK)
        rc = s3xml_list_end(r, arena, l, &eb);
    s3xml_list_free(&r);
    return rc;
}

static enum err
list_parse(struct span doc, struct s3xml_list *l)
{
    return list_in_pieces(doc, SIZE_MAX, l);
}

static void
test_list(void)
{
    struct s3xml_list l;

    REQUIRE(
        list_parse(
            SPAN(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult "
                "xmlns=\"x\"><Name>b</Name><Prefix>p</Prefix><KeyCount>3</KeyCount>"
                "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                "<NextContinuationToken>a+b=</NextContinuationToken><Contents><Key>a%20b+"
                "c%2Bd</Key><LastModified>2026-11-21T09:03:59.250Z</LastModified><ETag>"
                "&quot;5eb6&quot;</ETag><Size>11</Size><StorageClass>STANDARD"
                "</StorageClass><Owner><ID>x</ID></Owner></Contents><CommonPrefixes>"
                "<Prefix>dir/%C3%A9/</Prefix></CommonPrefixes></ListBucketResult>"),
            &l) == ERR_OK);
    CHECK(l.truncated && l.url_encoded && l.count == 2);
    CHECK(span_is(l.next_token, "a+b=")); /* tokens are never encoded */
    CHECK(span_is(l.entries[0].key, "a b c+d") && !l.entries[0].is_prefix);
    CHECK(span_is(l.entries[0].etag, "5eb6") && l.entries[0].size == 11);
    CHECK(l.entries[0].mtime_ms == 1795251839250);
    CHECK(l.entries[1].is_prefix && span_is(l.entries[1].key, "dir/\xc3\xa9/"));

    REQUIRE(list_parse(SPAN("<ListBucketResult><IsTruncated>false</IsTruncated>"
                            "<NextMarker>m+</NextMarker><Contents><Key>a+b%20</Key>"
                            "</Contents></ListBucketResult>"),
                       &l) == ERR_OK);
    CHECK(!l.truncated && span_is(l.next_marker, "m+"));
    CHECK(span_is(l.entries[0].key, "a+b%20")); /* not encoded: verbatim */

    static const char *const bad[] = {
        "<Error><Code>x</Code></Error>",
        "<ListBucketResult><Contents></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></"
        "ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%</Key></"
        "Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><LastModified>now</LastModified></"
        "Contents>"
        "</ListBucketResult>",
        "",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        eb.text[0] = '\0';
        CHECK(list_parse(span_of(bad[i]), &l) == ERR_BAD_REQUEST);
        CHECK_SAYS(eb.text, "ListBucketResult: ");
    }
}

#define LIST(inner) "<ListBucketResult>" inner "</ListBucketResult>"
#define ITEM(inner) LIST("<Contents>" inner "</Contents>")

/* At any split. */
static void
test_list_in_pieces(void)
{
    static const struct {
        const char *doc, *key, *etag; /* key NULL: refused; "": no names */
    } rows[] = {
        {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
         "xmlns=\"http://x/\">"
         "<Name>b</Name><Prefix/><Contents><Key>a</Key><Owner><ID>1</ID><DisplayName/>"
         "</Owner><Size>7</Size><ETag>&quot;e&quot;</ETag></Contents>\n</"
         "ListBucketResult>\n",
         "a", "e"},
        {"<?xml version='1.0' encoding='UTF-8'?>" ITEM(
             "<Key>a&amp;&lt;&gt;&apos;b</Key>"),
         "a&<>'b", ""},
        {ITEM("<Key>&#x9;&#252;\xc3\xbc</Key><ETag>&#34;x-2&#34;</ETag>"),
         "\t\xc3\xbc\xc3\xbc", "x-2"},
        {ITEM("<Key>a</Key><Key>b</Key>"), "b", ""},
        {LIST("<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>"), "a/", ""},
        {LIST("<EncodingType>url</EncodingType><Contents><Key>a%2Fb+%26amp;</Key></"
              "Contents>"),
         "a/b &amp;", ""},
        {LIST("<IsTruncated>false</IsTruncated>"), "", NULL},
        /* Comments, prefixes, attributes, CDATA. */
        {"<!-- c --><a:ListBucketResult xmlns:a='x'><a:Contents "
         "at='1'><a:Key><![CDATA[<a>]]></a:Key>"
         "</a:Contents><!-- <Contents><Key>no</Key></Contents> --></a:ListBucketResult>",
         "<a>", ""},
        {ITEM("<Key >a\r\n</Key><Size>1&#x30;</Size>"), "a\n", ""},
        {ITEM("<Key>a<b>c</b>d</Key>"), "d", ""},
        {ITEM("<Deep><a><b><c/></b></a></Deep><Key>a</Key>") "<!-- -->", "a", ""},
        {"<ListBucketResult/>", "", NULL},
        {ITEM("<Key>&nbsp;</Key>"), NULL, NULL},
        {ITEM("<Key>&#0;</Key>"), NULL, NULL},
        {ITEM("<Key>\xff</Key>"), NULL, NULL},
        {ITEM("<Key>\x01</Key>"), NULL, NULL},
        {ITEM("<Key>]]></Key>"), NULL, NULL},
        {ITEM("<Key></Key>"), NULL, NULL},
        {LIST("<Contents/>"), NULL, NULL},
        {LIST("") "x", NULL, NULL},
        {LIST("") LIST(""), NULL, NULL},
        {"<ListBucketResult><Contents><Key>a</Contents></Key></ListBucketResult>", NULL,
         NULL},
        {"<ListBucketResult xmlns=\"a<b\"></ListBucketResult>", NULL, NULL},
        {"<ListBucketResults></ListBucketResults>", NULL, NULL},
        {"<ListBucketResult><Contents><Key>a</Key>", NULL, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct span doc = span_of(rows[i].doc);

        for (size_t piece = 0; piece <= doc.len; piece++) {
            struct s3xml_list l;
            enum err rc = list_in_pieces(doc, piece == 0 ? doc.len : piece, &l);

            CHECK_U64(rc, rows[i].key == NULL ? ERR_BAD_REQUEST : ERR_OK);
            if (rc != ERR_OK || rows[i].key == NULL)
                continue;
            CHECK_U64(l.count, rows[i].key[0] != '\0');
            if (l.count == 0)
                continue;
            CHECK(span_is(l.entries[0].key, rows[i].key));
            CHECK(span_is(l.entries[0].etag, rows[i].etag));
        }
    }
}

/* How the list goes on is known as soon as that and a name have come, wherever it stands. */
static void
test_list_token(void)
{
    static const char *const docs[] = {
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b"
        "</NextContinuationToken><Contents><Key>k</Key></Contents>",
        "<ListBucketResult><Contents><Key>k</Key></Contents><IsTruncated>true"
        "</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken>",
        "<!-- a comment "
        "--><ListBucketResult><Contents><Key>k</Key></Contents><IsTruncated>true"
        "</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken>",
    };

    for (size_t i = 0; i < ARRAY_LEN(docs); i++) {
        struct s3xml_list_reader *r = s3xml_list_begin();
        struct span token = SPAN("");

        for (const char *at = docs[i]; *at != '\0'; at++) {
            size_t room;

            CHECK(!s3xml_list_token(r, arena, &token));
            *s3xml_list_room(r, &room) = *at;
            CHECK(s3xml_list_feed(r, 1, &eb) == ERR_OK);
        }
        CHECK(s3xml_list_token(r, arena, &token));
        CHECK(span_is(token, "a&b"));
        s3xml_list_free(&r);
    }
}

static void
test_results_and_errors(void)
{
    struct s3xml_result r;
    struct s3xml_error e;

    CHECK(s3xml_result_parse(SPAN("<InitiateMultipartUploadResult><Bucket>b</Bucket>"
                                  "<Key>k</Key><UploadId>u-1</UploadId>"
                                  "</InitiateMultipartUploadResult>"),
                             arena, &r, &e, &eb) == ERR_OK);
    CHECK(span_is(r.upload_id, "u-1") && span_is(r.key, "k") &&
          span_is(r.root, "InitiateMultipartUploadResult"));
    /* blanks sent while the server worked, behind the declaration */
    CHECK(s3xml_result_parse(
              SPAN("<?xml version=\"1.0\"?>\n\n   \n<CompleteMultipartUploadRes"
                   "ult><ETag>\"e-3\"</ETag><ChecksumCRC32>DUoRhQ==</Checksum"
                   "CRC32></CompleteMultipartUploadResult>"),
              arena, &r, &e, &eb) == ERR_OK);
    CHECK(span_is(r.etag, "e-3") && r.sum.kind == CHECKSUM_CRC32);
    CHECK(s3xml_result_parse(SPAN("<A><ChecksumCRC32>DUoRhQ==-3</ChecksumCRC32></A>"),
                             arena, &r, &e, &eb) == ERR_OK);
    CHECK(r.sum.kind == CHECKSUM_NONE); /* composite */
    /* an error under status 200 */
    CHECK(s3xml_result_parse(SPAN("<Error><Code>InternalError</Code><Message>a &amp; "
                                  "b</Message><Region>eu</Region></Error>"),
                             arena, &r, &e, &eb) == ERR_NOT_FOUND);
    CHECK(span_is(e.code, "InternalError") && span_is(e.message, "a & b"));
    CHECK(s3xml_error_parse(SPAN("<Error><Code>SlowDown</Code></Error>"), arena, &e,
                            &eb) == ERR_OK);
    CHECK(span_is(e.code, "SlowDown") && span_is(e.region, ""));
    CHECK(s3xml_error_parse(SPAN("<html><Code>x</Code></html>"), arena, &e, &eb) ==
          ERR_NOT_FOUND);
    CHECK(s3xml_error_parse(SPAN("<html><br></html>"), arena, &e, &eb) ==
          ERR_BAD_REQUEST);
    CHECK(s3xml_error_parse(SPAN(""), arena, &e, &eb) == ERR_BAD_REQUEST); /* empty 200 */
}

static void
test_other_lists(void)
{
    struct s3xml_bucket_list b;
    struct s3xml_part_list p;
    struct s3xml_delete_result d;

    REQUIRE(
        s3xml_buckets_parse(
            SPAN("<ListAllMyBucketsResult><Owner><ID>i</ID><Name>no</Name></Owner>"
                 "<Buckets><Bucket><Name>one</Name><CreationDate>2026-11-21T09:03:59.000Z"
                 "</CreationDate></Bucket><Bucket><Name>two</Name></Bucket></Buckets>"
                 "<ContinuationToken>t</ContinuationToken></ListAllMyBucketsResult>"),
            arena, &b, &eb) == ERR_OK);
    CHECK(b.count == 2 && span_is(b.entries[0].name, "one") &&
          span_is(b.entries[1].name, "two") && span_is(b.next_token, "t"));
    CHECK(b.entries[0].created_ms == 1795251839000);

    REQUIRE(
        s3xml_parts_parse(
            SPAN(
                "<ListPartsResult><UploadId>u</UploadId><NextPartNumberMarker>7"
                "</NextPartNumberMarker><IsTruncated>true</"
                "IsTruncated><Part><PartNumber>7"
                "</PartNumber><Size>5</Size><ETag>\"e\"</ETag></Part></ListPartsResult>"),
            arena, &p, &eb) == ERR_OK);
    CHECK(p.count == 1 && p.parts[0].number == 7 && p.parts[0].size == 5 && p.truncated &&
          p.next_marker == 7 && span_is(p.parts[0].etag, "e"));

    REQUIRE(
        s3xml_delete_result_parse(
            SPAN("<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>"
                 "AccessDenied</Code><Message>m</Message></Error><Deleted/></"
                 "DeleteResult>"),
            arena, &d, &eb) == ERR_OK);
    CHECK(d.deleted_count == 2 && d.failure_count == 1);
    CHECK(span_is(d.failures[0].key, "b") && span_is(d.failures[0].code, "AccessDenied"));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    arena = arena_new(4096, 4 << 20);
    RUN(test_escaping);
    RUN(test_xml_writer);
    RUN(test_json_writer);
    RUN(test_reader);
    RUN(test_reader_limits);
    RUN(test_complete);
    RUN(test_complete_of_all_parts);
    RUN(test_delete);
    RUN(test_create_bucket);
    RUN(test_list);
    RUN(test_list_in_pieces);
    RUN(test_list_token);
    RUN(test_results_and_errors);
    RUN(test_other_lists);
    arena_free(&arena);
    return check_done();
}
