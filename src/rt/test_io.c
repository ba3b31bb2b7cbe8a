#include "rt/test_io.h"

#ifdef FB_TEST_HOOKS
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rt/test_hooks.h"

static struct rt_test_io own, *settings = &own;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
find_settings(void)
{
    const char *path = getenv("FOREBAY_TEST_IO");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at;

    if (fd < 0)
        return;
    at = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED)
        settings = at;
}

struct rt_test_io *
rt_test_io(void)
{
    (void)pthread_once(&once, find_settings);
    return settings;
}

static _Atomic uint64_t buffers, refused_buffer;

void
rt_test_refuse_buffer(uint64_t nth)
{
    atomic_store(&buffers, 0);
    atomic_store(&refused_buffer, nth);
}

uint64_t
rt_test_buffers(void)
{
    return atomic_load(&buffers);
}

bool
test_io_no_buffer(void)
{
    return atomic_fetch_add(&buffers, 1) + 1 == atomic_load(&refused_buffer);
}

static struct rt_test_io *
test_io_meant(const struct rt_observer *o, enum rt_io kind)
{
    struct rt_test_io *t = o != NULL ? rt_test_io() : NULL;

    if (t == NULL || (t->kinds & (1u << kind)) == 0 ||
        (t->disk != 0 && t->disk != o->number))
        return NULL;
    return t;
}

int
test_io_error(const struct rt_observer *o, enum rt_io kind)
{
    struct rt_test_io *t = test_io_meant(o, kind);
    uint64_t nth, skip;

    if (t == NULL || t->error == 0)
        return 0;
    nth = atomic_fetch_add(&t->seen, 1);
    skip = t->skip;
    return nth >= skip && nth - skip < t->count ? (int)t->error : 0;
}

uint64_t
test_io_delay_ns(const struct rt_observer *o, enum rt_io kind)
{
    struct rt_test_io *t = test_io_meant(o, kind);

    if (t == NULL)
        return 0;
    if (t->error == 0) /* else counted as it fails */
        atomic_fetch_add(&t->seen, 1);
    return t->delay_us * 1000;
}
#endif
