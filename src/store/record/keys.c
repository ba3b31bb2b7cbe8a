#include "store/record/keys.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

static_assert(KEY_CODED_MAX <= 511, "the largest key of LMDB");
static_assert(sizeof(struct upload_id) == 16, "an id ends the key of an upload");
static_assert(sizeof(struct content_id) == 16, "an id is the key of a prepared version");
static_assert(KEY_PART_BYTES == sizeof(struct upload_id) + 4, "an id and a number");

static void
keys_put_be(unsigned char *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> (8 * (bytes - 1 - i)));
}

unsigned
key_layers(size_t len)
{
    assert(len <= KEY_UPLOAD_MAX);
    return len <= KEY_LAYER_BYTES ? 1 : (unsigned)((len - 1) / KEY_LAYER_BYTES) + 1;
}

struct span
key_layer(struct span key, unsigned layer)
{
    struct span rest = span_from(key, (size_t)layer * KEY_LAYER_BYTES);

    assert(layer < key_layers(key.len));
    return (struct span){rest.at, MIN(rest.len, (size_t)KEY_LAYER_BYTES)};
}

size_t
key_code(uint32_t space, struct span part, unsigned char out[KEY_CODED_MAX])
{
    assert(part.len <= KEY_LAYER_BYTES);
    keys_put_be(out, space, 4);
    if (part.len > 0)
        memcpy(out + 4, part.at, part.len);
    return 4 + part.len;
}

size_t
key_upload_prefix(struct span key, unsigned char out[KEY_UPLOAD_MAX])
{
    size_t n = 0;

    assert(key.len <= STORE_KEY_MAX);
    for (size_t i = 0; i < key.len; i++) {
        out[n++] = (unsigned char)key.at[i];
        if (key.at[i] == 0)
            out[n++] = 0xFF;
    }
    out[n++] = 0;
    out[n++] = 0;
    assert(n >= key.len + 2 && n + 16 <= KEY_UPLOAD_MAX);
    return n;
}

size_t
key_upload(struct span key, const struct upload_id *id, unsigned char out[KEY_UPLOAD_MAX])
{
    size_t n = key_upload_prefix(key, out);

    memcpy(out + n, id->id.bytes, sizeof id->id.bytes);
    return n + sizeof id->id.bytes;
}

size_t
key_version(struct span key, const struct version *born,
            unsigned char out[KEY_UPLOAD_MAX])
{
    size_t n = key_upload_prefix(key, out);

    keys_put_be(out + n, ~born->epoch, 8);
    keys_put_be(out + n + 8, ~born->counter, 8);
    return n + 16;
}

bool
key_version_parse(struct span coded, char *key, size_t *key_len, struct version *born)
{
    struct upload_id last;
    struct cursor c;

    if (!key_upload_parse(coded, key, key_len, &last))
        return false;
    c = cursor_of(last.id.bytes, sizeof last.id.bytes);
    born->epoch = ~take_be(&c, 8);
    born->counter = ~take_be(&c, 8);
    return true;
}

bool
key_upload_parse(struct span coded, char *key, size_t *key_len, struct upload_id *id)
{
    size_t n = 0, i = 0;

    for (;;) {
        bool zero = i < coded.len && coded.at[i] == 0;
        unsigned next = i + 1 < coded.len ? (unsigned char)coded.at[i + 1] : 1;

        if (i >= coded.len || (zero && next != 0 && next != 0xFF))
            return false;
        if (zero && next == 0)
            break;
        if (n == STORE_KEY_MAX)
            return false;
        key[n++] = coded.at[i];
        i += zero ? 2 : 1;
    }
    coded = span_from(coded, i + 2);
    if (coded.len != sizeof id->id.bytes)
        return false;
    memcpy(id->id.bytes, coded.at, coded.len);
    assert(n <= STORE_KEY_MAX);
    *key_len = n;
    return true;
}

void
key_part(const struct upload_id *id, uint32_t number, unsigned char out[KEY_PART_BYTES])
{
    memcpy(out, id->id.bytes, sizeof id->id.bytes);
    keys_put_be(out + sizeof id->id.bytes, number, 4);
}

bool
key_part_parse(struct span coded, struct upload_id *id, uint32_t *number)
{
    struct cursor c = cursor_of(coded.at, coded.len);
    struct span bytes = take_span(&c, sizeof id->id.bytes);

    *number = (uint32_t)take_be(&c, 4);
    if (c.bad || cursor_left(&c) != 0)
        return false;
    memcpy(id->id.bytes, bytes.at, bytes.len);
    return true;
}

struct content_id
content_id_of(uint64_t epoch, uint16_t node, uint64_t counter)
{
    struct content_id id;

    assert(epoch < (uint64_t)1 << 48);
    epoch = htobe64(epoch << 16 | node);
    counter = htobe64(counter);
    memcpy(id.bytes, &epoch, 8);
    memcpy(id.bytes + 8, &counter, 8);
    return id;
}
