/* aws_profile: what AWS's files say of a profile, as they say it. Blocking: on a worker, or before there is a loop. */
#pragma once
#include "client/s3.h"

struct aws_profile { /* texts are owned; NULL: not said */
    bool section;    /* a file has it */
    struct s3_credentials keys;
    char *region;
    char *role_arn, *source_profile, *credential_source, *external_id, *session_name;
    char *token_file;  /* web_identity_token_file */
    char *process;     /* credential_process: not followed */
    char *sso_account; /* sso_*: not followed */
};
/* AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, or those below ~/.aws; the first that says a thing counts. A file that is
 * not there says nothing. */
void aws_profile_read(const char *name, struct aws_profile *out);
void aws_profile_fini(struct aws_profile *p); /* wipes */
