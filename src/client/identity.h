/* identity: finds the keys of the user who runs this program, as AWS's tools do, asking the
 * network where those do:
 *
 *   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   2. a web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN (Kubernetes service accounts)
 *   3. the profile (AWS_PROFILE, else "default"): its keys; or its role_arn by source_profile,
 *      credential_source or web_identity_token_file
 *   4. a container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI
 *   5. the metadata of an EC2 instance (version 2 only), unless AWS_EC2_METADATA_DISABLED
 *
 * Not supported, with an error: credential_process (no program is started) and SSO. STS is asked
 * at AWS_ENDPOINT_URL_STS, else at https://sts.REGION.amazonaws.com, through `proxies` (NULL:
 * none); containers and instances are asked directly. Fibers; may switch.
 */
#pragma once
#include "client/s3.h"

struct s3_identity {
    struct s3_credentials keys; /* owned */
    char *region;               /* owned; NULL: not given */
    int64_t expires_s;          /* since 1970; 0: never */
    const char *from;           /* for people, static: "the instance's metadata" */
};
/* ERR_NOT_FOUND: none of the above exists. Any other error names the source that does not work. */
enum err s3_identity_find(const char *ca_file, const struct proxies *proxies,
                          struct s3_identity *out, struct errbuf *eb) MUST_CHECK;
void s3_identity_fini(struct s3_identity *i); /* wipes */
