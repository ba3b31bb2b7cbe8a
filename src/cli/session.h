/* session: what a verb that talks to a server needs: address, keys, and a loop to run on.
 *
 * settings.h says where that is said.
 */
#pragma once
#include "base/num.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "client/s3.h"

/* Flags every such verb has. */
#define SESSION_FLAGS                                                                    \
    {"endpoint-url", 0, "URL",                                                           \
     "the server; FOREBAY_ENDPOINT, else http://127.0.0.1:9000", false},                 \
        {"profile", 0, "NAME",                                                           \
         "a profile of ~/.config/forebay/config.toml, or of the AWS files", false},      \
        {"region", 0, "NAME", "region to sign for; us-east-1", false},                   \
        {"ca-bundle", 0, "FILE",                                                         \
         "certificates to trust instead of the system's; AWS_CA_BUNDLE", false},         \
        {"no-verify-tls", 0, NULL, "do not verify the server's certificate (unsafe)",    \
         false},                                                                         \
        {"no-verify-ssl", 0, NULL, "the same, as AWS's tools call it", false},           \
        {"no-sign", 0, NULL, "do not sign requests: use no keys", false},                \
        {"output", 'o', "table|json|jsonl|name", "form of what is printed", false},      \
        {"json", 0, NULL, "the same as -o json", false},                                 \
        {"units", 0, "iec|si|raw", "sizes for people: KiB, kB or bytes; iec", false},    \
    {                                                                                    \
        "quiet", 'q', NULL, "print no progress and no notes", false                      \
    }

/* Of verbs that copy: another server is the target. */
#define TO_FLAGS                                                                         \
    {"to-endpoint-url", 0, "URL",                                                        \
     "another server for the target; data passes through this client", false},           \
        {"to-profile", 0, "NAME", "its profile, of config.toml or the AWS files",        \
         false},                                                                         \
        {"to-region", 0, "NAME", "region to sign for there; us-east-1", false},          \
    {                                                                                    \
        "no-tags", 0, NULL, "do not copy tags", false                                    \
    }

#define CONNECTIONS_MAX 1024 /* --parallel */
enum output { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_JSONL, OUTPUT_NAME };
struct session {
    const struct args *args;
    struct s3_client *s3;
    struct proxies proxies; /* of the environment; lent to s3 and to */
    const char *endpoint;   /* borrowed */
    const char *key,
        *keys_how; /* borrowed: the access key id in use and where it was said; NULL: requests go unsigned */
    struct s3_client *to; /* where copies go: s3, unless --to-... name another */
    const char *to_endpoint;
    enum output output;
    enum num_units units;
    bool json; /* output is JSON or JSONL */
    bool quiet;
    bool endless;         /* Ctrl-C is how one ends it: exit code 0 */
    bool within;          /* one of many in a batch: no progress, no sums */
    unsigned connections; /* at once; 0: 64 */
    unsigned loops;       /* 0: one */
    bool own_keys;        /* never the AWS chain, whose keys are for the remote */
    bool stale;           /* session_listed() saw an incomplete page */
    struct errbuf eb;
    void *arg;
};
/* Of each page of a listing: reports once, on standard error, a page that a server gave without asking the bucket's remote, --quiet
 * or not: what follows is of a part. */
void session_listed(struct session *s, struct span bucket,
                    const struct s3_list_page *page);
/* What was listed is to be deleted: ERR_PRECONDITION when that was not all there is. */
enum err session_all_listed(struct session *s) MUST_CHECK;
/* Runs `fn` as a fiber on a loop of its own; its return value is the exit code. Ctrl-C cancels it. */
enum exit_code session_run(const struct args *a, enum exit_code (*fn)(struct session *s),
                           void *arg);
/* The same, never signing with keys of the AWS chain. */
enum exit_code session_run_own_keys(const struct args *a,
                                    enum exit_code (*fn)(struct session *s), void *arg);
/* The same on loop 0 of several, with up to so many connections at once: for benchmarks. */
enum exit_code session_run_wide(const struct args *a,
                                enum exit_code (*fn)(struct session *s), unsigned loops,
                                unsigned connections);
/* batch: sessions that begin on this loop from now on use the server, the keys and the connections of `s`; NULL: no more. */
void session_share(struct session *s);
/* A size for people, as --units says. */
const char *session_size(const struct session *s, uint64_t bytes,
                         char out[NUM_SIZE_TEXT]);
/* Says the sentence of s->eb. Nothing, and no failure, when the reader of standard output has closed it (output.h). */
enum exit_code session_fail(struct session *s, enum err rc);

/* "s3://bucket/key", "forebay://bucket/key", "-", or a path. */
struct place {
    bool remote, standard;   /* neither: a local path */
    struct span bucket, key; /* borrowed from `text` */
    const char *text;
};
enum err place_parse(const char *text, struct place *out, struct errbuf *eb) MUST_CHECK;
/* A bucket: "s3://bucket", or its bare name. */
enum err place_bucket(const char *text, struct place *out, struct errbuf *eb) MUST_CHECK;
/* The same, and it must be remote; with a key where `key` says so. */
enum err place_remote(const char *text, bool key, struct place *out,
                      struct errbuf *eb) MUST_CHECK;
