/* conf: the options of the server, checked, with where each value came from.
 *
 * Defaults < file < environment < command line, whatever the order of the calls; within a
 * source the last one wins. Every call validates its whole input. The error for an unknown name suggests a name, the error for an old name gives the
 * new one, and the error for an invalid value gives the limits. After an error the configuration may be partly changed:
 * discard it. A struct
 * conf is built by one thread before the loops start, then only read, by any.
 *
 *     conf = conf_new();
 *     conf_file(conf, path, &eb) ... conf_env(conf, environ, &eb) ...
 *     conf_set(conf, "cache.budget=1GiB", "--set", &eb) ...
 *     conf_u64(conf, OPT_CACHE_BUDGET);
 *
 * conf_file() is the one place outside rt that reads a file: no loops exist yet, because the file sets their number.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "conf/options.h"

struct conf;

enum conf_type {
    CONF_TEXT,
    CONF_BOOL,
    CONF_U64,
    CONF_SIZE,
    CONF_DURATION,
    CONF_ENUM,
    CONF_LIST
};
enum conf_origin { CONF_DEFAULT, CONF_FILE, CONF_ENVIRONMENT, CONF_FLAG };

struct conf *conf_new(void); /* all defaults */
void conf_free(struct conf **cp);

/* TOML text; `name` is what errors and origins call it. */
enum err conf_toml(struct conf *c, const char *name, struct span text,
                   struct errbuf *eb) MUST_CHECK;
/* ERR_NOT_FOUND when there is none; at most 1 MiB. Blocks: before the loops start. */
enum err conf_file(struct conf *c, const char *path, struct errbuf *eb) MUST_CHECK;
/* FOREBAY_A__B is a.b. FOREBAY_ variables with "__" must be options; those without are
 * options, or the client's (FOREBAY_ENDPOINT ...), or not ours (Kubernetes makes
 * FOREBAY_PORT for a service of that name) and left alone, but for those that look like
 * an option written wrong. */
enum err conf_env(struct conf *c, char *const *environ, struct errbuf *eb) MUST_CHECK;
/* "name=value" from the command line; `flag` ("--set", "--listen") goes into errors and
 * origins. */
enum err conf_set(struct conf *c, const char *pair, const char *flag,
                  struct errbuf *eb) MUST_CHECK;
/* One option from a flag of its own. Lists are written with commas. */
enum err conf_set_option(struct conf *c, enum conf_option id, const char *value,
                         const char *flag, struct errbuf *eb) MUST_CHECK;

/* The type must match the option: asserted. DURATION is in milliseconds. A SIZE of "auto" is CONF_AUTO. */
#define CONF_AUTO UINT64_MAX
uint64_t conf_u64(const struct conf *c, enum conf_option id);
bool conf_bool(const struct conf *c, enum conf_option id);
const char *conf_text(const struct conf *c,
                      enum conf_option id); /* never NULL; lent until conf_free() */
unsigned conf_enum(const struct conf *c,
                   enum conf_option id); /* index into the choices */
const char *const *conf_list(const struct conf *c, enum conf_option id, size_t *count);

/* Where the value was set: "forebay.toml:3", "FOREBAY_LISTEN", "--set",
 * "default". */
enum conf_origin conf_origin(const struct conf *c, enum conf_option id);
const char *conf_where(const struct conf *c, enum conf_option id);

/* Calls on_change for each option whose value differs in `b`; `live`: a reload applies it. `from` and `to` are TOML values,
 * lent during the call. */
void conf_compare(const struct conf *a, const struct conf *b,
                  void (*on_change)(enum conf_option id, bool live, const char *from,
                                    const char *to, void *arg),
                  void *arg);

/* What conf_show() writes. */
enum conf_form {
    CONF_AS_TOML,        /* a file with the same values */
    CONF_AS_TOML_ORIGIN, /* with "# from ..." behind each value */
    CONF_AS_JSON,        /* value, default, type, origin, restart and help of each */
};
void conf_show(const struct conf *c, enum conf_form form, struct buf *out);
/* The page of one option, or of all whose table `name` is; ERR_NOT_FOUND with a
 * suggestion. */
enum err conf_explain(struct span name, struct buf *out, struct errbuf *eb) MUST_CHECK;
/* docs/options.md. */
void conf_reference(struct buf *out);

const char *conf_option_name(enum conf_option id);
bool conf_find(struct span name, enum conf_option *id);
