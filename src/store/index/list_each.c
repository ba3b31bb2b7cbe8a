/* Uploads and their parts, one by one: list.c gives pages of them. */
#include <string.h>

#include "base/mem.h"
#include "store/index/list.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

enum err
list_each_upload(struct memtable *t, struct index *x, uint64_t bucket,
                 enum list_which which, uint32_t page, list_upload_fn *fn, void *arg,
                 struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), MIB(4));
    char last[STORE_KEY_MAX];
    struct span key = {last, 0};
    struct upload_id after;
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_upload *found;
        uint32_t count;

        arena_reset(a);
        rc = list_uploads(t, x, bucket, which, key, key.len > 0 ? &after : NULL, page, a,
                          &found, &count, &more, eb);
        more = more && count > 0;
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
            rc = fn(arg, &found[i], eb);
        if (rc == ERR_OK && more) {
            key.len = found[count - 1].key.len;
            memcpy(last, found[count - 1].key.at, key.len);
            after = found[count - 1].id;
        }
    }
    arena_free(&a);
    return rc;
}

enum err
list_each_part(struct memtable *t, struct index *x, const struct upload_id *id,
               uint32_t page, list_part_fn *fn, void *arg, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), MIB(8));
    uint32_t after = 0;
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct list_part *found;
        uint32_t count;

        arena_reset(a);
        rc = list_parts(t, x, id, after, page, a, &found, &count, &more, eb);
        more = more && count > 0;
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            after = found[i].number;
            rc = fn(arg, &found[i], eb);
        }
    }
    arena_free(&a);
    return rc;
}
