/* s3acl, s3policy: lists and policies that are read and refused, and what they allow. */
#include "base/mem.h"
#include "check.h"
#include "wire/s3acl.h"
#include "wire/s3policy.h"

/* ---- lists ---- */

#define LIST(inside)                                                                     \
    "<AccessControlPolicy><Owner><ID>ann</ID></Owner><AccessControlList>" inside         \
    "</AccessControlList></AccessControlPolicy>"
#define GRANT(grantee, permission)                                                       \
    "<Grant><Grantee>" grantee "</Grantee><Permission>" permission "</Permission></"     \
    "Grant>"

static const struct {
    const char *doc;
    enum s3_code code;
    const char *kept;
} lists[] = {
    {LIST(""), S3_OK, "ann"},
    {LIST(GRANT("<ID>bob</ID>", "READ")), S3_OK, "ann\n1 user:bob"},
    {LIST(GRANT("<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>", "READ")
              GRANT("<ID>ann</ID>", "FULL_CONTROL")),
     S3_OK, "ann\n1 group:all\n15 user:ann"},
    {LIST(GRANT("<URI>http://example.org/everybody</URI>", "READ")), S3_InvalidArgument,
     ""},
    {LIST(GRANT("<EmailAddress>a@example.org</EmailAddress>", "READ")),
     S3_UnresolvableGrantByEmailAddress, ""},
    {LIST(GRANT("<ID>bob</ID>", "READ_ALL")), S3_MalformedACLError, ""},
    {LIST(GRANT("<ID>bob</ID><URI>x</URI>", "READ")), S3_MalformedACLError, ""},
    {LIST(GRANT("", "READ")), S3_MalformedACLError, ""},
    {LIST("<Grant><Grantee><ID>bob</ID></Grantee></Grant>"), S3_MalformedACLError, ""},
    {"<AccessControlPolicy/>", S3_MalformedACLError, ""},
    {"<Other/>", S3_MalformedACLError, ""},
    {"", S3_MalformedACLError, ""},
};

static void
test_lists(void)
{
    struct s3acl *acl = xcalloc(2, sizeof *acl), *back = acl + 1;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        struct arena *a = arena_new(4096, MIB(1));
        struct fault f = {0};
        struct span kept = {"", 0};
        enum err rc = s3acl_parse_document(span_of(lists[i].doc), a, acl, &f);

        CHECK((rc == ERR_OK) == (lists[i].code == S3_OK));
        CHECK_STR(s3_code_name(f.code), s3_code_name(lists[i].code));
        if (rc == ERR_OK) {
            CHECK(s3acl_encode(acl, a, &kept, &f) == ERR_OK);
            CHECK(span_is(kept, lists[i].kept));
            CHECK(s3acl_decode(kept, back));
            CHECK_U64(back->count, acl->count);
        }
        arena_free(&a);
    }
    free(acl);
}

static void
test_kept_lists_that_are_none(void)
{
    static const char *const rows[] = {
        "ann\n0 user:bob",  "ann\n3 user:bob", "ann\n1 user:",     "ann\n1 bob",
        "ann\n16 user:bob", "ann\nuser:bob",   "ann\n1 group:some"};
    struct s3acl *acl = xcalloc(1, sizeof *acl);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK(!s3acl_decode(span_of(rows[i]), acl));
    free(acl);
}

