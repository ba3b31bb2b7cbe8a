#include "cli/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "conf/suggest.h"
#include "conf/toml.h"

#define DEFAULT_ENDPOINT "http://127.0.0.1:9000"

const struct settings_flags settings_first = {"endpoint-url", "profile", "region", false};
const struct settings_flags settings_to = {"to-endpoint-url", "to-profile", "to-region",
                                           true};

/* ---- the file ---- */

/* One profile of it. Texts are owned. */
struct profile {
    char *endpoint, *region, *ca_bundle, *aws_profile;
    struct s3_credentials keys;
    bool no_verify_tls;
    bool found;
};

static void
profile_fini(struct profile *p)
{
    free(p->endpoint);
    free(p->region);
    free(p->ca_bundle);
    free(p->aws_profile);
    s3_credentials_fini(&p->keys);
    *p = (struct profile){0};
}

struct reading {
    const char *wanted; /* name of the profile; NULL: the one that the file chooses */
    char *chosen;       /* owned; by `profile = ` at the top */
    bool secrets;       /* it has some */
    struct profile out;
};

static enum err
no_such(const char *key, struct span name, const char *const *known, size_t count,
        struct errbuf *eb)
{
    struct suggest s;

    suggest_begin(&s, name);
    for (size_t i = 0; i < count; i++)
        suggest_offer(&s, known[i]);
    return err_set(eb, ERR_BAD_REQUEST, "there is no setting \"%s\"%s%s%s", key,
                   s.best != NULL ? "; did you mean \"" : "",
                   s.best != NULL ? s.best : "", s.best != NULL ? "\"?" : "");
}

static enum err
settings_take_text(const char *key, const struct toml_value *v, char **to,
                   struct errbuf *eb)
{
    if (v->kind != TOML_STRING || v->string.len == 0 ||
        memchr(v->string.at, '\0', v->string.len) != NULL)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is a text in quotes", key);
    free(*to);
    *to = xmemdup0(v->string.at, v->string.len);
    return ERR_OK;
}

/* "profiles.NAME.WHAT": a value of the profile that is wanted. */
static enum err
settings_take_value(struct reading *r, const char *key, struct span name,
                    const struct toml_value *v, bool ours, struct errbuf *eb)
{
    static const char *const known[] = {"endpoint",    "region",       "ca_bundle",
                                        "access_key",  "secret_key",   "session_token",
                                        "aws_profile", "no_verify_tls"};
    struct profile other = {0}, *p = ours ? &r->out : &other;
    char **to[] = {&p->endpoint,        &p->region,          &p->ca_bundle,
                   &p->keys.access_key, &p->keys.secret_key, &p->keys.session_token,
                   &p->aws_profile};
    enum err rc = ERR_OK;
    size_t i = 0;

    while (i < ARRAY_LEN(known) && !span_is(name, known[i]))
        i++;
    if (i == ARRAY_LEN(known))
        rc = no_such(key, name, known, ARRAY_LEN(known), eb);
    else if (i < ARRAY_LEN(to))
        rc = settings_take_text(key, v, to[i], eb);
    else if (v->kind != TOML_BOOLEAN)
        rc = err_set(eb, ERR_BAD_REQUEST, "\"%s\" is true or false", key);
    else
        p->no_verify_tls = v->boolean;
    r->secrets =
        r->secrets || span_is(name, "secret_key") || span_is(name, "session_token");
    profile_fini(&other);
    return rc;
}

static enum err
settings_on_value(const char *key, const struct toml_value *v, void *arg,
                  struct errbuf *eb)
{
    static const char *const tops[] = {"profile", "profiles.NAME..."};
    struct reading *r = arg;
    const char *name = key + strlen("profiles."), *dot;
    const char *wanted = r->wanted != NULL ? r->wanted : r->chosen;
    bool ours;

