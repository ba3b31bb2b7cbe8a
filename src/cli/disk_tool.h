/* disk_tool: what the verbs that work on a stopped disk share: one fiber on a loop of its own, ended by ^C;
 * sentences as text or as JSON lines; progress. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "wire/json.h"

struct disk_tool {
    const struct args *args;
    bool json, quiet;
    struct progress progress;
    const char *phase; /* what the progress line counts at the moment */
    enum err rc;
    struct errbuf eb;
    void (*work)(struct disk_tool *t); /* sets rc and eb */
    void *arg;
    struct fiber *fiber;
};
/* Runs t->work as the first fiber; the result is also in t->rc, t->eb. Switches --json and --quiet must be flags of the
 * verb. The log says only what goes wrong. */
enum err disk_tool_run(struct disk_tool *t, const struct args *a,
                       void (*work)(struct disk_tool *t), void *arg);
/* Asks for confirmation on a terminal; otherwise requires --yes. False: not confirmed; already reported. */
bool disk_tool_yes(const struct disk_tool *t, const char *question);
/* A line of the result on stdout: {"kind": kind, "text": sentence}, or "kind    sentence". */
void disk_tool_say(const struct disk_tool *t, const char *kind, const char *sentence);
/* For a `progress` callback of the disk room: `arg` is the tool. */
void disk_tool_progress(void *arg, const char *what, uint64_t done, uint64_t total);
/* A line of JSON: begin, add members, end. */
void disk_tool_json(struct buf *text, struct json *j, const char *kind);
void disk_tool_json_end(struct buf *text, struct json *j);
