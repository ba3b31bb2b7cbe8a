/* Headers of members and manifests, as a disk may hold them: what parses is within its window, its metadata can be
 * read, and what was built from it reads back alike. */
#include <stdlib.h>

#include "base/hash.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/log_record_peek.h"
#include "store/record/manifest.h"
#include "store/store_entry.h"
#include "wire/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
put_sum(char *at, uint32_t sum)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (char)(sum >> (24 - 8 * i));
}

/* Puts the right sums in, so that what lies behind them is fuzzed too. */
static void
mend_sums(char *bytes, size_t size)
{
    struct tar_head head;
    char *value;
    size_t n;

    if (tar_head_read((struct span){bytes, size}, &head, NULL) != TAR_GOT_HEAD ||
        head.xattr.len < RECORD_OVERHEAD + LOG_RECORD_HEAD_SUM)
        return;
    value = bytes + (head.xattr.at - bytes);
    n = head.xattr.len - LOG_RECORD_HEAD_SUM;
    put_sum(value + n - 4, hash_crc32c(0, value, n - 4));
    put_sum(value + n,
            log_record_head_sum(bytes, head.head_len, (size_t)(value - bytes) + n));
}

static bool
lies_in(struct span window, struct span s)
{
    return s.len == 0 || (s.at >= window.at && s.at + s.len <= window.at + window.len);
}

/* What a peek believes lies in the window, and is what the whole parser finds there, if that finds no fault. */
static void
peek(struct span window)
{
    struct log_record_peek g;
    struct log_record m;
    size_t need = 0;

    if (!log_record_peek(window, &g))
        return;
    if (g.head_len > window.len || !lies_in(window, g.key) ||
        !lies_in(window, g.block_sums))
        abort();
    if (log_record_parse_placed(window, &m, &need, NULL) != LOG_RECORD_OK)
        return;
    if (g.head_len != m.head_len || g.segment != m.segment ||
        g.generation != m.generation || g.offset != m.offset || g.payload != m.payload ||
        g.bucket != m.bucket || !span_eq(g.key, m.key) ||
        !content_eq(&g.content, &m.content) || !span_eq(g.block_sums, m.block_sums))
        abort();
}

static void
look(struct span window)
{
    size_t size = window.len;
    struct manifest manifest;
    struct log_record m;
    size_t need = 0;

    peek(window);
    /* Where an entry says that one stands less is asked of it, and never more is believed. */
    if (log_record_parse_placed(window, &m, &need, NULL) == LOG_RECORD_OK &&
        m.head_len > size)
        abort();
    switch (log_record_parse(window, &m, &need, NULL)) {
    case LOG_RECORD_OK: {
        struct arena *a = arena_new(1024, 1 << 20);
        struct object_meta meta;
        struct entry entry;

        if (m.head_len > size || m.key.len > STORE_KEY_MAX)
            abort();
        if (log_record_meta(&m, a, true, &meta, NULL) == ERR_OK)
            (void)(record_entry(&m, STORE_NATIVE, &entry, NULL) == ERR_OK);
        arena_free(&a);
        break;
    }
    case LOG_RECORD_MORE:
        if (need <= size || need > HEAD_MAX)
            abort();
        break;
    case LOG_RECORD_ZERO:
    case LOG_RECORD_BAD:
    case LOG_RECORD_NEWER:
        break;
    }
    if (manifest_decode(window, &manifest, NULL) == ERR_OK) {
        char *again = malloc(size);

        if (manifest_len(manifest.count, manifest.sum_len) != size)
            abort();
        manifest_encode(&manifest, again);
        free(again);
        manifest_fini(&manifest);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);

    look((struct span){(const char *)data, size});
    memcpy(copy, data, size);
    mend_sums(copy, size);
    look((struct span){copy, size});
    free(copy);
    return 0;
}
