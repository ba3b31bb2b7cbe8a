/* What the TOML parser takes, written out as dotted keys, is taken again with the same
 * values. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "conf/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
put_string(struct buf *out, struct span s)
{
    buf_putc(out, '"');
    while (s.len > 0) {
        uint32_t code = 0;
        size_t n = utf8_next(s, &code);

        assert(n > 0); /* strings are UTF-8 whatever was escaped */
        buf_printf(out, "\\U%08" PRIX32, code);
        s = span_from(s, n);
    }
    buf_putc(out, '"');
}

static enum err
write_value(const char *key, const struct toml_value *v, void *arg, struct errbuf *eb)
{
    struct buf *out = arg;

    (void)eb;
    assert(strlen(key) > 0 && strlen(key) <= TOML_KEY_MAX);
    buf_printf(out, "%s = ", key);
    switch (v->kind) {
    case TOML_STRING:
        put_string(out, v->string);
        break;
    case TOML_INTEGER:
        buf_printf(out, "%" PRId64, v->integer);
        break;
    case TOML_BOOLEAN:
        buf_puts(out, v->boolean ? "true" : "false");
        break;
    case TOML_ARRAY:
        buf_putc(out, '[');
        for (size_t i = 0; i < v->count; i++) {
            put_string(out, v->items[i]);
            buf_puts(out, ", ");
        }
        buf_putc(out, ']');
        break;
    }
    buf_putc(out, '\n');
    return ERR_OK;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = {(const char *)data, size};
    struct buf once, twice;

    buf_init(&once, 16 << 20);
    buf_init(&twice, 16 << 20);
    if (toml_parse("fuzz", text, write_value, &once, NULL) == ERR_OK &&
        once.len <= TOML_TEXT_MAX) {
        enum err rc = toml_parse("again", buf_span(&once), write_value, &twice, NULL);

        assert(rc == ERR_OK);
        (void)rc;
        assert(span_eq(buf_span(&once), buf_span(&twice)));
    }
    buf_fini(&once);
    buf_fini(&twice);
    return 0;
}
