/* Rows, upload keys and the small values of the index: what is read formats back to the same bytes. The input is
 * sealed with a right sum first, since the sum is what keeps anything else out. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "disk/row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct row_home homes[TABLES_] = {
    {TABLE_OBJECTS, 5, {"k", 1}},  {TABLE_PARTS, 0, {"k", 1}},
    {TABLE_UPLOADS, 5, {"k", 1}},  {TABLE_DONE, 0, {"k", 1}},
    {TABLE_VERSIONS, 5, {"k", 1}}, {TABLE_PREPARED, 0, {"k", 1}},
};

static size_t
seal(const struct row_home *home, const uint8_t *data, size_t size, unsigned char *out)
{
    unsigned char head[14] = {(unsigned char)home->table,  0, 0, 0, 0, 0,  0, 0,
                              (unsigned char)home->bucket, 0, 0, 0, 1, 'k'};
    uint32_t sum = hash_crc32c(hash_crc32c(0, head, sizeof head), data, size);

    memcpy(out, data, size);
    for (unsigned i = 0; i < 4; i++)
        out[size + i] = (unsigned char)(sum >> (24 - 8 * i));
    return size + 4;
}

static size_t
read_and_write(enum table table, struct span in, unsigned char *out)
{
    const struct row_home *home = &homes[table];
    struct upload_row upload;
    struct part_row part;
    struct done_row done;
    struct prepared_row prepared;
    struct row row;

    switch (table) {
    case TABLE_OBJECTS:
    case TABLE_VERSIONS:
        return row_decode(home, in, &row) == ERR_OK ? row_encode(home, &row, out) : 0;
    case TABLE_PARTS:
        return part_row_decode(home, in, &part) == ERR_OK
                   ? part_row_encode(home, &part, out)
                   : 0;
    case TABLE_UPLOADS:
        return upload_row_decode(home, in, &upload) == ERR_OK
                   ? upload_row_encode(home, &upload, out)
                   : 0;
    case TABLE_DONE:
        return done_row_decode(home, in, &done) == ERR_OK
                   ? done_row_encode(home, &done, out)
                   : 0;
    case TABLE_PREPARED:
        return prepared_row_decode(home, in, &prepared) == ERR_OK
                   ? prepared_row_encode(home, &prepared, out)
                   : 0;
    case TABLES_:
        break;
    }
    return 0;
}

static void
try_upload_key(struct span in)
{
    unsigned char coded[KEY_UPLOAD_MAX];
    char key[DISK_KEY_MAX];
    struct upload_id id;
    size_t len;

    if (!key_upload_parse(in, key, &len, &id))
        return;
    len = key_upload((struct span){key, len}, &id, coded);
    assert(span_eq(in, (struct span){(char *)coded, len}));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char in[VALUE_CODED_MAX + 4], out[VALUE_CODED_MAX];

    try_upload_key((struct span){(const char *)data, size});
    if (size > VALUE_CODED_MAX)
        return 0;
    for (unsigned t = 0; t < TABLES_; t++) {
        size_t len = seal(&homes[t], data, size, in);
        size_t back = read_and_write((enum table)t, (struct span){(char *)in, len}, out);

        assert(back == 0 || (back == len && memcmp(in, out, len) == 0));
    }
    return 0;
}
