/* api: the matrix of every route by every kind of credential. Protects S4: what a caller may is what his grants say,
 * wherever it is asked: routes of the table, our own pages, keys inside a body, a form, a presigned URL. */
#include <unistd.h>

#include "api/s3/s3.h"
#include "auth/user.h"
#include "base/hash.h"
#include "base/log.h"
#include "folder.h"
#include "rt/time.h"
#include "unit/api/api_rig.h"
#include "wire/sigv4.h"

static char folder[] = "/tmp/fb-matrix-XXXXXX";

enum kind {
    ANONYMOUS,    /* no credentials */
    UNKNOWN,      /* a key that there is not */
    FORGED,       /* the administrator's key, a wrong secret */
    NO_GRANT,     /* a user who may nothing */
    READER,       /* read on bkt */
    WRITER,       /* write on bkt */
    LISTER,       /* list on bkt */
    ELSEWHERE,    /* everything, on another bucket */
    PREFIXED,     /* read, write, list on bkt below "p/" */
    BUCKET_ADMIN, /* admin on bkt */
    TEMPORARY,    /* a temporary key of the reader, with its token */
    NO_TOKEN,     /* the same without */
    BAD_TOKEN,    /* with another one */
    EXPIRED,      /* one that has ended, with its token */
    ADMIN,        /* admin on everything */
    KINDS_
};
static const char *const kind_names[KINDS_] = {
    "anonymous", "unknown",  "forged",    "no grant", "reader",
    "writer",    "lister",   "elsewhere", "prefixed", "bucket admin",
    "temporary", "no token", "bad token", "expired",  "admin"};

struct who {
    struct auth_new_key key; /* id empty: does not sign */
};
static struct who whos[KINDS_];

/* What a route needs, and who has it: '+' is let in, '-' gets 403, 't' gets 400 (a token that is wrong or over). The
 * routes are asked for bucket "bkt" and key "key", listings without a prefix. */
static const struct {
    enum need need;
    const char *has; /* in the order of `kind` */
} matrix[] = {
    /*                  anonymous unknown forged nogrant reader writer lister elsewhere prefixed badmin temp notok badtok expired admin */
    {NEED_ADMIN_ALL, "-----------"
                     "-tt+"},
    {NEED_ADMIN, "---------+-"
                 "-tt+"},
    {NEED_MAKE_BUCKET, "---------+-"
                       "-tt+"},
    {NEED_READ_ACL, "----+----++"
                    "-tt+"},
    {NEED_WRITE_ACL, "---------+-"
                     "-tt+"},
    {NEED_READ, "----+----++"
                "-tt+"},
    {NEED_WRITE, "-----+---+-"
                 "-tt+"},
    {NEED_WRITE_TAGS, "-----+---+-"
                      "-tt+"},
    {NEED_LIST, "------+--+-"
                "-tt+"},
    {NEED_ANY_RIGHT, "----+++-+++"
                     "-tt+"},
    {NEED_EACH_KEY, "----+++-+++"
                    "-tt+"},
    {NEED_USER, "---++++++++"
                "-tt+"},
    {NEED_NOTHING, "+++++++++++"
                   "++++"}, /* never looks at credentials */
};

static bool
is_let_in(enum need need, enum kind k, bool *token)
{
    for (size_t i = 0; i < ARRAY_LEN(matrix); i++)
        if (matrix[i].need == need) {
            CHECK_U64(strlen(matrix[i].has), KINDS_);
            *token = matrix[i].has[k] == 't';
            return matrix[i].has[k] == '+';
        }
    CHECK_STR("the need of a route", "one that the matrix has");
    return false;
}

/* ---- asking, signed ---- */

static const char *copy_source; /* NULL: none */