static void
test_canned(void)
{
    static const struct {
        const char *name, *kept;
        uint8_t owner, bucket_owner, other, unsigned_one; /* permissions */
    } rows[] = {
        {"private", "ann\n15 user:ann", 15, 0, 0, 0},
        {"public-read", "ann\n1 group:all\n15 user:ann", 15, 1, 1, 1},
        {"public-read-write", "ann\n1 group:all\n2 group:all\n15 user:ann", 15, 3, 3, 3},
        {"authenticated-read", "ann\n1 group:authenticated\n15 user:ann", 15, 1, 1, 0},
        {"bucket-owner-read", "ann\n15 user:ann\n1 user:bob", 15, 1, 0, 0},
        {"bucket-owner-full-control", "ann\n15 user:ann\n15 user:bob", 15, 15, 0, 0},
    };
    struct s3acl *acl = xcalloc(1, sizeof *acl);
    struct arena *a = arena_new(4096, MIB(1));

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct span kept;

        CHECK(s3acl_canned(span_of(rows[i].name), SPAN("ann"), SPAN("bob"), acl));
        CHECK(s3acl_encode(acl, a, &kept, NULL) == ERR_OK);
        CHECK(span_is(kept, rows[i].kept));
        CHECK_U64(s3acl_permissions(acl, SPAN("ann"), false), rows[i].owner);
        CHECK_U64(s3acl_permissions(acl, SPAN("bob"), false), rows[i].bucket_owner);
        CHECK_U64(s3acl_permissions(acl, SPAN("eve"), false), rows[i].other);
        CHECK_U64(s3acl_permissions(acl, (struct span){NULL, 0}, false),
                  rows[i].unsigned_one);
        CHECK_U64(s3acl_permissions(acl, SPAN("eve"), true), 0);
        CHECK(s3acl_is_public(acl) == (rows[i].other != 0));
    }
    CHECK(!s3acl_canned(SPAN("public"), SPAN("ann"), SPAN("bob"), acl));
    arena_free(&a);
    free(acl);
}

static void
test_grant_headers(void)
{
    static const struct {
        const char *value;
        enum s3_code code;
        unsigned count;
    } rows[] = {
        {"id=bob", S3_OK, 1},
        {"id=\"bob\", uri=\"http://acs.amazonaws.com/groups/global/AllUsers\"", S3_OK, 2},
        {"id=", S3_InvalidArgument, 0},
        {"bob", S3_InvalidArgument, 0},
        {"name=bob", S3_InvalidArgument, 0},
        {"emailAddress=a@example.org", S3_UnresolvableGrantByEmailAddress, 0},
    };
    struct s3acl *acl = xcalloc(1, sizeof *acl);
    struct arena *a = arena_new(4096, MIB(1));
    struct fault f = {0};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        acl->count = 0;
        f.code = S3_OK;
        CHECK((s3acl_add_header(span_of(rows[i].value), S3ACL_READ, a, acl, &f) ==
               ERR_OK) == (rows[i].code == S3_OK));
        CHECK_STR(s3_code_name(f.code), s3_code_name(rows[i].code));
        CHECK_U64(acl->count, rows[i].count);
    }
    for (acl->count = 0; acl->count < S3ACL_GRANTS_MAX;)
        CHECK(s3acl_add_header(SPAN("id=bob"), S3ACL_READ, a, acl, &f) == ERR_OK);
    CHECK(s3acl_add_header(SPAN("id=bob"), S3ACL_READ, a, acl, &f) == ERR_BAD_REQUEST);
    arena_free(&a);
    free(acl);
}

/* ---- policies ---- */

#define POLICY(statements) "{\"Version\":\"2012-10-17\",\"Statement\":[" statements "]}"
#define ST(effect, principal, action, resource, more)                                    \
    "{\"Effect\":\"" effect "\",\"Principal\":" principal ",\"Action\":" action          \
    ",\"Resource\":" resource more "}"
#define ALL     "\"*\""
#define KEYS    "\"arn:aws:s3:::bkt/*\""
#define IF(ops) ",\"Condition\":{" ops "}"

