/* secrets: the key that seals what a server keeps of its remotes' keys. */
#include <stdio.h>

#include "base/mem.h"
#include "cli/admin.h"

static const struct flag flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const examples[] = {"forebay secrets rotate", NULL};
static const struct verb verb = {
    .name = "secrets",
    .summary = "re-encrypt the stored keys of remotes under a new key",
    .arguments = "rotate",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more =
        "Keys that `forebay bucket attach --store-credentials` hands over lie sealed on "
        "the server's disk. This makes a new\n"
        "sealing key, seals all of them under it, and forgets the old one. Buckets go on "
        "being served."};

static enum exit_code
cli_secrets_rotate(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_request r = {.method = "POST", .path = SPAN("/_/secrets/rotate")};
    struct span answer = {"", 0};
    enum err rc = ERR_OK;

    if (strcmp(s->args->at[0], "rotate") != 0)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "\"%s\": expected rotate", s->args->at[0]);
    if (rc == ERR_OK)
        rc = admin_call(s, &r, a, &answer);
    if (rc == ERR_OK)
        printf("%.*s\n", SPAN_ARG(answer));
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
secrets_run(const struct args *a)
{
    return session_run(a, cli_secrets_rotate, NULL);
}
const struct cli_verb cli_secrets = {&verb, secrets_run};
