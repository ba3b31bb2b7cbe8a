/* batch: a line is a command; many at once from one process and its connections. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/input.h"
#include "cli/select.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "rt/loop.h"
#include "rt/sync.h"

#define CONCURRENT_LINES 32
#define LINE_MAX_        65536

static const struct flag flags[] = {
    {"file", 'f', "FILE", "the commands; - is standard input, as without it", false},
    {"keep-going", 'k', NULL, "go on after a command that failed", false},
    PARALLEL_FLAG,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay batch -f commands.txt", "printf 'rm s3://b/%s\\n' a b c | forebay batch -q",
    NULL};
static const struct verb verb = {
    .name = "batch",
    .summary = "run commands, one a line, many at once",
    .arguments = "",
    .examples = examples,
    .flags = flags,
    .more = "A line is a command without `forebay`: cp, mv, rm, cat, stat, "
            "sync ... Words are split as in a shell. Lines run\n"
            "concurrently in no fixed order, so none may depend on another; "
            "server and keys are those of batch. # begins a comment."};

/* Only verbs that talk to a server and never prompt. */
static const char *const allowed[] = {"cp", "mv",   "put", "get",  "rm",   "cat", "head",
                                      "ls", "stat", "du",  "find", "sync", "mb",  "rb"};

struct batch {
    struct session *s;
    FILE *in;
    char *line; /* owned by getline */
    size_t room;
    ssize_t len;
    uint64_t number, done, failed;
    struct rt_sem reading; /* one at a time */
    bool over;
    enum exit_code code; /* of the first that failed */
};

static void
batch_read_line(void *arg)
{
    struct batch *b = arg;

    b->len = getline(&b->line, &b->room, b->in);
}

/* A copy of the next line, owned by the caller; NULL at the end. */
static char *
batch_next_line(struct batch *b, uint64_t *number)
{
    char *out = NULL;

    if (rt_sem_acquire(&b->reading, DEADLINE_NEVER) != ERR_OK)
        return NULL;
    if (!b->over && rt_blocking(batch_read_line, b, DEADLINE_NEVER) == ERR_OK &&
        b->len >= 0) {
        while (b->len > 0 && (b->line[b->len - 1] == '\n' || b->line[b->len - 1] == '\r'))
            b->line[--b->len] = '\0';
        *number = ++b->number;
        out = xstrdup(b->line);
    } else {
        b->over = true;
    }
    rt_sem_release(&b->reading);
    return out;
}

static enum exit_code
run_words(int count, char **words, struct errbuf *eb)
{
    const struct cli_verb *v;
    enum exit_code code;
    struct args args;
    bool may = false;
    int used;

    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        may = may || strcmp(words[0], allowed[i]) == 0;
    if (!may) {
        err_set(eb, ERR_BAD_REQUEST, "\"%.64s\" cannot be used in a batch", words[0]);
        return EXIT_USAGE;
    }
    v = verbs_find(count, words, &used, eb);
    if (v == NULL ||
        flags_parse(v->verb, count - used, words + used, &args, eb) != ERR_OK)
        return EXIT_USAGE;
    if (args.help) {
        args_fini(&args);
        err_set(eb, ERR_BAD_REQUEST, "--help cannot be used in a batch");
        return EXIT_USAGE;
    }
    code = v->run(&args);
    args_fini(&args);
    return code;
}

static void
run_line(struct batch *b, char *line, uint64_t number)
{
    char **words = xcalloc(WORDS_MAX, sizeof *words);
    struct errbuf eb = {{0}};
    enum exit_code code = EXIT_OK_;
    int count = 0;

    if (strlen(line) > LINE_MAX_) {
        err_set(&eb, ERR_BAD_REQUEST, "over %d bytes", LINE_MAX_);
        code = EXIT_USAGE;
    } else if (words_cut(line, words, &count, &eb) != ERR_OK) {
        code = EXIT_USAGE;
    } else if (count > 0) {
        code = run_words(count, words, &eb);
    }
    free(words);
    b->done += code == EXIT_OK_ && count > 0;
    if (code == EXIT_OK_)
        return;
    if (b->failed++ == 0)
        b->code = code;
    fprintf(stderr, "forebay: line %" PRIu64 ": %s\n", number,
            eb.text[0] != '\0' ? eb.text : "failed, see above");
    if (!args_has(b->s->args, "keep-going"))
        b->over = true;
}

static void
cli_batch_work(void *arg)
{
    struct batch *b = arg;
    uint64_t number;
    char *line;

    while (!rt_cancelled() && (line = batch_next_line(b, &number)) != NULL) {
        run_line(b, line, number);
        free(line);
    }
}

static enum exit_code
batch_act(struct session *s)
{
    const char *path = args_value(s->args, "file");
    struct batch b = {.s = s};
    struct rt_group group;
    unsigned most = s->connections > 0 ? s->connections : CONCURRENT_LINES;

    b.in = path == NULL || strcmp(path, "-") == 0 ? input_file() : fopen(path, "re");
    if (b.in == NULL)
        return session_fail(s, err_errno(&s->eb, ERR_NOT_FOUND, errno, "%s", path));
    rt_sem_init(&b.reading, 1);
    session_share(s);
    rt_group_begin(&group);
    for (unsigned i = 0; i < most; i++)
        if (rt_group_start(&group, cli_batch_work, &b) != ERR_OK)
            break; /* fewer at once, then */
    rt_group_join(&group);
    session_share(NULL);
    if (b.in != input_file())
        fclose(b.in);
    free(b.line);
    fflush(stdout);
    if (!s->quiet)
        fprintf(stderr, "%" PRIu64 " done, %" PRIu64 " failed\n", b.done, b.failed);
    if (rt_cancelled())
        return EXIT_INTERRUPTED;
    return b.failed == 0                  ? EXIT_OK_
           : b.done == 0 && b.failed == 1 ? b.code
                                          : EXIT_DIFFERS;
}

static enum exit_code
batch_run(const struct args *a)
{
    return session_run(a, batch_act, NULL);
}
const struct cli_verb cli_batch = {&verb, batch_run};
