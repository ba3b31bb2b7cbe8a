#include "store/index/suspect.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_upload.h"
#include "wire/record.h"

#define SUSPECT_KIND    36
#define SUSPECT_VERSION 1
#define FILE_ENTRY      (SUSPECT_ENTRY_BYTES + 8u) /* hash, bucket, batch */
static_assert(SUSPECT_ENTRY_BYTES == LOG_RECORD_KEY_BYTES, "a list of changes");
enum { FIELD_SUSPECT_KEYS = 1, FIELD_SUSPECT_BOUND, FIELD_SUSPECT_KNOWN };

struct suspects *
suspects_new(void)
{
    return xcalloc(1, sizeof(struct suspects));
}

void
suspects_free(struct suspects **sp)
{
    struct suspects *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    free(s->at);
    free(s);
}

void
suspects_check(const struct suspects *s)
{
    assert(s->count <= s->room);
    assert(atomic_load(&s->left) <= s->count);
    assert(s->count <= SUSPECTS_MAX);
    for (uint32_t i = 1; i < s->count; i++)
        assert(s->at[i - 1].hash < s->at[i].hash);
}

uint32_t
suspect_bucket(uint64_t bucket)
{
    return (uint32_t)(bucket ^ (bucket >> 32));
}

uint32_t
suspect_bucket_of_uploads(uint64_t bucket)
{
    return suspect_bucket(bucket) ^ 0x40000000u;
}

uint64_t
suspect_upload_hash(const struct upload_id *id)
{
    return hash_xxh3(id->id.bytes, sizeof id->id.bytes, 25);
}

bool
suspect_of(const struct log_record *m, uint64_t key_hash, uint64_t *hash,
           uint32_t *bucket)
{
    *hash = key_hash;
    *bucket = suspect_bucket(m->bucket);
    switch ((unsigned)m->kind) {
    case LOG_RECORD_KEYS:
    case LOG_RECORD_BUCKET:
    case LOG_RECORD_ABORT_PREPARED: /* what is prepared is asked for again */
        return false;
    case LOG_RECORD_PART:
    case LOG_RECORD_UPLOAD_BEGIN:
    case LOG_RECORD_UPLOAD_ABORT:
        *hash = suspect_upload_hash(&m->upload);
        *bucket = suspect_bucket_of_uploads(m->bucket);
        return true;
    default:
        return true;
    }
}

void
suspect_put(char *out, uint64_t hash, uint32_t bucket)
{
    format_put_be(out, hash, 8);
    format_put_be(out + 8, bucket, 4);
}

void
suspect_get(const char *in, uint64_t *hash, uint32_t *bucket)
{
    struct cursor c = cursor_of(in, SUSPECT_ENTRY_BYTES);

    *hash = take_be(&c, 8);
    *bucket = (uint32_t)take_be(&c, 4);
    assert(!c.bad);
}

