#include "rt/limits.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"

#define PATH_ROOM       2048
#define PRESSED_PERCENT 10
static_assert(PATH_ROOM / 2 + 64 < PATH_ROOM, "a line and what surrounds it");

/* The number in a file; UINT64_MAX where there is none ("max"). */
static uint64_t
number_in(const char *path)
{
    FILE *f = fopen(path, "re");
    uint64_t n = UINT64_MAX;

    if (f == NULL)
        return n;
    if (fscanf(f, "%" SCNu64, &n) != 1)
        n = UINT64_MAX;
    (void)fclose(f);
    return n;
}

/* The lowest limit of a control group and its ancestors: root/a/b, root/a, root. */
static uint64_t
least_upwards(const char *root, const char *group, const char *file)
{
    char path[PATH_ROOM], at[PATH_ROOM];
    uint64_t least = UINT64_MAX;

    if (snprintf(at, sizeof at, "%s", group) >= (int)sizeof at)
        return least;
    for (;;) {
        char *slash;

        if (snprintf(path, sizeof path, "%s%s/%s", root, at, file) < (int)sizeof path) {
            uint64_t n = number_in(path);

            least = MIN(least, n);
        }
        slash = strrchr(at, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup: "0::/path" (version 2), "5:memory:/path" (version 1). */
static uint64_t
limit_of_line(char *line)
{
    char *controllers = strchr(line, ':'), *group;

    line[strcspn(line, "\n")] = '\0';
    if (controllers == NULL)
        return UINT64_MAX;
    group = strchr(++controllers, ':');
    if (group == NULL)
        return UINT64_MAX;
    *group++ = '\0';
    if (*controllers == '\0')
        return least_upwards("/sys/fs/cgroup", group, "memory.max");
    return strstr(controllers, "memory") != NULL
               ? least_upwards("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes")
               : UINT64_MAX;
}

uint64_t
rt_memory_max(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t least =
        pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[PATH_ROOM];

    if (f == NULL)
        return least;
    while (fgets(line, sizeof line, f) != NULL) {
        uint64_t n = limit_of_line(line); /* changes the line */

        least = MIN(least, n);
    }
    (void)fclose(f);
    return least;
}

/* "some avg10=1.23 avg60=..." */
static double
pressure_in(const char *path)
{
    FILE *f = fopen(path, "re");
    double percent = 0;

    if (f == NULL)
        return -1;
    if (fscanf(f, "some avg10=%lf", &percent) != 1)
        percent = 0;
    (void)fclose(f);
    return percent;
}

bool
rt_memory_pressed(void)
{
    char line[PATH_ROOM / 2], path[PATH_ROOM];
    FILE *f = fopen("/proc/self/cgroup", "re");
    double percent = -1;

    while (f != NULL && percent < 0 && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0 &&
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.pressure", line + 3) > 0)
            percent = pressure_in(path);
    }
    if (f != NULL)
        (void)fclose(f);
    if (percent < 0)
        percent = pressure_in("/proc/pressure/memory");
    return percent >= PRESSED_PERCENT;
}

uint64_t
rt_descriptors_max(void)
{
    struct rlimit l;

    return getrlimit(RLIMIT_NOFILE, &l) == 0 ? l.rlim_max : 1024;
}

uint64_t
rt_descriptors_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;

    if (dir == NULL)
        return 64; /* unknown: a safe guess */
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n > 3 ? n - 3 : 0; /* ".", ".." and this one */
}
