#include "api/ais/checksum.h"

#include "base/hash.h"
#include "base/mem.h"

static const struct {
    const char *name;
    size_t digits;
} kinds[AIS_CHECKSUMS_] = {
#define X(id, name, digits) [AIS_CHECKSUM_##id] = {name, digits},
    AIS_CHECKSUM_TABLE(X)
#undef X
};

const char *
ais_checksum_name(enum ais_checksum c)
{
    return kinds[c].name;
}

bool
ais_checksum_parse(struct span name, enum ais_checksum *out)
{
    for (unsigned i = 0; i < AIS_CHECKSUMS_; i++)
        if (span_case_is(name, kinds[i].name)) {
            *out = (enum ais_checksum)i;
            return true;
        }
    return false;
}

enum ais_checksum
ais_checksum_of_bucket(const struct map_bucket *b)
{
    const char *name =
        b->property_count > 0 ? map_bucket_property(b, "checksum.type") : NULL;
    enum ais_checksum c;

    return name != NULL && ais_checksum_parse(span_of(name), &c) ? c
                                                                 : AIS_CHECKSUM_XXHASH2;
}

enum checksum_kind
ais_checksum_kind(enum ais_checksum c)
{
    switch (c) {
    case AIS_CHECKSUM_XXHASH:
    case AIS_CHECKSUM_XXHASH2:
        return CHECKSUM_XXH64;
    case AIS_CHECKSUM_CRC32C:
        return CHECKSUM_CRC32C;
    case AIS_CHECKSUM_SHA256:
        return CHECKSUM_SHA256;
    case AIS_CHECKSUM_SHA512:
        return CHECKSUM_SHA512;
    case AIS_CHECKSUM_NONE:
    case AIS_CHECKSUM_MD5:
    case AIS_CHECKSUMS_:
        break;
    }
    return CHECKSUM_NONE;
}

/* The type of a stored value; NONE: it is none of AIS. */
static enum ais_checksum
stored_type(const struct map_bucket *b, const struct object_meta *m)
{
    if (m->checksum_type == CHECKSUM_COMPOSITE)
        return AIS_CHECKSUM_NONE;
    switch (m->checksum_algorithm) {
    case CHECKSUM_XXH64:
        return ais_checksum_of_bucket(b) == AIS_CHECKSUM_XXHASH ? AIS_CHECKSUM_XXHASH
                                                                : AIS_CHECKSUM_XXHASH2;
    case CHECKSUM_CRC32C:
        return AIS_CHECKSUM_CRC32C;
    case CHECKSUM_SHA256:
        return AIS_CHECKSUM_SHA256;
    case CHECKSUM_SHA512:
        return AIS_CHECKSUM_SHA512;
    default:
        return AIS_CHECKSUM_NONE;
    }
}

enum ais_checksum
ais_checksum_of(const struct map_bucket *b, const struct object_meta *m,
                char text[AIS_CHECKSUM_TEXT])
{
    static const uint8_t no_md5[16];
    enum ais_checksum c = stored_type(b, m);

    text[0] = '\0';
    if (c != AIS_CHECKSUM_NONE && 2 * m->checksum.len == kinds[c].digits) {
        hex_encode(m->checksum.at, m->checksum.len, text);
        return c;
    }
    if (m->parts > 0 || memcmp(m->md5, no_md5, sizeof no_md5) == 0)
        return AIS_CHECKSUM_NONE;
    hex_encode(m->md5, sizeof m->md5, text);
    return AIS_CHECKSUM_MD5;
}
