#include "cli/disk_tool.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/fiber.h"
#include "rt/loop.h"

static void
on_interrupt(void *arg)
{
    struct disk_tool *t = arg;

    if (t->fiber != NULL)
        rt_cancel(t->fiber);
}

static void
disk_tool_work(void *arg)
{
    struct disk_tool *t = arg;

    t->fiber = rt_self();
    rt_on_signal(SIGINT, on_interrupt, t);
    rt_on_signal(SIGTERM, on_interrupt, t);
    t->work(t);
    t->fiber = NULL;
}

enum err
disk_tool_run(struct disk_tool *t, const struct args *a, void (*fn)(struct disk_tool *t),
              void *arg)
{
    struct rt_options o = {.engine = RT_AUTO, .loops = 1};
    struct errbuf eb = {{0}};
    enum err rc;

    *t = (struct disk_tool){.args = a,
                            .json = args_has(a, "json"),
                            .quiet = args_has(a, "quiet"),
                            .work = fn,
                            .arg = arg};
    log_set_level(LOG_ERROR);
    rc = rt_run(&o, disk_tool_work, t, &eb);
    if (t->phase != NULL)
        progress_end(&t->progress);
    if (rc != ERR_OK) {
        t->rc = rc;
        t->eb = eb;
    }
    return t->rc;
}

bool
disk_tool_yes(const struct disk_tool *t, const char *question)
{
    char line[16] = "";

    if (args_has(t->args, "yes"))
        return true;
    if (isatty(0) != 1 || isatty(2) != 1) {
        fprintf(stderr, "forebay: %s Add --yes if that is what you want.\n", question);
        return false;
    }
    fprintf(stderr, "%s Go on? [y/N] ", question);
    return fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

void
disk_tool_json(struct buf *text, struct json *j, const char *kind)
{
    buf_init(text, KIB(64));
    json_begin(j, text);
    json_open_object(j, NULL);
    json_text(j, "kind", kind);
}

void
disk_tool_json_end(struct buf *text, struct json *j)
{
    json_end(j);
    printf("%.*s\n", (int)text->len, text->at);
    buf_fini(text);
}

void
disk_tool_say(const struct disk_tool *t, const char *kind, const char *sentence)
{
    struct buf text;
    struct json j;

    if (!t->json) {
        printf("%-7s %s\n", kind, sentence);
        return;
    }
    disk_tool_json(&text, &j, kind);
    json_text(&j, "text", sentence);
    disk_tool_json_end(&text, &j);
}

void
disk_tool_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    struct disk_tool *t = arg;

    if (t->phase == NULL || strcmp(t->phase, what) != 0) {
        if (t->phase != NULL)
            progress_end(&t->progress);
        t->phase = what;
        progress_begin(&t->progress, what, t->quiet, 0, total);
    }
    t->progress.total_bytes = MAX(total, done);
    if (done > t->progress.bytes)
        progress_bytes(&t->progress, done - t->progress.bytes);
}
