/* Any bytes: an archive read whole and read in pieces is the same, and the head of a plain file
 * that we write again reads the same. The first byte is the size of a piece. */
#include <assert.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/mem.h"
#include "wire/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
write_again(const struct tar_head *h)
{
    struct tar_member m = {.path = h->path,
                           .size = h->size,
                           .mtime_s = h->mtime_s,
                           .mode = h->mode != 0 ? h->mode : 0600,
                           .xattr = h->xattr};
    struct tar_head back;
    struct buf b;

    if (h->type != TAR_FILE || h->mtime_s < 0 || h->xattr.len > 65536)
        return;
    buf_init(&b, TAR_HEAD_MAX);
    tar_put_head(&b, &m, 0);
    assert(tar_head_read(buf_span(&b), &back, NULL) == TAR_GOT_HEAD);
    assert(back.head_len == b.len);
    assert(span_eq(back.path, m.path));
    assert(span_eq(back.xattr, m.xattr));
    assert(back.size == m.size);
    assert(back.mtime_s == m.mtime_s);
    assert(back.mode == m.mode);
    buf_fini(&b);
}

/* A sum of everything that was seen. */
static uint64_t
read_all(struct span in, size_t piece, bool rewrite)
{
    struct tar_reader r;
    struct errbuf eb = {0};
    uint64_t seen = 1, payload = 0;
    enum tar_event event = TAR_MORE;

    tar_reader_init(&r);
    while (in.len > 0 && event != TAR_BAD && event != TAR_END) {
        struct span part = {in.at, MIN(piece, in.len)}, data;

        in = span_from(in, part.len);
        do {
            event = tar_reader_next(&r, &part, &data, &eb);
            if (event == TAR_MEMBER) {
                seen = hash_xxh3(r.head.path.at, r.head.path.len, seen + payload);
                seen += r.head.size ^ (uint64_t)r.head.mtime_s ^ r.head.mode;
                payload = 0;
                if (rewrite)
                    write_again(&r.head);
            }
            if (event == TAR_DATA)
                payload += data.len;
        } while (event == TAR_MEMBER || event == TAR_DATA);
        assert(event != TAR_MORE || part.len == 0);
    }
    seen = seen * 31 + payload;
    seen = seen * 31 + (event == TAR_BAD) * 2U + (event == TAR_END);
    seen = seen * 31 + (tar_reader_finish(&r, &eb) == ERR_OK);
    tar_reader_fini(&r);
    return seen;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span in = {(const char *)data, size};

    if (size < 2)
        return 0;
    in = span_from(in, 1);
    assert(read_all(in, SIZE_MAX, true) == read_all(in, (size_t)data[0] + 1, false));
    return 0;
}
