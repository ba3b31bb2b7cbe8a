/* cors: documents that are read and refused, and which rule fits a request. */
#include "base/mem.h"
#include "check.h"
#include "wire/cors.h"

#define RULE(inside)                                                                     \
    "<CORSConfiguration><CORSRule>" inside "</CORSRule></CORSConfiguration>"
#define LEAST "<AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>"

static const struct {
    const char *doc;
    enum s3_code code;
    const char *says;
} documents[] = {
    {RULE(LEAST), S3_OK, ""},
    {RULE("<ID>x</ID>" LEAST "<AllowedHeader>x-*</AllowedHeader><ExposeHeader>ETag"
          "</ExposeHeader><MaxAgeSeconds>30</MaxAgeSeconds>"),
     S3_OK, ""},
    {"<CORSConfiguration/>", S3_MalformedXML, ""},
    {RULE("<AllowedMethod>GET</AllowedMethod>"), S3_MalformedXML, ""},
    {RULE("<AllowedOrigin>*</AllowedOrigin>"), S3_MalformedXML, ""},
    {RULE(LEAST "<AllowedMethod>OPTIONS</AllowedMethod>"), S3_InvalidRequest,
     "Unsupported method is OPTIONS"},
    {RULE(LEAST "<AllowedOrigin>http://*.a.*</AllowedOrigin>"), S3_InvalidRequest,
     "more than one wildcard"},
    {RULE(LEAST "<AllowedHeader>*-*</AllowedHeader>"), S3_InvalidRequest,
     "more than one wildcard"},
    {RULE(LEAST "<ExposeHeader>a&#10;b</ExposeHeader>"), S3_InvalidRequest,
     "no header can"},
    {RULE(LEAST "<MaxAgeSeconds>-1</MaxAgeSeconds>"), S3_MalformedXML, ""},
    {RULE("<AllowedMethod>GET</AllowedMethod><AllowedOrigin></AllowedOrigin>"),
     S3_MalformedXML, ""},
    {"<Other/>", S3_MalformedXML, ""},
    {"", S3_MalformedXML, ""},
    {"<!DOCTYPE a><CORSConfiguration/>", S3_MalformedXML, ""},
};

static void
test_documents(void)
{
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        struct arena *a = arena_new(4096, MIB(1));
        struct fault f = {0};
        struct cors c, back;
        struct buf one, two;
        enum err rc = cors_parse(span_of(documents[i].doc), a, &c, &f);

        CHECK((rc == ERR_OK) == (documents[i].code == S3_OK));
        if (rc != ERR_OK) {
            CHECK_STR(s3_code_name(f.code), s3_code_name(documents[i].code));
            CHECK_SAYS(f.message, documents[i].says);
        } else {
            buf_init(&one, 65536);
            buf_init(&two, 65536);
            cors_write(&c, &one);
            CHECK(cors_parse(buf_span(&one), a, &back, &f) == ERR_OK);
            cors_write(&back, &two);
            CHECK(span_eq(buf_span(&one), buf_span(&two)));
            buf_fini(&one);
            buf_fini(&two);
        }
        arena_free(&a);
    }
}

static void
test_which_rule(void)
{
    static const char doc[] =
        "<CORSConfiguration>"
        "<CORSRule><ID>1</ID><AllowedOrigin>https://*.example.org</AllowedOrigin>"
        "<AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod>"
        "<AllowedHeader>X-Amz-*</AllowedHeader><AllowedHeader>content-type"
        "</AllowedHeader></CORSRule>"
        "<CORSRule><ID>2</ID><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET"
        "</AllowedMethod></CORSRule>"
        "</CORSConfiguration>";
    static const struct {
        const char *origin, *method, *headers, *id; /* NULL: none */
        bool any;
    } rows[] = {
        {"https://a.example.org", "PUT", "", "1", false},
        {"https://a.example.org", "PUT", "x-amz-date, Content-Type", "1", false},
        {"https://a.example.org", "PUT", "x-amz-date,authorization", NULL, false},
        {"https://a.example.org", "GET", "", "1", false},
        {"https://a.example.org", "GET", "x-other", NULL, false},
        {"https://example.org", "GET", "", "2", true},
        {"http://a.example.org", "PUT", "", NULL, false},
        {"https://A.EXAMPLE.ORG", "PUT", "", NULL, false},
        {"null", "GET", "", "2", true},
        {"https://.example.org", "PUT", "", "1", false},
        {"https://a.example.org.evil", "PUT", "", NULL, false},
        {"https://a", "DELETE", "", NULL, false},
    };
    struct arena *a = arena_new(4096, MIB(1));
    struct fault f = {0};
    struct cors c;

    REQUIRE(cors_parse(span_of(doc), a, &c, &f) == ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool any = false;
        const struct cors_rule *r =
            cors_find(&c, span_of(rows[i].origin), span_of(rows[i].method),
                      span_of(rows[i].headers), &any);

        CHECK((r != NULL) == (rows[i].id != NULL));
        if (r != NULL && rows[i].id != NULL)
            CHECK(span_is(r->id, rows[i].id) && any == rows[i].any);
    }
    arena_free(&a);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_documents);
    RUN(test_which_rule);
    return check_done();
}
