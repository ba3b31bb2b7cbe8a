/* form: multipart bodies at every split, what is refused and how; policies of form uploads, row by row. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "check.h"
#include "wire/form.h"
#include "wire/post_policy.h"

static void
test_boundaries(void)
{
    static const struct {
        const char *type, *boundary; /* NULL: refused */
    } rows[] = {
        {"multipart/form-data; boundary=abc", "abc"},
        {"Multipart/Form-Data; charset=utf-8; boundary=\"a b\"", "a b"},
        {"multipart/form-data;boundary=----WebKitFormBoundary7MA4YWxk",
         "----WebKitFormBoundary7MA4YWxk"},
        {"multipart/form-data", NULL},
        {"multipart/form-data; boundary=", NULL},
        {"multipart/form-data; boundary=\"a", NULL},
        {"multipart/form-data; boundary=\"a \"", NULL},
        {"multipart/form-data; boundary=a{b", NULL},
        {"multipart/mixed; boundary=abc", NULL},
        {"text/plain", NULL},
        {"", NULL},
        {"multipart/form-data; boundary="
         "0123456789012345678901234567890123456789012345678901234567890123456789",
         "0123456789012345678901234567890123456789012345678901234567890123456789"},
        {"multipart/form-data; boundary="
         "01234567890123456789012345678901234567890123456789012345678901234567890",
         NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct span b = {NULL, 0};
        bool ok = form_boundary(span_of(rows[i].type), &b);

        CHECK(ok == (rows[i].boundary != NULL));
        if (ok)
            CHECK(span_is(b, rows[i].boundary));
    }
}

/* Everything that a body holds, as text: "name(filename)type=value;". "!why" when it is refused. Fed in two pieces. */
static void
read_form(const char *body, size_t len, size_t split, struct buf *out)
{
    size_t fed = 0, used = 0;
    bool in_part = false;
    struct form f;

    form_begin(&f, SPAN("XX"));
    for (;;) {
        struct span in = {body + used, fed - used}, piece;
        enum form_event e = form_next(&f, &in, fed == len, &piece);

        used = (size_t)(in.at - body);
        if (e == FORM_END && in.len == 0)
            used = fed;
        switch (e) {
        case FORM_MORE:
            CHECK(fed < len);
            fed = fed < split ? split : len;
            break;
        case FORM_PART:
            buf_printf(out, "%.*s(%.*s)%.*s=", SPAN_ARG(f.name), SPAN_ARG(f.filename),
                       SPAN_ARG(f.content_type));
            in_part = true;
            break;
        case FORM_DATA:
            CHECK(in_part && piece.len > 0);
            buf_put_span(out, piece);
            break;
        case FORM_PART_END:
            CHECK(in_part);
            in_part = false;
            buf_puts(out, ";");
            break;
        case FORM_END:
            return;
        case FORM_BAD:
            buf_printf(out, "!%s", f.why);
            return;
        }
    }
}

#define PART(name, value)                                                                \
    "--XX\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"

static const struct {
    const char *body, *holds;
} forms[] = {
    {PART("key", "k") "--XX--\r\n", "key()=k;"},
    {PART("key", "") "--XX--", "key()=;"},
    {PART("a", "1") PART("b", "2\r\n-XX\r\n--X") "--XX--\r\n",
     "a()=1;b()=2\r\n-XX\r\n--X;"},
    {"\r\n" PART("a", "1") "--XX  \r\ncontent-disposition:form-data;name=f; "
                           "filename=\"x y.txt\"\r\nContent-Type: text/plain\r\n\r\n"
                           "body\r\n--XX--trailing",
     "a()=1;f(x y.txt)text/plain=body;"},
    {"--XX\r\nContent-Disposition: form-data; name=\"file\"; "
     "filename=\"\"\r\n\r\n\r\n--XX--",
     "file()=;"},
    {"", "!the form ends before its last boundary"},
    {"--YY\r\n", "!the form does not begin with its boundary"},
    {"--XX", "!the form ends before its last boundary"},
    {"--XXYZ", "!a boundary is followed by something else than a line end"},
    {"--XX\r\nContent-Disposition: form-data\r\n\r\nx\r\n--XX--", "!a part has no name"},
    {"--XX\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n--XX--",
     "!a part has no name"},
    {"--XX\r\nno colon\r\n\r\nx\r\n--XX--", "!a line in the head of a part has no colon"},
    {PART("a", "1"), "a()=!the form ends before its last boundary"},
    {"--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nunfinished",
     "a()=unfin!the form ends before its last boundary"},
};

static void
test_forms_at_every_split(void)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        size_t len = strlen(forms[i].body);

        for (size_t split = 0; split <= len; split++) {
            char *copy = xmemdup0(forms[i].body, len); /* so that a read beyond is seen */
            struct buf out;

            buf_init(&out, 65536);
            read_form(copy, len, split, &out);
            buf_putc(&out, '\0');
            CHECK_STR(out.at, forms[i].holds);
            buf_fini(&out);
            free(copy);
        }
    }
}