static const struct {
    const char *json, *says; /* NULL: it is good */
} policies[] = {
    {POLICY(ST("Allow", ALL, "\"s3:GetObject\"", KEYS, "")), NULL},
    {POLICY(ST("Allow", "{\"AWS\":[\"ann\",\"arn:aws:iam::1:user/p/bob\"]}", "[\"s3:*\"]",
               "[\"arn:aws:s3:::bkt\"," KEYS "]", "")),
     NULL},
    {"{\"Statement\":" ST("Deny", ALL, "\"*\"", "\"*\"", "") "}", NULL},
    {POLICY(ST("Maybe", ALL, "\"s3:*\"", KEYS, "")), "Maybe"},
    {POLICY(ST("Allow", "\"ann\"", "\"s3:*\"", KEYS, "")), "Principal"},
    {POLICY(ST("Allow", "{\"Service\":\"x\"}", "\"s3:*\"", KEYS, "")), "Service"},
    {POLICY(ST("Allow", "{\"AWS\":\"a*\"}", "\"s3:*\"", KEYS, "")), "a*"},
    {POLICY(ST("Allow", ALL, "\"ec2:Run\"", KEYS, "")), "ec2:Run"},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", "\"arn:aws:s3:::other/*\"", "")), "other"},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", "\"bkt/*\"", "")), "bkt/*"},
    {POLICY(ST("Allow", ALL, "[]", KEYS, "")), "Action"},
    {POLICY(ST("Allow", ALL, "7.5", KEYS, "")), "Action"},
    {POLICY("{\"Effect\":\"Allow\",\"NotPrincipal\":\"*\",\"Action\":\"s3:*\","
            "\"Resource\":" KEYS "}"),
     "NotPrincipal"},
    {POLICY("{\"Effect\":\"Allow\",\"Principal\":\"*\",\"Resource\":" KEYS "}"),
     "Action"},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS, IF("\"StringIs\":{\"s3:prefix\":\"a\"}"))),
     "StringIs"},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS, IF("\"StringEquals\":{\"s3:x\":\"a\"}"))),
     "s3:x"},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"IpAddress\":{\"aws:SourceIp\":\"10.0.0.0/33\"}"))),
     "10.0.0.0/33"},
    {POLICY(""), "128"},
    {"{}", "128"},
    {"[]", "not an object"},
    {"{\"Statement\":", "JSON"},
    {"{\"Version\":\"2020\",\"Statement\":[]}", "2012-10-17"},
    {"[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]", "16 deep"},
};

static void
test_policies(void)
{
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        struct s3policy *p;
        struct errbuf eb = {{0}};
        enum err rc = s3policy_parse(span_of(policies[i].json), SPAN("bkt"), &p, &eb);

        CHECK((rc == ERR_OK) == (policies[i].says == NULL));
        CHECK((p != NULL) == (rc == ERR_OK));
        if (rc != ERR_OK && policies[i].says != NULL &&
            strstr(eb.text, policies[i].says) == NULL)
            CHECK_STR(eb.text, policies[i].says);
        s3policy_free(&p);
    }
}

static bool
value_of(void *arg, struct span key, struct span *value)
{
    const char *const *pairs = arg;

    for (; pairs[0] != NULL; pairs += 2)
        if (span_is(key, pairs[0])) {
            *value = span_of(pairs[1]);
            return true;
        }
    return false;
}

