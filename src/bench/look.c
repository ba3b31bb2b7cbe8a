#include "bench/look.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "bench/server_cpu.h"
#include "cli/samples.h"

/* ---- this machine ---- */

static double
own_cpu_s(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u) != 0)
        return -1;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double
busy_s(void)
{
    unsigned long long v[8] = {0}, sum = 0;
    FILE *in = fopen("/proc/stat", "re");
    int n;

    if (in == NULL)
        return -1;
    n = fscanf(in, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
               &v[3], &v[4], &v[5], &v[6], &v[7]);
    fclose(in);
    if (n < 8)
        return -1;
    for (size_t i = 0; i < 8; i++)
        sum += i == 3 || i == 4 ? 0 : v[i]; /* idle, and waiting for a disk */
    return (double)sum / (double)sysconf(_SC_CLK_TCK);
}

/* "http://127.0.0.1:9000" and the like. */
bool
look_is_local(const char *endpoint)
{
    static const char *const here[] = {"127.", "localhost", "[::1]"};
    const char *host = strstr(endpoint, "://");

    host = host != NULL ? host + 3 : endpoint;
    for (size_t i = 0; i < ARRAY_LEN(here); i++)
        if (strncmp(host, here[i], strlen(here[i])) == 0)
            return true;
    return false;
}

/* ---- processes ---- */

/* The number behind `key` in /proc/PID/status, written in hex where `hex`; 0: not there. */
static uint64_t
of_status(const char *pid, const char *key, bool hex)
{
    char path[64], line[256];
    uint64_t out = 0;
    FILE *in;

    snprintf(path, sizeof path, "/proc/%.20s/status", pid);
    in = fopen(path, "re");
    if (in == NULL)
        return 0;
    while (fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, key, strlen(key)) == 0) {
            const char *last = strrchr(line, ','); /* words of a mask */

            last = hex && last != NULL ? last + 1 : line + strlen(key);
            out = strtoull(last, NULL, hex ? 16 : 10);
        }
    fclose(in);
    return out;
}

double
look_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (double)pages * (double)size : 0;
}

unsigned
look_cores(void)
{
    char line[1024] = "";
    unsigned n = 0;
    FILE *in = fopen("/proc/self/status", "re");

    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, "Cpus_allowed:", 13) == 0)
            break;
    for (const char *at = line + MIN(strlen(line), 13u); *at != '\0'; at++)
        n += isxdigit((unsigned char)*at)
                 ? (unsigned)__builtin_popcountll(strtoull((char[2]){*at}, NULL, 16))
                 : 0;
    if (in != NULL)
        fclose(in);
    return MAX(n, 1u);
}

/* Their CPU seconds; the cores that they may use, at most one a thread. */
static void
ask_processes(const struct args *a, struct look *out)
{
    uint64_t mask = 0, threads = 0;
    const char *pid;

    out->server_cpu_s = 0;
    for (size_t i = 0; (pid = args_nth(a, "pid", i)) != NULL; i++) {
        double cpu = server_cpu_of(pid);

        if (cpu < 0) {
            out->server_cpu_s = -1;
            return;
        }
        out->server_cpu_s += cpu;
        mask |= of_status(pid, "Cpus_allowed:", true);
        threads += of_status(pid, "Threads:", false);
    }
    out->server_cores =
        (double)MIN((uint64_t)__builtin_popcountll(mask), MAX(threads, 1u));
}

/* ---- a Forebay ---- */

static unsigned
count_of(const char *page, const char *what)
{
    unsigned n = 0;

    for (const char *at = strstr(page, what); at != NULL; at = strstr(at + 1, what))
        n++;
    return n;
}

static void
ask_forebay(struct session *s, struct look *out)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_request r = {.method = "GET", .path = SPAN("/_/metrics")};
    struct span answer = {"", 0};
    struct samples *page = NULL;
    struct errbuf eb = {{0}};
    int status = 0;

    if (s3_request(s->s3, &r, a, &status, &answer, &eb) == ERR_OK && status == 200 &&
        samples_parse(answer, &page, &eb) == ERR_OK &&
        samples_sum(page, "forebay_build_info", NULL, NULL) > 0) {
        out->forebay = true;
        out->server_cpu_s = samples_sum(page, "process_cpu_seconds_total", NULL, NULL);
        out->sent_bytes = samples_sum(page, "forebay_response_bytes_total", NULL, NULL);
        out->disk_bytes =
            samples_sum(page, "forebay_disk_io_bytes_total", "direction=\"read\"", NULL);
        out->store_written =
            samples_sum(page, "forebay_disk_io_bytes_total", "direction=\"write\"", NULL);
        out->backend_bytes =
            samples_sum(page, "forebay_backend_bytes_total", "direction=\"in\"", NULL);
        out->server_cores = (double)count_of(arena_strdup(a, answer),
                                             "\nforebay_loop_turn_seconds_count{");
    }
    samples_free(&page);
    arena_free(&a);
}

void
look_now(struct session *s, struct look *out)
{
    *out = (struct look){.local = look_is_local(s->endpoint),
                         .server_cores = -1,
                         .machine_cores = (double)sysconf(_SC_NPROCESSORS_ONLN),
                         .server_cpu_s = -1,
                         .sent_bytes = -1,
                         .disk_bytes = -1,
                         .store_written = -1,
                         .backend_bytes = -1};
    if (args_has(s->args, "pid"))
        ask_processes(s->args, out);
    else
        ask_forebay(s, out);
    out->client_cpu_s = own_cpu_s();
    out->machine_busy_s = busy_s();
}

static double
look_more(double before, double after)
{
    return before < 0 || after < 0 ? -1 : after - before;
}

void
look_between(const struct look *before, const struct look *after, struct look *out)
{
    *out = *after;
    out->server_cpu_s = look_more(before->server_cpu_s, after->server_cpu_s);
    out->client_cpu_s = look_more(before->client_cpu_s, after->client_cpu_s);
    out->machine_busy_s = look_more(before->machine_busy_s, after->machine_busy_s);
    out->sent_bytes = look_more(before->sent_bytes, after->sent_bytes);
    out->disk_bytes = look_more(before->disk_bytes, after->disk_bytes);
    out->store_written = look_more(before->store_written, after->store_written);
    out->backend_bytes = look_more(before->backend_bytes, after->backend_bytes);
}
