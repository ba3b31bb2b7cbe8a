/* Any bytes as an archive: the first byte chooses the format (tar, tgz, tar.lz4, zip). Reading ends with an answer or with an
 * error that says something; no member gives more bytes than its size, and no fewer without an error. */
#include <assert.h>
#include <stdint.h>

#include "base/mem.h"
#include "shard/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MAX (8u << 20) /* read of one input: small ones expand a lot */

static void
read_stream(struct shard_input *in, enum shard_format f)
{
    struct shard_stream *s;
    struct shard_member m;
    struct errbuf eb = {{0}};
    uint64_t read = 0;
    bool end = false;
    enum err rc = shard_stream_open(in, f, &s, &eb);

    while (rc == ERR_OK && read < BYTES_MAX) {
        struct span piece;
        uint64_t got = 0;

        rc = shard_stream_next(s, &m, &end, &eb);
        if (rc != ERR_OK || end)
            break;
        assert(m.name.len > 0);
        do {
            rc = shard_stream_data(s, &piece, &eb);
            got += piece.len;
            read += piece.len + 512;
        } while (rc == ERR_OK && piece.len > 0 && read < BYTES_MAX);
        assert(got <= m.size);
        assert(rc != ERR_OK || got == m.size || read >= BYTES_MAX);
    }
    assert(rc == ERR_OK || eb.text[0] != '\0');
    shard_stream_close(&s);
}

static void
read_indexed(struct shard_input *in, enum shard_format f)
{
    struct shard_index *x;
    struct errbuf eb = {{0}};
    uint64_t read = 0;

    if (shard_index_build(in, f, &x, &eb) != ERR_OK) {
        assert(eb.text[0] != '\0');
        return;
    }
    for (uint32_t i = 0; i < x->count && read < BYTES_MAX; i++) {
        const struct shard_entry *e = &x->entries[i];
        struct shard_extract get;
        struct span piece = {"", 1};
        uint64_t got = 0, first = e->size / 3;
        enum err rc = extract_begin(&get, in, x, e, first, e->size - first, &eb);

        assert(shard_index_find(x, shard_entry_name(x, e)) != NULL);
        while (rc == ERR_OK && piece.len > 0 && read < BYTES_MAX) {
            rc = extract_next(&get, &piece, &eb);
            got += piece.len;
            read += piece.len + 512;
        }
        assert(got <= e->size - first);
        assert(rc != ERR_OK || got == e->size - first || read >= BYTES_MAX);
        extract_end(&get);
    }
    shard_index_drop(&x);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum shard_format formats[] = {SHARD_TAR, SHARD_TGZ, SHARD_TAR_LZ4,
                                                SHARD_ZIP};
    enum shard_format f;
    struct shard_memory m;

    if (size < 1)
        return 0;
    f = formats[data[0] % ARRAY_LEN(formats)];
    shard_memory_init(&m, (struct span){(const char *)data + 1, size - 1});
    if (f != SHARD_ZIP)
        read_stream(&m.in, f);
    if (shard_format_is_indexed(f))
        read_indexed(&m.in, f);
    return 0;
}