/* As a client signs; `presign`: in the query. */
static int
ask_as(struct site *s, const struct who *w, const char *method, const char *target,
       struct span body, bool presign, struct buf *out)
{
    struct arena *a = arena_new(16384, MIB(1));
    const char *mark = strchr(target, '?');
    struct span path = {target, mark != NULL ? (size_t)(mark - target) : strlen(target)};
    char host[32];
    struct field headers[7] = {{SPAN("host"), {host, 0}}},
                 more = {SPAN("content-md5"), {NULL, 0}};
    struct sigv4_creds creds = {span_of(w->key.id), span_of(w->key.secret),
                                span_of(w->key.token), SPAN("us-east-1")};
    struct sigv4_request req = {.method = span_of(method), .path = path};
    struct sigv4_signed sig = {.add_count = 0};
    struct span query_out = {NULL, 0};
    int64_t now_s = (int64_t)(rt_wall_ns() / 1000000000u);
    struct query q = {NULL, 0};
    struct fault f = {0};
    struct ask ask = {.method = method, .target = target, .body = body};
    int status;

    headers[0].value.len = (size_t)snprintf(host, sizeof host, "127.0.0.1:%u", s->port);
    req.headers = (struct fields){headers, 1};
    if (strstr(target, "?delete") != NULL && body.len > 1) { /* it wants a sum */
        unsigned char md5[DIGEST_MAX];
        char *text = arena_alloc(a, 32);

        digest_oneshot(DIGEST_MD5, body.at, body.len, md5);
        more.value = (struct span){text, base64_encode(md5, 16, text)};
        headers[1] = more;
        req.headers.count = 2;
    }
    if (copy_source != NULL) {
        more = (struct field){SPAN("x-amz-copy-source"), span_of(copy_source)};
        headers[1] = more;
        req.headers.count = 2;
    }
    if (mark != NULL)
        CHECK(query_parse(span_of(mark + 1), a, &q, &f) == ERR_OK);
    if (w->key.id[0] != '\0' && presign) {
        CHECK(sigv4_presign(&req, &q, &creds, 60, NULL, now_s, a, &query_out) == ERR_OK);
        ask.target = arena_printf(a, "%.*s?%.*s", SPAN_ARG(path), SPAN_ARG(query_out));
    } else if (w->key.id[0] != '\0') {
        CHECK(sigv4_sign(&req, &q, &creds, SPAN("UNSIGNED-PAYLOAD"), NULL, now_s, a,
                         &sig) == ERR_OK);
    }
    for (size_t i = 0; i < sig.add_count; i++)
        headers[i] = sig.add[i];
    ask.header_count = sig.add_count;
    if (more.value.len > 0)
        headers[ask.header_count++] = more;
    ask.headers = headers;
    status = site_ask(s, &ask, out);
    arena_free(&a);
    return status;
}

static int
status_as(struct site *s, enum kind k, const char *method, const char *target)
{
    struct buf out;
    int status =
        ask_as(s, &whos[k], method, target,
               method[0] == 'P' ? SPAN("x") : (struct span){NULL, 0}, false, &out);

    buf_fini(&out);
    return status;
}

/* ---- who there is ---- */

static void
add_user(struct site *s, enum kind k, const char *name, unsigned rights,
         const char *bucket, const char *prefix)
{
    REQUIRE(auth_user_add(s->auth, span_of(name), &whos[k].key, &s->eb) == ERR_OK);
    if (rights != 0)
        REQUIRE(auth_user_grant(s->auth, span_of(name), rights, span_of(bucket),
                                span_of(prefix), &s->eb) == ERR_OK);
}

static void
take_first_user(struct site *s)
{
    char *text = NULL, *id, *secret;
    size_t len;

    REQUIRE(rt_file_load(s->dir, "credentials", 4096, &text, &len, &s->eb) == ERR_OK);
    id = strstr(text, "aws_access_key_id = ") + strlen("aws_access_key_id = ");
    secret =
        strstr(text, "aws_secret_access_key = ") + strlen("aws_secret_access_key = ");
    snprintf(whos[ADMIN].key.id, sizeof whos[ADMIN].key.id, "%.*s",
             (int)strcspn(id, "\n"), id);
    snprintf(whos[ADMIN].key.secret, sizeof whos[ADMIN].key.secret, "%.*s",
             (int)strcspn(secret, "\n"), secret);
    free(text);
}

