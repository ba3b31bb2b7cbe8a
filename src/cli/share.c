/* share: a URL that opens one object, for some time, for every holder of the URL. */
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/session.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"expires", 0, "TIME", "validity: default 1h, at most 7d", false},
    {"put", 0, NULL, "a URL to upload to, instead of one to read from", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay share s3://train/model.safetensors --expires 24h",
    "curl -fo model.safetensors \"$(forebay share s3://train/model.safetensors)\"",
    "curl -fT result.json \"$(forebay share s3://results/run-7.json --put)\"",
    NULL,
};
static const struct verb verb = {
    .name = "share",
    .summary = "create a URL that opens one object for a limited time",
    .arguments = "s3://BUCKET/KEY",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more = "The URL is signed locally with your key; no server is asked. It "
            "has the rights of that key and ends with it. Anyone\n"
            "who has the URL can use it: treat it like a password. forebay "
            "presign is the same."};

static enum exit_code
share_share(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    const char *given = args_value(s->args, "expires");
    const char *method = args_has(s->args, "put") ? "PUT" : "GET";
    struct span url = {"", 0};
    struct place p;
    uint64_t ms = 0;
    enum err rc = place_remote(s->args->at[0], true, &p, &s->eb);

    if (rc == ERR_OK)
        rc = num_duration_ms(span_of(given != NULL ? given : "1h"), &ms, &s->eb);
    if (rc == ERR_OK)
        rc = s3_presign(s->s3, method, p.bucket, p.key, ms / 1000, a, &url, &s->eb);
    if (rc == ERR_OK && s->json)
        printf("{\"method\":\"%s\",\"url\":\"%.*s\"}\n", method, SPAN_ARG(url));
    else if (rc == ERR_OK)
        printf("%.*s\n", SPAN_ARG(url));
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
share_run(const struct args *a)
{
    return session_run(a, share_share, NULL);
}

const struct cli_verb cli_share = {&verb, share_run};
