/* settings: a verb's server and keys, and the origin of each.
 *
 * A profile of ~/.config/forebay/config.toml (XDG_CONFIG_HOME; FOREBAY_CONFIG names another file) gathers them under a name:
 *
 *     profile = "lab"                  # used when nothing else is chosen
 *     [profiles.lab]
 *     endpoint = "https://lab:9000"    # region, ca_bundle, no_verify_tls, access_key, secret_key, session_token, aws_profile
 *
 * What a flag says comes first, --profile's profile included; then the environment; then the profile that FOREBAY_PROFILE or the
 * file chooses; then AWS's files. A name that the file does not have is a profile of AWS's files. A file with secrets that
 * others can read is refused. Blocking file reads: before there is much to wait for.
 */
#pragma once
#include "base/buf.h"
#include "client/s3.h"
#include "conf/flags.h"

struct setting {
    char *value;     /* owned; NULL: not said */
    const char *how; /* "--region", "AWS_REGION", "profile", "default": constant text */
};
struct settings {
    struct setting endpoint, region, ca_bundle;
    bool no_verify_tls;
    struct s3_credentials keys;
    bool has_keys;        /* else requests go unsigned */
    const char *keys_how; /* where they are from */
    char *profile;        /* owned; its name, NULL: none */
    char *file;           /* owned; that it stands in; NULL: AWS's */
};
/* Flags that choose the server: those that all verbs have, or "to-..." for a second one, of which the environment says nothing:
 * without --to-profile it has no keys of its own, and the caller takes the first one's. */
struct settings_flags {
    const char *endpoint, *profile, *region; /* names of flags; NULL: the verb has none */
    bool second;
};
extern const struct settings_flags settings_first, settings_to;
/* own_only: keys of the AWS chain are not looked for. settings_fini() it, whatever the result. */
enum err settings_find(const struct args *a, const struct settings_flags *flags,
                       bool own_only, struct settings *out, struct errbuf *eb) MUST_CHECK;
void settings_copy_keys(struct settings *to, const struct settings *from);
void settings_fini(struct settings *s); /* wipes */
/* A line for each: name, value, where it was said. Keys without their secret. */
void settings_show(const struct settings *s, const char *line_begins, struct buf *out);
void settings_show_json(const struct settings *s, struct buf *out);
/* Reads all profiles of a file; NULL: the one that settings_find() reads. *path (owned) is set where there is one. ERR_NOT_FOUND: a
 * file that was named is not there. */
enum err settings_check(const char *file, char **path, struct errbuf *eb) MUST_CHECK;
