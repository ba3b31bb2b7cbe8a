/* credentials: finds keys as AWS tools do, without the network: environment, then profile files. identity.c covers
 * what needs the network (assumed roles, instance metadata). Blocking file reads: set-up and CLI only. */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client/aws_profile.h"

static char *
copy_env(const char *name)
{
    const char *v = getenv(name);

    return v != NULL && v[0] != '\0' ? xstrdup(v) : NULL;
}

static enum err
from_files(const char *profile, struct aws_profile *p, struct errbuf *eb)
{
    aws_profile_read(profile, p);
    if (p->keys.access_key == NULL)
        return p->section
                   ? err_set(eb, ERR_NOT_FOUND,
                             "profile [%s] has no aws_access_key_id (roles and processes "
                             "are not followed here)",
                             profile)
                   : err_set(eb, ERR_NOT_FOUND, "no profile [%s] in AWS's files",
                             profile);
    if (p->keys.secret_key == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "profile [%s] has no aws_secret_access_key",
                       profile);
    return ERR_OK;
}

enum err
s3_credentials_chain(const char *profile, struct s3_credentials *out, char **region,
                     struct errbuf *eb)
{
    struct aws_profile f = {0};
    char *from_region = copy_env("AWS_REGION");
    const char *from_env = getenv("AWS_PROFILE");
    enum err rc = ERR_OK;

    if (from_region == NULL)
        from_region = copy_env("AWS_DEFAULT_REGION");
    if (profile == NULL && getenv("AWS_ACCESS_KEY_ID") != NULL) {
        f.keys.access_key = copy_env("AWS_ACCESS_KEY_ID");
        f.keys.secret_key = copy_env("AWS_SECRET_ACCESS_KEY");
        f.keys.session_token = copy_env("AWS_SESSION_TOKEN");
        if (f.keys.access_key == NULL || f.keys.secret_key == NULL)
            rc = err_set(eb, ERR_BAD_REQUEST,
                         "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be set");
    } else {
        rc = from_files(profile != NULL    ? profile
                        : from_env != NULL ? from_env
                                           : "default",
                        &f, eb);
    }
    if (rc == ERR_OK) {
        *out = f.keys;
        f.keys = (struct s3_credentials){0};
        if (region != NULL) {
            *region = from_region != NULL ? from_region : f.region;
            if (from_region == NULL)
                f.region = NULL;
            from_region = NULL;
        }
    }
    free(from_region);
    aws_profile_fini(&f);
    return rc;
}

static void
wipe(char **s)
{
    if (*s != NULL) {
        OPENSSL_cleanse(*s, strlen(*s));
        free(*s);
        *s = NULL;
    }
}

void
s3_credentials_fini(struct s3_credentials *c)
{
    wipe(&c->access_key);
    wipe(&c->secret_key);
    wipe(&c->session_token);
}
