#include "base/metrics_process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The fields used from /proc/self/stat, in clock ticks. */
struct process_stat {
    uint64_t user, system, start;
};

/* A small file of /proc as text; false when it can't be read. */
static bool
read_text(const char *path, char *text, size_t room)
{
    FILE *f = fopen(path, "re");
    size_t len;

    if (f == NULL)
        return false;
    len = fread(text, 1, room - 1, f);
    fclose(f);
    text[len] = '\0';
    return len > 0;
}

static bool
read_stat(struct process_stat *st)
{
    char text[1024];
    const char *behind_name;

    if (!read_text("/proc/self/stat", text, sizeof text))
        return false;
    behind_name =
        strrchr(text, ')'); /* the name may hold anything, blanks and brackets too */
    return behind_name != NULL &&
           sscanf(behind_name + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
                  " %*d %*d %*d %*d %*d %*d %" SCNu64,
                  &st->user, &st->system, &st->start) == 3;
}

/* From statm: stat has it too, but qemu-user shows nothing there. */
static bool
read_resident(uint64_t *pages)
{
    char text[256];

    return read_text("/proc/self/statm", text, sizeof text) &&
           sscanf(text, "%*u %" SCNu64, pages) == 1;
}

static bool
read_boot_time(uint64_t *unix_s)
{
    char line[256];
    bool found = false;
    FILE *f = fopen("/proc/stat", "re");

    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof line, f) != NULL)
        found = sscanf(line, "btime %" SCNu64, unix_s) == 1;
    fclose(f);
    return found;
}

static bool
count_fds(uint64_t *count)
{
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *e;

    if (d == NULL)
        return false;
    *count = 0;
    while ((e = readdir(d)) != NULL)
        *count += e->d_name[0] != '.';
    closedir(d);
    *count -= 1; /* the descriptor of this directory */
    return true;
}

static void
process_put(struct buf *out, const char *name, const char *type, const char *help,
            double value)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name, type,
               name, value);
}

void
metrics_put_process(struct buf *out)
{
    double ticks = (double)sysconf(_SC_CLK_TCK);
    struct process_stat st;
    struct rlimit limit;
    uint64_t n;
    bool known = read_stat(&st);

    if (known)
        process_put(out, "process_cpu_seconds_total", "counter",
                    "user and system time used", (double)(st.user + st.system) / ticks);
    if (read_resident(&n))
        process_put(out, "process_resident_memory_bytes", "gauge", "resident memory",
                    (double)n * (double)sysconf(_SC_PAGESIZE));
    if (known && read_boot_time(&n))
        process_put(out, "process_start_time_seconds", "gauge",
                    "start of the process since 1970",
                    (double)n + (double)st.start / ticks);
    if (count_fds(&n))
        process_put(out, "process_open_fds", "gauge", "open file descriptors", (double)n);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        process_put(out, "process_max_fds", "gauge", "most file descriptors allowed",
                    (double)limit.rlim_cur);
}
