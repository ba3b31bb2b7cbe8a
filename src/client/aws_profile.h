/* aws_profile: reads a profile from AWS's configuration files. Blocking: on a worker, or before there is a loop. */
#pragma once
#include "client/s3.h"

struct aws_profile { /* texts are owned; NULL: not given */
    bool section;    /* a file has this profile */
    struct s3_credentials keys;
    char *region;
    char *role_arn, *source_profile, *credential_source, *external_id, *session_name;
    char *token_file;  /* web_identity_token_file */
    char *process;     /* credential_process: not supported */
    char *sso_account; /* sso_*: not supported */
};
/* Reads AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, or those below ~/.aws; the first value of a setting
 * counts. A missing file is empty. */
void aws_profile_read(const char *name, struct aws_profile *out);
void aws_profile_fini(struct aws_profile *p); /* wipes */