static void
make_everybody(struct site *s)
{
    unsigned data = AUTH_READ | AUTH_WRITE | AUTH_LIST;

    take_first_user(s);
    whos[UNKNOWN].key = (struct auth_new_key){.id = "FBNOBODYKNOWSTHIS", .secret = "x"};
    whos[FORGED] = whos[ADMIN];
    memset(whos[FORGED].key.secret, 'x', 10);
    add_user(s, NO_GRANT, "no-grant", 0, NULL, NULL);
    add_user(s, READER, "reader", AUTH_READ, "bkt", "");
    add_user(s, WRITER, "writer", AUTH_WRITE, "bkt", "");
    add_user(s, LISTER, "lister", AUTH_LIST, "bkt", "");
    add_user(s, ELSEWHERE, "elsewhere", AUTH_ALL, "other", "");
    add_user(s, PREFIXED, "prefixed", data, "bkt", "p/");
    add_user(s, BUCKET_ADMIN, "bucket-admin", AUTH_ADMIN, "bkt", "");
    REQUIRE(auth_user_temporary(s->auth, SPAN("reader"), 600000, &whos[TEMPORARY].key,
                                &s->eb) == ERR_OK);
    whos[NO_TOKEN] = whos[BAD_TOKEN] = whos[TEMPORARY];
    whos[NO_TOKEN].key.token[0] = '\0';
    whos[BAD_TOKEN].key.token[5] ^= 1;
    REQUIRE(auth_user_temporary(s->auth, SPAN("reader"), 1, &whos[EXPIRED].key, &s->eb) ==
            ERR_OK);
    while ((int64_t)(rt_wall_ns() / 1000000u) <= whos[EXPIRED].key.expires_ms)
        rt_yield();
}

/* ---- the matrix ---- */

static void
check_one(struct site *s, const char *method, const char *target, enum need need,
          enum kind k)
{
    bool token, in = is_let_in(need, k, &token);
    int status = status_as(s, k, method, target);
    /* Who may list learns that a key is not there. */
    bool lists = k == LISTER && status == 404 &&
                 (need == NEED_READ || need == NEED_READ_ACL || need == NEED_WRITE_ACL);
    bool ok = lists   ? true
              : in    ? status != 0 && status != 403 && status != 401
              : token ? status == 400
                      : status == 403;

    CHECK(ok);
    if (!ok)
        fprintf(stderr, "  ... %s %s by %s is %d\n", method, target, kind_names[k],
                status);
}

static void
every_route_by_everybody(struct site *s)
{
    struct s3_route_name n;
    size_t routes = 0;
    char target[256];

    for (; s3_route_at(routes, &n); routes++) {
        const char *place = strcmp(n.path, "/") == 0         ? "/"
                            : strcmp(n.path, "/bucket") == 0 ? "/bkt"
                                                             : "/bkt/key";

        snprintf(target, sizeof target, "%s%s%s%s", place, n.sub != NULL ? "?" : "",
                 n.sub != NULL ? n.sub : "",
                 n.sub != NULL && strcmp(n.sub, "uploadId") == 0 ? "=0&partNumber=1"
                                                                 : "");
        for (enum kind k = 0; k < KINDS_ && n.need != NEED_FORM; k++)
            if (n.need != NEED_NOTHING) /* a preflight without an Origin is 400 for all */
                /* The body of a batch names a key, "x": who may read it is let in. */
                check_one(
                    s, n.method, target,
                    n.sub != NULL && strcmp(n.sub, "batch") == 0 ? NEED_READ : n.need, k);
    }
    CHECK(routes > 35);
}

