#include "rt/memory.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define PATH_ROOM 2048
#define FILE_ROOM 3072 /* memory.stat is the longest */
#define NONE      UINT64_MAX

/* The files of one version of control groups. */
struct group_files {
    const char *mounts[2]; /* below the root; the first that has them */
    const char *limits[2], *used, *active, *inactive, *slab;
};
static const struct group_files version_1 = {
    {"/sys/fs/cgroup/memory", NULL}, {"memory.limit_in_bytes", NULL},
    "memory.usage_in_bytes",         "total_active_file",
    "total_inactive_file",           NULL};
static const struct group_files version_2 = {{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"},
                                             {"memory.max", "memory.high"},
                                             "memory.current",
                                             "active_file",
                                             "inactive_file",
                                             "slab_reclaimable"};

/* ---- small files: a look happens up to four times a second, so without stdio ---- */

struct small_file {
    char text[FILE_ROOM];
    size_t len; /* 0: there is none, or it is empty */
};

/* Reads root + a + b + "/" + name; the last part may be empty. */
static void
read_below(const char *root, const char *a, const char *b, const char *name,
           struct small_file *out)
{
    char path[PATH_ROOM];
    int n = snprintf(path, sizeof path, "%s%s%s%s%s", root, a, b,
                     name[0] != '\0' ? "/" : "", name);
    int fd = n > 0 && n < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = 1;

    out->len = 0;
    while (fd >= 0 && got > 0 && out->len < sizeof out->text - 1) {
        got = read(fd, out->text + out->len, sizeof out->text - 1 - out->len);
        out->len += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    out->text[out->len] = '\0';
}

/* The number at `at`, behind blanks; NONE where there is none ("max") or one too large. */
static uint64_t
number_at(const char *at)
{
    uint64_t n = 0;

    at += strspn(at, " \t:");
    if (*at < '0' || *at > '9')
        return NONE;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(n, UINT64_C(10), &n) ||
            __builtin_add_overflow(n, (uint64_t)(*at - '0'), &n))
            return NONE;
    return n;
}

static uint64_t
number_below(const char *root, const char *a, const char *name)
{
    struct small_file f;

    read_below(root, a, "", name, &f);
    return number_at(f.text);
}

/* The number of the line "NAME NUMBER" or "NAME: NUMBER kB"; NONE: there is no such line. */
static uint64_t
number_of_line(const struct small_file *f, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = f->text; at != NULL && *at != '\0';) {
        if (strncmp(at, name, len) == 0 && (at[len] == ' ' || at[len] == ':'))
            return number_at(at + len);
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    return NONE;
}

/* "some avg10=1.23 avg60=... total=N"; 0 where the kernel does not count. */
static uint64_t
stalled_below(const char *root, const char *a, const char *b, const char *name)
{
    struct small_file f;
    const char *total;
    uint64_t n;

    read_below(root, a, b, name, &f);
    total = strncmp(f.text, "some ", 5) == 0 ? strstr(f.text, "total=") : NULL;
    n = total != NULL ? number_at(total + 6) : NONE;
    return n != NONE ? n : 0;
}

/* ---- control groups ---- */

/* One group: lowers the limit, and what is available by what it uses. Page cache does not count as used. */
static void
look_at_group(const char *root, const char *mount, const char *group,
              const struct group_files *v, struct rt_memory *out)
{
    char below[PATH_ROOM];
    const char *names[] = {v->active, v->inactive, v->slab};
    uint64_t limit = NONE, used;
    struct small_file stat;

    if (snprintf(below, sizeof below, "%s%s", mount, group) >= (int)sizeof below)
        return;
    for (unsigned i = 0; i < ARRAY_LEN(v->limits) && v->limits[i] != NULL; i++) {
        uint64_t n = number_below(root, below, v->limits[i]);

        limit = MIN(limit, n);
    }
    if (limit >= out->machine)
        return;
    out->limit = MIN(out->limit, limit);
    used = number_below(root, below, v->used);
    if (used == NONE)
        return;
    read_below(root, below, "", "memory.stat", &stat);
    for (unsigned i = 0; i < ARRAY_LEN(names) && names[i] != NULL; i++) {
        uint64_t cache = number_of_line(&stat, names[i]);

        used -= cache != NONE ? MIN(used, cache) : 0;
    }
    out->available = MIN(out->available, limit - MIN(limit, used));
}

/* The group and its ancestors: /a/b, /a, and the root. */
static void
look_upwards(const char *root, const char *group, const struct group_files *v,
             struct rt_memory *out)
{
    char at[PATH_ROOM / 2];

    for (unsigned i = 0; i < ARRAY_LEN(v->mounts) && v->mounts[i] != NULL; i++) {
        if (snprintf(at, sizeof at, "%s", group) >= (int)sizeof at)
            return;
        for (;;) {
            char *slash;

            look_at_group(root, v->mounts[i], at, v, out);
            slash = strrchr(at, '/');
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
}

/* A line of /proc/self/cgroup: "0::/path" (version 2), "5:memory:/path" (version 1). */
static void
look_at_line(const char *root, char *line, struct rt_memory *out)
{
    char *controllers = strchr(line, ':'), *group;

    group = controllers != NULL ? strchr(++controllers, ':') : NULL;
    if (group == NULL)
        return;
    *group++ = '\0';
    if (*controllers != '\0') {
        if (strstr(controllers, "memory") != NULL)
            look_upwards(root, group, &version_1, out);
        return;
    }
    look_upwards(root, group, &version_2, out);
    for (unsigned i = 0; i < 2 && out->group_stalled_us == 0; i++)
        out->group_stalled_us =
            stalled_below(root, version_2.mounts[i], group, "memory.pressure");
}

/* The machine's, without groups. */
static void
look_at_machine(const char *root, struct rt_memory *out)
{
    struct small_file f;
    uint64_t total, available;

    read_below(root, "/proc/meminfo", "", "", &f);
    total = number_of_line(&f, "MemTotal");
    available = number_of_line(&f, "MemAvailable");
    if (total == NONE || total > NONE / KIB(1)) {
        long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

        out->machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : NONE;
    } else {
        out->machine = KIB(1) * total;
    }
    out->limit = out->machine;
    out->available = available < NONE / KIB(1) ? KIB(1) * available : out->machine;
    out->machine_stalled_us = stalled_below(root, "/proc/pressure/memory", "", "");
}

void
rt_memory_look_at(const char *root, struct rt_memory *out)
{
    struct small_file f;
    char *line;

    *out = (struct rt_memory){0};
    look_at_machine(root, out);
    read_below(root, "/proc/self/cgroup", "", "", &f);
    for (char *next = f.text; (line = next) != NULL && *line != '\0';) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        look_at_line(root, line, out);
    }
    assert(out->limit <= out->machine);
}

void
rt_memory_look(struct rt_memory *out)
{
    const char *root = NULL;

#ifdef FB_TEST_HOOKS
    root = getenv("FOREBAY_TEST_MEMORY");
#endif
    rt_memory_look_at(root != NULL ? root : "", out);
}

uint64_t
rt_memory_max(void)
{
    struct rt_memory m;

    rt_memory_look(&m);
    return m.limit;
}
