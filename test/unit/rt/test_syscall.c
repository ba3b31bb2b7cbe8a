/* System calls made by hand: their results, errors as negative numbers, all six arguments. Needs only rt/syscall.h, so that
 * it also runs cross-compiled under qemu (make check-aarch64). */
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "check.h"
#include "rt/syscall.h"

enum { PAGE = 4096 };

static void
test_results_and_errors(void)
{
    int fds[2];
    char got[16] = "";

    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(syscall_raw(SYS_recvfrom, fds[1], (long)(uintptr_t)got, sizeof got,
                      MSG_DONTWAIT, 0, 0) == -EAGAIN);
    CHECK(syscall_raw(SYS_sendto, fds[0], (long)(uintptr_t) "hello", 5, MSG_NOSIGNAL, 0,
                      0) == 5);
    CHECK(syscall_raw(SYS_recvfrom, fds[1], (long)(uintptr_t)got, sizeof got,
                      MSG_DONTWAIT, 0, 0) == 5);
    CHECK_STR(got, "hello");
    close(fds[0]);
    close(fds[1]);
    errno = 0;
    CHECK(syscall_raw(SYS_sendto, fds[0], (long)(uintptr_t) "hello", 5, MSG_NOSIGNAL, 0,
                      0) == -EBADF);
    CHECK(errno == 0 || errno == EBADF); /* where libc is asked it may be set */
}

static void
test_six_arguments(void)
{
    int fd = memfd_create("fb-test-syscall", MFD_CLOEXEC);
    char *at;
    long rc;

    REQUIRE(fd >= 0 && ftruncate(fd, 3 * PAGE) == 0);
    REQUIRE(pwrite(fd, "third", 5, 2 * PAGE) == 5);
    rc = syscall_raw(SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED, fd, 2 * PAGE);
    REQUIRE(rc > 0);
    at = (char *)(uintptr_t)rc;
    CHECK(memcmp(at, "third", 5) == 0);
    munmap(at, PAGE);
    close(fd);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_results_and_errors);
    RUN(test_six_arguments);
    return check_done();
}