/* What is no route is not told to those who may not know the bucket. */
static void
what_is_no_route(struct site *s)
{
    static const struct {
        const char *method, *target;
        enum need need;
    } rows[] = {
        {"PUT", "/bkt?lifecycle", NEED_ANY_RIGHT},
        {"GET", "/bkt/key?torrent", NEED_ANY_RIGHT},
        {"DELETE", "/", NEED_USER},
        {"PATCH", "/bkt/key", NEED_ANY_RIGHT},
        {"GET", "/s3/bkt/key", NEED_READ},
        {"HEAD", "/s3/bkt", NEED_ANY_RIGHT},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (enum kind k = 0; k < KINDS_; k++)
            check_one(s, rows[i].method, rows[i].target, rows[i].need, k);
}

/* As with AWS every caller learns that there is no such bucket, unless the credentials are wrong. */
static void
no_such_bucket(struct site *s)
{
    for (enum kind k = 0; k < KINDS_; k++) {
        bool token, in = is_let_in(NEED_USER, k, &token);
        int want = in || k == ANONYMOUS ? 404 : token ? 400 : 403;

        CHECK_U64((unsigned)status_as(s, k, "GET", "/nobucket/key"), (unsigned)want);
        CHECK_U64((unsigned)status_as(s, k, "GET", "/_nobucket/key"),
                  want == 404 && k != ADMIN ? 403u
                  : k == ADMIN              ? 400u
                                            : (unsigned)want);
    }
}

static void
our_own_pages(struct site *s)
{
    const char *method, *path;
    char target[128];
    enum need need;

    for (size_t i = 0; admin_page_at(i, &method, &path, &need); i++) {
        snprintf(target, sizeof target, "%s%s", path,
                 path[strlen(path) - 1] == '/' && strlen(path) > 3 ? "nothing" : "");
        for (enum kind k = 0; k < KINDS_; k++) {
            if (need == NEED_NOTHING)
                CHECK_U64((unsigned)status_as(s, k, method, target), 200);
            else
                check_one(s, method, target, need, k);
        }
    }
    for (enum kind k = 0; k < KINDS_; k++)
        check_one(s, "GET", "/_/nothing-here", NEED_ADMIN_ALL, k);
}

/* The prefix of a grant: keys below it, and listings of it. */
static void
prefixes(struct site *s)
{
    static const struct {
        const char *method, *target;
        bool in;
    } rows[] = {
        {"GET", "/bkt/p/key", true},
        {"GET", "/bkt/p", false},
        {"GET", "/bkt/q/p/key", false},
        {"GET", "/bkt/p%2Fkey", true},
        {"GET", "/bkt/p/../key", true}, /* a key is bytes: this one begins with p/ */
        {"GET", "/bkt//p/key", false},
        {"PUT", "/bkt/p/new", true},
        {"PUT", "/bkt/new", false},
        {"DELETE", "/bkt/p/new", true},
        {"GET", "/bkt?list-type=2&prefix=p%2F", true},
        {"GET", "/bkt?list-type=2&prefix=p%2Fq", true},
        {"GET", "/bkt?list-type=2&prefix=p", false},
        {"GET", "/bkt?list-type=2&prefix=", false},
        {"GET", "/bkt?prefix=q&prefix=p%2F", false},
        {"GET", "/bkt?uploads&prefix=p%2F", true},
        {"GET", "/bkt?versions&prefix=p%2F", true},
        {"GET", "/bkt?versions", false},
        {"POST", "/bkt/p/up?uploads", true},
        {"POST", "/bkt/up?uploads", false},
        {"PUT", "/other/p/key", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int status = status_as(s, PREFIXED, rows[i].method, rows[i].target);

        CHECK(rows[i].in ? status != 403 && status != 0 : status == 403);
        if (rows[i].in == (status == 403))
            fprintf(stderr, "  ... %s %s is %d\n", rows[i].method, rows[i].target,
                    status);
    }
}

/* A body names keys: each is checked by itself, and what may not go stays. */
static void
keys_in_a_body(struct site *s)
{
    static const struct {
        enum kind k;
        bool plain, below; /* may delete "key", "p/a" */
    } rows[] = {{READER, false, false},
                {LISTER, false, false},
                {WRITER, true, true},
                {PREFIXED, false, true},
                {BUCKET_ADMIN, true, true}};
    struct span doc = SPAN("<Delete><Object><Key>p/a</Key></Object><Object><Key>key</Key>"
                           "</Object></Delete>");

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        unsigned refused = (unsigned)!rows[i].plain + (unsigned)!rows[i].below;
        struct buf out;

        CHECK_U64((unsigned)status_as(s, ADMIN, "PUT", "/bkt/key"), 200);
        CHECK_U64((unsigned)status_as(s, ADMIN, "PUT", "/bkt/p/a"), 200);
        CHECK_U64((unsigned)ask_as(s, &whos[rows[i].k], "POST", "/bkt?delete", doc, false,
                                   &out),
                  200);
        for (const char *at = out.at;
             (at = strstr(at, "<Code>AccessDenied</Code>")) != NULL; at++)
            refused--;
        CHECK_U64(refused, 0);
        buf_fini(&out);
        CHECK_U64((unsigned)status_as(s, ADMIN, "GET", "/bkt/key"),
                  rows[i].plain ? 404 : 200);
        CHECK_U64((unsigned)status_as(s, ADMIN, "GET", "/bkt/p/a"),
                  rows[i].below ? 404 : 200);
    }
    CHECK_U64((unsigned)status_as(s, ADMIN, "PUT", "/bkt/key"), 200);
}

/* A batch reads every key of its list, in every bucket that it names: one that may not be read refuses the whole. */
static void
keys_of_a_batch(struct site *s)
{
    static const struct {
        enum kind k;
        const char *list;
        int status;
    } rows[] = {
        {READER, "key\np/a\n", 200},   {WRITER, "key\n", 403},
        {LISTER, "key\n", 403},        {PREFIXED, "p/a\np/b\n", 200},
        {PREFIXED, "p/a\nkey\n", 403}, {ANONYMOUS, "key\n", 403},
        {ELSEWHERE, "key\n", 403},     {PREFIXED, "p/x.tar/m\n", 200},
    };

    CHECK_U64((unsigned)status_as(s, ADMIN, "PUT", "/bkt/p/a"), 200);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;

        CHECK_U64((unsigned)ask_as(s, &whos[rows[i].k], "POST", "/bkt?batch",
                                   span_of(rows[i].list), false, &out),
                  (unsigned)rows[i].status);
        CHECK((strstr(out.at, "AccessDenied") != NULL) == (rows[i].status == 403));
        buf_fini(&out);
    }
}

