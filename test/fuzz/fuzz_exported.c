/* Records of exported objects, in archives that anybody may have made: what parses formats back to a record that says the
 * same, and its path is safe or under .forebay/id. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "store/store_exported.h"
#include "wire/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span record = {(const char *)data, size};
    struct arena *a = arena_new(4096, MIB(1));
    struct exported e, again;
    struct errbuf eb = {{0}};
    struct buf first, second, head;
    char path[EXPORTED_PATH_ROOM];

    buf_init(&first, EXPORTED_HEAD_MAX);
    buf_init(&second, EXPORTED_HEAD_MAX);
    buf_init(&head, KIB(64));
    if (exported_read(record, a, &e, &eb) == ERR_OK) {
        size_t len = exported_path(&e, false, path);

        assert(len < sizeof path);
        assert(tar_path_safe((struct span){path, len}));
        exported_put_record(&first, &e);
        assert(!first.full);
        assert(exported_read(buf_span(&first), a, &again, &eb) == ERR_OK);
        exported_put_record(&second, &again);
        assert(span_eq(buf_span(&first), buf_span(&second)));
        assert(again.what == e.what && again.part == e.part);
        exported_place(&e, SPAN(EXPORTED_OLDER));
        assert(exported_path(&e, false, path) < sizeof path);
        assert(tar_path_safe(span_of(path)));
        assert(again.size == e.size && again.sum == e.sum && span_eq(again.key, e.key));
        exported_put_head(&head, &e, true);
        assert(!head.full);
    } else {
        assert(eb.text[0] != '\0');
    }
    buf_fini(&head);
    buf_fini(&second);
    buf_fini(&first);
    arena_free(&a);
    return 0;
}