static const struct evaluation_row {
    const char *json;
    const char *user, *action, *key; /* user NULL: anonymous */
    const char *values[4];
    enum s3policy_verdict verdict;
} evaluation_rows[] = {
    {POLICY(ST("Allow", ALL, "\"s3:GetObject\"", KEYS, "")),
     NULL,
     "s3:GetObject",
     "a",
     {0},
     S3POLICY_ALLOW},
    {POLICY(ST("Allow", ALL, "\"s3:GetObject\"", KEYS, "")),
     NULL,
     "s3:PutObject",
     "a",
     {0},
     S3POLICY_SILENT},
    {POLICY(ST("Allow", ALL, "\"s3:getobject\"", KEYS, "")),
     NULL,
     "s3:GetObject",
     "a",
     {0},
     S3POLICY_ALLOW},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS, "")),
     NULL,
     "s3:ListBucket",
     "",
     {0},
     S3POLICY_SILENT},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", "\"arn:aws:s3:::bkt/p/?.tar\"", "")),
     NULL,
     "s3:GetObject",
     "p/1.tar",
     {0},
     S3POLICY_ALLOW},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", "\"arn:aws:s3:::bkt/p/?.tar\"", "")),
     NULL,
     "s3:GetObject",
     "p/10.tar",
     {0},
     S3POLICY_SILENT},
    {POLICY(ST("Allow", "{\"AWS\":\"arn:aws:iam::1:user/bob\"}", "\"s3:*\"", KEYS, "")),
     "bob",
     "s3:GetObject",
     "a",
     {0},
     S3POLICY_ALLOW},
    {POLICY(ST("Allow", "{\"AWS\":\"bob\"}", "\"s3:*\"", KEYS, "")),
     "bo",
     "s3:GetObject",
     "a",
     {0},
     S3POLICY_SILENT},
    {POLICY(ST("Allow", "{\"AWS\":\"bob\"}", "\"s3:*\"", KEYS, "")),
     NULL,
     "s3:GetObject",
     "a",
     {0},
     S3POLICY_SILENT},
    /* A Deny wins, wherever it stands. */
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS, "") "," ST("Deny", "{\"AWS\":\"bob\"}",
                                                          "\"s3:*\"", KEYS, "")),
     "bob",
     "s3:GetObject",
     "a",
     {0},
     S3POLICY_DENY},
    {POLICY(ST("Deny", ALL, "\"s3:Put*\"", KEYS, "") "," ST("Allow", ALL, "\"s3:*\"",
                                                            KEYS, "")),
     "bob",
     "s3:GetObject",
     "a",
     {0},
     S3POLICY_ALLOW},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"StringEquals\":{\"s3:prefix\":[\"a\",\"b\"]}"))),
     NULL,
     "s3:GetObject",
     "a",
     {"s3:prefix", "b"},
     S3POLICY_ALLOW},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"StringEquals\":{\"s3:prefix\":[\"a\",\"b\"]}"))),
     NULL,
     "s3:GetObject",
     "a",
     {"s3:prefix", "c"},
     S3POLICY_SILENT},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"StringEquals\":{\"s3:prefix\":\"a\"}"))),
     NULL,
     "s3:GetObject",
     "a",
     {0},
     S3POLICY_SILENT},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"StringLikeIfExists\":{\"aws:Referer\":\"http://a/*\"}"))),
     NULL,
     "s3:GetObject",
     "a",
     {0},
     S3POLICY_ALLOW},
    {POLICY(ST("Deny", ALL, "\"s3:*\"", KEYS,
               IF("\"StringNotEquals\":{\"s3:x-amz-acl\":\"private\"}"))),
     NULL,
     "s3:PutObject",
     "a",
     {0},
     S3POLICY_DENY},
    {POLICY(ST("Deny", ALL, "\"s3:*\"", KEYS,
               IF("\"Bool\":{\"aws:SecureTransport\":\"false\"}"))),
     "bob",
     "s3:GetObject",
     "a",
     {"aws:securetransport", "false"},
     S3POLICY_DENY},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"IpAddress\":{\"aws:SourceIp\":\"10.1.0.0/16\"}"))),
     NULL,
     "s3:GetObject",
     "a",
     {"aws:sourceip", "10.1.200.3"},
     S3POLICY_ALLOW},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"IpAddress\":{\"aws:SourceIp\":\"10.1.0.0/16\"}"))),
     NULL,
     "s3:GetObject",
     "a",
     {"aws:sourceip", "10.2.0.1"},
     S3POLICY_SILENT},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"IpAddress\":{\"aws:SourceIp\":\"2001:db8::/32\"}"))),
     NULL,
     "s3:GetObject",
     "a",
     {"aws:sourceip", "2001:db8:1::7"},
     S3POLICY_ALLOW},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"NumericLessThanEquals\":{\"s3:max-keys\":10}"))),
     NULL,
     "s3:GetObject",
     "a",
     {"s3:max-keys", "11"},
     S3POLICY_SILENT},
    {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
               IF("\"Null\":{\"s3:ExistingObjectTag/Secret\":\"true\"}"))),
     NULL,
     "s3:GetObject",
     "a",
     {"s3:existingobjecttag/Secret", "x"},
     S3POLICY_SILENT},
    {POLICY("{\"Effect\":\"Deny\",\"Principal\":\"*\",\"NotAction\":\"s3:Get*\","
            "\"NotResource\":\"arn:aws:s3:::bkt/open/*\"}"),
     "bob",
     "s3:PutObject",
     "shut/a",
     {0},
     S3POLICY_DENY},
    {POLICY("{\"Effect\":\"Deny\",\"Principal\":\"*\",\"NotAction\":\"s3:Get*\","
            "\"NotResource\":\"arn:aws:s3:::bkt/open/*\"}"),
     "bob",
     "s3:PutObject",
     "open/a",
     {0},
     S3POLICY_SILENT},
};