/* The first entry whose hash is not below. */
static uint32_t
suspect_place(const struct suspects *s, uint64_t hash)
{
    uint32_t from = 0, to = s->count;

    while (from < to) {
        uint32_t middle = from + (to - from) / 2;

        if (s->at[middle].hash < hash)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static struct suspect *
suspect_find(const struct suspects *s, uint64_t hash)
{
    uint32_t i = suspect_place(s, hash);

    return i < s->count && s->at[i].hash == hash ? &s->at[i] : NULL;
}

void
suspects_add(struct suspects *s, uint64_t hash, uint32_t bucket, uint64_t batch)
{
    struct suspect *old = suspect_find(s, hash);
    uint32_t i = suspect_place(s, hash);

    assert(!atomic_load(&s->any));
    s->dirty = true;
    if (old != NULL) {
        old->batch = MAX(old->batch, batch);
        if (atomic_exchange(&old->resolved, false))
            atomic_fetch_add(&s->left, 1);
        return;
    }
    if (s->count == SUSPECTS_MAX) {
        suspects_bound_all(s, &(struct version){UINT64_MAX, UINT64_MAX});
        return;
    }
    if (s->count == s->room) {
        s->room = s->room == 0 ? 64 : 2 * s->room;
        s->at = xrealloc(s->at, s->room * sizeof *s->at);
    }
    memmove(&s->at[i + 1], &s->at[i], (s->count - i) * sizeof *s->at);
    s->at[i].hash = hash;
    s->at[i].bucket = bucket;
    s->at[i].batch = batch;
    atomic_init(&s->at[i].resolved, false);
    s->count++;
    atomic_fetch_add(&s->left, 1);
    assert(suspect_find(s, hash) == &s->at[i]);
}

void
suspects_bound_all(struct suspects *s, const struct version *bound)
{
    assert(!atomic_load(&s->any));
    if (s->all && version_cmp(&s->bound, bound) >= 0)
        return;
    s->all = true;
    s->bound = *bound;
    s->dirty = true;
}

void
suspects_know(struct suspects *s, uint64_t first, uint64_t last)
{
    assert(first > 0 && first <= last);
    if (suspects_knows(s, first) && suspects_knows(s, last))
        return;
    if (s->known_count ==
        SUSPECT_RANGES_MAX) { /* the oldest is looked at again, should a start meet it */
        memmove(&s->known[0], &s->known[1],
                (SUSPECT_RANGES_MAX - 1) * sizeof s->known[0]);
        s->known_count--;
    }
    s->known[s->known_count].first = first;
    s->known[s->known_count++].last = last;
    s->dirty = true;
}

bool
suspects_knows(const struct suspects *s, uint64_t batch)
{
    for (uint32_t i = 0; i < s->known_count; i++) {
        if (batch >= s->known[i].first && batch <= s->known[i].last)
            return true;
    }
    return false;
}

void
suspects_forget(struct suspects *s)
{
    atomic_store(&s->any, false);
    s->count = 0;
    atomic_store(&s->left, 0);
    s->all = false;
    s->bound = (struct version){0};
    s->dirty = true;
}

void
suspects_activate(struct suspects *s)
{
    suspects_check(s);
    atomic_store(&s->active, true);
    atomic_store(&s->any, s->all || atomic_load(&s->left) > 0);
}

void
suspects_resolve(struct suspects *s, uint64_t hash, uint64_t batch)
{
    struct suspect *k = s->count > 0 ? suspect_find(s, hash) : NULL;

    if (k == NULL || batch <= k->batch || atomic_exchange(&k->resolved, true))
        return;
    assert(atomic_load(&s->left) > 0);
    s->dirty = true;
    if (atomic_fetch_sub(&s->left, 1) == 1 && !s->all)
        atomic_store(&s->any, false);
}

bool
suspects_has(const struct suspects *s, uint64_t hash)
{
    const struct suspect *k = suspect_find(s, hash);

    return k != NULL && !atomic_load(&k->resolved);
}

enum err
suspects_verify(const struct suspects *s, uint64_t hash, const struct entry *found,
                struct errbuf *eb)
{
    if (suspects_has(s, hash)) {
        return err_set(
            eb, ERR_CORRUPT,
            "damaged: an acknowledged change of this key is lost on this disk; "
            "write the object again, or see forebay disk check");
    }
    if (!s->all || (found != NULL && version_cmp(&found->version, &s->bound) > 0))
        return ERR_OK;
    return err_set(
        eb, ERR_CORRUPT,
        "damaged: a part of this disk's log is lost, and what is known of this "
        "key may be older than that; see forebay disk check");
}

enum err
suspects_verify_list(const struct suspects *s, uint32_t bucket, struct errbuf *eb)
{
    bool bad = s->all;

    for (uint32_t i = 0; !bad && i < s->count; i++)
        bad = !atomic_load(&s->at[i].resolved) && s->at[i].bucket == bucket;
    return bad ? err_set(
                     eb, ERR_CORRUPT,
                     "damaged: acknowledged changes of this bucket are lost on a disk, "
                     "and a list may not have them; see forebay disk check")
               : ERR_OK;
}

/* ---- the file ---- */

static void
put_known(struct record_writer *w, const struct suspects *s)
{
    char bytes[16 * SUSPECT_RANGES_MAX];

    for (uint32_t i = 0; i < s->known_count; i++) {
        format_put_be(bytes + 16u * i, s->known[i].first, 8);
        format_put_be(bytes + 16u * i + 8, s->known[i].last, 8);
    }
    if (s->known_count > 0)
        record_put_span(w, FIELD_SUSPECT_KNOWN,
                        (struct span){bytes, 16u * s->known_count});
}

static bool
take_known(struct suspects *s, struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);

    if (value.len % 16 != 0 || value.len / 16 > SUSPECT_RANGES_MAX)
        return false;
    while (cursor_left(&c) > 0) {
        uint64_t first = take_be(&c, 8), last = take_be(&c, 8);

        if (first == 0 || first > last)
            return false;
        suspects_know(s, first, last);
    }
    return true;
}

void
suspects_encode(const struct suspects *s, struct buf *out)
{
    char *bytes = xmalloc((size_t)s->count * FILE_ENTRY + 1), bound[16];
    struct record_writer w;
    size_t len = 0;

    suspects_check(s);
    for (uint32_t i = 0; i < s->count; i++) {
        if (atomic_load(&s->at[i].resolved))
            continue;
        format_put_be(bytes + len, s->at[i].hash, 8);
        format_put_be(bytes + len + 8, s->at[i].bucket, 4);
        format_put_be(bytes + len + 12, s->at[i].batch, 8);
        len += FILE_ENTRY;
    }
    record_begin(&w, out, SUSPECT_KIND, SUSPECT_VERSION);
    if (len > 0)
        record_put_span(&w, FIELD_SUSPECT_KEYS, (struct span){bytes, len});
    format_put_be(bound, s->bound.epoch, 8);
    format_put_be(bound + 8, s->bound.counter, 8);
    if (s->all)
        record_put_span(&w, FIELD_SUSPECT_BOUND, (struct span){bound, sizeof bound});
    put_known(&w, s);
    record_end(&w);
    free(bytes);
}

static bool
take_suspects(struct suspects *s, struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);

    if (value.len % FILE_ENTRY != 0 || value.len / FILE_ENTRY > SUSPECTS_MAX)
        return false;
    while (cursor_left(&c) > 0) {
        uint64_t hash = take_be(&c, 8);
        uint32_t bucket = (uint32_t)take_be(&c, 4);

        suspects_add(s, hash, bucket, take_be(&c, 8));
    }
    return true;
}

