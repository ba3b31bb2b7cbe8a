/* cluster: the verbs of `forebay cluster`; cluster.c has their list and makes the key. */
#pragma once
#include <jansson.h>

#include "cli/cli.h"
#include "cli/session.h"

extern const struct cli_verb cli_cluster_show, cli_cluster_map, cli_cluster_wait;
extern const struct cli_verb cli_cluster_maintenance, cli_cluster_remove;

/* What the server says of its cluster; the caller releases *doc. ERR_NOT_FOUND: it runs alone. `answer` may be NULL. */
enum err cluster_ask(struct session *s, struct arena *a, json_t **doc,
                     struct span *answer) MUST_CHECK;
/* Each problem on a line, and below it what to do; then the notes. */
void cluster_print_problems(const json_t *doc);
