/* mirror: sync that goes on: a round after each change of the source, until it is interrupted. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/sync.h"
#include "cli/transfer.h"
#include "rt/changes.h"
#include "rt/time.h"

#define INTERVAL_REMOTE_MS 30000u
#define INTERVAL_LOCAL_MS                                                                \
    300000u /* a local folder tells its changes; this finds what was lost */
#define RETRY_MS      1000u
#define RETRY_MOST_MS 60000u

static const struct flag flags[] = {
    {"interval", 0, "TIME",
     "compare everything so often: 30s, and 5m where SOURCE is a local folder", false},
    SYNC_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay mirror ./checkpoints s3://runs/7/checkpoints",
    "forebay mirror s3://train /data/train --delete --yes --interval 1m", NULL};
static const struct verb verb = {
    .name = "mirror",
    .summary = "keep one place like the contents of another, until interrupted",
    .arguments = "SOURCE DEST",
    .least = 2,
    .most = 2,
    .examples = examples,
    .flags = flags,
    .more =
        "As sync, again and again: after each change where SOURCE is a local folder, and "
        "every --interval. A file that\nis still being written waits for its end. A "
        "round "
        "that fails is repeated, after 1 s to 1 minute; so a server may\ngo away and "
        "come "
        "back. --delete removes without a question and needs --yes. Ctrl-C ends it."};

struct mirror {
    struct session *s;
    struct changes *changes; /* NULL: the source is remote */
    uint64_t interval_ms, retry_ms;
    bool started; /* a round went well */
};

static enum err
mirror_take_flags(struct mirror *m)
{
    const struct args *a = m->s->args;
    const char *interval = args_value(a, "interval");
    struct place from;
    enum err rc = place_parse(a->at[0], &from, &m->s->eb);

    if (rc == ERR_OK && from.standard)
        rc = err_set(&m->s->eb, ERR_BAD_REQUEST,
                     "\"-\" has no changes to follow; give a folder or s3://BUCKET");
    if (rc == ERR_OK && args_has(a, "delete") && !args_has(a, "yes"))
        rc = err_set(&m->s->eb, ERR_BAD_REQUEST,
                     "mirror --delete removes without a question: add --yes if that is "
                     "what you want; forebay sync --delete --dry-run shows what it would "
                     "remove");
    m->interval_ms = from.remote ? INTERVAL_REMOTE_MS : INTERVAL_LOCAL_MS;
    if (rc == ERR_OK && interval != NULL) {
        rc = num_duration_ms(span_of(interval), &m->interval_ms, &m->s->eb);
        if (rc == ERR_OK && m->interval_ms < 1000)
            rc = err_set(&m->s->eb, ERR_BAD_REQUEST, "at least 1s");
        if (rc != ERR_OK)
            err_prefix(&m->s->eb, "--interval \"%s\"", interval);
    }
    if (rc == ERR_OK && !from.remote)
        rc = changes_open(a->at[0], !args_has(a, "no-follow"), &m->changes, &m->s->eb);
    return rc;
}

/* After a failed round: a longer pause each time, and no wait for a change. */
static enum err
mirror_wait(struct mirror *m, bool failed)
{
    bool any;

    if (failed) {
        m->retry_ms =
            MIN(MAX(2 * m->retry_ms, (uint64_t)RETRY_MS), (uint64_t)RETRY_MOST_MS);
        return rt_sleep_ms(m->retry_ms);
    }
    m->retry_ms = 0;
    return m->changes != NULL ? changes_wait(m->changes, m->interval_ms, &any, &m->s->eb)
                              : rt_sleep_ms(m->interval_ms);
}

static enum exit_code
mirror_act(struct session *s)
{
    struct mirror m = {.s = s};
    enum exit_code code = EXIT_OK_;
    enum err rc = mirror_take_flags(&m);

    if (rc != ERR_OK)
        return rc == ERR_BAD_REQUEST ? cli_usage(&s->eb, &verb) : session_fail(s, rc);
    while (rc == ERR_OK) {
        code = sync_round(s, false);
        if (code == EXIT_USAGE || code == EXIT_INTERRUPTED || rt_cancelled())
            break;
        /* Before a first round went well, a wrong name or key is the user's mistake. */
        if (!m.started && (code == EXIT_NOT_FOUND || code == EXIT_DENIED))
            break;
        m.started |= code == EXIT_OK_;
        if (!s->within && !s->quiet && code == EXIT_OK_)
            fprintf(stderr, "forebay: %s is up to date; following changes of %s\n",
                    s->args->at[1], s->args->at[0]);
        s->within |= code == EXIT_OK_; /* from now on only what is done gets a line */
        s->stale = false;
        fflush(stdout);
        rc = mirror_wait(&m, code != EXIT_OK_);
    }
    if (rc != ERR_OK && rc != ERR_CANCELLED && !rt_cancelled())
        code = session_fail(s, rc);
    changes_close(&m.changes);
    return code;
}

static enum exit_code
mirror_session(struct session *s)
{
    s->endless = true;
    return mirror_act(s);
}

static enum exit_code
mirror_run(const struct args *a)
{
    return session_run(a, mirror_session, NULL);
}
const struct cli_verb cli_mirror = {&verb, mirror_run};
