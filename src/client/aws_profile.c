#include "client/aws_profile.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define LINE_MAX_BYTES 4096

static char *
path_of(const char *variable, const char *below_home)
{
    const char *home = getenv("HOME");
    const char *given = getenv(variable);

    if (given != NULL && given[0] != '\0')
        return xstrdup(given);
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

static void
take_value(char **where, const char *value)
{
    if (*where == NULL && value[0] != '\0')
        *where = xstrdup(value);
}

static void
take_pair(struct aws_profile *p, char *line)
{
    const struct {
        const char *name;
        char **where;
    } known[] = {
        {"aws_access_key_id", &p->keys.access_key},
        {"aws_secret_access_key", &p->keys.secret_key},
        {"aws_session_token", &p->keys.session_token},
        {"region", &p->region},
        {"role_arn", &p->role_arn},
        {"source_profile", &p->source_profile},
        {"credential_source", &p->credential_source},
        {"external_id", &p->external_id},
        {"role_session_name", &p->session_name},
        {"web_identity_token_file", &p->token_file},
        {"credential_process", &p->process},
        {"sso_account_id", &p->sso_account},
    };
    char *equals = strchr(line, '='), *name;

    if (equals == NULL)
        return;
    *equals = '\0';
    name = trim(line);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(name, known[i].name) == 0)
            take_value(known[i].where, trim(equals + 1));
}

static void
read_file(const char *path, const char *profile, struct aws_profile *out)
{
    char *line; /* owned; too large for a fiber's stack */
    FILE *in = path != NULL ? fopen(path, "re") : NULL;
    bool inside = false;

    if (in == NULL)
        return;
    line = xmalloc(LINE_MAX_BYTES);
    while (fgets(line, LINE_MAX_BYTES, in) != NULL) {
        char *text = trim(line);

        if (text[0] == '[') {
            inside = is_section(text, profile);
            out->section = out->section || inside;
        } else if (inside && text[0] != '#' && text[0] != ';') {
            take_pair(out, text);
        }
    }
    explicit_bzero(line, LINE_MAX_BYTES);
    free(line);
    fclose(in);
}

void
aws_profile_read(const char *name, struct aws_profile *out)
{
    char *credentials = path_of("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    char *config = path_of("AWS_CONFIG_FILE", ".aws/config");

    *out = (struct aws_profile){0};
    read_file(credentials, name, out);
    read_file(config, name, out);
    free(credentials);
    free(config);
}

void
aws_profile_fini(struct aws_profile *p)
{
    s3_credentials_fini(&p->keys);
    free(p->region);
    free(p->role_arn);
    free(p->source_profile);
    free(p->credential_source);
    free(p->external_id);
    free(p->session_name);
    free(p->token_file);
    free(p->process);
    free(p->sso_account);
    *p = (struct aws_profile){0};
}
