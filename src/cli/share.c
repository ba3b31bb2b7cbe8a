/* share: a URL that opens one object, for some time, to whoever has it. */
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/session.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"expires", 0, "TIME", "how long it works: 1h unless given, 7d at most", false},
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
    .summary = "make a URL that opens one object for some time",
    .arguments = "s3://BUCKET/KEY",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more = "The URL is signed here with your key; no server is asked. It may do what "
            "that key may, "
            "and ends with it.\nWhoever has it needs no key: send it as you would a "
            "password. forebay presign is the same."};

static enum exit_code
share(struct session *s)
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
run(const struct args *a)
{
    return session_run(a, share, NULL);
}

const struct cli_verb cli_share = {&verb, run};
