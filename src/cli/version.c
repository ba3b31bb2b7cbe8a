#include <stdio.h>
#include <string.h>

#include "base/metrics.h"
#include "cli/cli.h"

#include <openssl/crypto.h>

static const struct flag flags[] = {
    {"output", 'o', "json|jsonl|table", "form of what is printed", false},
    {"json", 0, NULL, "the same as -o json", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {"forebay version", NULL};
static const struct verb verb = {.name = "version",
                                 .summary = "print the version and the libraries",
                                 .arguments = "",
                                 .examples = examples,
                                 .flags = flags};

static enum exit_code
version_run(const struct args *a)
{
    const char *form = args_value(a, "output");
    bool table = form != NULL ? strcmp(form, "table") == 0 : !args_has(a, "json");
    struct errbuf eb = {{0}};

    if (!table && form != NULL && strcmp(form, "json") != 0 &&
        strcmp(form, "jsonl") != 0) {
        (void)err_set(&eb, ERR_BAD_REQUEST,
                      "--output \"%s\": expected json, jsonl or table", form);
        return cli_usage(&eb, &verb);
    }
    if (!table)
        printf("{\"version\":\"%s\",\"commit\":\"%s\",\"openssl\":\"%s\"}\n",
               FOREBAY_VERSION, metrics_commit(),
               OpenSSL_version(OPENSSL_VERSION_STRING));
    else
        printf("forebay %s (commit %s, OpenSSL %s)\n", FOREBAY_VERSION, metrics_commit(),
               OpenSSL_version(OPENSSL_VERSION_STRING));
    return EXIT_OK_;
}

const struct cli_verb cli_version = {&verb, version_run};
