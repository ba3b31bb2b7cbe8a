/* Metrics: sums over threads that come and go, the page to the line, and promtool's word
 * on all of it. */
#include "base/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/mem.h"
#include "check.h"

static char *
page(void)
{
    struct buf b;
    char *text;

    buf_init(&b, 1 << 20);
    metrics_write(&b);
    CHECK(!b.full);
    text = xmemdup0(b.at, b.len);
    buf_fini(&b);
    return text;
}

static void
page_says(const char *line)
{
    char *text = page();

    if (strstr(text, line) == NULL)
        fprintf(stderr, "no line \"%s\"\n", line);
    CHECK(strstr(text, line) != NULL);
    free(text);
}

static void
test_counts_and_gauges(void)
{
    int64_t before = metric_read(M_CONNECTIONS, 1);

    metrics_thread_begin();
    metrics_thread_begin(); /* again is fine */
    metric_add(M_CONNECTIONS, 1, 3);
    metric_add(M_CONNECTIONS, 1, -1);
    CHECK(metric_read(M_CONNECTIONS, 1) == before + 2);
    page_says(
        "# TYPE forebay_connections gauge\nforebay_connections{state=\"active\"} 0\n"
        "forebay_connections{state=\"idle\"} 2\n");
    page_says("# HELP forebay_disk_syncs_total fdatasync calls of committers\n"
              "# TYPE forebay_disk_syncs_total counter\nforebay_disk_syncs_total 0\n");
}

static void
test_requests(void)
{
    metric_request_done(
        &(struct metric_request){.op = OP_get,
                                 .status = 206,
                                 .duration_ns = 250000, /* a bound is inside */
                                 .first_byte_ns = 250001,
                                 .bytes_in = 5,
                                 .bytes_out = 7});
    metric_request_done(&(struct metric_request){
        .op = OP_get, .api = API_admin, .status = 299, .duration_ns = 60000000000});
    page_says("forebay_requests_total{op=\"get\",code=\"206\",api=\"s3\"} 1\n");
    page_says("forebay_requests_total{op=\"get\",code=\"other\",api=\"admin\"} 1\n");
    page_says("forebay_request_duration_seconds_bucket{op=\"get\",le=\"0.0001\"} 0\n"
              "forebay_request_duration_seconds_bucket{op=\"get\",le=\"0.00025\"} 1\n");
    page_says("forebay_request_duration_seconds_bucket{op=\"get\",le=\"10\"} 1\n"
              "forebay_request_duration_seconds_bucket{op=\"get\",le=\"+Inf\"} 2\n"
              "forebay_request_duration_seconds_sum{op=\"get\"} 60.000250000\n"
              "forebay_request_duration_seconds_count{op=\"get\"} 2\n");
    page_says("forebay_first_byte_seconds_bucket{op=\"get\",le=\"0.00025\"} 1\n"
              "forebay_first_byte_seconds_bucket{op=\"get\",le=\"0.0005\"} 2\n");
    page_says("forebay_request_bytes_total{op=\"get\"} 5\n");
    page_says("forebay_response_bytes_total{op=\"get\"} 7\n");
}

static void
test_build_and_process(void)
{
    char *text;

    metrics_set_engine("epoll");
    page_says(",engine=\"epoll\"} 1\n");
    text = page();
    CHECK(strstr(text, "\nprocess_resident_memory_bytes ") != NULL);
    CHECK(strstr(text, "\nprocess_cpu_seconds_total ") != NULL);
    CHECK(strstr(text, "\nprocess_open_fds ") != NULL);
    CHECK(strstr(text, "\nprocess_max_fds ") != NULL);
    CHECK(strstr(text, "\nprocess_start_time_seconds ") != NULL);
    free(text);
}

static double
value_of(const char *name)
{
    char *text = page();
    const char *at = strstr(text, name);
    double v = at != NULL ? strtod(at + strlen(name), NULL) : -1;

    free(text);
    return v;
}

