/* manifest: which parts an object consists of. docs/formats.md, section 7. */
#pragma once
#include "store/record/log_record.h"
#include "store/store_entry.h"

#define MANIFEST_PAGE       65536u
#define MANIFEST_PAGE_PARTS 1000u

struct manifest_entry {
    struct content_id content;
    uint64_t at; /* in the object */
    uint64_t size;
    uint64_t offset; /* place */
    uint32_t segment;
    uint16_t number;
    bool in_log;
    uint8_t md5[16];
};
/* Checksums stand behind the pages, where every part has one and all are of one algorithm. */
struct manifest {
    struct manifest_entry *entries; /* owned */
    uint32_t count;
    uint8_t sum_algorithm; /* wire/checksum.h; 0: none are kept */
    uint8_t sum_len;
    char *sums; /* owned; sum_len for each entry; NULL: none */
};
#define MANIFEST_SUM_MAX 64u
void manifest_fini(struct manifest *m); /* twice is fine */
/* The checksum of part `index`; empty: none. Borrowed. */
struct span manifest_sum(const struct manifest *m, uint32_t index);

/* Bytes of the payload for `count` parts with checksums of `sum_len` bytes; 0: without. */
uint64_t manifest_len(uint32_t count, uint8_t sum_len);
void manifest_encode(const struct manifest *m, char *out);
/* ERR_CORRUPT unless every page is whole, numbers ascend and sizes add up. */
enum err manifest_decode(struct span payload, struct manifest *out,
                         struct errbuf *eb) MUST_CHECK;
