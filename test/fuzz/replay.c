/* replay: runs a fuzz target over the files of its corpus, without libFuzzer, so that
 * every build and every sanitizer sees them: each file whole, and cut short at up to 512
 * places, since what a parser does with a head is where it reads too far. Each input lies
 * in memory of exactly its size: ASan sees one byte too many.
 *
 *     fuzz_NAME DIR-OR-FILE...
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CUTS_MAX = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned files_run;

static void
run_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static bool
run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    bool good = false;

    if (file == NULL || fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode)) {
        fprintf(stderr, "%s: cannot read\n", path);
        if (file != NULL)
            fclose(file);
        return false;
    }

    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size + 1);
    if (data != NULL && fread(data, 1, size, file) == size) {
        size_t step = size / CUTS_MAX + 1;

        for (size_t cut = 0; cut < size; cut += step)
            run_copy(data, cut);
        run_copy(data, size);
        files_run++;
        good = true;
    }
    free(data);
    fclose(file);
    return good;
}

static bool
run_dir(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool good = true;

    if (dir == NULL) {
        fprintf(stderr, "%s: no such corpus\n", path);
        return false;
    }
    while ((entry = readdir(dir)) != NULL) {
        char name[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        good = run_file(name) && good;
    }
    closedir(dir);
    return good;
}

int
main(int argc, char **argv)
{
    unsigned failed = 0;

    for (int i = 1; i < argc; i++) {
        struct stat st;
        bool is_dir = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);

        if (!(is_dir ? run_dir(argv[i]) : run_file(argv[i])))
            failed++;
    }
    if (files_run == 0) {
        fprintf(stderr, "no input was run: a corpus must hold at least one file\n");
        failed++;
    }
    printf("%u passed, %u failed\n", files_run, failed);
    return failed > 0;
}
