/* credentials: keys as AWS tools find them: environment, then profile files. Starts no programs and asks no network: what
 * needs those (assumed roles, instance metadata) is said, not guessed. Blocking file reads: set-up and CLI only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client/s3.h"

#define LINE_MAX_BYTES 4096

static char *
copy_env(const char *name)
{
    const char *v = getenv(name);

    return v != NULL && v[0] != '\0' ? xstrdup(v) : NULL;
}

static char *
path_of(const char *variable, const char *below_home)
{
    const char *home = getenv("HOME");
    char *given = copy_env(variable);

    if (given != NULL)
        return given;
    return home != NULL ? xasprintf("%s/%s", home, below_home) : NULL;
}

static char *
trim(char *s)
{
    size_t len;

    while (*s == ' ' || *s == '\t')
        s++;
    len = strlen(s);
    while (len > 0 && strchr(" \t\r\n", s[len - 1]) != NULL)
        s[--len] = '\0';
    return s;
}

/* Is this "[name]", or "[profile name]" as config files write it? */
static bool
is_section(const char *line, const char *profile)
{
    size_t len = strlen(profile);

    if (line[0] != '[')
        return false;
    line++;
    if (strncmp(line, "profile ", 8) == 0)
        line += 8;
    return strncmp(line, profile, len) == 0 && strcmp(line + len, "]") == 0;
}

struct found {
    struct s3_credentials keys;
    char *region;
    bool section;
};

static void
take(char **where, const char *value)
{
    if (*where == NULL && value[0] != '\0')
        *where = xstrdup(value);
}

static void
take_pair(struct found *f, char *line)
{
    char *equals = strchr(line, '='), *name, *value;

    if (equals == NULL)
        return;
    *equals = '\0';
    name = trim(line);
    value = trim(equals + 1);
    if (strcmp(name, "aws_access_key_id") == 0)
        take(&f->keys.access_key, value);
    else if (strcmp(name, "aws_secret_access_key") == 0)
        take(&f->keys.secret_key, value);
    else if (strcmp(name, "aws_session_token") == 0)
        take(&f->keys.session_token, value);
    else if (strcmp(name, "region") == 0)
        take(&f->region, value);
}

/* A file that is not there holds nothing. */
static void
read_profile(const char *path, const char *profile, struct found *f)
{
    char line[LINE_MAX_BYTES];
    FILE *in = path != NULL ? fopen(path, "re") : NULL;
    bool inside = false;

    if (in == NULL)
        return;
    while (fgets(line, sizeof line, in) != NULL) {
        char *text = trim(line);

        if (text[0] == '[') {
            inside = is_section(text, profile);
            f->section = f->section || inside;
        } else if (inside && text[0] != '#' && text[0] != ';') {
            take_pair(f, text);
        }
    }
    explicit_bzero(line, sizeof line);
    fclose(in);
}

static enum err
from_files(const char *profile, struct found *f, struct errbuf *eb)
{
    char *credentials = path_of("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    char *config = path_of("AWS_CONFIG_FILE", ".aws/config");
    enum err rc = ERR_OK;

    read_profile(credentials, profile, f);
    read_profile(config, profile, f);
    if (f->keys.access_key == NULL)
        rc = f->section
                 ? err_set(
                       eb, ERR_NOT_FOUND,
                       "profile [%s] has no aws_access_key_id (roles and processes are "
                       "not followed yet)",
                       profile)
                 : err_set(eb, ERR_NOT_FOUND, "no profile [%s] in %s", profile,
                           credentials != NULL ? credentials : "~/.aws/credentials");
    else if (f->keys.secret_key == NULL)
        rc = err_set(eb, ERR_BAD_REQUEST, "profile [%s] has no aws_secret_access_key",
                     profile);
    free(credentials);
    free(config);
    return rc;
}

enum err
s3_credentials_chain(const char *profile, struct s3_credentials *out, char **region,
                     struct errbuf *eb)
{
    struct found f = {.region = copy_env("AWS_REGION")};
    const char *from_env = getenv("AWS_PROFILE");
    enum err rc = ERR_OK;

    if (f.region == NULL)
        f.region = copy_env("AWS_DEFAULT_REGION");
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
    if (rc != ERR_OK) {
        s3_credentials_fini(&f.keys);
        free(f.region);
        return rc;
    }
    *out = f.keys;
    if (region != NULL)
        *region = f.region;
    else
        free(f.region);
    return ERR_OK;
}
