/* cli: the command line. A verb is a row in main.c, a file of its own, and a table of flags; results go to stdout, all else
 * to stderr. Exit codes as users expect of every verb:
 */
#pragma once
#include <stdio.h>

#include "base/err.h"
#include "conf/flags.h"

enum exit_code {
    EXIT_OK_ = 0,
    EXIT_DIFFERS = 1, /* differs, or done in part */
    EXIT_USAGE = 2,
    EXIT_NOT_FOUND = 3,
    EXIT_DENIED = 4,
    EXIT_UNAVAILABLE = 5, /* or a timeout */
    EXIT_CHECKSUM = 6,
    EXIT_INTERRUPTED = 7,
};
enum exit_code cli_exit_of(enum err rc);

/* The escape that paints what follows on this stream; "" unless it is a terminal (NO_COLOR, CLICOLOR_FORCE, TERM=dumb). */
enum cli_paint { PAINT_OFF, PAINT_BAD, PAINT_GOOD, PAINT_PLACE };
const char *cli_paint(FILE *to, enum cli_paint p);

/* -o json: errors are one JSON object each on stderr: {"error": {"code", "message", "hint", "exit"}}. main() says it once. */
void cli_json_errors(bool yes);
bool cli_errors_are_json(void);
/* "forebay: what: sentence"; `what` NULL, or in the sentence already: without. */
void cli_say(const char *what, const char *text);
/* "forebay: sentence" on stderr; returns the exit code that fits. */
enum exit_code cli_fail(enum err rc, const struct errbuf *eb);
enum exit_code cli_usage(const struct errbuf *eb, const struct verb *v);

struct cli_verb {
    const struct verb *verb;
    enum exit_code (*run)(const struct args *a);
};
/* Verbs of two words, "disk check": those of one group have names that begin with the group's. */
#define CLI_GROUP_MAX 24
struct cli_group {
    const struct verb *verb;             /* its name and summary */
    const struct cli_verb *const *verbs; /* ends with NULL */
};
extern const struct cli_group cli_disk_group;    /* disk.c has the list */
extern const struct cli_group cli_user_group;    /* user.c */
extern const struct cli_group cli_config_group;  /* config.c */
extern const struct cli_group cli_bucket_group;  /* bucket.c */
extern const struct cli_group cli_cluster_group; /* cluster.c */
extern const struct cli_verb cli_bucket_attach, cli_bucket_detach, cli_bucket_set_verb;
extern const struct cli_verb cli_share;
extern const struct cli_verb cli_pin, cli_unpin, cli_evict, cli_secrets;
extern const struct cli_verb cli_ping, cli_ready, cli_doctor;
extern const struct cli_verb cli_prefetch, cli_jobs, cli_wait, cli_cancel;
extern const struct cli_verb cli_serve, cli_version, cli_tls;
extern const struct cli_verb cli_mb, cli_rb, cli_ls, cli_cp, cli_put, cli_get;
extern const struct cli_verb cli_trace, cli_top, cli_explain, cli_man, cli_completion,
    cli_batch;
extern const struct cli_verb cli_mv, cli_sync, cli_mirror, cli_diff, cli_find, cli_du,
    cli_head;
extern const struct cli_verb cli_tag, cli_undo;
extern const struct cli_group cli_shard_group; /* shard.c */
extern const struct cli_verb cli_shard_ls, cli_shard_cat, cli_shard_index,
    cli_shard_extract, cli_shard_create, cli_shard_append, cli_reshard;
extern const struct cli_verb cli_cat, cli_rm, cli_stat, cli_env;
extern const struct cli_verb cli_disk_ls, cli_disk_add, cli_disk_drain, cli_disk_remove;
extern const struct cli_verb cli_backup, cli_restore;
extern const struct cli_verb cli_disk_check, cli_disk_rebuild, cli_disk_export,
    cli_disk_import, cli_disk_scrub;
extern const struct cli_group cli_bench_group; /* bench/bench.c, a room further down */
