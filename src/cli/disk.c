/* disk: what can be done to the disks of a node, and to a stopped one. A verb is a file: store_check.c … */
#include <stddef.h>

#include "cli/cli.h"

static const struct verb verb = {
    .name = "disk",
    .summary = "the disks of a node; check, rebuild, export and import of a "
               "stopped one",
    .arguments = "VERB",
};
static const struct cli_verb *const verbs[] = {
    &cli_disk_ls,     &cli_disk_add,
    &cli_disk_drain,  &cli_disk_remove,
    &cli_disk_check,  &cli_disk_rebuild,
    &cli_disk_export, &cli_disk_import,
    &cli_disk_scrub,  NULL,
};
const struct cli_group cli_disk_group = {&verb, verbs};
