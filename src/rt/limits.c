#include "rt/limits.h"

#include <inttypes.h>

#include <dirent.h>
#include <sched.h>
#include <signal.h>
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

enum err
rt_limits_check(uint64_t file_bytes, struct errbuf *eb)
{
    uint64_t files = rt_descriptors_max(), open = rt_descriptors_open();
    struct rlimit l;

    if (files < open + DESCRIPTORS_LEAST)
        return err_set(eb, ERR_UNAVAILABLE,
                       "the limit of open files (ulimit -n) is %" PRIu64
                       ", at least %" PRIu64 " are needed: raise it",
                       files, open + DESCRIPTORS_LEAST);
    if (getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur < file_bytes)
        return err_set(eb, ERR_UNAVAILABLE,
                       "the limit of the size of a file (ulimit -f) is %" PRIu64
                       " bytes, at least %" PRIu64
                       " are needed (disk.segment_bytes): raise it",
                       (uint64_t)l.rlim_cur, file_bytes);
    (void)signal(SIGXFSZ, SIG_IGN); /* beyond the limit a write fails instead */
    return ERR_OK;
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
