#include "rt/limits.h"

#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>

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

unsigned
rt_cpus(void)
{
    cpu_set_t mask;
    int count;

    CPU_ZERO(&mask);
    count = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    return count > 0 ? (unsigned)count : 1;
}
