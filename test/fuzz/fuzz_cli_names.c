/* Names as people type them, and notes of transfers: nothing is read beyond its end, what is clean stays as it is. */
#include <assert.h>

#include "cli/names.h"
#include "cli/note.h"

static enum err
some(void *arg, struct span name, struct errbuf *eb)
{
    unsigned *left = arg;

    assert(name.at[name.len] == '\0');
    return --*left == 0 ? err_set(eb, ERR_CANCELLED, "enough") : ERR_OK;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int
LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct span text = {(const char *)data, size};
    size_t cut = size > 0 ? data[0] % (size + 1) : 0;
    struct span pattern = {text.at, cut}, name = {text.at + cut, size - cut};
    struct arena *a = arena_new(4096, 1 << 22);
    struct errbuf eb = {{0}};
    struct note note;
    unsigned left = 200;

    if (size > 4096) {
        arena_free(&a);
        return 0;
    }
    (void)!names_expand(text, some, &left, &eb);
    (void)glob_match(pattern, name);
    if (!glob_is(name))
        assert(glob_match(name, name));
    (void)name_problem(text);
    (void)name_shown(text, a);
    (void)note_parse(text, &note);
    arena_free(&a);
    return 0;
}