static void
test_limits_of_forms(void)
{
    struct buf body, out;

    buf_init(&body, 1u << 20);
    buf_init(&out, 1u << 20);
    buf_puts(&body, "--XX\r\nX: ");
    for (unsigned i = 0; i < FORM_HEAD_MAX; i++)
        buf_putc(&body, 'h');
    read_form(body.at, body.len, 0, &out);
    buf_putc(&out, '\0');
    CHECK_SAYS(out.at, "the head of a part is too long");
    buf_clear(&body);
    buf_clear(&out);
    for (unsigned i = 0; i <= FORM_PARTS_MAX; i++)
        buf_puts(&body, PART("a", "1"));
    read_form(body.at, body.len, 0, &out);
    buf_putc(&out, '\0');
    CHECK_SAYS(out.at, "too many parts");
    buf_fini(&body);
    buf_fini(&out);
}

/* ---- policies ---- */

#define UNTIL "\"expiration\":\"2026-11-21T12:00:00Z\","
static const struct {
    const char *policy;
    enum s3_code code; /* S3_OK: it holds */
    const char *says;
} policies[] = {
    {"{" UNTIL "\"conditions\":[{\"bucket\":\"b\"},[\"starts-with\",\"$key\",\"u/\"],"
     "{\"acl\":\"private\"},[\"content-length-range\",1,10]]}",
     S3_OK, ""},
    {"{" UNTIL
     "\"conditions\":[[\"eq\",\"$KEY\",\"u/k\"],[\"starts-with\",\"$acl\",\"\"]]}",
     S3_OK, ""},
    {"{" UNTIL "\"conditions\":[[\"eq\",\"$key\",\"u/k\"]]}", S3_AccessDenied,
     "Extra input fields: acl"},
    {"{" UNTIL
     "\"conditions\":[[\"eq\",\"$key\",\"u\"],[\"starts-with\",\"$acl\",\"\"]]}",
     S3_AccessDenied, "Policy Condition failed: the field key"},
    {"{" UNTIL "\"conditions\":[{\"bucket\":\"c\"}]}", S3_AccessDenied,
     "the field bucket"},
    {"{" UNTIL "\"conditions\":[[\"eq\",\"$x-amz-meta-none\",\"1\"]]}", S3_AccessDenied,
     "x-amz-meta-none"},
    {"{\"expiration\":\"2026-11-21T11:59:58Z\",\"conditions\":[]}", S3_AccessDenied,
     "Policy expired."},
    {"{\"expiration\":\"soon\",\"conditions\":[]}", S3_InvalidPolicyDocument,
     "expiration"},
    {"{\"conditions\":[]}", S3_InvalidPolicyDocument, "expiration"},
    {"{" UNTIL "\"c\":[]}", S3_InvalidPolicyDocument, "conditions are missing"},
    {"{" UNTIL "\"conditions\":{}}", S3_InvalidPolicyDocument, "conditions are missing"},
    {"{" UNTIL "\"conditions\":[[\"eq\",\"$key\"]]}", S3_InvalidPolicyDocument,
     "a list of three"},
    {"{" UNTIL "\"conditions\":[[\"ne\",\"$key\",\"x\"]]}", S3_InvalidPolicyDocument,
     "eq, starts-with"},
    {"{" UNTIL "\"conditions\":[[\"eq\",\"key\",\"x\"]]}", S3_InvalidPolicyDocument,
     "begins with $"},
    {"{" UNTIL "\"conditions\":[{\"a\":\"1\",\"b\":\"2\"}]}", S3_InvalidPolicyDocument,
     "one member"},
    {"{" UNTIL "\"conditions\":[{\"a\":1}]}", S3_InvalidPolicyDocument, "with text"},
    {"{" UNTIL "\"conditions\":[[\"content-length-range\",-1,2]]}",
     S3_InvalidPolicyDocument, "two numbers"},
    {"{" UNTIL UNTIL "\"conditions\":[]}", S3_InvalidPolicyDocument, "no JSON object"},
    {"[]", S3_InvalidPolicyDocument, "no JSON object"},
    {"", S3_InvalidPolicyDocument, "no JSON object"},
};

static void
test_policies(void)
{
    const struct field fields[] = {
        {SPAN("key"), SPAN("u/k")},       {SPAN("acl"), SPAN("private")},
        {SPAN("policy"), SPAN("…")},      {SPAN("x-amz-signature"), SPAN("…")},
        {SPAN("x-ignore-me"), SPAN("1")},
    };
    const struct post_policy_form form = {
        {fields, ARRAY_LEN(fields)}, SPAN("b"), {NULL, 0}};
    int64_t noon_ms;

    REQUIRE(date_iso_parse(SPAN("2026-11-21T11:59:59Z"), &noon_ms) == ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        struct fault f = {0};
        struct post_policy p;
        enum err rc =
            post_policy_check(span_of(policies[i].policy), &form, noon_ms / 1000, &p, &f);

        CHECK((rc == ERR_OK) == (policies[i].code == S3_OK));
        if (rc != ERR_OK) {
            CHECK_STR(s3_code_name(f.code), s3_code_name(policies[i].code));
            CHECK_SAYS(f.message, policies[i].says);
        } else if (i == 0) {
            CHECK(p.has_range && p.least == 1 && p.most == 10);
        }
    }
}

