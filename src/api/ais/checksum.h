/* checksum: the checksum types of AIS, and what is stored of them with an object. */
#pragma once
#include "api/ais/ais.h"

/* X(id, name, digits of a value) */
#define AIS_CHECKSUM_TABLE(X)                                                            \
    X(NONE, "none", 0)                                                                   \
    X(XXHASH, "xxhash", 16)                                                              \
    X(XXHASH2, "xxhash2", 16)                                                            \
    X(MD5, "md5", 32)                                                                    \
    X(CRC32C, "crc32c", 8)                                                               \
    X(SHA256, "sha256", 64)                                                              \
    X(SHA512, "sha512", 128)
enum ais_checksum {
#define X(id, name, digits) AIS_CHECKSUM_##id,
    AIS_CHECKSUM_TABLE(X)
#undef X
        AIS_CHECKSUMS_
};
#define AIS_CHECKSUM_TEXT 129

const char *ais_checksum_name(enum ais_checksum c);
bool ais_checksum_parse(struct span name, enum ais_checksum *out);
enum ais_checksum ais_checksum_of_bucket(const struct map_bucket *b);
/* What is computed and stored: xxhash and xxhash2 are the same. An MD5 is computed of every object: NONE. */
enum checksum_kind ais_checksum_kind(enum ais_checksum c);
/* The checksum of an object as its bucket wants it; else its MD5; NONE: nothing is known. `text` is lower-case hex. */
enum ais_checksum ais_checksum_of(const struct map_bucket *b, const struct object_meta *m,
                                  char text[AIS_CHECKSUM_TEXT]);
