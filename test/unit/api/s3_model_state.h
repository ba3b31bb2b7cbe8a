/* s3_model_state: what the model of S3 keeps: buckets, versions, uploads, the bytes that bodies are taken from, the dice. */
#pragma once
#include "base/hash.h"
#include "unit/api/api_rig.h"
#include "wire/checksum.h"

#define M_BUCKETS  2
#define M_VERSIONS 24
#define M_UPLOADS  6
#define M_PARTS    3
#define M_DATA     (1u << 20)
#define M_ETAG     48

/* Keys in byte order, verbatim in a path, and verbatim in XML. */
static const struct {
    const char *key, *path, *xml;
} m_keys[] = {
    {"a", "a", "a"},
    {"a/1", "a/1", "a/1"},
    {"a/2/x", "a/2/x", "a/2/x"},
    {"b & <c>", "b%20%26%20%3Cc%3E", "b &amp; &lt;c&gt;"},
    {"b/", "b/", "b/"},
    {"b//d", "b//d", "b//d"},
    {"c+\xc3\xa9", "c%2B%C3%A9", "c+\xc3\xa9"},
    {"z", "z", "z"},
};
#define M_KEYS ARRAY_LEN(m_keys)

/* A checksum as headers tell it. */
struct m_sum {
    enum checksum_kind kind;
    bool composite; /* of an object of one part */
};
struct m_version {
    bool marker, null;
    struct m_sum sum;
    char id[40];
    uint32_t from, len;  /* of the data */
    char etag[M_ETAG];   /* without quotes */
    unsigned meta, tags; /* numbers that stand in them; 0: none */
};
struct m_upload {
    unsigned key;
    char id[40];
    unsigned meta, tags;
    struct m_sum sum; /* CHECKSUM_NONE: begun without one */
    struct {
        bool there;
        uint32_t from, len;
        enum checksum_kind sum;
    } part[M_PARTS];
};
struct m_bucket {
    const char *name;
    enum map_versioning versioning;
    struct m_version of[M_KEYS][M_VERSIONS]; /* the current one first */
    unsigned count[M_KEYS];
    struct m_upload uploads[M_UPLOADS]; /* in order of their begin */
    unsigned upload_count;
};
struct model {
    struct site *site;
    uint64_t state, seed, epoch, steps;
    bool made;
    char *data;
    struct m_bucket bucket[M_BUCKETS];
    uint64_t done[16];
};

/* ---- dice ---- */

static inline uint32_t
m_rnd(struct model *m, uint32_t below)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->state >> 33) % below;
}

static inline struct model *
model_new(uint64_t seed)
{
    struct model *m = xcalloc(1, sizeof *m);

    m->seed = m->state = seed;
    m->data = xmalloc(M_DATA);
    for (uint32_t i = 0; i < M_DATA; i++)
        m->data[i] = (char)((i * 40503u + (i >> 8)) >> 3);
    m->bucket[0].name = "one";
    m->bucket[1].name = "two";
    return m;
}

static inline void
model_free(struct model *m)
{
    free(m->data);
    free(m);
}

/* ---- the model itself ---- */

static inline void
m_remove(struct m_bucket *b, unsigned key, unsigned i)
{
    memmove(&b->of[key][i], &b->of[key][i + 1],
            (b->count[key] - i - 1) * sizeof b->of[key][0]);
    b->count[key]--;
}

static inline void
m_add(struct m_bucket *b, unsigned key, const struct m_version *v)
{
    for (unsigned i = 0; i < b->count[key]; i++)
        if (b->versioning == MAP_UNVERSIONED || (v->null && b->of[key][i].null))
            m_remove(b, key, i--);
    memmove(&b->of[key][1], &b->of[key][0], b->count[key] * sizeof b->of[key][0]);
    b->of[key][0] = *v;
    b->count[key]++;
}

/* The current object; NULL: none, or a delete marker. */
static inline struct m_version *
m_current(struct m_bucket *b, unsigned key)
{
    return b->count[key] > 0 && !b->of[key][0].marker ? &b->of[key][0] : NULL;
}

static inline void
m_etag_of(const struct model *m, uint32_t from, uint32_t len, bool parts,
          char out[M_ETAG])
{
    unsigned char md5[DIGEST_MAX];

    digest_oneshot(DIGEST_MD5, m->data + from, len, md5);
    if (parts)
        digest_oneshot(DIGEST_MD5, md5, 16, md5);
    hex_encode(md5, 16, out);
    if (parts)
        strcpy(out + 32, "-1");
}

static inline struct m_bucket *
m_any_bucket(struct model *m)
{
    return &m->bucket[m_rnd(m, M_BUCKETS)];
}