static void
test_process_figures_are_true(void)
{
    double before = value_of("\nprocess_open_fds ");
    int fd = dup(STDERR_FILENO);
    double start = value_of("\nprocess_start_time_seconds ");
    double rss = value_of("\nprocess_resident_memory_bytes ");

    CHECK(before >= 3);
    CHECK(value_of("\nprocess_open_fds ") == before + 1);
    close(fd);
    CHECK(start > 1.6e9);
    CHECK(rss > 1e5 && rss < 64e9);
}

static void
collect_one(struct buf *out, void *arg)
{
    buf_puts(
        out,
        "# HELP forebay_test_ratio a collector's line\n# TYPE forebay_test_ratio gauge\n"
        "forebay_test_ratio{disk=\"");
    metrics_put_label(out, span_of(arg));
    buf_puts(out, "\"} 0.5\n");
}

static void
test_collectors(void)
{
    char disk[] = "a\"b\\c\nd";
    char *text;

    metrics_register(collect_one, disk);
    page_says("forebay_test_ratio{disk=\"a\\\"b\\\\c\\nd\"} 0.5\n");
    metrics_unregister(disk);
    text = page();
    CHECK(strstr(text, "forebay_test_ratio") == NULL);
    free(text);
}

enum { THREADS = 4, ROUNDS = 3, ADDS = 20000 };
static atomic_bool stop_reading;

static void *
add_many(void *with_block)
{
    if (with_block != NULL)
        metrics_thread_begin();
    for (int i = 0; i < ADDS; i++) {
        metric_add(M_SWITCHES, 0, 1);
        metric_request_done(
            &(struct metric_request){.op = OP_put, .status = 200, .duration_ns = 1});
    }
    return NULL;
}

static void *
read_on(void *unused)
{
    int64_t last = 0;

    (void)unused;
    while (!atomic_load(&stop_reading)) {
        int64_t now = metric_read(M_SWITCHES, 0);

        CHECK(now >= last); /* a counter never goes back, also when threads end */
        last = now;
        free(page());
    }
    return NULL;
}

/* Threads that end leave their counts; the next ones take their blocks. */
static void
test_threads_come_and_go(void)
{
    int64_t before = metric_read(M_SWITCHES, 0);
    pthread_t reader, adders[THREADS];

    atomic_store(&stop_reading, false);
    REQUIRE(pthread_create(&reader, NULL, read_on, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < THREADS; i++)
            REQUIRE(pthread_create(&adders[i], NULL, add_many,
                                   i % 2 == 0 ? adders : NULL) == 0);
        for (size_t i = 0; i < THREADS; i++)
            pthread_join(adders[i], NULL);
    }
    atomic_store(&stop_reading, true);
    pthread_join(reader, NULL);
    CHECK(metric_read(M_SWITCHES, 0) == before + THREADS * ROUNDS * ADDS);
    page_says("forebay_requests_total{op=\"put\",code=\"200\",api=\"s3\"} 240000\n");
}

static void
test_promtool_accepts_the_page(void)
{
    char *text = page();
    FILE *promtool;
    int status;

    if (system("command -v promtool >/dev/null 2>&1") != 0) {
        printf(
            "SKIPPED test_promtool_accepts_the_page: no promtool (package prometheus)\n");
        free(text);
        return;
    }
    promtool = popen("promtool check metrics 1>&2", "w");
    REQUIRE(promtool != NULL);
    CHECK(fwrite(text, 1, strlen(text), promtool) == strlen(text));
    status = pclose(promtool);
    CHECK(status == 0);
    free(text);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_counts_and_gauges);
    RUN(test_requests);
    RUN(test_build_and_process);
    RUN(test_process_figures_are_true);
    RUN(test_collectors);
    RUN(test_threads_come_and_go);
    RUN(test_promtool_accepts_the_page);
    return check_done();
}