    if (strcmp(key, "profile") == 0)
        return settings_take_text(key, v, &r->chosen, eb);
    dot = strncmp(key, "profiles.", strlen("profiles.")) == 0 ? strrchr(name, '.') : NULL;
    if (dot == NULL)
        return no_such(key, span_of(key), tops, 1, eb);
    ours = wanted != NULL && strlen(wanted) == (size_t)(dot - name) &&
           memcmp(wanted, name, (size_t)(dot - name)) == 0;
    r->out.found = r->out.found || ours;
    return settings_take_value(r, key, span_of(dot + 1), v, ours, eb);
}

static char *
file_path(void)
{
    const char *given = getenv("FOREBAY_CONFIG"), *base = getenv("XDG_CONFIG_HOME"),
               *home = getenv("HOME");

    if (given != NULL && given[0] != '\0')
        return xstrdup(given);
    if (base != NULL && base[0] == '/')
        return xasprintf("%s/forebay/config.toml", base);
    return home != NULL ? xasprintf("%s/.config/forebay/config.toml", home) : NULL;
}

/* All of it, owned by the caller, and its mode. ERR_NOT_FOUND. */
static enum err
settings_load(const char *path, char **text, size_t *len, unsigned *mode,
              struct errbuf *eb)
{
    FILE *f = path != NULL ? fopen(path, "re") : NULL;
    struct stat st;
    enum err rc = ERR_OK;

    *text = NULL;
    if (f == NULL && (path == NULL || errno == ENOENT || errno == ENOTDIR))
        return ERR_NOT_FOUND;
    if (f == NULL)
        return err_errno(eb, ERR_DENIED, errno, "%s", path);
    *text = xmalloc(TOML_TEXT_MAX + 1);
    *len = fread(*text, 1, TOML_TEXT_MAX + 1, f);
    if (ferror(f) != 0 || fstat(fileno(f), &st) != 0)
        rc = err_errno(eb, ERR_IO, errno, "%s", path);
    *mode = rc == ERR_OK ? (unsigned)st.st_mode : 0;
    fclose(f);
    return rc;
}

/* The profile of that name, or the one that the file chooses (*name, owned). `found` is false where there is none. */
static enum err
read_profile(const char *path, const char *wanted, char **name, struct profile *out,
             struct errbuf *eb)
{
    struct reading r = {.wanted = wanted};
    unsigned mode = 0;
    size_t len = 0;
    char *text;
    enum err rc = settings_load(path, &text, &len, &mode, eb);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc == ERR_OK) /* `profile =` may only stand at the top: tables follow it */
        rc = toml_parse(path, (struct span){text, len}, settings_on_value, &r, eb);
    if (rc == ERR_OK && r.secrets && (mode & 077) != 0)
        rc =
            err_set(eb, ERR_DENIED,
                    "%s has secret keys and others can read it (mode %03o): chmod 600 %s",
                    path, mode & 0777, path);
    if (rc == ERR_OK && wanted == NULL && r.chosen != NULL && !r.out.found)
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "%s chooses profile \"%s\" and does not have it", path, r.chosen);
    if (text != NULL)
        hash_wipe(text, len);
    free(text);
    *out = r.out;
    if (rc == ERR_OK && r.out.found)
        *name = xstrdup(wanted != NULL ? wanted : r.chosen);
    free(r.chosen);
    return rc;
}

enum err
settings_check(const char *file, char **path, struct errbuf *eb)
{
    struct profile profile = {0};
    char *name = NULL;
    enum err rc;

    *path = file != NULL ? xstrdup(file) : file_path();
    if (*path == NULL || access(*path, F_OK) != 0) {
        if (file != NULL)
            return err_set(eb, ERR_NOT_FOUND, "there is no file %s", file);
        free(*path);
        *path = NULL;
        return ERR_OK;
    }
    rc = read_profile(*path, NULL, &name, &profile, eb);
    free(name);
    profile_fini(&profile);
    return rc;
}

/* ---- which one counts ---- */

struct finding {
    const struct args *a;
    const struct settings_flags *flags;
    bool own_only;
    bool chosen;     /* the profile is a flag's: before the environment */
    const char *aws; /* a profile of AWS's files that was chosen; NULL: whichever */
    struct profile profile;
    struct settings *out;
};

