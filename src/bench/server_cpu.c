#include "bench/server_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"

double
server_cpu_of(const char *pid)
{
    unsigned long user = 0, system = 0;
    char path[64], line[1024] = "";
    uint64_t number;
    const char *end;
    FILE *in;

    if (num_u64(span_of(pid), &number) != ERR_OK)
        return -1;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)number);
    in = fopen(path, "re");
    if (in == NULL)
        return -1;
    if (fgets(line, sizeof line, in) == NULL)
        line[0] = '\0';
    fclose(in);
    end = strrchr(line, ')'); /* its name may hold anything */
    if (end == NULL ||
        sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
               &system) != 2)
        return -1;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double
of_metrics(struct session *s)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_request r = {.method = "GET", .path = SPAN("/_/metrics")};
    struct span answer = {"", 0};
    struct errbuf eb = {{0}};
    double out = -1;
    int status = 0;
    const char *at;

    if (s3_request(s->s3, &r, a, &status, &answer, &eb) == ERR_OK && status == 200) {
        at = strstr(arena_strdup(a, answer), "\nprocess_cpu_seconds_total ");
        if (at != NULL)
            out = strtod(at + strlen("\nprocess_cpu_seconds_total "), NULL);
    }
    arena_free(&a);
    return out;
}

double
server_cpu(struct session *s, const char *pid)
{
    return pid != NULL ? server_cpu_of(pid) : of_metrics(s);
}