#define ANY(name) "[\"starts-with\",\"$" name "\",\"\"]"

/* A policy that covers every name below, and a second field of that name in any case: what is checked is what is used. */
static void
test_a_name_is_given_once(void)
{
    static const char policy[] =
        "{" UNTIL
        "\"conditions\":[" ANY("key") "," ANY("content-type") "," ANY("acl") "," ANY(
            "suc"
            "ces"
            "s_"
            "act"
            "ion"
            "_st"
            "atu"
            "s") "," ANY("success_action_redirect") "," ANY("x-amz-date") "," ANY("x-amz-"
                                                                                  "meta-"
                                                                                  "a") "]"
                                                                                       "}";
    static const char *const names[][2] = {
        {"key", "KEY"},
        {"content-type", "Content-Type"},
        {"acl", "Acl"},
        {"success_action_status", "SUCCESS_action_status"},
        {"success_action_redirect", "success_action_redirect"},
        {"x-amz-date", "X-Amz-Date"},
        {"x-amz-meta-a", "x-amz-META-a"},
        {"policy", "Policy"},
        {"x-amz-signature", "X-Amz-Signature"},
    };
    int64_t noon_ms;

    REQUIRE(date_iso_parse(SPAN("2026-11-21T11:59:59Z"), &noon_ms) == ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct field fields[] = {{span_of(names[i][0]), SPAN("a")},
                                 {SPAN("x-ignore-1"), SPAN("1")},
                                 {SPAN("x-ignore-1"), SPAN("2")},
                                 {span_of(names[i][1]), SPAN("b")}};
        struct post_policy_form form = {{fields, 3}, SPAN("b"), {NULL, 0}};
        struct fault f = {0};
        struct post_policy p;

        CHECK(post_policy_check(SPAN(policy), &form, noon_ms / 1000, &p, &f) == ERR_OK);
        form.fields.count = 4;
        CHECK(post_policy_check(SPAN(policy), &form, noon_ms / 1000, &p, &f) ==
              ERR_DENIED);
        CHECK_SAYS(f.message, "more than once");
    }
}

/* Conditions apply to the bucket of the URL, and the type of the file's own part where no field says one. */
static void
test_what_the_form_does_not_say(void)
{
    static const struct {
        const char *conditions, *bucket_field, *type_field, *file_type,
            *says; /* says NULL: allowed */
    } rows[] = {
        {"{\"bucket\":\"b\"}", NULL, NULL, NULL, NULL},
        {"{\"bucket\":\"other\"}", NULL, NULL, NULL, "the field bucket"},
        {"{\"bucket\":\"other\"}", "other", NULL, NULL, "named by the URL"},
        {"{\"bucket\":\"b\"}", "b", NULL, NULL, "named by the URL"},
        {"{\"Content-Type\":\"image/png\"}", NULL, NULL, "image/png", NULL},
        {"{\"Content-Type\":\"image/png\"}", NULL, NULL, "text/html", "Content-Type"},
        {"{\"Content-Type\":\"image/png\"}", NULL, NULL, NULL, "Content-Type"},
        {"{\"Content-Type\":\"image/png\"}", NULL, "image/png", "text/html", NULL},
        {"{\"Content-Type\":\"image/png\"}", NULL, "text/html", "image/png",
         "Content-Type"},
        {"{\"bucket\":\"b\"}", NULL, NULL, "text/html",
         NULL}, /* ... and it is not stored */
        {"{\"bucket\":\"b\"}", NULL, "text/html", NULL,
         "Extra input fields: content-type"},
    };
    int64_t noon_ms;

    REQUIRE(date_iso_parse(SPAN("2026-11-21T11:59:59Z"), &noon_ms) == ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct field fields[2];
        struct post_policy_form form = {{fields, 0}, SPAN("b"), {NULL, 0}};
        struct fault f = {0};
        struct post_policy p;
        struct buf policy;

        if (rows[i].bucket_field != NULL)
            fields[form.fields.count++] =
                (struct field){SPAN("bucket"), span_of(rows[i].bucket_field)};
        if (rows[i].type_field != NULL)
            fields[form.fields.count++] =
                (struct field){SPAN("content-type"), span_of(rows[i].type_field)};
        if (rows[i].file_type != NULL)
            form.file_type = span_of(rows[i].file_type);
        buf_init(&policy, 4096);
        buf_printf(&policy, "{" UNTIL "\"conditions\":[%s]}", rows[i].conditions);
        CHECK((post_policy_check(buf_span(&policy), &form, noon_ms / 1000, &p, &f) ==
               ERR_OK) == (rows[i].says == NULL));
        if (rows[i].says != NULL)
            CHECK_SAYS(f.message, rows[i].says);
        else
            CHECK(p.names_content_type == (strstr(rows[i].conditions, "Type") != NULL));
        buf_fini(&policy);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_boundaries);
    RUN(test_forms_at_every_split);
    RUN(test_limits_of_forms);
    RUN(test_policies);
    RUN(test_a_name_is_given_once);
    RUN(test_what_the_form_does_not_say);
    return check_done();
}