static const char *
settings_env(const char *name)
{
    const char *v = getenv(name);

    return v != NULL && v[0] != '\0' ? v : NULL;
}

static bool
settings_take(struct setting *s, const char *value, const char *how)
{
    if (s->value == NULL && value != NULL) {
        s->value = xstrdup(value);
        s->how = how;
    }
    return s->value != NULL;
}

/* Flag, chosen profile, environment, the file's profile. */
static void
take_in_order(struct finding *f, struct setting *s, const char *flag,
              const char *flag_how, const char *of_profile, const char *const *names)
{
    if (flag != NULL)
        settings_take(s, args_value(f->a, flag), flag_how);
    if (f->chosen)
        settings_take(s, of_profile, "profile");
    for (; !f->flags->second && *names != NULL; names++)
        settings_take(s, settings_env(*names), *names);
    settings_take(s, of_profile, "profile");
}

static void
find_server(struct finding *f)
{
    static const char *const endpoints[] = {"FOREBAY_ENDPOINT", "AWS_ENDPOINT_URL_S3",
                                            "AWS_ENDPOINT_URL", NULL};
    static const char *const regions[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL};
    static const char *const bundles[] = {"AWS_CA_BUNDLE", NULL};
    struct settings *o = f->out;
    bool second = f->flags->second;

    take_in_order(f, &o->endpoint, f->flags->endpoint,
                  second ? "--to-endpoint-url" : "--endpoint-url", f->profile.endpoint,
                  endpoints);
    take_in_order(f, &o->region, f->flags->region, second ? "--to-region" : "--region",
                  f->profile.region, regions);
    take_in_order(f, &o->ca_bundle, "ca-bundle", "--ca-bundle", f->profile.ca_bundle,
                  bundles);
    o->no_verify_tls = args_has(f->a, "no-verify-ssl") ||
                       args_has(f->a, "no-verify-tls") || f->profile.no_verify_tls;
    if (!second)
        settings_take(&o->endpoint, DEFAULT_ENDPOINT, "default");
}

static void
take_keys(struct settings *o, struct s3_credentials *from, const char *how)
{
    o->keys = *from;
    *from = (struct s3_credentials){0};
    o->has_keys = true;
    o->keys_how = how;
}

static enum err
keys_of_profile(struct finding *f, struct errbuf *eb)
{
    struct s3_credentials *k = &f->profile.keys;

    if (k->access_key == NULL && k->secret_key == NULL)
        return ERR_NOT_FOUND;
    if (k->access_key == NULL || k->secret_key == NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "profile \"%s\" has one of access_key and secret_key: both are "
                       "needed",
                       f->out->profile);
    take_keys(f->out, k, "profile");
    return ERR_OK;
}

static enum err
keys_of_env(struct finding *f, struct errbuf *eb)
{
    const char *id = settings_env("FOREBAY_ACCESS_KEY_ID"),
               *secret = settings_env("FOREBAY_SECRET_ACCESS_KEY"),
               *token = settings_env("FOREBAY_SESSION_TOKEN");
    struct s3_credentials keys;

    if (id == NULL)
        return ERR_NOT_FOUND;
    if (secret == NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "FOREBAY_ACCESS_KEY_ID is set, FOREBAY_SECRET_ACCESS_KEY is not");
    keys =
        (struct s3_credentials){.access_key = xstrdup(id),
                                .secret_key = xstrdup(secret),
                                .session_token = token != NULL ? xstrdup(token) : NULL};
    take_keys(f->out, &keys, "FOREBAY_ACCESS_KEY_ID");
    return ERR_OK;
}

/* The environment of AWS's tools, or their files; `profile` NULL: as they would. */
static enum err
keys_of_aws(struct finding *f, const char *profile, struct errbuf *eb)
{
    bool of_env = profile == NULL && settings_env("AWS_ACCESS_KEY_ID") != NULL;
    struct s3_credentials keys = {0};
    char *region = NULL;
    enum err rc = s3_credentials_chain(profile, &keys, &region, eb);

    if (rc == ERR_OK)
        take_keys(f->out, &keys, of_env ? "AWS_ACCESS_KEY_ID" : "AWS's files");
    settings_take(&f->out->region, rc == ERR_OK ? region : NULL, "AWS's files");
    free(region);
    return rc;
}