/* A job that copies writes to another bucket, too: rights on its source alone do not start it. */
static void
targets_of_jobs(struct site *s)
{
    static const struct {
        enum kind k;
        const char *kind, *to;
        int status;
    } rows[] = {
        {ADMIN, "copy-objects", "other", 202},
        {BUCKET_ADMIN, "copy-objects", "other", 403},
        {BUCKET_ADMIN, "copy-bucket", "other", 403},
        {BUCKET_ADMIN, "archive", "other", 403},
        {BUCKET_ADMIN, "copy-objects", "bkt", 202},
        {WRITER, "delete-objects", "", 403},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;
        char doc[256];

        snprintf(doc, sizeof doc,
                 "{\"kind\":\"%s\",\"args\":{\"bucket\":\"bkt\",\"prefix\":\"none/\","
                 "\"to\":\"%s\"%s}}",
                 rows[i].kind, rows[i].to, rows[i].status == 202 ? ",\"dry_run\":1" : "");
        CHECK_U64((unsigned)ask_as(s, &whos[rows[i].k], "POST", "/_/jobs", span_of(doc),
                                   false, &out),
                  (unsigned)rows[i].status);
        buf_fini(&out);
    }
}

/* A copy reads: its source wants the right to. */
static void
sources_of_copies(struct site *s)
{
    static const struct {
        enum kind k;
        const char *to, *from;
        int status;
    } rows[] = {
        {ADMIN, "/bkt/copy", "/bkt/key", 200},
        {WRITER, "/bkt/copy", "/bkt/key", 403},
        {READER, "/bkt/copy", "/bkt/key", 403},
        {PREFIXED, "/bkt/p/copy", "/bkt/key", 403},
        {PREFIXED, "/bkt/p/copy", "/bkt/p/from", 200},
        {ELSEWHERE, "/other/copy", "/bkt/key", 403},
        {ELSEWHERE, "/other/copy", "/nobucket/key", 403},
        {BUCKET_ADMIN, "/bkt/copy", "/other/key", 403},
    };

    CHECK_U64((unsigned)status_as(s, ADMIN, "PUT", "/bkt/p/from"), 200);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;
        int status;

        copy_source = rows[i].from;
        status = ask_as(s, &whos[rows[i].k], "PUT", rows[i].to, SPAN(""), false, &out);
        copy_source = NULL;
        CHECK_U64((unsigned)status, (unsigned)rows[i].status);
        if (status != rows[i].status)
            fprintf(stderr, "  ... %s from %s by %s is %d\n", rows[i].to, rows[i].from,
                    kind_names[rows[i].k], status);
        buf_fini(&out);
    }
}

