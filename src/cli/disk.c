/* disk: what can be done to the disks of a node, and to one that nobody serves. A verb is a file: disk_check.c … */
#include <stddef.h>

#include "cli/cli.h"

static const struct verb verb = {
    .name = "disk",
    .summary = "check, rebuild, export, import: a disk that is not served",
    .arguments = "VERB",
};
static const struct cli_verb *const verbs[] = {
    &cli_disk_check,
    &cli_disk_rebuild,
    &cli_disk_export,
    &cli_disk_import,
    &cli_disk_scrub,
    NULL,
};
const struct cli_group cli_disk_group = {&verb, verbs};