static enum err
find_keys(struct finding *f, struct errbuf *eb)
{
    const char *aws = f->profile.aws_profile != NULL ? f->profile.aws_profile : f->aws;
    enum err rc = f->chosen ? keys_of_profile(f, eb) : ERR_NOT_FOUND;

    if (rc == ERR_NOT_FOUND && f->chosen && aws != NULL) {
        rc = keys_of_aws(f, aws, eb);
        return rc == ERR_NOT_FOUND ? ERR_BAD_REQUEST : rc; /* it was asked for */
    }
    if (rc == ERR_NOT_FOUND)
        rc = keys_of_env(f, eb);
    if (rc == ERR_NOT_FOUND && settings_env("AWS_ACCESS_KEY_ID") != NULL && !f->own_only)
        return keys_of_aws(f, NULL, eb);
    if (rc == ERR_NOT_FOUND)
        rc = keys_of_profile(f, eb);
    if (rc == ERR_NOT_FOUND && aws != NULL)
        return keys_of_aws(f, aws, eb);
    if (rc == ERR_NOT_FOUND && !f->own_only)
        rc = keys_of_aws(f, NULL, eb);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* By flag, or by the environment, or by the file. */
static enum err
find_profile(struct finding *f, struct errbuf *eb)
{
    const char *flag =
        f->flags->profile != NULL ? args_value(f->a, f->flags->profile) : NULL;
    const char *wanted = flag != NULL        ? flag
                         : !f->flags->second ? settings_env("FOREBAY_PROFILE")
                                             : NULL;
    char *path;
    enum err rc;

    if (f->flags->second && flag == NULL)
        return ERR_OK;
    f->chosen = flag != NULL;
    path = file_path();
    rc = read_profile(path, wanted, &f->out->profile, &f->profile, eb);
    if (rc == ERR_OK && f->profile.found) {
        f->out->file = path;
        return ERR_OK;
    }
    if (rc == ERR_OK && wanted != NULL) {
        f->aws = wanted;
        f->out->profile = xstrdup(wanted);
    }
    free(path);
    return rc;
}

enum err
settings_find(const struct args *a, const struct settings_flags *flags, bool own_only,
              struct settings *out, struct errbuf *eb)
{
    struct finding f = {.a = a, .flags = flags, .own_only = own_only, .out = out};
    enum err rc;

    *out = (struct settings){.keys_how = "none"};
    rc = find_profile(&f, eb);
    if (rc == ERR_OK) {
        find_server(&f);
        if ((!flags->second || f.chosen) && !args_has(a, "no-sign"))
            rc = find_keys(&f, eb);
    }
    if (rc == ERR_OK && flags->second && out->endpoint.value == NULL)
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "profile \"%s\" names no endpoint for the target: --to-endpoint-url",
                     out->profile != NULL ? out->profile : "");
    settings_take(&out->region, "us-east-1", "default");
    profile_fini(&f.profile);
    return rc;
}

static char *
settings_copy(const char *s)
{
    return s != NULL ? xstrdup(s) : NULL;
}

void
settings_copy_keys(struct settings *to, const struct settings *from)
{
    s3_credentials_fini(&to->keys);
    to->keys.access_key = settings_copy(from->keys.access_key);
    to->keys.secret_key = settings_copy(from->keys.secret_key);
    to->keys.session_token = settings_copy(from->keys.session_token);
    to->has_keys = from->has_keys;
    to->keys_how = from->keys_how;
}

void
settings_fini(struct settings *s)
{
    free(s->endpoint.value);
    free(s->region.value);
    free(s->ca_bundle.value);
    free(s->profile);
    free(s->file);
    s3_credentials_fini(&s->keys);
    *s = (struct settings){0};
}
