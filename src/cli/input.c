#include "cli/input.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#define LOOK_MS 50

static atomic_bool ended;

ssize_t
input_read(void *to, size_t len)
{
    struct pollfd p = {.fd = 0, .events = POLLIN};

    while (!ended) {
        int n = poll(&p, 1, LOOK_MS);
        ssize_t got;

        if (n < 0 && errno != EINTR)
            return -1;
        if (n <= 0)
            continue;
        got = read(0, to, len);
        if (got >= 0 || errno != EINTR)
            return got;
    }
    return 0;
}

static ssize_t
on_read(void *cookie, char *to, size_t len)
{
    (void)cookie;
    return input_read(to, len);
}

FILE *
input_file(void)
{
    static FILE
        *file; /* only on the one loop of a client, and a worker that it waits for */

    if (file == NULL)
        file = fopencookie(NULL, "r", (cookie_io_functions_t){.read = on_read});
    assert(file != NULL);
    return file;
}

void
input_end(void)
{
    ended = true;
}
