/* sigv4_rig: requests that are signed and verified, for tests of SigV4. The arena is made by main(). */
#pragma once
#include "base/mem.h"
#include "check.h"
#include "wire/sigv4.h"

#define SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define AKID   "AKIAIOSFODNN7EXAMPLE"
#define EMPTY  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define NOW_S  1369353600 /* 20130524T000000Z */
#define HOST   "examplebucket.s3.amazonaws.com"
#define SCOPE  "20130524/us-east-1/s3/aws4_request"

static struct arena *arena;
static struct fault fault;
static struct sigv4_auth auth;

#define HEADERS_MAX 16
struct request {
    const char *method, *path, *query;
    const char *headers[HEADERS_MAX][2]; /* ends with NULL */
    bool tls;
    const char *forwarded_host;
};

static inline struct sigv4_request
wire_of(const struct request *r, struct field room[HEADERS_MAX])
{
    size_t n = 0;

    while (n < HEADERS_MAX && r->headers[n][0] != NULL) {
        room[n] = (struct field){span_of(r->headers[n][0]), span_of(r->headers[n][1])};
        n++;
    }
    return (struct sigv4_request){.method = span_of(r->method),
                                  .path = span_of(r->path),
                                  .headers = {room, n},
                                  .forwarded_host = span_of(r->forwarded_host),
                                  .tls = r->tls};
}

/* Parse and verify; the code of what went wrong. */
static inline enum s3_code
verify(const struct request *r, const char *region, const char *secret, int64_t now_s)
{
    struct field room[HEADERS_MAX];
    struct sigv4_request req = wire_of(r, room);
    struct sigv4_opts opts = {.region = span_of(region)};
    struct query q;
    enum err rc;

    arena_reset(arena);
    memset(&fault, 0, sizeof fault);
    rc = query_parse(span_of(r->query), arena, &q, &fault);
    if (rc == ERR_OK)
        rc = sigv4_parse(&req, &q, &opts, &auth, &fault);
    if (rc == ERR_OK && auth.kind != SIGV4_ANONYMOUS)
        rc = sigv4_verify(&req, &q, &auth, span_of(secret), NULL, now_s, arena, NULL,
                          &fault);
    CHECK((rc == ERR_OK) == (fault.code == S3_OK));
    CHECK(rc == s3_code_err(fault.code));
    return fault.code;
}

static inline const char *
extra(const char *name)
{
    static char text[4096];

    for (unsigned i = 0; i < fault.extra_count; i++) {
        if (strcmp(fault.extra[i].name, name) == 0) {
            snprintf(text, sizeof text, "%.*s", SPAN_ARG(fault.extra[i].value));
            return text;
        }
    }
    return NULL;
}

static const struct sigv4_creds creds = {
    {AKID, sizeof AKID - 1}, {SECRET, sizeof SECRET - 1}, {NULL, 0}, {"eu-west-3", 9}};

/* Signs and adds what signing adds. */
static inline void
sign(struct request *r, const char *payload, struct sigv4_creds with)
{
    struct field room[HEADERS_MAX];
    struct sigv4_request req = wire_of(r, room);
    struct sigv4_signed s;
    struct query q;
    size_t n = 0;

    arena_reset(arena);
    CHECK(query_parse(span_of(r->query), arena, &q, NULL) == ERR_OK);
    CHECK(sigv4_sign(&req, &q, &with, span_of(payload), NULL, NOW_S, arena, &s) ==
          ERR_OK);
    while (r->headers[n][0] != NULL)
        n++;
    for (size_t i = 0; i < s.add_count && n < HEADERS_MAX - 1; i++, n++) {
        r->headers[n][0] = xmemdup0(s.add[i].name.at, s.add[i].name.len);
        r->headers[n][1] = xmemdup0(s.add[i].value.at, s.add[i].value.len);
    }
}

static inline size_t
at_header(const struct request *r, const char *name)
{
    size_t i = 0;

    while (r->headers[i][0] != NULL && strcmp(r->headers[i][0], name) != 0)
        i++;
    return i;
}

static inline void
free_signed(struct request *r)
{
    size_t i = at_header(r, "x-amz-date");

    for (; i < HEADERS_MAX && r->headers[i][0] != NULL; i++) {
        free((void *)(uintptr_t)r->headers[i][0]);
        free((void *)(uintptr_t)r->headers[i][1]);
    }
}