static void
test_evaluation_rows(void)
{
    for (size_t i = 0; i < ARRAY_LEN(evaluation_rows); i++) {
        const struct evaluation_row *j = &evaluation_rows[i];
        struct errbuf eb = {{0}};
        struct s3policy *p = NULL;
        struct s3policy_request r = {.user = j->user != NULL ? span_of(j->user)
                                                             : (struct span){NULL, 0},
                                     .action = j->action,
                                     .bucket = SPAN("bkt"),
                                     .key = span_of(j->key),
                                     .value = value_of,
                                     .arg = (void *)(uintptr_t)j->values};

        CHECK(s3policy_parse(span_of(j->json), SPAN("bkt"), &p, &eb) == ERR_OK);
        if (p == NULL)
            continue;
        CHECK_U64(s3policy_evaluate(p, &r, false), j->verdict);
        /* With public statements ignored nothing is allowed that was not, and a Deny stays. */
        CHECK((s3policy_evaluate(p, &r, true) == S3POLICY_DENY) ==
              (j->verdict == S3POLICY_DENY));
        s3policy_free(&p);
    }
}

static void
test_what_is_public(void)
{
    static const struct {
        const char *json;
        bool is_public, asks_tags;
    } rows[] = {
        {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS, "")), true, false},
        {POLICY(ST("Deny", ALL, "\"s3:*\"", KEYS, "")), false, false},
        {POLICY(ST("Allow", "{\"AWS\":\"bob\"}", "\"s3:*\"", KEYS, "")), false, false},
        {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
                   IF("\"IpAddress\":{\"aws:SourceIp\":\"10.0.0.0/8\"}"))),
         false, false},
        {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
                   IF("\"StringEquals\":{\"s3:ExistingObjectTag/a\":\"b\"}"))),
         true, true},
        {POLICY(ST("Allow", ALL, "\"s3:*\"", KEYS,
                   IF("\"StringEquals\":{\"s3:RequestObjectTag/a\":\"b\"}"))),
         true, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct s3policy *p;

        CHECK(s3policy_parse(span_of(rows[i].json), SPAN("bkt"), &p, NULL) == ERR_OK);
        CHECK(s3policy_is_public(p) == rows[i].is_public);
        CHECK(s3policy_asks_tags(p) == rows[i].asks_tags);
        CHECK(s3policy_asks_request_tags(p) ==
              (strstr(rows[i].json, "RequestObjectTag") != NULL));
        s3policy_free(&p);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_lists);
    RUN(test_kept_lists_that_are_none);
    RUN(test_canned);
    RUN(test_grant_headers);
    RUN(test_policies);
    RUN(test_evaluation_rows);
    RUN(test_what_is_public);
    return check_done();
}
