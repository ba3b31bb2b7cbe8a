#include <stdio.h>

#include "cli/cli.h"

#include <openssl/crypto.h>

static const struct flag flags[] = {{"json", 0, NULL, "as JSON", false},
                                    {NULL, 0, NULL, NULL, false}};
static const char *const examples[] = {"forebay version", NULL};
static const struct verb verb = {.name = "version",
                                 .summary =
                                     "say which version this is, and on what it stands",
                                 .arguments = "",
                                 .examples = examples,
                                 .flags = flags};

static enum exit_code
run(const struct args *a)
{
    if (args_has(a, "json"))
        printf("{\"version\":\"%s\",\"openssl\":\"%s\"}\n", FOREBAY_VERSION,
               OpenSSL_version(OPENSSL_VERSION_STRING));
    else
        printf("forebay %s (OpenSSL %s)\n", FOREBAY_VERSION,
               OpenSSL_version(OPENSSL_VERSION_STRING));
    return EXIT_OK_;
}

const struct cli_verb cli_version = {&verb, run};