enum err
suspects_decode(struct span bytes, struct suspects *into, struct errbuf *eb)
{
    struct record record;
    struct span value;
    uint8_t id;
    bool good = true;
    enum err rc = record_open(bytes, &record, eb);

    suspects_forget(into);
    if (rc != ERR_OK)
        return rc;
    if (record.kind != SUSPECT_KIND || record.len != bytes.len)
        return err_set(eb, ERR_CORRUPT, "no list of suspect keys");
    if (record.version != SUSPECT_VERSION)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "the list of suspect keys has version %u, this program reads %u",
                       record.version, SUSPECT_VERSION);
    while (good && record_next(&record, &id, &value)) {
        struct cursor c = cursor_of(value.at, value.len);

        if (id == FIELD_SUSPECT_KEYS) {
            good = take_suspects(into, value);
        } else if (id == FIELD_SUSPECT_BOUND) {
            into->bound.epoch = take_be(&c, 8);
            into->bound.counter = take_be(&c, 8);
            into->all = true;
            good = !c.bad && cursor_left(&c) == 0;
        } else if (id == FIELD_SUSPECT_KNOWN) {
            good = take_known(into, value);
        }
    }
    into->dirty = false;
    if (good)
        return ERR_OK;
    suspects_forget(into);
    return err_set(eb, ERR_CORRUPT, "the list of suspect keys is malformed");
}
