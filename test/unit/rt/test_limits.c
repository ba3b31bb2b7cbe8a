/* What the machine has: a number that is neither nothing nor everything. That a control group counts is shown with a
 * folder that stands for "/", and end to end (test_bounded.py, test_memory.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "check.h"
#include "folder.h"
#include "rt/limits.h"
#include "rt/memory.h"

static void
test_there_is_a_limit(void)
{
    uint64_t memory = rt_memory_max();

    CHECK(memory > (16u << 20) && memory < UINT64_C(1) << 50);
    CHECK(rt_cpus() >= 1);
    CHECK(rt_descriptors_max() >= 16);
    CHECK(rt_descriptors_open() >= 3 && rt_descriptors_open() < rt_descriptors_max());
}

/* ---- a folder that stands for "/" ---- */

static char root[64];

static void
put_file(const char *path, const char *text)
{
    char whole[512];
    FILE *f;

    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(whole, 0700);
        *slash = '/';
    }
    f = fopen(whole, "w");
    REQUIRE(f != NULL);
    fputs(text, f);
    fclose(f);
}

static void
new_root(void)
{
    snprintf(root, sizeof root, "/tmp/test_limits.XXXXXX");
    REQUIRE(mkdtemp(root) != NULL);
    put_file("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  100 kB\n"
                             "MemAvailable:    8388608 kB\nBuffers: 1 kB\n");
    put_file("proc/pressure/memory", "some avg10=1.50 avg60=0.00 avg300=0.00 total=777\n"
                                     "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
}

static void
test_a_machine_without_groups(void)
{
    struct rt_memory m;

    new_root();
    rt_memory_look_at(root, &m);
    CHECK_U64(m.machine, GIB(16));
    CHECK_U64(m.limit, GIB(16));
    CHECK_U64(m.available, GIB(8));
    CHECK_U64(m.machine_stalled_us, 777);
    CHECK_U64(m.group_stalled_us, 0);
    folder_remove(root);
}

/* The parent's limit is lower; page cache of the group is not use. */
static void
test_groups_of_version_2(void)
{
    struct rt_memory m;

    new_root();
    put_file("proc/self/cgroup", "0::/a/b\n");
    put_file("sys/fs/cgroup/a/memory.max", "4294967296\n");
    put_file("sys/fs/cgroup/a/memory.current", "3221225472\n");
    put_file("sys/fs/cgroup/a/memory.stat",
             "anon 1\nfile 9999999999\nactive_file 536870912\ninactive_file 536870912\n"
             "slab_reclaimable 0\n");
    put_file("sys/fs/cgroup/a/b/memory.max", "max\n");
    put_file("sys/fs/cgroup/a/b/memory.pressure",
             "some avg10=0.00 avg60=0.00 avg300=0.00 total=4242\n");
    rt_memory_look_at(root, &m);
    CHECK_U64(m.limit, GIB(4));
    CHECK_U64(m.available, GIB(2)); /* 4 - (3 - 1) */
    CHECK_U64(m.group_stalled_us, 4242);
    put_file("sys/fs/cgroup/a/b/memory.high", "1073741824\n");
    put_file("sys/fs/cgroup/a/b/memory.current", "1073741900\n");
    rt_memory_look_at(root, &m);
    CHECK_U64(m.limit, GIB(1));
    CHECK_U64(m.available, 0);
    folder_remove(root);
}

static void
test_groups_of_version_1(void)
{
    struct rt_memory m;

    new_root();
    put_file("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/jobs/1\n0::/\n");
    put_file("sys/fs/cgroup/memory/jobs/1/memory.limit_in_bytes", "2147483648\n");
    put_file("sys/fs/cgroup/memory/jobs/1/memory.usage_in_bytes", "1610612736\n");
    put_file("sys/fs/cgroup/memory/jobs/1/memory.stat",
             "active_file 1\ntotal_active_file 0\ntotal_inactive_file 536870912\n");
    put_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    rt_memory_look_at(root, &m);
    CHECK_U64(m.limit, GIB(2));
    CHECK_U64(m.available, GIB(1));
    folder_remove(root);
}

/* Lines that are no numbers, names without end: no figure, and no harm. */
static void
test_files_that_say_nothing(void)
{
    struct rt_memory m;
    char line[8000];

    new_root();
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    put_file("proc/meminfo", "MemTotal\n::: 5\nMemAvailable: kB\n");
    put_file("proc/pressure/memory", "full\n");
    put_file("proc/self/cgroup", line);
    rt_memory_look_at(root, &m);
    CHECK(m.machine > MIB(16));
    CHECK_U64(m.available, m.machine);
    CHECK_U64(m.limit, m.machine);
    CHECK_U64(m.machine_stalled_us, 0);
    folder_remove(root);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_there_is_a_limit);
    RUN(test_a_machine_without_groups);
    RUN(test_groups_of_version_2);
    RUN(test_groups_of_version_1);
    RUN(test_files_that_say_nothing);
    return check_done();
}
