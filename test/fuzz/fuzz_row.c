/* Rows, upload keys and the small values of the index: what is read formats back to the same bytes. The input is
 * sealed with a right sum first, since the sum is what keeps anything else out. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "store/index/entry.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct entry_key wheres[TABLES_] = {
    {TABLE_OBJECTS, 5, {"k", 1}},  {TABLE_PARTS, 0, {"k", 1}},
    {TABLE_UPLOADS, 5, {"k", 1}},  {TABLE_DONE, 0, {"k", 1}},
    {TABLE_VERSIONS, 5, {"k", 1}}, {TABLE_PREPARED, 0, {"k", 1}},
};

static size_t
seal(const struct entry_key *where, const uint8_t *data, size_t size, unsigned char *out)
{
    unsigned char head[14] = {(unsigned char)where->table,  0, 0, 0, 0, 0,  0, 0,
                              (unsigned char)where->bucket, 0, 0, 0, 1, 'k'};
    uint32_t sum = hash_crc32c(hash_crc32c(0, head, sizeof head), data, size);

    memcpy(out, data, size);
    for (unsigned i = 0; i < 4; i++)
        out[size + i] = (unsigned char)(sum >> (24 - 8 * i));
    return size + 4;
}

static size_t
read_and_write(enum table table, struct span in, unsigned char *out)
{
    const struct entry_key *where = &wheres[table];
    struct upload_entry upload;
    struct part_entry part;
    struct done_entry done;
    struct prepared_entry prepared;
    struct entry entry;

    switch (table) {
    case TABLE_OBJECTS:
    case TABLE_VERSIONS:
        return entry_decode(where, in, &entry) == ERR_OK
                   ? entry_encode(where, &entry, out)
                   : 0;
    case TABLE_PARTS:
        return part_entry_decode(where, in, &part) == ERR_OK
                   ? part_entry_encode(where, &part, out)
                   : 0;
    case TABLE_UPLOADS:
        return upload_entry_decode(where, in, &upload) == ERR_OK
                   ? upload_entry_encode(where, &upload, out)
                   : 0;
    case TABLE_DONE:
        return done_entry_decode(where, in, &done) == ERR_OK
                   ? done_entry_encode(where, &done, out)
                   : 0;
    case TABLE_PREPARED:
        return prepared_entry_decode(where, in, &prepared) == ERR_OK
                   ? prepared_entry_encode(where, &prepared, out)
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
    char key[STORE_KEY_MAX];
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
        size_t len = seal(&wheres[t], data, size, in);
        size_t back = read_and_write((enum table)t, (struct span){(char *)in, len}, out);

        assert(back == 0 || (back == len && memcmp(in, out, len) == 0));
    }
    return 0;
}
