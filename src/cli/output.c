#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static bool over; /* only on the one loop of a client */

void
output_begin(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY); /* the lowest: fd */
}

enum err
output_failed(int number, struct errbuf *eb)
{
    if (number == EPIPE) {
        over = true;
        return ERR_NOT_MODIFIED;
    }
    return err_errno(eb, number == ENOSPC || number == EDQUOT ? ERR_NO_SPACE : ERR_IO,
                     number, "standard output");
}

/* What printf() met is still in errno, nearly always; a reader that has gone can be asked about. */
static int
reason(void)
{
    int number = errno;
    struct pollfd p = {.fd = fileno(stdout), .events = POLLOUT};

    if (poll(&p, 1, 0) == 1 && (p.revents & POLLERR) != 0)
        return EPIPE;
    return number == ENOSPC || number == EDQUOT || number == EFBIG ? number : EIO;
}

enum err
output_check(struct errbuf *eb)
{
    if (over)
        return ERR_NOT_MODIFIED;
    return ferror(stdout) == 0 ? ERR_OK : output_failed(reason(), eb);
}

bool
output_is_over(void)
{
    return over;
}

enum exit_code
output_end(enum exit_code code)
{
    struct errbuf eb = {{0}};
    enum err rc;

    (void)!fflush(stdout); /* output_check() asks how it went */
    rc = output_check(&eb);
    if (rc == ERR_OK || rc == ERR_NOT_MODIFIED || code != EXIT_OK_)
        return code;
    return cli_fail(rc, &eb);
}
