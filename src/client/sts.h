/* sts: temporary keys from AWS's token service (query API of version 2011-06-15). Fibers; may switch. */
#pragma once
#include "client/identity.h"
#include "http/client.h"

struct sts_request {
    const char *endpoint; /* "https://sts.eu-west-1.amazonaws.com" */
    const char *region;   /* the region to sign for */
    const char *role_arn, *session_name, *external_id; /* external_id: NULL for none */
    struct span web_token; /* AssumeRoleWithWebIdentity, unsigned; empty: AssumeRole... */
    const struct s3_credentials *role_keys; /* ...signed with these */
};
/* Fills keys and expires_s. */
enum err sts_assume(struct http_client *c, const struct sts_request *ask,
                    struct s3_identity *out, struct errbuf *eb) MUST_CHECK;
/* Host, port and whether it is https, of "http[s]://host[:port][/path]". *host is owned; *path borrowed, "/" at least. */
enum err endpoint_parse(const char *url, char **host, uint16_t *port, bool *tls,
                        const char **path, struct errbuf *eb) MUST_CHECK;
