/* syncloop: what one thread can make durable when every piece gets an fdatasync of its own: appends SIZE bytes to a
 * new file and syncs, over and over. The denominator of durable PUTs.
 *
 *     syncloop FILE SIZE SECONDS        prints one line of JSON; the file is removed
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double
now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int
main(int argc, char **argv)
{
    size_t size = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    double seconds = argc > 3 ? strtod(argv[3], NULL) : 0, begun;
    char *piece = malloc(size + 1);
    uint64_t done = 0;
    int fd;

    if (argc < 4 || size == 0 || piece == NULL) {
        fprintf(stderr, "syncloop FILE SIZE SECONDS\n");
        return 2;
    }
    memset(piece, 'x', size);
    fd = open(argv[1], O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0) {
        perror(argv[1]);
        return 1;
    }
    for (begun = now_s(); now_s() - begun < seconds; done++) {
        if (write(fd, piece, size) != (ssize_t)size || fdatasync(fd) != 0) {
            perror(argv[1]);
            unlink(argv[1]);
            return 1;
        }
    }
    seconds = now_s() - begun;
    unlink(argv[1]);
    printf("{\"requests\":%llu,\"seconds\":%.3f,\"rps\":%.0f}\n",
           (unsigned long long)done, seconds, (double)done / seconds);
    return 0;
}
