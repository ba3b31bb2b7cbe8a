/* trace: nothing is kept without a watcher; each event is reported once, in order; what was overwritten is counted. */
#include "api/trace.h"

#include "base/mem.h"
#include "check.h"
#include "rt/loop.h"

static struct trace *trace;
static struct trace_entry seen[2 * TRACE_KEPT];

static void
note(const char *path)
{
    struct http_head head = {.path = span_of(path), .method_text = SPAN("GET")};
    struct http_request r = {
        .id = "0123456789abcdef", .peer = "127.0.0.1:5", .head = &head};
    struct http_done d = {.status = 200, .duration_ns = 5000, .bytes_out = 7};

    trace_note(trace, &r, &d);
}

static void
note_elsewhere(void *arg)
{
    note(arg);
}

static size_t
look(uint64_t *after, uint64_t *lost)
{
    struct errbuf eb = {{0}};
    size_t count = 0;

    CHECK(trace_look(trace, *after, seen, ARRAY_LEN(seen), &count, after, lost, &eb) ==
          ERR_OK);
    return count;
}

static char path[300];

static void
watching(void *arg)
{
    uint64_t after = 0, lost = 0;

    (void)arg;
    trace = trace_new();
    note("/without/a/watcher");
    CHECK_U64(look(&after, &lost), 0);
    note("/b/one");
    CHECK(rt_call(1, note_elsewhere, "/b/two") == ERR_OK);
    memset(path, 'x', sizeof path - 1);
    note(path);
    CHECK_U64(look(&after, &lost), 3);
    CHECK_STR(seen[0].path, "/b/one");
    CHECK_STR(seen[1].path, "/b/two");
    CHECK_U64(strlen(seen[2].path), sizeof seen[2].path - 1);
    CHECK(seen[0].status == 200 && seen[0].bytes_out == 7);
    CHECK_STR(seen[0].method, "GET");
    CHECK_U64(look(&after, &lost), 0);
    CHECK_U64(lost, 0);

    for (unsigned i = 0; i < TRACE_KEPT + 50; i++)
        note("/many");
    CHECK_U64(look(&after, &lost), TRACE_KEPT);
    CHECK_U64(lost, 50);
    CHECK_U64(look(&after, &lost), 0);
    CHECK_U64(lost, 0);
    for (unsigned i = 0; i < 50; i++)
        note("/behind the reported ones");
    CHECK_U64(look(&after, &lost), 50);
    CHECK_U64(lost, 0);
    trace_free(&trace);
}

static void
test_what_is_told(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 2, .workers = 1};
    struct errbuf eb = {{0}};

    CHECK(rt_run(&o, watching, NULL, &eb) == ERR_OK);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_what_is_told);
    return check_done();
}