/* Presigned URLs carry the rights of who signed, and no more. */
static void
presigned(struct site *s)
{
    static const struct {
        enum kind k;
        const char *method, *target;
        int status;
    } rows[] = {
        {READER, "GET", "/bkt/key", 200},    {READER, "PUT", "/bkt/key", 403},
        {WRITER, "GET", "/bkt/key", 403},    {WRITER, "PUT", "/bkt/key", 200},
        {LISTER, "GET", "/bkt", 200},        {ELSEWHERE, "GET", "/bkt/key", 403},
        {TEMPORARY, "GET", "/bkt/key", 200}, {NO_TOKEN, "GET", "/bkt/key", 403},
        {BAD_TOKEN, "GET", "/bkt/key", 400}, {EXPIRED, "GET", "/bkt/key", 400},
        {FORGED, "GET", "/bkt/key", 403},    {PREFIXED, "GET", "/bkt/key", 403},
        {ADMIN, "GET", "/_/users", 200},     {READER, "GET", "/_/users", 403},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;
        int status = ask_as(s, &whos[rows[i].k], rows[i].method, rows[i].target,
                            rows[i].method[0] == 'P' ? SPAN("x") : (struct span){NULL, 0},
                            true, &out);

        CHECK_U64((unsigned)status, (unsigned)rows[i].status);
        if (status != rows[i].status)
            fprintf(stderr, "  ... %s %s by %s is %d\n", rows[i].method, rows[i].target,
                    kind_names[rows[i].k], status);
        buf_fini(&out);
    }
}

/* The list of buckets shows those that its reader may know. */
static void
list_of_buckets(struct site *s)
{
    static const struct {
        enum kind k;
        bool bkt, other;
    } rows[] = {{NO_GRANT, false, false},
                {READER, true, false},
                {ELSEWHERE, false, true},
                {PREFIXED, true, false},
                {ADMIN, true, true}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;

        CHECK_U64((unsigned)ask_as(s, &whos[rows[i].k], "GET", "/",
                                   (struct span){NULL, 0}, false, &out),
                  200);
        CHECK((strstr(out.at, "<Name>bkt</Name>") != NULL) == rows[i].bkt);
        CHECK((strstr(out.at, "<Name>other</Name>") != NULL) == rows[i].other);
        buf_fini(&out);
    }
}

static enum err
set_public(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    (void)eb;
    b->anonymous_read = *(bool *)arg;
    return ERR_OK;
}

static void
make_public(struct site *s, bool on)
{
    const struct map_bucket *b = map_bucket_find(map_now(s->map), SPAN("bkt")),
                            *now = NULL;

    REQUIRE(b != NULL);
    CHECK(map_bucket_change(s->map, SPAN("bkt"), b->id, set_public, &on, &now, &s->eb) ==
          ERR_OK);
    map_bucket_drop(&now);
}

/* anonymous_read: reading and listing that bucket, and nothing else; at once, and at once not any more. */
static void
anonymous_reading(struct site *s)
{
    static const struct {
        const char *method, *target;
        bool in;
    } rows[] = {
        {"GET", "/bkt/key", true},         {"HEAD", "/bkt/key", true},
        {"GET", "/bkt?list-type=2", true}, {"HEAD", "/bkt", true},
        {"POST", "/bkt?batch", true},      {"PUT", "/bkt/key", false},
        {"DELETE", "/bkt/key", false},     {"POST", "/bkt/key?uploads", false},
        {"PUT", "/bkt?cors", false},       {"DELETE", "/bkt", false},
        {"GET", "/other/key", false},      {"GET", "/", false},
        {"GET", "/_/metrics", false},      {"POST", "/bkt?delete", false},
    };

    make_public(s, true);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int status = status_as(s, ANONYMOUS, rows[i].method, rows[i].target);

        CHECK(rows[i].in ? status == 200 : status == 403);
        if (rows[i].in != (status == 200))
            fprintf(stderr, "  ... %s %s is %d\n", rows[i].method, rows[i].target,
                    status);
    }
    CHECK_U64((unsigned)status_as(s, NO_GRANT, "GET", "/bkt/key"), 200);
    CHECK_U64((unsigned)status_as(s, FORGED, "GET", "/bkt/key"), 403);
    make_public(s, false);
    CHECK_U64((unsigned)status_as(s, ANONYMOUS, "GET", "/bkt/key"), 403);
}

