/* Any bytes as a template of AIS: what is written is no longer than it may be, and braces take it or say why not. A range of "@" or "%"
 * has the names that it says: the first number is 0. */
#include <stdint.h>
#include <stdlib.h>

#include "api/ais/template.h"
#include "base/mem.h"
#include "wire/brace.h"

#define GROWS_MAX 64u /* what braces and numbers add */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = {(const char *)data, size};
    struct arena *a = arena_new(4096, MIB(1));
    struct errbuf eb = {{0}};
    struct brace *b;
    struct buf out, name;

    buf_init(&out, MIB(2));
    buf_init(&name, MIB(2));
    ais_put_template(text, &out);
    if (out.len > size + GROWS_MAX)
        abort();
    if (span_find(text, '@') == NULL && span_find(text, '%') == NULL &&
        !span_eq(buf_span(&out), text))
        abort();
    if (out.len > 0 && brace_parse(buf_span(&out), a, &b, &eb) == ERR_OK) {
        if (brace_count(b) == 0)
            abort();
        brace_name(b, brace_count(b) - 1, &name);
    }
    buf_fini(&name);
    buf_fini(&out);
    arena_free(&a);
    return 0;
}
