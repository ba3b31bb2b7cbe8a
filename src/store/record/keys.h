/* keys: how names become keys of the index, so that byte order stays exact. docs/formats.md, section "index".
 *
 * LMDB takes keys of at most 511 bytes, S3's have up to 1,024. A key of the index is `be32 space | bytes`; what
 * does not fit goes on in a layer: the entry of the first 500 bytes carries the number of another space, in which
 * the rest stands as a key. A prefix sorts before what it begins, in layers as in memcmp().
 *
 * Pure functions: any thread.
 */
#pragma once
#include "store/store_entry.h"
#include "store/store_upload.h"
#include <assert.h>
#include <stdint.h>

#include "base/buf.h"

#define KEY_LAYER_BYTES 500                   /* of a key in one layer */
#define KEY_CODED_MAX   (4 + KEY_LAYER_BYTES) /* at most 511 */
#define KEY_UPLOAD_MAX  (2 * STORE_KEY_MAX + 2 + 16)
#define KEY_LAYERS_MAX  ((KEY_UPLOAD_MAX + KEY_LAYER_BYTES - 1) / KEY_LAYER_BYTES)
static_assert(KEY_CODED_MAX <= 511, "LMDB's limit of a key");
static_assert(KEY_UPLOAD_MAX > 2 * STORE_KEY_MAX, "escaping doubles a key at most");
static_assert(KEY_LAYERS_MAX >= 2, "a long key has layers");

/* Tables that memtable and index share, in the order in which a batch is applied: an upload that ends takes the
 * parts with it that the same batch brought. */
enum table {
    TABLE_OBJECTS,  /* bucket, key -> entry; key is the object's */
    TABLE_PARTS,    /* bucket 0, key_part() -> part_entry */
    TABLE_UPLOADS,  /* bucket, key_upload() -> upload_entry */
    TABLE_DONE,     /* bucket 0, upload id -> done_entry */
    TABLE_VERSIONS, /* bucket, key_version() -> entry of an older version */
    TABLE_PREPARED, /* bucket 0, content id -> prepared_entry */
    TABLES_
};

/* Layers of a key of `len` bytes: 1 up to 500, 2 up to 1,000 … The last is never empty. */
unsigned key_layers(size_t len);
struct span key_layer(struct span key, unsigned layer); /* its bytes in that layer */
/* Writes `be32 space | part`; returns the length. */
size_t key_code(uint32_t space, struct span part, unsigned char out[KEY_CODED_MAX]);

/* Key of an upload: the object's key, escaped (00 -> 00 FF) and ended (00 00), then the id: sorts by key, then
 * by id, which is the order of begin. The text form never reaches anybody. */
size_t key_upload(struct span key, const struct upload_id *id,
                  unsigned char out[KEY_UPLOAD_MAX]);
/* The other way; false when it is none. `key` has room for STORE_KEY_MAX. */
bool key_upload_parse(struct span coded, char *key, size_t *key_len,
                      struct upload_id *id);
/* The smallest upload key of `key` (what begins the uploads of that key); the same without the id. */
size_t key_upload_prefix(struct span key, unsigned char out[KEY_UPLOAD_MAX]);

/* Key of an older version: as an upload's, with the version it was born with turned over, so that the newest comes
 * first. The zero version comes last: it points to the null version (its entry has nothing but `born`). */
size_t key_version(struct span key, const struct version *born,
                   unsigned char out[KEY_UPLOAD_MAX]);
bool key_version_parse(struct span coded, char *key, size_t *key_len,
                       struct version *born);

#define KEY_PART_BYTES 20
void key_part(const struct upload_id *id, uint32_t number,
              unsigned char out[KEY_PART_BYTES]);
bool key_part_parse(struct span coded, struct upload_id *id, uint32_t *number);

/* The content id that a node mints. */
struct content_id content_id_of(uint64_t epoch, uint16_t node, uint64_t counter);