/* What was revoked is gone at the next request. */
static void
revoked(struct site *s)
{
    CHECK_U64((unsigned)status_as(s, READER, "GET", "/bkt/key"), 200);
    CHECK(auth_user_revoke(s->auth, SPAN("reader"), AUTH_READ, SPAN("bkt"), SPAN(""),
                           &s->eb) == ERR_OK);
    CHECK_U64((unsigned)status_as(s, READER, "GET", "/bkt/key"), 403);
    CHECK_U64((unsigned)status_as(s, TEMPORARY, "GET", "/bkt/key"), 403);
    CHECK(auth_user_remove(s->auth, SPAN("reader"), &s->eb) == ERR_OK);
    CHECK_U64((unsigned)status_as(s, READER, "GET", "/"), 403);
    CHECK_U64((unsigned)status_as(s, TEMPORARY, "GET", "/"), 403);
}

/* A form is checked by what stands in it. */
static void
forms(struct site *s)
{
    struct field type = {SPAN("content-type"), SPAN("multipart/form-data; boundary=XX")};
    struct ask q = {
        .method = "POST",
        .target = "/bkt",
        .headers = &type,
        .header_count = 1,
        .body = SPAN("--XX\r\nContent-Disposition: form-data; name=key\r\n\r\nf\r\n"
                     "--XX\r\nContent-Disposition: form-data; name=file; "
                     "filename=f\r\n\r\nx\r\n--XX--\r\n")};
    struct buf out;

    CHECK_U64((unsigned)site_status(s, &q), 403); /* unsigned */
    make_public(s, true);
    CHECK_U64((unsigned)site_status(s, &q), 403); /* reading is not writing */
    make_public(s, false);
    q.target = "/nobucket";
    CHECK_U64((unsigned)site_status(s, &q), 404);
    CHECK_U64((unsigned)ask_as(s, &whos[ADMIN], "POST", "/bkt", q.body, false, &out),
              400);
    CHECK_SAYS(out.at, "Only one auth mechanism");
    buf_fini(&out);
}

static void
world(void *arg)
{
    struct site s = {.path = folder, .auth_required = true};

    (void)arg;
    log_set_level(LOG_ERROR);
    REQUIRE(site_open(&s) == ERR_OK);
    make_everybody(&s);
    CHECK_U64((unsigned)status_as(&s, ADMIN, "PUT", "/bkt"),
              400); /* the body is no XML */
    {
        struct buf out;

        CHECK_U64(
            (unsigned)ask_as(&s, &whos[ADMIN], "PUT", "/bkt", SPAN(""), false, &out),
            200);
        buf_fini(&out);
        CHECK_U64(
            (unsigned)ask_as(&s, &whos[ADMIN], "PUT", "/other", SPAN(""), false, &out),
            200);
        buf_fini(&out);
    }
    CHECK_U64((unsigned)status_as(&s, ADMIN, "PUT", "/bkt/stays"), 200);
    every_route_by_everybody(&s);
    what_is_no_route(&s);
    no_such_bucket(&s);
    our_own_pages(&s);
    prefixes(&s);
    keys_of_a_batch(&s);
    targets_of_jobs(&s);
    keys_in_a_body(&s);
    sources_of_copies(&s);
    presigned(&s);
    list_of_buckets(&s);
    anonymous_reading(&s);
    forms(&s);
    revoked(&s);
    site_close(&s);
}

static void
test_every_route_by_every_kind_of_credential(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    struct errbuf eb = {{0}};

    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, world, NULL, &eb) == ERR_OK);
    folder_remove(folder);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_every_route_by_every_kind_of_credential);
    return check_done();
}
