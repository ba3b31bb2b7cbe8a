#include "store/record/superblock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "store/record/format.h"

static const char magic[8] = {'F', 'B', 'D', 'I', 'S', 'K', '\r', '\n'};
#define SUM_AT  12
#define SUM_LEN 4
static_assert(SUPERBLOCK_BYTES == STORE_ALIGN, "each copy is written by one page");
static_assert(SUM_AT + SUM_LEN < SUPERBLOCK_BYTES, "the sum stands inside");
static_assert((SUPERBLOCK_NODE_STATE & SUPERBLOCK_REMOVED) == 0, "flags are apart");

static uint32_t
superblock_sum_of(const char *bytes)
{
    static const char zeros[SUM_LEN];
    uint32_t sum = hash_crc32c(0, bytes, SUM_AT);

    sum = hash_crc32c(sum, zeros, sizeof zeros);
    return hash_crc32c(sum, bytes + SUM_AT + SUM_LEN,
                       SUPERBLOCK_BYTES - SUM_AT - SUM_LEN);
}

void
superblock_encode(const struct superblock *s, char out[SUPERBLOCK_BYTES])
{
    struct buf b;
    uint32_t sum;

    assert(out != NULL);
    buf_init(&b, SUPERBLOCK_BYTES);
    buf_put(&b, magic, sizeof magic);
    buf_be(&b, FORMAT_VERSION, 4);
    buf_be(&b, 0, SUM_LEN);
    buf_put(&b, s->cluster_id, sizeof s->cluster_id);
    buf_put(&b, s->disk_id, sizeof s->disk_id);
    buf_be(&b, s->generation, 8);
    buf_be(&b, s->epoch, 8);
    buf_be(&b, (uint64_t)s->made_ms, 8);
    buf_be(&b, s->flags, 4);
    buf_be(&b, s->map_epoch, 8);
    buf_zero(&b, SUPERBLOCK_BYTES - b.len);
    memcpy(out, b.at, SUPERBLOCK_BYTES);
    buf_fini(&b);
    sum = superblock_sum_of(out);
    for (unsigned i = 0; i < SUM_LEN; i++)
        out[SUM_AT + i] = (char)(sum >> (8 * (SUM_LEN - 1 - i)));
}

enum err
superblock_decode(struct span bytes, struct superblock *out, struct errbuf *eb)
{
    struct cursor c = cursor_of(bytes.at, bytes.len);
    struct span found = take_span(&c, sizeof magic);
    uint64_t version = take_be(&c, 4), sum = take_be(&c, SUM_LEN);

    *out = (struct superblock){0};
    if (bytes.len != SUPERBLOCK_BYTES || memcmp(found.at, magic, sizeof magic) != 0)
        return err_set(eb, ERR_CORRUPT, "no superblock of a Forebay disk");
    if (sum != superblock_sum_of(bytes.at))
        return err_set(eb, ERR_CORRUPT, "the superblock's sum is wrong");
    if (version < FORMAT_VERSION - 1 || version > FORMAT_VERSION)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "the disk has format %" PRIu64 ", this program reads %u and %u",
                       version, FORMAT_VERSION - 1, FORMAT_VERSION);
    memcpy(out->cluster_id, take_span(&c, 16).at, 16);
    memcpy(out->disk_id, take_span(&c, 16).at, 16);
    out->generation = take_be(&c, 8);
    out->epoch = take_be(&c, 8);
    out->made_ms = (int64_t)take_be(&c, 8);
    out->flags = (uint32_t)take_be(&c, 4);
    /* Format 1: the count of starts was the epoch of versions. */
    out->map_epoch = version >= 2 ? take_be(&c, 8) : out->epoch;
    return ERR_OK;
}

static enum err
superblock_load_one(struct rt_dir *state, const char *name, struct superblock *out,
                    struct errbuf *eb)
{
    char *bytes = NULL;
    size_t len;
    enum err rc = rt_file_load(state, name, SUPERBLOCK_BYTES, &bytes, &len, eb);

    if (rc == ERR_OK)
        rc = superblock_decode((struct span){bytes, len}, out, eb);
    free(bytes);
    return rc;
}

enum err
superblock_load(struct rt_dir *state, struct superblock *out, struct errbuf *eb)
{
    struct superblock twin;
    struct errbuf twin_eb = {0};
    enum err rc = superblock_load_one(state, "superblock", out, eb);
    enum err twin_rc = superblock_load_one(state, "superblock.2", &twin, &twin_eb);

    if (rc == ERR_NOT_IMPLEMENTED || twin_rc == ERR_NOT_IMPLEMENTED) {
        if (rc != ERR_NOT_IMPLEMENTED && eb != NULL)
            *eb = twin_eb;
        return ERR_NOT_IMPLEMENTED;
    }
    if (twin_rc == ERR_OK && (rc != ERR_OK || twin.generation > out->generation)) {
        *out = twin;
        return ERR_OK;
    }
    if (rc == ERR_NOT_FOUND && twin_rc != ERR_NOT_FOUND) {
        if (eb != NULL)
            *eb = twin_eb;
        return twin_rc;
    }
    return rc;
}

static enum err
save_to(struct rt_file *f, const struct superblock *s, struct errbuf *eb)
{
    struct iobuf *b;
    enum err rc = iobuf_get(SUPERBLOCK_BYTES, &b);

    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer for the superblock");
    superblock_encode(s, b->at);
    rc = rt_write(f, 0, b, 0, SUPERBLOCK_BYTES, RT_WRITE, eb);
    if (rc == ERR_OK)
        rc = rt_sync(f, eb);
    iobuf_drop(&b);
    return rc;
}

enum err
superblock_save(struct rt_dir *state, struct rt_file *first, const struct superblock *s,
                struct errbuf *eb)
{
    struct rt_file *twin = NULL;
    enum err rc = rt_open(state, "superblock.2", RT_O_WRITE | RT_O_CREATE | RT_O_DIRECT,
                          0600, &twin, eb);

    if (rc == ERR_OK)
        rc = save_to(twin, s, eb);
    rt_file_close(&twin);
    if (rc == ERR_OK)
        rc = save_to(first, s, eb);
    if (rc == ERR_OK)
        rc = rt_dir_sync(state, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "superblock");
    return rc;
}
